"""Parses what a client pushes: OpenTelemetry metrics, to data points with names and labels.

The library parses one metric at a time: a whole push with many small messages would block the loop
for tens of milliseconds. So the messages around the metrics are parsed here: `MetricsData` has
`ResourceMetrics` as field 1, these have `ScopeMetrics` as field 2, and these have `Metric` as
field 2.

Imported with the library, for the first push.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, Metric

from kavka.wire.steps import Steps

PARTS_MAX: Final = 50_000
"""Messages and data points in one push."""

PARTS_PER_STEP: Final = 100
"""At up to 15 us each."""

METRIC_BYTES_MAX: Final = 64 * 1024
"""Size of one metric with all its data points, which the library parses at once, in 1 ms."""

LABELS_MAX: Final = 16
"""Labels of one data point; further ones are dropped."""

CHARACTERS_MAX: Final = 200
"""Length of a name, and of a label's value; longer ones are truncated."""

_PATH: Final = (1, 2, 2)
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED: Final = {_FIXED64: 8, _FIXED32: 4}


class BadPayload(ValueError):
    """It is not valid OpenTelemetry data, or has too many parts."""


class Point(NamedTuple):
    """One data point. `is_delta`: the increase since the last push."""

    name: str
    labels: tuple[tuple[str, str], ...]
    value: float
    is_counter: bool
    is_delta: bool


def points(data: memoryview) -> Steps[list[Point]]:
    """All data points of a `MetricsData`. BadPayload."""
    found: list[Point] = []
    parts = 0
    for metric in _metrics(data):
        parts += 1
        if metric is not None:
            before = len(found)
            found += _points(_read(metric))
            parts += len(found) - before
        if parts > PARTS_MAX:
            raise BadPayload(f"it has more than {PARTS_MAX} parts")
        if parts % PARTS_PER_STEP == 0 or metric is not None:
            yield None
    return found


def _metrics(data: memoryview) -> Iterator[memoryview | None]:
    """Each `Metric`; and None for every other message or field, so that the caller can count
    them."""
    for resource in _fields(data, _PATH[0]):
        yield None
        for scope in _fields(resource, _PATH[1]):
            yield None
            yield from _fields(scope, _PATH[2])


def _fields(data: memoryview | None, field_number: int) -> Iterator[memoryview | None]:
    """The messages in the field with this number; and None for each other field."""
    if data is None:
        return
    position, end = 0, len(data)
    while position < end:
        tag, position = _varint(data, position)
        number, kind = tag >> 3, tag & 7
        size = _FIXED.get(kind)
        if kind == _VARINT:
            _, position = _varint(data, position)
            size = 0
        elif kind == _BYTES:
            size, position = _varint(data, position)
        if size is None or not number or position + size > end:
            raise BadPayload("it is damaged")
        yield data[position : position + size] if (number, kind) == (field_number, _BYTES) else None
        position += size


def _varint(data: memoryview, position: int) -> tuple[int, int]:
    """A varint of up to 64 bits, and the position after it."""
    value = 0
    for shift in range(0, 64, 7):
        if position == len(data):
            raise BadPayload("it is cut short")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise BadPayload("it is damaged")


def _read(data: memoryview) -> Any:
    if len(data) > METRIC_BYTES_MAX:
        raise BadPayload(f"a metric has more than {METRIC_BYTES_MAX} bytes")
    try:
        return Metric.FromString(bytes(data))
    except DecodeError as failure:
        raise BadPayload(str(failure)) from failure


def _points(metric: Any) -> Iterator[Point]:
    """Gauges and sums, and count and sum of histograms; existing clients send nothing else."""
    kind, name = metric.WhichOneof("data"), metric.name[:CHARACTERS_MAX]
    if not name:
        return
    if kind == "gauge":
        for point in metric.gauge.data_points:
            yield Point(name, _labels(point), _number(point), False, False)
    elif kind == "sum":
        is_delta = _is_delta(metric.sum)
        for point in metric.sum.data_points:
            yield Point(name, _labels(point), _number(point), metric.sum.is_monotonic, is_delta)
    elif kind == "histogram":
        is_delta = _is_delta(metric.histogram)
        for point in metric.histogram.data_points:
            labels = _labels(point)
            yield Point(f"{name}.count", labels, float(point.count), True, is_delta)
            yield Point(f"{name}.sum", labels, point.sum, False, is_delta)


def _is_delta(data: Any) -> bool:
    temporality = data.aggregation_temporality
    return bool(temporality == AggregationTemporality.AGGREGATION_TEMPORALITY_DELTA)


def _number(point: Any) -> float:
    return float(getattr(point, point.WhichOneof("value") or "as_double"))


def _labels(point: Any) -> tuple[tuple[str, str], ...]:
    return tuple(
        (attribute.key[:CHARACTERS_MAX], _text(attribute.value))
        for attribute in point.attributes[:LABELS_MAX]
    )


def _text(value: Any) -> str:
    kind = value.WhichOneof("value")
    return str(getattr(value, kind))[:CHARACTERS_MAX] if kind else ""
