"""The number of partitions of the coordinators' topics, while metadata may lack some of them."""

from __future__ import annotations

import asyncio
import uuid

import pytest

from kavka.server.cluster.control_messages import (
    LEADER_DURING_DELETE,
    UpdateMetadata,
    UpdateMetadataBroker,
    UpdateMetadataPartitionState,
    UpdateMetadataTopicState,
)
from kavka.server.cluster.internal_topics import InternalTopics
from kavka.server.cluster.metadata_cache import (
    GROUP_TOPIC,
    TRANSACTION_TOPIC,
    MetadataCache,
)
from kavka.server.coordination.broker_registration import prepare_tree
from kavka.server.coordination.embedded import EmbeddedCoordination
from kavka.zktree import paths
from kavka.zktree.paths import TopicAssignment
from support.asynchronous import Test, ran_by
from support.embedded_coordination import new_fs, open_on

TOPIC_ID = uuid.UUID(int=7)


class Tree:
    """A broker's metadata, and the tree."""

    def __init__(self, session: EmbeddedCoordination) -> None:
        self.session = session
        self.metadata = MetadataCache("cluster")
        self.topics = InternalTopics(session, self.metadata)

    async def create(self, topic: str, partitions: int) -> None:
        replicas = {index: (1, 2) for index in range(partitions)}
        data = paths.encode_topic(TopicAssignment(TOPIC_ID, replicas, {}, {}))
        await self.session.create(paths.topic(topic), data)

    def describe(self, topic: str, *partitions: int, leader: int = 1) -> None:
        """An UpdateMetadata with these partitions."""
        states = tuple(
            UpdateMetadataPartitionState(index, 1, leader, 0, (1,), 0, (1,), ())
            for index in partitions
        )
        topics = (UpdateMetadataTopicState(topic, TOPIC_ID, states),)
        brokers = (UpdateMetadataBroker(1, (), None),)
        update = UpdateMetadata(1, 1, 1, topics, brokers)
        self.metadata.apply(update)
        self.topics.metadata_changed(update)


def run(body: Test) -> None:
    async def main() -> None:
        session = await open_on(new_fs())
        await prepare_tree(session)
        await body(Tree(session))

    asyncio.run(main())


with_tree = ran_by(run)


@with_tree
async def test_a_topic_counts_as_a_whole_although_little_of_it_is_described(tree: Tree, /) -> None:
    await tree.create(GROUP_TOPIC, 3)
    await tree.topics.load()
    assert tree.topics.partition_count(GROUP_TOPIC) == 3
    for described in (1,), (2,), (0,):
        tree.describe(GROUP_TOPIC, *described)
        assert tree.topics.partition_count(GROUP_TOPIC) == 3


@with_tree
async def test_a_topic_that_does_not_exist_has_none(tree: Tree, /) -> None:
    await tree.topics.load()
    assert tree.topics.partition_count(GROUP_TOPIC) is None
    tree.describe(GROUP_TOPIC, 0, 1)
    assert tree.topics.partition_count(GROUP_TOPIC) == 2, "created since"
    assert tree.topics.partition_count(TRANSACTION_TOPIC) is None


@with_tree
async def test_both_are_read_before_partitions_of_either_are_led(tree: Tree, /) -> None:
    """The coordinator of a transaction needs to know the partition of a group."""
    await tree.create(GROUP_TOPIC, 3)
    await tree.create(TRANSACTION_TOPIC, 5)
    await tree.topics.before_leading(["t", "u"])
    assert tree.topics.partition_count(GROUP_TOPIC) is None
    await tree.topics.before_leading(["t", TRANSACTION_TOPIC])
    assert tree.topics.partition_count(GROUP_TOPIC) == 3
    assert tree.topics.partition_count(TRANSACTION_TOPIC) == 5


@with_tree
async def test_a_topic_that_grows(tree: Tree, /) -> None:
    await tree.create(GROUP_TOPIC, 2)
    await tree.topics.load()
    tree.describe(GROUP_TOPIC, 0, 1)
    tree.describe(GROUP_TOPIC, 2, 3)
    assert tree.topics.partition_count(GROUP_TOPIC) == 4


@with_tree
async def test_a_deleted_topic_may_come_again_with_fewer_partitions(tree: Tree, /) -> None:
    """Which this broker does not lead, so that it does not read them."""
    await tree.create(GROUP_TOPIC, 50)
    await tree.topics.load()
    tree.describe(GROUP_TOPIC, 0, leader=LEADER_DURING_DELETE)
    tree.describe(GROUP_TOPIC, *range(10))
    assert tree.topics.partition_count(GROUP_TOPIC) == 10


@with_tree
async def test_a_damaged_node_is_an_error_in_the_log(
    tree: Tree, /, caplog: pytest.LogCaptureFixture
) -> None:
    await tree.create(TRANSACTION_TOPIC, 5)
    await tree.session.create(paths.topic(GROUP_TOPIC), b"{")
    await tree.topics.load()
    assert "can't read the partitions of __consumer_offsets" in caplog.text
    assert tree.topics.partition_count(TRANSACTION_TOPIC) == 5


@with_tree
async def test_one_that_is_created_again_with_fewer_partitions(tree: Tree, /) -> None:
    await tree.create(GROUP_TOPIC, 4)
    await tree.topics.load()
    await tree.session.delete(paths.topic(GROUP_TOPIC))
    await tree.topics.load()
    assert tree.topics.partition_count(GROUP_TOPIC) is None
    await tree.create(GROUP_TOPIC, 2)
    await tree.topics.before_leading([GROUP_TOPIC])
    assert tree.topics.partition_count(GROUP_TOPIC) == 2
