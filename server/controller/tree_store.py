"""The controller's reads and writes in the coordination tree.

Every write is a transaction that starts with a check of `/controller_epoch`'s version. This fences
a controller that has been replaced without noticing (KAFKA-6082).
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from kavka.seams import Clock
from kavka.server.cluster.control_messages import TopicPartition
from kavka.server.controller.events import (
    CHUNK_PARTITIONS,
    FoundPartition,
    PartitionsExpected,
    PartitionsFound,
    StatesWritten,
    StateWrite,
    StoredState,
)
from kavka.server.controller.state import NOT_STORED, LiveBroker, assignment_of
from kavka.zktree import paths
from kavka.zktree.api import (
    ANY_VERSION,
    SESSION_ENDED,
    BadVersion,
    Check,
    Coordination,
    Create,
    Created,
    Delete,
    MultiFailed,
    NodeExists,
    NoNode,
    Op,
    OpResult,
    SetData,
    Stat,
    Watch,
    Znode,
)
from kavka.zktree.paths import TopicAssignment

logger = logging.getLogger(__name__)

NO_VERSION: Final = -2
"""Of a node that does not exist: no check of it succeeds."""

DELETES_PER_TRANSACTION_MAX: Final = 500
"""Splits the removal of a big topic, so that each request stays below ZooKeeper's limit."""


class ControllerMoved(Exception):
    """Another broker is the controller now."""


TERM_ENDED: Final = (ControllerMoved, *SESSION_ENDED)
"""Errors that end a term. The `Controller` has been notified before they are raised."""


class Term(NamedTuple):
    """One term as controller. `version` is that of the node `/controller_epoch`."""

    epoch: int
    version: int


async def elect(coordination: Coordination, broker_id: int, *, clock: Clock) -> Term | None:
    """Try to become the controller; None if another broker is, or won the race."""
    ops: list[Op] = []
    try:
        data, stat = await coordination.get(paths.CONTROLLER_EPOCH)
        epoch, version = paths.decode_controller_epoch(data), stat.version
    except NoNode:
        epoch, version = 0, 0
        ops.append(Create(paths.CONTROLLER_EPOCH, paths.encode_controller_epoch(epoch)))
    if await coordination.exists(paths.FEATURE) is None:
        ops.append(Create(paths.FEATURE, paths.encode_features()))
    registration = paths.encode_controller(broker_id, clock.now_ms())
    epoch += 1
    ops.append(Create(paths.CONTROLLER, registration, ephemeral=True))
    ops.append(SetData(paths.CONTROLLER_EPOCH, paths.encode_controller_epoch(epoch), version))
    try:
        await coordination.multi(ops)
    except MultiFailed as failed:
        if isinstance(failed.cause, NodeExists | BadVersion):
            return None
        raise
    return Term(epoch, version + 1)


class ControllerRegistration(NamedTuple):
    """The controller's broker id, and the session in which it registered. `epoch_version` is that
    of the node `/controller_epoch`, which each election changes."""

    broker_id: int
    session_id: int
    epoch_version: int


async def current_controller(
    coordination: Coordination, watch: Watch
) -> ControllerRegistration | None:
    """The controller, or None; the watch fires when it changes."""
    if await coordination.exists(paths.CONTROLLER, watch) is None:
        return None
    epoch = coordination.exists(paths.CONTROLLER_EPOCH)  # before: a later election changes it
    try:
        data, stat = await coordination.get(paths.CONTROLLER)
    except NoNode:
        return None
    epoch_stat = await epoch
    version = NO_VERSION if epoch_stat is None else epoch_stat.version
    return ControllerRegistration(paths.decode_controller(data), stat.ephemeral_owner, version)


async def depose(coordination: Coordination, current: ControllerRegistration) -> None:
    """Remove the node of a controller that has died, unless there has been an election since. The
    controller epoch fences it if it lives after all."""
    check = Check(paths.CONTROLLER_EPOCH, current.epoch_version)
    try:
        await coordination.multi([check, Delete(paths.CONTROLLER)])
    except MultiFailed as failed:
        if not isinstance(failed.cause, NoNode | BadVersion):
            raise
        logger.info("/controller of broker %d was already deleted or replaced", current.broker_id)


