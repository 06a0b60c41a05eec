"""What can be measured of a broker: one table, `table.TABLE`, with Apache Kafka's names.

Parts of the broker keep plain counts and know nothing of this; a row's `read` takes them when
somebody asks. The text format is prometheus-client's, which is imported only where it is served.
"""
