"""Finds out why a client can't work with a cluster, and what in the cluster needs attention.

`walk` goes the way of a client, step by step. Modules named `asks_...` talk to brokers and return
what came back; the others judge that, without any I/O, and return findings.
"""
