"""The metrics of a broker: one table, `table.TABLE`, with Apache Kafka's names.

Components keep plain counts and do not depend on this package; a row's `read` collects them on each
scrape. prometheus-client makes the text format, and is imported only if metrics are served.
"""
