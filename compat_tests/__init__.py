"""A compatibility suite for Kafka brokers: real clients, each driven through the same scenarios.

`scenarios/` has what is tried, `drivers/` a small program for each client, `clients/` how these are
installed and started; `suite.py` runs every scenario with every client, and `reports/` shows the
outcome. The broker under test is known by its address only.
"""
