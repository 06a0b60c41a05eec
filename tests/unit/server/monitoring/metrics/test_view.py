"""What a walk over all partitions counts, in slices."""

from __future__ import annotations

from kavka.compat_tests.raw.codec import batches
from kavka.server.monitoring.metrics.view import (
    LATE_AFTER_MS,
    REPLICAS_PER_STEP,
    View,
    collect,
)
from support import logs
from support.memory_broker import MemoryBroker, scenario
from support.metrics import sources

ON = "kavka.http.listener=:9404"


def steps(broker: MemoryBroker) -> tuple[View, int]:
    """The view, and in how many slices it was taken."""
    work = collect(sources(broker))
    count = 0
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value, count
        count += 1


@scenario(ON)
async def test_a_broker_without_topics(broker: MemoryBroker) -> None:
    view, _ = steps(broker)
    assert (view.here.leaders, view.cluster.topics, len(view.replicas)) == (0, 0, 0)


@scenario(ON, "log.dirs=/data,/more", topics={"a": 3, "b": 2})
async def test_replicas_and_cluster(broker: MemoryBroker) -> None:
    producer = batches.build([batches.Written(None, b"x")], producer=(7, 0, 0))
    await broker.produce(producer[:], "a", 0)
    await broker.produce(producer[:], "b", 1)
    broker.share((1,), "a", 2)
    # with it goes a-1: they lie in the same directory
    broker.parts.replicas.failures.storage_failed(broker.replica("b", 0), OSError(5, "broken"))
    view, _ = steps(broker)
    assert len(view.replicas) == 5
    assert (view.here.leaders, view.here.offline) == (3, 2)
    assert view.here.under_replicated == 1
    assert (view.here.under_min_isr, view.here.at_min_isr) == (0, 3)
    assert view.here.producers == 2
    assert (view.cluster.topics, view.cluster.partitions) == (2, 5)
    assert (view.cluster.offline, view.cluster.not_preferred) == (0, 0)


@scenario(ON, "min.insync.replicas=2", topics={"a": 1, "b": 1})
async def test_no_more_replicas_can_be_needed_than_there_are(broker: MemoryBroker) -> None:
    view, _ = steps(broker)
    assert (view.here.under_min_isr, view.here.at_min_isr) == (0, 2)
    broker.share((1,), "a")
    view, _ = steps(broker)
    assert (view.here.under_min_isr, view.here.at_min_isr) == (1, 1)


@scenario(ON)
async def test_it_goes_in_slices(broker: MemoryBroker) -> None:
    many = 2 * REPLICAS_PER_STEP + 1
    await broker.create("many", many)
    for number in range(3):
        await broker.create(f"small-{number}", 2)
    view, slices = steps(broker)
    assert view.here.leaders == view.cluster.partitions == many + 6
    assert slices == 1 + 3 + 2, "the start, three of replicas, two of topics"


@scenario(ON, "transaction.max.timeout.ms=60000", topics={"a": 2})
async def test_late_transactions_are_counted(broker: MemoryBroker) -> None:
    producer = logs.Producer(7, 0, 0)
    for index in (0, 1):
        log = broker.replica("a", index).log
        logs.append(log, logs.batch([b"v"], producer=producer, transactional=True), leader_epoch=0)
    logs.end_transaction(broker.replica("a", 1).log, producer, commit=True)
    late_ms = 60_000 + LATE_AFTER_MS
    await broker.advance(late_ms - 10_000)
    assert steps(broker)[0].here.late_transactions == 0
    await broker.advance(20_000)
    assert steps(broker)[0].here.late_transactions == 1
