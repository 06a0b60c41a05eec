"""What clients push is read as the library wrote it; what is damaged is refused."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric, MetricsData

from kavka.server.telemetry import payload
from kavka.server.telemetry.payload import BadPayload, Point, points
from kavka.wire.steps import Steps
from support import pushed
from support.steps import run_and_look

NODE = {"node.id": "1"}
LABELS = (("node.id", "1"),)


def read(data: bytes) -> list[Point]:
    return ran(points(memoryview(data)))[0]


def ran(work: Steps[list[Point]]) -> tuple[list[Point], int]:
    """The result, and the number of pauses."""
    result, pauses, _ = run_and_look(work)
    return result, pauses


@pytest.mark.parametrize("write", [pushed.each, pushed.in_one])
def test_each_kind(write: Any) -> None:
    data = write(
        pushed.gauge("g", 1.5, NODE),
        pushed.counter("delta", 3, NODE),
        pushed.counter("whole", 4, temporality=pushed.CUMULATIVE),
        pushed.counter("updown", 5, is_monotonic=False),
        pushed.histogram("h", 2, 7.5),
        Metric(name="nothing"),
    )
    assert read(data) == [
        Point("g", LABELS, 1.5, False, False),
        Point("delta", LABELS, 3.0, True, True),
        Point("whole", (), 4.0, True, False),
        Point("updown", (), 5.0, False, True),
        Point("h.count", (), 2.0, True, True),
        Point("h.sum", (), 7.5, False, True),
    ]


def test_nothing() -> None:
    assert read(b"") == []
    assert read(MetricsData().SerializeToString()) == []


def test_labels_of_other_types() -> None:
    metric = pushed.gauge("g", 1)
    (point,) = metric.gauge.data_points
    for key, field, value in (("n", "int_value", 7), ("b", "bool_value", True)):
        setattr(point.attributes.add(key=key).value, field, value)
    point.attributes.add(key="none")
    assert read(pushed.each(metric))[0].labels == (("n", "7"), ("b", "True"), ("none", ""))


def test_long_texts_are_cut() -> None:
    (point,) = read(pushed.each(pushed.gauge("n" * 999, 1, {"k" * 999: "v" * 999})))
    most = payload.CHARACTERS_MAX
    assert point.name == "n" * most
    assert point.labels == (("k" * most, "v" * most),)


def test_many_labels_are_cut() -> None:
    labels = {str(number): "x" for number in range(100)}
    (point,) = read(pushed.each(pushed.gauge("g", 1, labels)))
    assert len(point.labels) == payload.LABELS_MAX


@given(st.randoms(use_true_random=False))
@settings(max_examples=300)
def test_damage(chance: Random) -> None:
    """It is read or refused, as the library does with what is within a metric."""
    data = bytearray(pushed.each(pushed.gauge("g", 1.5, NODE), pushed.counter("c", 3)))
    for _ in range(chance.randint(1, 4)):
        data[chance.randrange(len(data))] = chance.randrange(256)
    del data[chance.randint(0, len(data)) :]
    try:
        read(bytes(data))
    except BadPayload:
        return


@pytest.mark.parametrize("data", [b"\xff" * 20, b"\n", b"\n\x05", b"\x00\x00", b"\x0b", b"\x09\0"])
def test_what_is_not_in_the_form(data: bytes) -> None:
    with pytest.raises(BadPayload):
        read(data)


def test_other_fields_are_passed_over() -> None:
    data = pushed.each(pushed.gauge("g", 1))
    others = b"\x12\x03abc" + b"\x18\x85\x01" + b"\x21" + bytes(8) + b"\x2d" + bytes(4)
    assert read(others + data + others) == [Point("g", (), 1.0, False, False)]


def test_many_parts_are_read_with_pauses() -> None:
    found, pauses = ran(points(memoryview(pushed.each(*[pushed.gauge("g", 1)] * 1000))))
    assert len(found) == 1000
    assert pauses >= 1000


def test_too_many_parts() -> None:
    empty = b"\n\0" * (payload.PARTS_MAX + 1)
    with pytest.raises(BadPayload, match="more than"):
        read(empty)


def test_a_metric_that_is_too_big() -> None:
    metric = Metric(name="g")
    while metric.ByteSize() <= payload.METRIC_BYTES_MAX:
        for _ in range(100):
            metric.gauge.data_points.add(as_double=1.0)
    with pytest.raises(BadPayload, match="a metric has more than"):
        read(pushed.each(metric))
