"""Metrics that clients push (KIP-714), written field by field as OpenTelemetry lays them out."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final

from kavka.compat_tests.raw.codec.batches import uvarint

FIXED64: Final = 1
DELIMITED: Final = 2
DELTA: Final = 1
"""An aggregation temporality: what is new since the last push."""


def gauge(name: str, value: float, labels: Mapping[str, str]) -> bytes:
    """A metric that has a value."""
    point = _fixed(4, struct.pack("<d", value)) + b"".join(
        _part(7, _part(1, key.encode()) + _part(2, _part(1, text.encode())))
        for key, text in labels.items()
    )
    return _part(1, name.encode()) + _part(5, _part(1, point))


def counter(name: str, value: int) -> bytes:
    """A metric that grows."""
    data = _part(1, _fixed(6, struct.pack("<q", value))) + _number(2, DELTA) + _number(3, 1)
    return _part(1, name.encode()) + _part(7, data)


def in_one(*metrics: bytes) -> bytes:
    """A push with all metrics in one scope, as librdkafka makes it."""
    return _part(1, _part(2, b"".join(_part(2, metric) for metric in metrics)))


def each(*metrics: bytes) -> bytes:
    """A push with a resource for each metric, as Java's clients make it."""
    return b"".join(in_one(metric) for metric in metrics)


def _part(number: int, data: bytes) -> bytes:
    return uvarint(number << 3 | DELIMITED) + uvarint(len(data)) + data


def _fixed(number: int, data: bytes) -> bytes:
    return uvarint(number << 3 | FIXED64) + data


def _number(number: int, value: int) -> bytes:
    return uvarint(number << 3) + uvarint(value)