async def registered(coordination: Coordination, broker_id: int) -> LiveBroker | None:
    """A broker as it is registered, or None."""
    try:
        data, stat = await coordination.get(paths.broker(broker_id))
    except NoNode:
        return None
    return LiveBroker(broker_id, stat.czxid, paths.decode_broker(data))


class StoredTopic(NamedTuple):
    """A topic as it is in the tree, with the version of its node."""

    assignment: TopicAssignment
    version: int


class TreeStore:
    """The tree, as the controller of one term reads and writes it."""

    def __init__(
        self, coordination: Coordination, term: Term, on_moved: Callable[[], None]
    ) -> None:
        self._coordination = coordination
        self._on_moved = on_moved
        self._fence = Check(paths.CONTROLLER_EPOCH, term.version)
        self._with_partitions_node: dict[str, None] = {}
        """Topics whose node `partitions` exists or is being created."""

    async def brokers(self, watch: Watch) -> dict[int, LiveBroker]:
        """The registered brokers; the watch fires when one registers or disappears."""
        names = await self._coordination.children(paths.BROKER_IDS, watch)
        results = [(int(name), self._coordination.get(paths.broker(int(name)))) for name in names]
        found: dict[int, LiveBroker] = {}
        for broker_id, result in results:
            try:
                data, stat = await result
            except NoNode:
                continue  # it disappeared after the listing; the watch fires
            found[broker_id] = LiveBroker(broker_id, stat.czxid, paths.decode_broker(data))
        return found

    async def topic_names(self, watch: Watch) -> list[str]:
        """All topics; the watch fires when one is created or deleted."""
        return await self._coordination.children(paths.TOPICS, watch)

    async def marked_topics(self, watch: Watch | None = None) -> list[str]:
        """Topics marked for deletion; the watch fires when a mark is made or removed."""
        return await self._coordination.children(paths.DELETE_TOPICS, watch)

    async def log_dir_events(self, watch: Watch) -> dict[str, int]:
        """Broker id by node that reports a failed log directory; the watch fires on a new one."""
        names = await self._coordination.children(paths.LOG_DIR_EVENTS, watch)
        nodes = [f"{paths.LOG_DIR_EVENTS}/{name}" for name in names]
        results = [(path, self._coordination.get(path)) for path in nodes]
        found: dict[str, int] = {}
        for path, result in results:
            try:
                found[path] = paths.decode_log_dir_event((await result).data)
            except NoNode:
                continue  # an earlier controller has deleted it
        return found

    async def delete_log_dir_events(self, nodes: Sequence[str]) -> None:
        """Delete nodes that `log_dir_events` has returned."""
        for start in range(0, len(nodes), DELETES_PER_TRANSACTION_MAX):
            await self._delete_existing(nodes[start : start + DELETES_PER_TRANSACTION_MAX])

    async def legacy_node(self, path: str, watch: Watch | None = None) -> Znode | None:
        """A node in which an old tool asks for something (`legacy_nodes`), or None; the watch fires
        when it is created, changed or deleted."""
        if await self._coordination.exists(path, watch) is None:
            return None
        try:
            return await self._coordination.get(path)
        except NoNode:
            return None

    async def set_legacy_node(self, path: str, data: bytes, version: int) -> None:
        """Change such a node. BadVersion, NoNode."""
        await self._fenced_write(SetData(path, data, version))

    async def delete_legacy_node(self, path: str, version: int = ANY_VERSION) -> None:
        """Delete such a node. BadVersion, NoNode."""
        await self._fenced_write(Delete(path, version))

    async def topics(self, names: Iterable[str], watch: Watch) -> dict[str, StoredTopic]:
        """Topics by name, without deleted ones. The watch fires when one changes."""
        results = [(name, self._coordination.get(paths.topic(name), watch)) for name in names]
        found: dict[str, StoredTopic] = {}
        for name, result in results:
            try:
                data, stat = await result
            except NoNode:
                continue
            found[name] = StoredTopic(paths.decode_topic(data), stat.version)
        return found

    async def partitions(
        self, assignments: Mapping[str, TopicAssignment]
    ) -> AsyncIterator[PartitionsExpected | PartitionsFound]:
        """The partitions of topics: their numbers, and then with their states, chunk by chunk."""
        yield PartitionsExpected(
            {name: tuple(topic.replicas) for name, topic in assignments.items()}
        )
        waiting: list[FoundPartition] = []
        for name, assignment in assignments.items():
            for index in assignment.replicas:
                waiting.append(
                    FoundPartition(
                        TopicPartition(name, index), assignment_of(assignment, index), None
                    )
                )
                if len(waiting) == CHUNK_PARTITIONS:
                    yield await self._with_states(waiting)
                    waiting = []
        if waiting:
            yield await self._with_states(waiting)

    async def _with_states(self, partitions: Sequence[FoundPartition]) -> PartitionsFound:
        results = [
            (found, self._coordination.get(paths.partition_state(*found.tp)))
            for found in partitions
        ]
        complete: list[FoundPartition] = []
        for found, result in results:
            try:
                data, stat = await result
            except NoNode:
                complete.append(found)
                continue
            self._with_partitions_node[found.tp.topic] = None
            stored = StoredState(paths.decode_partition_state(data), stat.version, stat.mzxid)
            complete.append(found._replace(stored=stored))
        return PartitionsFound(tuple(complete))

    async def write_states(
        self, writes: Sequence[StateWrite]
    ) -> tuple[StatesWritten, list[TopicPartition]]:
        """Write partition states. Returns the written ones, and the partitions that failed.

        Normally in one transaction. If that fails, each in its own, so that a state that another
        broker has changed does not block the others.
        """
        ops: list[Op] = []
        for write in writes:
            topic = write.tp.topic
            if write.version == NOT_STORED and topic not in self._with_partitions_node:
                self._with_partitions_node[topic] = None
                ops.append(Create(paths.partitions(topic)))
            ops.extend(_ops_of(write))
        stored: dict[TopicPartition, StoredState] = {}
        try:
            results = await self._fenced_multi(ops)
        except MultiFailed:
            return await self._write_one_by_one(writes)
        stats = _state_stats(ops, results)
        for write, stat in zip(writes, stats, strict=True):
            stored[write.tp] = StoredState(write.state, stat.version, stat.mzxid)
        return StatesWritten(stored), []

    async def _write_one_by_one(
        self, writes: Sequence[StateWrite]
    ) -> tuple[StatesWritten, list[TopicPartition]]:
        stored: dict[TopicPartition, StoredState] = {}
        failed: list[TopicPartition] = []
        for write in writes:
            tp = write.tp
            parents = [paths.partitions(tp.topic), paths.partition(*tp)]
            missing = [p for p in parents if await self._coordination.exists(p) is None]
            ops: list[Op] = [Create(path) for path in missing]
            ops.extend(op for op in _ops_of(write) if op.path not in parents)
            try:
                results = await self._fenced_multi(ops)
            except MultiFailed:
                failed.append(tp)
                continue
            (stat,) = _state_stats(ops, results)
            stored[tp] = StoredState(write.state, stat.version, stat.mzxid)
        return StatesWritten(stored), failed

    async def create_topic(
        self,
        name: str,
        topic_id: uuid.UUID,
        replicas: Mapping[int, tuple[int, ...]],
        configs: Mapping[str, str],
    ) -> None:
        """Create a topic with its configs. NodeExists if it exists."""
        config_path, config = paths.config(paths.TOPIC_CONFIGS, name), paths.encode_config(configs)
        make = Create(
            paths.topic(name), paths.encode_topic(TopicAssignment(topic_id, replicas, {}, {}))
        )
        try:
            await self._fenced_multi([Create(config_path, config), make])
        except MultiFailed as failed:
            if failed.cause.path != config_path:
                raise failed.cause from None
        else:
            return
        try:  # configs set before the topic was created, or left over from a deleted one
            await self._fenced_multi([SetData(config_path, config), make])
        except MultiFailed as failed:
            raise failed.cause from None

    async def set_topic_id(self, name: str, assignment: TopicAssignment) -> None:
        """Store the id of a topic that had none."""
        await self._fenced_multi([SetData(paths.topic(name), paths.encode_topic(assignment))])

    async def topic(self, name: str) -> StoredTopic:
        """A topic as it is in the tree. NoNode."""
        data, stat = await self._coordination.get(paths.topic(name))
        return StoredTopic(paths.decode_topic(data), stat.version)

    async def set_assignment(self, name: str, assignment: TopicAssignment, version: int) -> None:
        """Replace a topic's assignment; the node's version is the next one then. BadVersion if it
        has been changed since it was read; NoNode."""
        await self._fenced_write(
            SetData(paths.topic(name), paths.encode_topic(assignment), version)
        )

    async def change_assignment(
        self, name: str, plan: Callable[[TopicAssignment], Awaitable[TopicAssignment]]
    ) -> int:
        """Replace a topic's assignment by what `plan` makes of it; `plan` is called again if
        something else changes the node meanwhile. Returns the node's new version. NoNode; what
        `plan` raises."""
        while True:
            before, version = await self.topic(name)
            after = await plan(before)
            if after == before:
                return version
            try:
                await self.set_assignment(name, after, version)
            except BadVersion:
                continue
            return version + 1

    async def mark_for_deletion(self, name: str) -> None:
        """Mark a topic for deletion, durably; no effect if it is marked already. NoNode."""
        try:
            await self._fenced_multi([Check(paths.topic(name)), Create(paths.topic_deletion(name))])
        except MultiFailed as failed:
            if not isinstance(failed.cause, NodeExists):
                raise failed.cause from None

    async def delete_marks(self, names: Iterable[str]) -> None:
        """Delete the deletion marks of topics that do not exist."""
        for name in names:
            await self._delete_existing([paths.topic_deletion(name)])

    async def remove_topic(self, name: str) -> None:
        """Delete all nodes of a topic; its mark last, together with the topic's own node."""
        await self._delete_below(paths.partitions(name))
        await self._delete_below(paths.topic(name))
        self._with_partitions_node.pop(name, None)
        await self._delete_existing(
            [
                paths.topic(name),
                paths.config(paths.TOPIC_CONFIGS, name),
                paths.topic_deletion(name),
            ]
        )

    async def _delete_below(self, top: str) -> None:
        """Delete all nodes below `top`, in batches of children that fit into one transaction.

        Each partition's node has one child, its state.
        """
        try:
            names = await self._coordination.children(top)
        except NoNode:
            return
        for start in range(0, len(names), DELETES_PER_TRANSACTION_MAX // 2):
            part = [f"{top}/{name}" for name in names[start:][: DELETES_PER_TRANSACTION_MAX // 2]]
            gone = [*await self._descendants(part), *part]
            for first in range(0, len(gone), DELETES_PER_TRANSACTION_MAX):
                await self._delete_existing(gone[first : first + DELETES_PER_TRANSACTION_MAX])

    async def _descendants(self, tops: Sequence[str]) -> list[str]:
        """All nodes below `tops`, children before their parents."""
        level, found = list(tops), list[str]()
        while level:
            results = [(path, self._coordination.children(path)) for path in level]
            level = []
            for path, result in results:
                try:
                    level.extend(f"{path}/{name}" for name in await result)
                except NoNode:
                    continue
            found.extend(level)
        return found[::-1]

    async def _delete_existing(self, nodes: Sequence[str]) -> None:
        """Delete those of the nodes that exist, in order."""
        results = [(path, self._coordination.exists(path)) for path in nodes]
        there = [path for path, result in results if await result is not None]
        if there:
            try:
                await self._fenced_multi([Delete(path) for path in there])
            except MultiFailed as failed:
                raise failed.cause from None

    async def _fenced_write(self, op: Op) -> None:
        """One operation; its own error if it fails."""
        try:
            await self._fenced_multi([op])
        except MultiFailed as failed:
            raise failed.cause from None

    async def _fenced_multi(self, ops: Sequence[Op]) -> list[OpResult]:
        """Run `ops` in one transaction. Calls `on_moved` and raises ControllerMoved if fenced."""
        try:
            return (await self._coordination.multi([self._fence, *ops]))[1:]
        except MultiFailed as failed:
            if failed.index == 0:
                self._on_moved()
                raise ControllerMoved from failed
            raise MultiFailed(failed.index - 1, failed.cause) from None


def _ops_of(write: StateWrite) -> list[Op]:
    path, data = paths.partition_state(*write.tp), paths.encode_partition_state(write.state)
    if write.version != NOT_STORED:
        return [SetData(path, data, write.version)]
    return [Create(paths.partition(*write.tp)), Create(path, data)]


def _state_stats(ops: Sequence[Op], results: Sequence[OpResult]) -> list[Stat]:
    """The Stats of those results that are for a partition's state."""
    stats: list[Stat] = []
    for op, result in zip(ops, results, strict=True):
        if isinstance(result, Stat):
            stats.append(result)
        elif isinstance(op, Create) and op.data is not None and isinstance(result, Created):
            stats.append(result.stat)
    return stats
