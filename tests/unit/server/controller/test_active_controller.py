"""The controller's queue: a failure is reported and ends nothing but what it concerns."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

import pytest

from kavka.server.cluster.control_messages import TopicPartition
from kavka.server.controller import active_controller
from kavka.server.controller.topic_validation import NewTopic
from kavka.wire.errors import ErrorCode
from kavka.zktree import paths
from support.controlled_broker import ControlledCluster
from support.virtual import settle


async def started() -> ControlledCluster:
    cluster = ControlledCluster()
    await cluster.start()
    return cluster


def test_a_topic_that_cannot_be_read_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        cluster = await started()
        await cluster.session.create("/brokers/topics/broken", b"not json")
        await settle()
        await cluster.controller.settled()
        assert cluster.controller.is_active
        (record,) = caplog.records
        assert "controller failed; its last events: " in record.getMessage()
        assert record.exc_info is not None

    with caplog.at_level(logging.ERROR):
        asyncio.run(run())


def test_who_waits_when_the_controller_fails_is_told() -> None:
    async def run() -> None:
        cluster = await started()
        creating = await cluster.begin_to_create("t")
        await cluster.session.create("/brokers/topics/broken", b"not json")
        assert (await creating)["t"].code is ErrorCode.UNKNOWN_SERVER_ERROR
        cluster.broker.gate.set()
        await settle()

    asyncio.run(run())


def test_a_state_changed_by_others_is_read_again(caplog: pytest.LogCaptureFixture) -> None:
    """As a leader does that shrinks its ISR in the tree."""

    async def run() -> None:
        cluster = await started()
        await cluster.controller.create_topics(
            [NewTopic("t")], timeout_ms=1000, validate_only=False
        )
        state = paths.PartitionState(0, 5, (0,), 1)
        path = paths.partition_state("t", 0)
        await cluster.session.set(path, paths.encode_partition_state(state))
        cluster.broker.errors[TopicPartition("t", 0)] = ErrorCode.KAFKA_STORAGE_ERROR
        broker = await cluster.session.get(paths.broker(0))
        await cluster.session.delete(paths.broker(0))
        await settle()
        await cluster.session.create(paths.broker(0), broker.data, ephemeral=True)
        await settle(100)
        await cluster.controller.settled()
        stored = paths.decode_partition_state((await cluster.session.get(path)).data)
        assert stored.leader_epoch > 5, "decided again, on what it really was"
        assert stored.leader == -1, "its log directory failed"
        (partition,) = cluster.broker.metadata.image.topics["t"].partitions
        assert (partition.leader, partition.offline_replicas) == (-1, (0,))

    asyncio.run(run())
    assert any("changed meanwhile" in record.getMessage() for record in caplog.records)


def test_the_queue_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        cluster = await started()
        active = cluster.controller._active_controller
        assert active is not None
        monkeypatch.setattr(active_controller, "QUEUED_EVENTS_MAX", 3)

        async def step() -> None: ...

        for _ in range(3):
            active.put(step)
        with pytest.raises(OverflowError):
            active.put(step)
        await active.settled()

    asyncio.run(run())


def test_a_closed_controller_takes_nothing_and_is_settled() -> None:
    async def run() -> None:
        cluster = await started()
        active = cluster.controller._active_controller
        assert active is not None
        cluster.broker.gate.clear()
        asking = asyncio.ensure_future(
            cluster.controller.create_topics([NewTopic("t")], timeout_ms=100, validate_only=False)
        )
        await settle()
        settled = asyncio.ensure_future(active.settled())
        await settle()
        assert not settled.done()
        cluster.controller.close()
        await settled
        assert (await asking)["t"].code is ErrorCode.NOT_CONTROLLER

        async def step() -> None:
            raise AssertionError("never taken")

        active.put(step)
        cluster.broker.gate.set()
        await settle()

    asyncio.run(run())


def test_partitions_that_others_add_are_made(caplog: pytest.LogCaptureFixture) -> None:
    """As Apache Kafka's own tools do with `--zookeeper`, or another broker that was controller."""

    async def run() -> None:
        cluster = await started()
        await cluster.controller.create_topics(
            [NewTopic("t", 2, 1)], timeout_ms=1000, validate_only=False
        )
        for count in (3, 5):
            path = paths.topic("t")
            before = paths.decode_topic((await cluster.session.get(path)).data)
            replicas = {index: (0,) for index in range(count)}
            told = len(cluster.broker.requests)
            await cluster.session.set(path, paths.encode_topic(replace(before, replicas=replicas)))
            await settle()
            await cluster.controller.settled()
            partitions = cluster.broker.metadata.image.topics["t"].partitions
            assert [partition.leader for partition in partitions] == [0] * count
            about = {
                state.partition_index
                for request in cluster.broker.requests[told:]
                for topic in request.topic_states
                for state in topic.partition_states
            }
            assert about == set(range(2 if count == 3 else 3, count)), "only the new ones"

    with caplog.at_level(logging.WARNING):
        asyncio.run(run())
    assert caplog.records == []


def test_a_topic_that_others_remove_is_no_change_of_it() -> None:
    async def run() -> None:
        cluster = await started()
        await cluster.controller.create_topics(
            [NewTopic("t")], timeout_ms=1000, validate_only=False
        )
        for path in (
            paths.partition_state("t", 0),
            paths.partition("t", 0),
            paths.partitions("t"),
            paths.topic("t"),
        ):
            await cluster.session.delete(path)
        await settle()
        await cluster.controller.settled()
        active = cluster.controller._active_controller
        assert active is not None
        assert active.cluster.topics == {}

    asyncio.run(run())


def test_who_waits_for_a_topic_that_goes_is_told() -> None:
    async def run() -> None:
        cluster = await started()
        creating = await cluster.begin_to_create("t")
        deleting = asyncio.ensure_future(cluster.controller.delete_topics(["t"], 60_000))
        await settle()
        cluster.broker.gate.set()
        assert (await deleting) == {"t": ErrorCode.NONE}
        assert (await creating)["t"].code in (
            ErrorCode.NONE,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        )

    asyncio.run(run())
