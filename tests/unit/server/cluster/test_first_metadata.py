"""When a broker that has just started may describe its cluster to clients."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterable

import pytest

from kavka.server.cluster.control_messages import (
    LEADER_DURING_DELETE,
    UpdateMetadata,
    UpdateMetadataBroker,
    UpdateMetadataPartitionState,
    UpdateMetadataTopicState,
)
from kavka.server.cluster.first_metadata import GIVE_UP_S, FirstMetadata
from kavka.server.cluster.metadata_cache import MetadataCache
from kavka.zktree import paths
from support.embedded_coordination import new_fs, open_on
from support.virtual import VirtualClock, VirtualTasks, run_until_idle

BROKERS = (UpdateMetadataBroker(1, (), None),)


class Started:
    """A broker that is registered; in the tree there are topics."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.tasks = VirtualTasks(self.clock)
        self.metadata = MetadataCache("cluster")
        self.first = FirstMetadata(self.metadata, self.tasks)

    async def begin(self, *topics: str, partitions: int = 0) -> None:
        session = await open_on(new_fs(), clock=self.clock)
        await session.create(paths.TOPICS.rpartition("/")[0], b"")
        await session.create(paths.TOPICS, b"")
        for topic in topics:
            await session.create(paths.topic(topic), b"")
            if partitions:
                await session.create(paths.partitions(topic), b"")
            for index in range(partitions):
                await session.create(paths.partition(topic, index), b"")
        await self.first.begin(session)

    def update(self, *topics: str, partitions: Iterable[int] = (0,), leader: int = 1) -> None:
        described = tuple(
            UpdateMetadataPartitionState(index, 1, leader, 0, (1,), 0, (1,), ())
            for index in partitions
        )
        states = (UpdateMetadataTopicState(name, uuid.UUID(int=7), described) for name in topics)
        update = UpdateMetadata(1, 1, 1, tuple(states), BROKERS)
        self.metadata.apply(update)
        self.first.updated(update)


async def test_it_waits_until_every_topic_is_described() -> None:
    started = Started()
    await started.begin("a", "b", "c")
    waiting = asyncio.ensure_future(started.first.wait())
    for topics in (), ("a",), ("new", "c"):  # the first one has the brokers only
        started.update(*topics)
        await run_until_idle()
        assert not (waiting.done() or started.first.is_complete)
    started.update("b")
    await waiting
    assert started.first.is_complete
    assert started.tasks.pending_timers == 0


async def test_it_waits_for_all_partitions_of_a_topic() -> None:
    started = Started()
    await started.begin("big", partitions=300)
    started.update("big", partitions=(7,))  # a change, before it is described
    started.update("big", partitions=range(128))
    started.update("big", partitions=range(128, 256))
    assert not started.first.is_complete
    started.update("big", partitions=range(256, 300))
    assert started.first.is_complete


async def test_it_does_not_wait_for_a_topic_that_is_being_deleted() -> None:
    started = Started()
    await started.begin("a", "b", partitions=2)
    started.update("a", partitions=range(2))
    assert not started.first.is_complete
    started.update("b", partitions=(0,), leader=LEADER_DURING_DELETE)
    assert started.first.is_complete


async def test_a_cluster_without_topics() -> None:
    started = Started()
    await started.begin()
    assert not started.first.is_complete, "the brokers are unknown"
    started.update()
    await started.first.wait()


async def test_a_request_that_is_cancelled_leaves_the_others_waiting() -> None:
    started = Started()
    await started.begin("a")
    first, other = (asyncio.ensure_future(started.first.wait()) for _ in range(2))
    await run_until_idle()
    first.cancel()
    await run_until_idle()
    assert first.cancelled() and not other.done()
    started.update("a")
    await other


async def test_it_gives_up(caplog: pytest.LogCaptureFixture) -> None:
    """No controller, or a topic that no controller has seen yet."""
    started = Started()
    await started.begin("a", "b")
    waiting = asyncio.ensure_future(started.first.wait())
    started.update("a")
    await started.tasks.advance(GIVE_UP_S * 1000)
    await waiting
    assert "has not described all partitions of 1 topics" in caplog.text
