"""What a client pushes, read: OpenTelemetry's metrics as numbers with names and labels.

The library reads one metric at a time: a whole push of many small parts would hold the loop for
tens of milliseconds. So the messages around the metrics are taken apart here, which is all that is
known here of the form: `MetricsData` has `ResourceMetrics` as field 1, these have `ScopeMetrics`
as field 2, and these have `Metric` as field 2.

Imported for the first push, with the library.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, Metric

from kavka.wire.steps import Slices

PARTS_MAX: Final = 50_000
"""Of one push: messages that are taken apart, and numbers read."""

PARTS_A_SLICE: Final = 100
"""At up to 15 us each."""

METRIC_BYTES_MAX: Final = 64 * 1024
"""What one metric may take with all its numbers: the library reads it in one go, in a ms."""

LABELS_MAX: Final = 16
"""Labels of one number."""

CHARACTERS_MAX: Final = 200
"""Of a name, and of a label's value; the rest is cut off."""

_PATH: Final = (1, 2, 2)
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED: Final = {_FIXED64: 8, _FIXED32: 4}


class BadPayload(ValueError):
    """It is not in OpenTelemetry's form, or has too many parts."""


class Point(NamedTuple):
    """One number. `adds`: it is what came on top since the last push."""

    name: str
    labels: tuple[tuple[str, str], ...]
    value: float
    is_counter: bool
    adds: bool


def points(data: memoryview) -> Slices[list[Point]]:
    """All numbers of a `MetricsData`. BadPayload."""
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
        if parts % PARTS_A_SLICE == 0 or metric is not None:
            yield
    return found


def _metrics(data: memoryview) -> Iterator[memoryview | None]:
    """Each `Metric`; None for every other part on the way."""
    for resource in _fields(data, _PATH[0]):
        yield None
        for scope in _fields(resource, _PATH[1]):
            yield None
            yield from _fields(scope, _PATH[2])


def _fields(data: memoryview | None, wanted: int) -> Iterator[memoryview | None]:
    """The messages in one field; None for each other one."""
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
        yield data[position : position + size] if (number, kind) == (wanted, _BYTES) else None
        position += size


def _varint(data: memoryview, position: int) -> tuple[int, int]:
    """A number of up to 64 bits, and where it ends."""
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
    """Gauges and sums as they are, of histograms how often and how much; nothing else is sent by
    the clients that there are."""
    kind, name = metric.WhichOneof("data"), metric.name[:CHARACTERS_MAX]
    if not name:
        return
    if kind == "gauge":
        for point in metric.gauge.data_points:
            yield Point(name, _labels(point), _number(point), False, False)
    elif kind == "sum":
        adds = _adds(metric.sum)
        for point in metric.sum.data_points:
            yield Point(name, _labels(point), _number(point), metric.sum.is_monotonic, adds)
    elif kind == "histogram":
        adds = _adds(metric.histogram)
        for point in metric.histogram.data_points:
            labels = _labels(point)
            yield Point(f"{name}.count", labels, float(point.count), True, adds)
            yield Point(f"{name}.sum", labels, point.sum, False, adds)


def _adds(data: Any) -> bool:
    temporality = data.aggregation_temporality
    return bool(temporality == AggregationTemporality.AGGREGATION_TEMPORALITY_DELTA)


def _number(point: Any) -> float:
    return float(getattr(point, point.WhichOneof("value") or "as_double"))


def _labels(point: Any) -> tuple[tuple[str, str], ...]:
    return tuple(
        (one.key[:CHARACTERS_MAX], _text(one.value)) for one in point.attributes[:LABELS_MAX]
    )


def _text(value: Any) -> str:
    kind = value.WhichOneof("value")
    return str(getattr(value, kind))[:CHARACTERS_MAX] if kind else ""
