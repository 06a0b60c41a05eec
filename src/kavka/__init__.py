"""Kavka: a Kafka broker in Python that stock Kafka clients cannot tell from Apache Kafka."""

from typing import Final

__version__: Final = "0.1.0"
