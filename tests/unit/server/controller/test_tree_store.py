"""The controller's writes to the tree: in one transaction, or one by one after a conflict."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from kavka.server.cluster.control_messages import TopicPartition
from kavka.server.controller.events import (
    CHUNK_PARTITIONS,
    FoundPartition,
    PartitionsExpected,
    PartitionsFound,
    StateWrite,
    StoredState,
)
from kavka.server.controller.state import NOT_STORED, Assignment
from kavka.server.controller.tree_store import (
    DELETES_PER_TRANSACTION_MAX,
    ControllerMoved,
    ControllerRegistration,
    Term,
    TreeStore,
    current_controller,
    depose,
    elect,
)
from kavka.server.coordination.broker_registration import ensure_paths, prepare_tree
from kavka.server.coordination.embedded import EmbeddedCoordination
from kavka.zktree import paths
from kavka.zktree.api import (
    BadVersion,
    NodeExists,
    NoNode,
    Op,
    OpResult,
    WatchEvent,
    WatchKind,
)
from kavka.zktree.paths import StoredPartitionState, TopicAssignment
from support.embedded_coordination import all_nodes, new_fs, open_on
from support.virtual import VirtualClock

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
FIRST = StoredPartitionState(0, 0, (0,), 1)
SECOND = StoredPartitionState(0, 1, (0,), 1)


async def prepared() -> tuple[EmbeddedCoordination, TreeStore]:
    """A session on a tree with the topic `t` of two partitions, and the store of the first term."""
    session = await open_on(new_fs())
    await prepare_tree(session)
    term = await elect(session, 0, clock=VirtualClock())
    assert term == Term(epoch=1, version=1)
    topic = TopicAssignment(None, {0: (0,), 1: (0, 1)}, {1: (1,)}, {})
    await session.create(paths.topic("t"), paths.encode_topic(topic))
    return session, TreeStore(session, term, lambda: None)


async def state_of(session: EmbeddedCoordination, tp: TopicPartition) -> StoredPartitionState:
    return paths.decode_partition_state((await session.get(paths.partition_state(*tp))).data)


async def test_first_states_are_created_with_their_parents() -> None:
    session, store = await prepared()
    writes = [StateWrite(T0, FIRST, NOT_STORED), StateWrite(T1, FIRST, NOT_STORED)]
    written, failed = await store.write_states(writes)
    assert failed == []
    assert list(written.stored) == [T0, T1]
    assert len({stored.mzxid for stored in written.stored.values()}) == 1, "one transaction"
    assert [stored.version for stored in written.stored.values()] == [0, 0]
    assert await state_of(session, T1) == FIRST


async def test_later_states_replace_the_expected_version() -> None:
    session, store = await prepared()
    await store.write_states([StateWrite(T0, FIRST, NOT_STORED)])
    written, failed = await store.write_states(
        [StateWrite(T0, SECOND, 0), StateWrite(T1, FIRST, NOT_STORED)]
    )
    assert failed == []
    assert written.stored[T0].version == 1 and written.stored[T1].version == 0
    assert await state_of(session, T0) == SECOND


async def test_a_state_that_was_changed_fails_alone() -> None:
    session, store = await prepared()
    await store.write_states([StateWrite(T0, FIRST, NOT_STORED)])
    theirs = StoredPartitionState(0, 0, (0, 1), 1)
    await session.set(paths.partition_state(*T0), paths.encode_partition_state(theirs))
    written, failed = await store.write_states(
        [StateWrite(T0, SECOND, 0), StateWrite(T1, FIRST, NOT_STORED)]
    )
    assert failed == [T0]
    assert list(written.stored) == [T1]
    assert await state_of(session, T0) == theirs
    assert await state_of(session, T1) == FIRST


@pytest.mark.parametrize("there", ["partitions", "partitions/0", "partitions/0/state"])
async def test_nodes_that_exist_already(there: str) -> None:
    session, store = await prepared()
    await ensure_paths(session, {f"/brokers/topics/t/{there}": None})
    writes = [StateWrite(T0, FIRST, NOT_STORED), StateWrite(T1, FIRST, NOT_STORED)]
    written, failed = await store.write_states(writes)
    assert failed == ([T0] if there.endswith("state") else [])
    assert T1 in written.stored


async def test_a_deleted_topic_fails_alone() -> None:
    session, store = await prepared()
    gone = TopicPartition("gone", 0)
    written, failed = await store.write_states(
        [StateWrite(gone, FIRST, NOT_STORED), StateWrite(T0, FIRST, NOT_STORED)]
    )
    assert (failed, list(written.stored)) == ([gone], [T0])


async def test_partitions_are_read_with_their_states() -> None:
    session, store = await prepared()
    written, _ = await store.write_states([StateWrite(T1, SECOND, NOT_STORED)])
    seen: list[WatchEvent] = []
    topics = await store.topics(["t", "gone"], seen.append)
    assert list(topics) == ["t"]
    assignment, version = topics["t"]
    assert version == 0
    await session.set(paths.topic("t"), paths.encode_topic(assignment))
    assert [event.kind for event in seen] == [WatchKind.DATA_CHANGED]
    _, found = [event async for event in store.partitions({"t": assignment})]
    assert isinstance(found, PartitionsFound)
    assert found.partitions == (
        FoundPartition(T0, Assignment((0,)), None),
        FoundPartition(
            T1, Assignment((0, 1), (1,)), StoredState(SECOND, 0, written.stored[T1].mzxid)
        ),
    )


async def test_the_partitions_of_big_topics_are_announced_and_read_in_chunks() -> None:
    _, store = await prepared()
    counts = {"a": 5, "b": 2 * CHUNK_PARTITIONS, "c": 3}
    topics = {
        name: TopicAssignment(None, {index: (0,) for index in range(count)}, {}, {})
        for name, count in counts.items()
    }
    expected, *chunks = [event async for event in store.partitions(topics)]
    assert expected == PartitionsExpected({name: tuple(topics[name].replicas) for name in counts})
    found = [chunk.partitions for chunk in chunks if isinstance(chunk, PartitionsFound)]
    assert [len(partitions) for partitions in found] == [CHUNK_PARTITIONS, CHUNK_PARTITIONS, 8]
    read = [partition.tp for partitions in found for partition in partitions]
    assert read == [
        TopicPartition(name, index) for name, count in counts.items() for index in range(count)
    ]


async def test_a_new_store_adds_partitions() -> None:
    """As after an election: existing nodes are not created again."""
    session, store = await prepared()
    await store.write_states([StateWrite(T0, FIRST, NOT_STORED)])
    later = TreeStore(session, Term(1, 1), lambda: None)
    assignment, _ = await later.topic("t")
    async for _ in later.partitions({"t": assignment}):
        pass
    written, failed = await later.write_states([StateWrite(T1, FIRST, NOT_STORED)])
    assert failed == [] and list(written.stored) == [T1]


async def test_an_assignment_is_replaced_only_at_the_expected_version() -> None:
    session, store = await prepared()
    before, version = await store.topic("t")
    assert before.replicas == {0: (0,), 1: (0, 1)}
    after = replace(before, replicas={**before.replicas, 2: (0,)})
    await store.set_assignment("t", after, version)
    assert await store.topic("t") == (after, version + 1)
    with pytest.raises(BadVersion):
        await store.set_assignment("t", before, version)
    with pytest.raises(NoNode):
        await store.set_assignment("gone", before, 0)
    with pytest.raises(NoNode):
        await store.topic("gone")


async def test_remove_topic_deletes_all_its_nodes() -> None:
    session, store = await prepared()
    before = sorted((await all_nodes(session)).keys() - {"/brokers/topics/t"})
    writes = [StateWrite(tp, FIRST, NOT_STORED) for tp in (T0, T1)]
    await store.write_states(writes)
    await session.create("/config/topics/t")
    await store.mark_for_deletion("t")
    await store.mark_for_deletion("t")
    await store.remove_topic("t")
    assert sorted(await all_nodes(session)) == before
    await store.remove_topic("t")


async def test_a_big_topic_is_removed_in_several_transactions() -> None:
    session, store = await prepared()
    await ensure_paths(
        session, {f"/brokers/topics/t/partitions/{index}": None for index in range(1200)}
    )
    before = session.last_zxid
    await store.remove_topic("t")
    assert await session.exists("/brokers/topics/t") is None
    assert session.last_zxid - before == 7, "250 at once, then their parents and the topic"


async def test_a_big_topic_is_not_read_at_once() -> None:
    session, _ = await prepared()
    nodes = {f"/brokers/topics/t/partitions/{index}/state": None for index in range(1200)}
    await ensure_paths(session, nodes)
    reads_before: list[int] = []
    reads = 0

    class Counted:
        """The session, with the reads before each transaction counted."""

        exists = staticmethod(session.exists)

        def children(self, path: str) -> Awaitable[list[str]]:
            nonlocal reads
            reads += 1
            return session.children(path)

        def multi(self, ops: Sequence[Op]) -> Awaitable[list[OpResult]]:
            nonlocal reads
            assert len(ops) <= DELETES_PER_TRANSACTION_MAX + 1
            reads_before.append(reads)
            reads = 0
            return session.multi(ops)

    counted: Any = Counted()
    await TreeStore(counted, Term(1, 1), lambda: None).remove_topic("t")
    assert await session.exists("/brokers/topics/t") is None
    assert max(reads_before) <= 1 + DELETES_PER_TRANSACTION_MAX


async def test_creating_a_topic_that_exists() -> None:
    session, store = await prepared()
    topic_id = uuid.UUID(int=5)
    with pytest.raises(NodeExists) as caught:
        await store.create_topic("t", topic_id, {0: (0,)}, {})
    assert caught.value.path == "/brokers/topics/t"
    assert await session.exists("/config/topics/t") is None, "all or nothing"


async def test_nothing_is_written_after_the_term() -> None:
    session, _ = await prepared()
    moved: list[str] = []
    store = TreeStore(session, Term(1, 1), lambda: moved.append("moved"))
    await session.set(paths.CONTROLLER_EPOCH, b"2")
    before = session.last_zxid
    attempts = [
        store.write_states([StateWrite(T0, FIRST, NOT_STORED)]),
        store.mark_for_deletion("t"),
        store.remove_topic("t"),
        store.set_topic_id("t", TopicAssignment(None, {0: (0,)}, {}, {})),
    ]
    for attempt in attempts:
        with pytest.raises(ControllerMoved):
            await attempt
    assert session.last_zxid == before
    assert moved == ["moved"] * len(attempts)


async def test_a_dead_controller_is_deposed_once() -> None:
    session, clock = await open_on(new_fs()), VirtualClock()
    await prepare_tree(session)
    await elect(session, 4, clock=clock)
    first = await current_controller(session, lambda _: None)
    assert first is not None
    await depose(session, first)
    assert await current_controller(session, lambda _: None) is None
    await depose(session, first)
    await elect(session, 5, clock=clock)
    await depose(session, first)
    second = await current_controller(session, lambda _: None)
    assert second == ControllerRegistration(5, session.session_id, 2), "it is another one"


async def test_election() -> None:
    session, clock = await open_on(new_fs()), VirtualClock()
    await prepare_tree(session)
    assert await current_controller(session, lambda _: None) is None
    assert await elect(session, 4, clock=clock) == Term(1, 1)
    found = await current_controller(session, lambda _: None)
    assert found == ControllerRegistration(4, session.session_id, 1)
    assert await elect(session, 5, clock=clock) is None, "there is a controller"
    await session.delete(paths.CONTROLLER)
    assert await elect(session, 5, clock=clock) == Term(2, 2)
    data, stat = await session.get(paths.CONTROLLER_EPOCH)
    assert (data, stat.version) == (b"2", 2)
