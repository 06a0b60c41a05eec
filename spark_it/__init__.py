"""Spark on Kavka: sessions with the Kafka connector, and pipelines on Spark's own Kafka source and
sink. Everything goes through PySpark, unmodified; `pip install kavka[spark]` installs it."""

from kavka.spark_it.errors import SparkError
from kavka.spark_it.sessions import session

__all__ = ["SparkError", "session"]
