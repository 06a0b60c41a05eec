"""The stock admin clients' whole round, against Kavka and against Apache Kafka.

Each client does every operation it has, in one order, on topics of its own; what comes out must be
the same from both brokers, but for a reviewed list of differences (`reasons.py`). The matrix of
clients and operations is the page docs/clients.md.
"""
