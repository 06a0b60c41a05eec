"""The controller's queue: a failure is reported and ends nothing but what it concerns."""

from __future__ import annotations

import asyncio
import logging

import pytest

from kavka.server.controller import reign as reign_module
from kavka.server.controller.messages import TopicPartition
from kavka.server.controller.new_topics import NewTopic
from kavka.server.coordination import paths
from kavka.wire.errors import ErrorCode
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
        assert "controller failed; the last it did: " in record.getMessage()
        assert record.exc_info is not None

    with caplog.at_level(logging.ERROR):
        asyncio.run(run())


def test_who_waits_when_the_controller_fails_is_told() -> None:
    async def run() -> None:
        cluster = await started()
        cluster.broker.gate.clear()
        creating = asyncio.ensure_future(
            cluster.controller.create_topics(
                [NewTopic("t")], timeout_ms=60_000, validate_only=False
            )
        )
        await settle()
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
        reign = cluster.controller._reign
        assert reign is not None
        monkeypatch.setattr(reign_module, "QUEUED_EVENTS_MAX", 3)

        async def step() -> None: ...

        for _ in range(3):
            reign.put(step)
        with pytest.raises(OverflowError):
            reign.put(step)
        await reign.settled()

    asyncio.run(run())


def test_a_closed_reign_takes_nothing_and_is_settled() -> None:
    async def run() -> None:
        cluster = await started()
        reign = cluster.controller._reign
        assert reign is not None
        cluster.broker.gate.clear()
        asking = asyncio.ensure_future(
            cluster.controller.create_topics([NewTopic("t")], timeout_ms=100, validate_only=False)
        )
        await settle()
        settled = asyncio.ensure_future(reign.settled())
        await settle()
        assert not settled.done()
        cluster.controller.close()
        await settled
        assert (await asking)["t"].code is ErrorCode.NOT_CONTROLLER

        async def step() -> None:
            raise AssertionError("never taken")

        reign.put(step)
        cluster.broker.gate.set()
        await settle()

    asyncio.run(run())
