"""Requests in every version of every API, as bytes over a socket: no client is needed.

`cases/` and `sequences/` hold what is asked, `case.py` says how that is written. A broker's answers
are compared field by field with those that Apache Kafka gave to the same requests.
"""
