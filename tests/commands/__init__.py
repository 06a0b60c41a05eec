"""Kavka's commands beside Apache Kafka's own tools of the same names."""
