"""The page as prometheus-client's own parser reads it, and that it is made in slices."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kavka.server.monitoring.metrics import text
from kavka.server.monitoring.metrics.row import Kind, Metric
from kavka.server.monitoring.metrics.samples import Sample, Summary
from kavka.server.runtime.histogram import Histogram
from support.memory_broker import MemoryBroker, scenario
from support.metrics import Scrape, sources
from support.virtual import run_until_idle

LONG = 3 * text.SAMPLES_PER_STEP + 1
SPREAD = Histogram()
for number in range(1000):
    SPREAD.add(number, 0.0)


def row(name: str, kind: Kind, labels: tuple[str, ...], *samples: Sample) -> Metric:
    return Metric(name, kind, labels, f"what {name} is.", lambda view: samples)


TABLE = (
    row("few_total", Kind.COUNTER, ("topic",), ((), 3), (("a",), 2)),
    row("none", Kind.GAUGE, ()),
    row("long", Kind.GAUGE, ("topic", "partition"), *((("t", str(n)), n) for n in range(LONG))),
    row("odd", Kind.GAUGE, ("x",), (('a "b" \\ \n ü',), 1.5), (("inf",), float("inf"))),
    row("whole", Kind.GAUGE, (), ((), 2**53 - 1)),
    row("truth", Kind.GAUGE, (), ((), True)),
    row("count", Kind.UNTYPED, (), ((), 7)),
    row("spread", Kind.SUMMARY, ("api",), (("a",), Summary(SPREAD, 5000))),
    row(
        "spreads",
        Kind.SUMMARY,
        ("api",),
        *(((str(n),), Summary(SPREAD, n)) for n in range(3 * text.SUMMARIES_PER_STEP)),
    ),
)


def page(test: Callable[[Scrape, list[bytes]], None], *names: str) -> Callable[[], None]:
    @scenario("kavka.http.listener=:9404")
    async def run(broker: MemoryBroker) -> None:
        stream = text.page(TABLE, sources(broker), broker.tasks, names)
        pieces = [piece async for piece in stream]
        test(Scrape(b"".join(pieces).decode()), pieces)

    return run


def test_it_can_be_parsed() -> None:
    def check(found: Scrape, _: list[bytes]) -> None:
        kinds = {name: family.type for name, family in found.families.items()}
        assert kinds == {
            "few": "counter",
            "long": "gauge",
            "odd": "gauge",
            "whole": "gauge",
            "truth": "gauge",
            "count": "unknown",  # untyped, in older words
            "spread": "summary",
            "spreads": "summary",
        }
        assert found.families["long"].documentation == "what long is."
        assert (found["few_total"], found.of("few_total", topic="a")) == (3, 2)
        assert found.all("long") == {(str(n), "t"): n for n in range(LONG)}
        assert found.all("odd") == {('a "b" \\ \n ü',): 1.5, ("inf",): float("inf")}
        assert (found["whole"], found["truth"], found["count"]) == (2**53 - 1, 1, 7)

    page(check)()


def test_a_summary() -> None:
    def check(found: Scrape, _: list[bytes]) -> None:
        assert found.of("spread_count", api="a") == 5000
        assert found.of("spread_sum", api="a") == sum(range(1000))
        quantiles = found.all("spread")
        assert [label for _, label in quantiles] == [
            "0.50",
            "0.75",
            "0.95",
            "0.98",
            "0.99",
            "0.999",
        ]
        for quantile, value in quantiles.items():
            assert value == pytest.approx(float(quantile[1]) * 1000, rel=0.07)

    page(check)()


def test_it_comes_in_pieces_of_bounded_size() -> None:
    def check(found: Scrape, pieces: list[bytes]) -> None:
        lines = [piece.count(b"\n") for piece in pieces]
        assert max(lines) <= text.SAMPLES_PER_STEP + 2
        assert all(lines), "none is empty"
        later = [piece.count(b"\n") for piece in pieces if piece.startswith(b"long{")]
        assert later == [text.SAMPLES_PER_STEP, text.SAMPLES_PER_STEP, 1], "without a head"

    page(check)()


def test_only_what_is_wanted() -> None:
    def check(found: Scrape, _: list[bytes]) -> None:
        assert sorted(found.families) == ["few", "whole"]

    page(check, "whole", "few_total", "what there is not")()


@scenario("kavka.http.listener=:9404")
async def test_the_loop_runs_others_in_between(broker: MemoryBroker) -> None:
    iterations = 0

    def turn() -> None:
        nonlocal iterations
        iterations += 1
        broker.tasks.call_soon(turn)

    turn()
    pieces = 0
    began = iterations
    async for _ in text.page(TABLE, sources(broker), broker.tasks):
        pieces += 1
    assert iterations - began >= pieces >= 10
    await run_until_idle()
