"""The nodes in which tools before KIP-455 and KIP-460 ask the controller of a cluster for
reassignments and for elections of preferred replicas.

The rules are Apache Kafka 3.9's (`KafkaController.processZkPartitionReassignment`,
`maybeRemoveFromZkReassignment`, `processReplicaLeaderElection`). `/admin/reassign_partitions` is
read when it is created and at the begin of a term, loses its partitions as their reassignments end
or requests override them, and is deleted when none is left. `/admin/preferred_replica_election` is
deleted whatever came of it. Apache Kafka begins reassignments that could never end well (no
replica, one twice, none in sync left); here they are refused.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from kavka.seams import Tasks
from kavka.server.cluster.control_messages import TopicPartition
from kavka.server.controller.active_controller import ActiveController
from kavka.server.controller.partition_machine import chunks
from kavka.server.controller.reassignment_requests import Reassignment, ReassignmentRequests
from kavka.server.controller.request_outcomes import not_controller
from kavka.server.controller.tree_store import TERM_ENDED
from kavka.wire.errors import ApiError, ErrorCode
from kavka.zktree import paths
from kavka.zktree.api import BadVersion, NoNode, WatchEvent

logger = logging.getLogger(__name__)

ENTRIES_PER_STEP: Final = 500
"""Entries handled between two yields to the event loop; each takes about 5 us."""

BEGIN_MS: Final = 60_000
"""How long a reassignment may take to begin; later ones are not looked at, but begin."""

LOGGED_MAX: Final = 20
"""Wrong entries that are named in one line of the log."""

WRONG: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_REPLICA_ASSIGNMENT)
"""Errors of entries that will never be right."""

Replicas: TypeAlias = tuple[int, ...]


class LegacyNodes:
    """Both nodes, in one term of the controller."""

    def __init__(self, controller: ActiveController, tasks: Tasks) -> None:
        controller.on_assignments = self.changed
        self._controller = controller
        self._store = controller.store
        self._tasks = tasks
        self._requests = ReassignmentRequests(controller, tasks=tasks, is_of_node=True)
        self._read_czxid: int | None = None
        """Of the node with reassignments that has been read; None while there is none."""
        self._beginning: asyncio.Task[None] | None = None
        self._is_dropping = False

    # Reassignments

    async def load_reassignments(self) -> None:
        """Begin those of a node that is new; a queue item."""
        node = await self._store.legacy_node(
            paths.REASSIGN_PARTITIONS, self._again(self.load_reassignments)
        )
        if node is None or node.stat.czxid == self._read_czxid:
            self._read_czxid = None if node is None else node.stat.czxid
            return
        self._read_czxid = node.stat.czxid
        entries = await self._decoded(node.data)
        if entries is None:
            return
        logger.info("%s: asked to reassign %d partitions", paths.REASSIGN_PARTITIONS, len(entries))
        begin = self._begin(entries, after=self._beginning)
        self._beginning = self._controller.spawn(begin, name="begin of reassignments")

    async def until_begun(self) -> None:
        """Wait until the reassignments that were read have begun; not in a queue item."""
        if self._beginning is not None:
            await asyncio.wait([self._beginning])

    async def overridden(self, partitions: Collection[TopicPartition]) -> None:
        """A request reassigns these partitions: the node no longer does. ApiError."""
        if self._read_czxid is None:
            return
        try:
            await self._drop(lambda tp, target: tp in partitions)
        except TERM_ENDED:
            raise not_controller() from None

    def changed(self) -> None:
        """Reassignments have ended, or topics are gone: the node may lose partitions."""
        if self._read_czxid is not None and not self._is_dropping:
            self._is_dropping = True
            self._controller.put(self._drop_ended)

    async def _begin(
        self, entries: Mapping[TopicPartition, Replicas], after: asyncio.Task[None] | None
    ) -> None:
        if after is not None:
            await asyncio.wait([after])
        reassignments = [Reassignment(tp, target) for tp, target in entries.items()]
        results = await self._requests.reassign(reassignments, timeout_ms=BEGIN_MS)
        wrong: dict[TopicPartition, ApiError] = {}
        for reassignment, error in zip(reassignments, results, strict=True):
            if error is not None and error.code in WRONG:
                wrong[reassignment.tp] = error
        if wrong:
            _warn("not reassigned, as %s asks for it", paths.REASSIGN_PARTITIONS, wrong)
            await self._drop(lambda tp, target: tp in wrong)
        self.changed()  # some are where they should be

    async def _drop_ended(self) -> None:
        self._is_dropping = False
        await self._drop(self._has_ended)

    def _has_ended(self, tp: TopicPartition, target: Replicas) -> bool:
        topic = self._controller.cluster.topics.get(tp.topic)
        if topic is None or topic.deleting:
            return True
        partition = topic.partitions.get(tp.partition)
        if partition is None:
            return True
        is_moving = partition.assignment.is_moving or partition.finishing is not None
        return not is_moving and partition.replicas == target

    async def _drop(self, is_dropped: Callable[[TopicPartition, Replicas], bool]) -> None:
        """Take partitions out of the node, and delete it when none is left."""
        path = paths.REASSIGN_PARTITIONS
        while (node := await self._store.legacy_node(path)) is not None:
            entries = await self._decoded(node.data)
            if entries is None:
                return
            left: dict[TopicPartition, Replicas] = {}
            for number, (tp, target) in enumerate(entries.items(), 1):
                if number % ENTRIES_PER_STEP == 0:
                    await self._tasks.sleep(0)
                if not is_dropped(tp, target):
                    left[tp] = target
            try:
                if not left:
                    await self._store.delete_legacy_node(path, node.stat.version)
                    logger.info("%s: deleted, no reassignment in it is left", path)
                elif len(left) < len(entries):
                    data = paths.encode_reassignments((*tp, left[tp]) for tp in left)
                    await self._store.set_legacy_node(path, data, node.stat.version)
            except BadVersion:
                continue
            except NoNode:
                return
            return

    async def _decoded(self, data: bytes | None) -> dict[TopicPartition, Replicas] | None:
        """What the node asks for; None, as in Apache Kafka, if it is not understood: it stays."""
        entries: dict[TopicPartition, Replicas] = {}
        try:
            for number, (topic, index, target) in enumerate(paths.decode_reassignments(data), 1):
                if number % ENTRIES_PER_STEP == 0:
                    await self._tasks.sleep(0)
                entries[TopicPartition(topic, index)] = target
        except ValueError as failure:
            logger.warning("%s is not understood: %s", paths.REASSIGN_PARTITIONS, failure)
            return None
        return entries

    # Elections

    async def load_elections(self) -> None:
        """Elect the preferred replicas that the node asks for, and delete it; a queue item."""
        path = paths.PREFERRED_ELECTION
        node = await self._store.legacy_node(path, self._again(self.load_elections))
        if node is None:
            return
        try:
            partitions = [
                TopicPartition(*partition) for partition in paths.decode_elections(node.data)
            ]
        except ValueError as failure:
            logger.warning("%s is not understood: %s", path, failure)
            partitions = []
        failed: dict[TopicPartition, ApiError] = {}
        for chunk in chunks(partitions):
            for tp, result in self._controller.elect(chunk, unclean=False).items():
                if isinstance(result, ApiError) and result.code != ErrorCode.ELECTION_NOT_NEEDED:
                    failed[tp] = result
            await self._tasks.sleep(0)
        if failed:
            _warn("not elected, as %s asks for it", path, failed)
        await self._controller.until_states_are_written()
        try:
            await self._store.delete_legacy_node(path)
        except NoNode:
            return

    def _again(
        self, step: Callable[[], Coroutine[Any, Any, None]]
    ) -> Callable[[WatchEvent], object]:
        return lambda event: self._controller.put(step)


def _warn(text: str, path: str, failed: Mapping[TopicPartition, ApiError]) -> None:
    named = "; ".join(_described(list(failed.items())[:LOGGED_MAX]))
    others = f" and {len(failed) - LOGGED_MAX} more" if len(failed) > LOGGED_MAX else ""
    logger.warning(f"{text}: %s%s", path, named, others)


def _described(failed: Sequence[tuple[TopicPartition, ApiError]]) -> Iterable[str]:
    for tp, error in failed:
        yield f"{tp}: {error.code.name} {error.message or ''}".rstrip()
