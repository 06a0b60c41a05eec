"""One term of the active controller: its queue, failures, and changes that others make."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest

from kavka.server.cluster.control_messages import TopicPartition
from kavka.server.controller import active_controller, tree_store
from kavka.server.controller.active_controller import ActiveController
from kavka.server.controller.events import RequestedIsr
from kavka.server.controller.reassignment_requests import Reassignment
from kavka.server.controller.request_outcomes import not_controller
from kavka.server.controller.topic_validation import NewTopic
from kavka.wire.errors import ErrorCode
from kavka.zktree import paths
from kavka.zktree.api import Create, Op, OpResult
from support.controlled_broker import INFO, LISTENER, ControlledCluster
from support.virtual import run_until_idle


async def next_term(cluster: ControlledCluster) -> ActiveController:
    """A term that begins when the cluster's controller has resigned."""
    await cluster.start()
    cluster.controller.close()
    await cluster.session.delete(paths.CONTROLLER)
    term = await tree_store.elect(cluster.session, 0, clock=cluster.clock)
    assert term is not None
    return ActiveController(
        term,
        cluster.session,
        broker_id=0,
        port=cluster.broker,
        listener=LISTENER,
        on_moved=lambda: None,
        tasks=cluster.tasks,
        random=Random(1),
    )


async def test_a_state_that_was_changed_in_the_tree_is_read_again(
    cluster: ControlledCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """As a leader does that shrinks its ISR."""
    await cluster.start(NewTopic("t"))
    state = paths.StoredPartitionState(0, 5, (0,), 1)
    path = paths.partition_state("t", 0)
    await cluster.session.set(path, paths.encode_partition_state(state))
    cluster.broker.errors[TopicPartition("t", 0)] = ErrorCode.KAFKA_STORAGE_ERROR
    broker = await cluster.session.get(paths.broker(0))
    await cluster.session.delete(paths.broker(0))
    await run_until_idle()
    await cluster.session.create(paths.broker(0), broker.data, ephemeral=True)
    await run_until_idle(100)
    await cluster.idle()
    stored = paths.decode_partition_state((await cluster.session.get(path)).data)
    assert stored.leader_epoch > 5, "decided again, from the state in the tree"
    assert stored.leader == -1, "its log directory failed"
    (partition,) = cluster.broker.metadata.image.topics["t"].partitions
    assert (partition.leader, partition.offline_replicas) == (-1, (0,))
    assert any("changed meanwhile" in record.getMessage() for record in caplog.records)


async def test_the_queue_is_bounded(
    cluster: ControlledCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    active = await next_term(cluster)
    await active.wait_until_idle()
    monkeypatch.setattr(active_controller, "QUEUED_EVENTS_MAX", 3)

    async def step() -> None: ...

    for _ in range(3):
        active.put(step)
    with pytest.raises(OverflowError):
        active.put(step)
    await active.wait_until_idle()


async def test_a_term_that_has_ended_handles_nothing(cluster: ControlledCluster) -> None:
    active = await next_term(cluster)
    cluster.broker.gate.clear()
    settled = asyncio.ensure_future(active.wait_until_idle())
    await run_until_idle()
    assert not settled.done()
    active.close(not_controller())
    await settled

    async def step() -> None:
        raise AssertionError("never handled")

    active.put(step)
    cluster.broker.gate.set()
    await run_until_idle()


async def test_partitions_that_others_add_are_created(
    cluster: ControlledCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """As Apache Kafka's own tools do with `--zookeeper`, or another broker that was controller."""
    await cluster.start(NewTopic("t", 2, 1))
    for count in (3, 5):
        path = paths.topic("t")
        before = paths.decode_topic((await cluster.session.get(path)).data)
        replicas = {index: (0,) for index in range(count)}
        sent = len(cluster.broker.requests)
        await cluster.session.set(path, paths.encode_topic(replace(before, replicas=replicas)))
        await cluster.idle()
        partitions = cluster.broker.metadata.image.topics["t"].partitions
        assert [partition.leader for partition in partitions] == [0] * count
        indexes = {
            state.partition_index
            for request in cluster.broker.requests[sent:]
            for topic in request.topic_states
            for state in topic.partition_states
        }
        assert indexes == set(range(2 if count == 3 else 3, count)), "only the new ones"
    assert caplog.records == []


async def test_a_topic_is_removed_after_states_of_its_new_partitions_were_written(
    cluster: ControlledCluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Else the write creates nodes below those that are being removed."""
    await cluster.start(NewTopic("t", 1, 1))
    multi, may_write = cluster.session.multi, asyncio.Event()

    async def slow_multi(ops: Sequence[Op]) -> list[OpResult]:
        if any(isinstance(op, Create) and op.path == paths.partition_state("t", 1) for op in ops):
            await may_write.wait()
        return await multi(ops)

    monkeypatch.setattr(cluster.session, "multi", slow_multi)
    path = paths.topic("t")
    before = paths.decode_topic((await cluster.session.get(path)).data)
    await cluster.session.set(
        path, paths.encode_topic(replace(before, replicas={0: (0,), 1: (0,)}))
    )
    await run_until_idle()
    await cluster.session.create(paths.topic_deletion("t"))
    await run_until_idle()
    assert await cluster.session.exists(path) is not None
    may_write.set()
    await cluster.idle()
    for node in (path, paths.topic_deletion("t"), paths.config(paths.TOPIC_CONFIGS, "t")):
        assert await cluster.session.exists(node) is None
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


async def test_reassignments_that_end_together_are_written_together(
    cluster: ControlledCluster,
) -> None:
    """The node of their topic, which has all its partitions, is not written for each of them."""
    count = 30
    await cluster.start(NewTopic("t", count, 1))
    await cluster.session.create(paths.broker(1), paths.encode_broker(INFO, 0), ephemeral=True)
    await cluster.idle()
    reassignments = [Reassignment(TopicPartition("t", index), (0, 1)) for index in range(count)]
    assert await cluster.controller.reassign(reassignments, timeout_ms=1000) == [None] * count
    await cluster.idle()
    node = await cluster.session.get(paths.topic("t"))
    assert set(paths.decode_topic(node.data).adding.values()) == {(1,)}
    topic_id = (await cluster.controller.topic_ids())["t"]
    epoch = (await cluster.session.get(paths.broker(0))).stat.czxid
    answers = []
    for index in range(count):  # each replica has caught up: the leader says so one by one
        state = cluster.broker.replicas[TopicPartition("t", index)]
        isr = RequestedIsr(0, topic_id, state.leader_epoch, state.partition_epoch, (0, 1))
        altering = cluster.controller.alter_isrs((0, epoch), {TopicPartition("t", index): isr})
        answers.append(asyncio.ensure_future(altering))
        await run_until_idle(1)
    await asyncio.gather(*answers)
    await cluster.tasks.advance(count)
    await cluster.idle()
    after = await cluster.session.get(paths.topic("t"))
    assert paths.decode_topic(after.data).replicas == dict.fromkeys(range(count), (0, 1))
    assert not paths.decode_topic(after.data).adding
    assert 1 <= after.stat.version - node.stat.version <= count // 5
