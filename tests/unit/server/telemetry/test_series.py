"""Series of clients: what is added up and what is replaced, and the bounds."""

from __future__ import annotations

from uuid import UUID

import pytest

from kavka.server.telemetry import series as module
from kavka.server.telemetry.payload import Point
from kavka.server.telemetry.series import Series
from kavka.zktree.paths import uuid_text

ONE, TWO = UUID(int=7), UUID(int=8)
UNTIL_MS = 1000


def gauge(name: str, value: float, **labels: str) -> Point:
    return Point(name, tuple(labels.items()), value, False, False)


def counter(name: str, value: float, *, is_delta: bool = True) -> Point:
    return Point(name, (), value, True, is_delta)


def shown(series: Series) -> dict[str, dict[tuple[str, ...], float]]:
    return {family.name: dict(series.samples(family)) for family in series.families()}


@pytest.fixture
def series() -> Series:
    return Series()


def test_names_and_labels(series: Series) -> None:
    series.add(
        ONE, "app", [gauge("org.apache.kafka.producer.A-b", 1, **{"node.id": "3"})], UNTIL_MS
    )
    series.add(TWO, None, [gauge("com.acme.x", 2), counter("some.total", 3)], UNTIL_MS)
    (acme, producer, total) = series.families()
    assert [family.name for family in (acme, producer, total)] == [
        "kafka_client_com_acme_x",
        "kafka_client_producer_a_b",
        "kafka_client_some_total",
    ]
    assert producer.labels == ["client_id", "client_instance_id", "node_id"]
    assert list(series.samples(producer)) == [(("app", uuid_text(ONE), "3"), 1)]
    assert list(series.samples(acme)) == [(("", uuid_text(TWO)), 2)]


def test_a_gauge_is_replaced_and_what_came_on_top_added(series: Series) -> None:
    for value in (1.0, 5.0):
        points = [gauge("g", value), counter("c", value), counter("w", value, is_delta=False)]
        series.add(ONE, "app", points, UNTIL_MS)
    key = ("app", uuid_text(ONE))
    assert shown(series) == {
        "kafka_client_c_total": {key: 6.0},
        "kafka_client_g": {key: 5.0},
        "kafka_client_w_total": {key: 5.0},
    }
    assert series.count == 3


def test_labels_that_not_every_series_has(series: Series) -> None:
    points = [gauge("g", 1, a="x"), gauge("g", 2, b="y"), gauge("g", 3)]
    series.add(ONE, "app", points, UNTIL_MS)
    own = ("app", uuid_text(ONE))
    assert shown(series)["kafka_client_g"] == {
        (*own, "x", ""): 1,
        (*own, "", "y"): 2,
        (*own, "", ""): 3,
    }


def test_a_client_can_not_pass_for_another(series: Series) -> None:
    series.add(ONE, "app", [gauge("g", 1, client_id="other", **{"1st": "x"})], UNTIL_MS)
    (family,) = series.families()
    assert family.labels[2:] == ["label_1st", "label_client_id"]
    ((labels, _),) = series.samples(family)
    assert labels == ("app", uuid_text(ONE), "x", "other")


def test_another_kind_of_the_same_name(series: Series) -> None:
    series.add(ONE, "app", [gauge("some.total", 1), counter("some.total", 2)], UNTIL_MS)
    assert list(shown(series)["kafka_client_some_total"].values()) == [1]
    assert series.dropped == 1


def test_series_end_with_their_client(series: Series) -> None:
    series.add(ONE, "app", [gauge("g", 1), gauge("h", 1)], UNTIL_MS)
    series.add(TWO, "app", [gauge("g", 2)], UNTIL_MS + 1)
    series.expire(UNTIL_MS - 1)
    assert series.count == 3
    series.expire(UNTIL_MS)
    assert shown(series) == {"kafka_client_g": {("app", uuid_text(TWO)): 2}}
    assert series.count == 1
    series.expire(UNTIL_MS + 1)
    assert (shown(series), series.count) == ({}, 0)


@pytest.mark.parametrize("bound", ["SERIES_MAX", "SERIES_OF_CLIENT_MAX", "NAMES_MAX"])
def test_bounds(series: Series, bound: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, bound, 3)
    series.add(ONE, "app", [gauge(f"g{number}", 1) for number in range(5)], UNTIL_MS)
    assert (series.count, series.dropped, len(series.families())) == (3, 2, 3)
    series.add(ONE, "app", [gauge("g0", 7)], UNTIL_MS)
    assert series.dropped == 2, "what has its place keeps it"
    series.expire(UNTIL_MS)
    assert series.count == 0


def test_a_bound_of_labels(series: Series) -> None:
    points = [gauge("g", 1, **{f"l{number}": "x"}) for number in range(50)]
    series.add(ONE, "app", points, UNTIL_MS)
    (family,) = series.families()
    assert len(family.labels) == module.LABELS_OF_NAME_MAX
    assert series.dropped == 50 - (module.LABELS_OF_NAME_MAX - 2)
