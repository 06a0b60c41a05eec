"""Requests to reassign partitions: each writes the topics' nodes, and is answered when the
controller has begun (KIP-455)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from kavka.seams import Tasks
from kavka.server.cluster.control_messages import TopicPartition
from kavka.server.controller.active_controller import ActiveController
from kavka.server.controller.reassignments import find, reassign
from kavka.server.controller.request_outcomes import RequestOutcomes
from kavka.server.controller.state import (
    NOT_STORED,
    Assignment,
    assignment_of,
    with_assignments,
    without,
)
from kavka.server.controller.topic_waiters import Condition
from kavka.wire.errors import ApiError, ErrorCode
from kavka.zktree.api import NoNode
from kavka.zktree.paths import TopicAssignment

PARTITIONS_PER_STEP: Final = 200
"""Partitions checked between two yields to the event loop; each takes about 15 us."""


class Reassignment(NamedTuple):
    """What a request asks for one partition. `target` is None to cancel a reassignment."""

    tp: TopicPartition
    target: Sequence[int] | None
    may_change_factor: bool = True


class Overridden(Protocol):
    """The reassignments that a node in the tree asks for (`legacy_nodes`). Requests override
    them."""

    async def until_begun(self) -> None:
        """Wait until the reassignments that were read from the node have begun."""
        ...

    async def overridden(self, partitions: Collection[TopicPartition]) -> None:
        """The node no longer asks for these. ApiError."""
        ...


class ReassignmentRequests:
    """Handles requests: writes to the tree, and waits until the active controller has seen it."""

    def __init__(
        self,
        controller: ActiveController,
        legacy: Overridden | None = None,
        *,
        tasks: Tasks,
        is_of_node: bool = False,
    ) -> None:
        """`is_of_node`: whether the node in the tree asks for them, not a request. As in Apache
        Kafka, it may name brokers that are not registered."""
        self._controller = controller
        self._legacy = legacy
        self._tasks = tasks
        self._is_of_node = is_of_node

    async def reassign(
        self, reassignments: Sequence[Reassignment], *, timeout_ms: int
    ) -> list[ApiError | None]:
        """None or an error for each; see `Controller.reassign`."""
        results: dict[int, ApiError | None] = {}
        changed: dict[str, dict[int, Reassignment]] = {}
        if self._legacy is not None:
            await self._legacy.until_begun()
        for number, reassignment in enumerate(reassignments):
            if number % PARTITIONS_PER_STEP == PARTITIONS_PER_STEP - 1:
                await self._tasks.sleep(0)
            results[number] = None
            try:
                partition = find(self._controller.cluster, reassignment.tp)
                before = partition.finishing or partition.assignment
                if self._plan(reassignment, before) != before:
                    changed.setdefault(reassignment.tp.topic, {})[number] = reassignment
            except ApiError as error:
                results[number] = error.with_traceback(None)  # its frames make a reference cycle
        if self._legacy is not None:
            valid = [
                reassignment.tp
                for number, reassignment in enumerate(reassignments)
                if results[number] is None
            ]
            await self._legacy.overridden(set(valid))
        with RequestOutcomes(self._controller.ready, self._tasks) as begun:
            for name, those in changed.items():
                write = _TopicWrite(self._controller, name)
                begun.add(name, write.is_seen, self._write(write, those, results))
            for name, failure in (await begun.wait(timeout_ms)).items():
                results |= dict.fromkeys(changed[name], failure)
        return [results[number] for number in range(len(reassignments))]

    def _plan(self, reassignment: Reassignment, before: Assignment) -> Assignment:
        cluster = self._controller.cluster
        return reassign(
            cluster,
            reassignment.tp,
            before,
            reassignment.target,
            may_change_factor=reassignment.may_change_factor,
            may_be_down=self._is_of_node,
        )

    async def _write(
        self,
        write: _TopicWrite,
        reassignments: Mapping[int, Reassignment],
        results: dict[int, ApiError | None],
    ) -> None:
        """Write the topic's node, and wait until the controller has read it. Meanwhile no
        reassignment of the topic ends: its replicas might be deleted though they are wanted."""
        topic = self._controller.cluster.topics.get(write.name)
        if topic is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        planned: dict[int, Assignment] = {}
        topic.planned.append(planned)
        try:
            await self._until(
                write.name,
                lambda: all(partition.finishing is None for partition in topic.partitions.values()),
            )
            write.wrote(await self._write_node(write.name, reassignments, planned, results))
            await self._until(write.name, write.is_seen)
        finally:
            topic.planned = [other for other in topic.planned if other is not planned]
            # some may end now, or get the state that none of the planned replicas was in sync in
            self._controller.reevaluate(
                [
                    TopicPartition(topic.name, index)
                    for index, partition in topic.partitions.items()
                    if (partition.adding or partition.removing) and partition.decided_state is None
                ]
            )

    async def _until(self, name: str, condition: Condition) -> None:
        """Wait until a condition on a topic holds. ApiError."""
        error = await self._controller.ready.add(name, condition)
        if error is not None:
            raise error

    async def _write_node(
        self,
        name: str,
        reassignments: Mapping[int, Reassignment],
        planned: dict[int, Assignment],
        results: dict[int, ApiError | None],
    ) -> int:
        """Write the new assignments to the topic's node, and plan them again if something else
        changes it meanwhile. Returns the node's new version. ApiError."""

        async def plan(before: TopicAssignment) -> TopicAssignment:
            after = await self._plan_all(reassignments, before, results)
            planned.clear()
            planned.update(after)
            if any(
                without(assignment_of(before, index).replicas, assignment.replicas)
                for index, assignment in after.items()
            ):
                # From here on ISRs keep a replica of those that are planned. One that was decided
                # on before may have none, and is not known yet.
                await self._until_states_are_known(name)
                after = await self._plan_all(reassignments, before, results)
                planned.clear()
                planned.update(after)
            return with_assignments(before, after)

        try:
            return await self._controller.store.change_assignment(name, plan)
        except NoNode:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) from None

    async def _plan_all(
        self,
        reassignments: Mapping[int, Reassignment],
        before: TopicAssignment,
        results: dict[int, ApiError | None],
    ) -> dict[int, Assignment]:
        """The new assignments by partition. Sets the results."""
        after: dict[int, Assignment] = {}
        for done, (number, reassignment) in enumerate(reassignments.items(), 1):
            if done % PARTITIONS_PER_STEP == 0:
                await self._tasks.sleep(0)
            index = reassignment.tp.partition
            current = after.get(index) or assignment_of(before, index)
            results[number] = None  # an earlier plan may have failed
            try:
                after[index] = self._plan(reassignment, current)
            except ApiError as error:
                results[number] = error.with_traceback(None)
        return after

    async def _until_states_are_known(self, name: str) -> None:
        """Wait until the controller knows the results of all writes of partition states that are
        in progress. ApiError."""
        await self._controller.until_states_are_written()
        is_known = False

        async def handled() -> None:  # the results are in the queue before it
            nonlocal is_known
            is_known = True
            self._controller.ready.check(name)

        self._controller.put(handled)
        await self._until(name, lambda: is_known)


class _TopicWrite:
    """One write of a topic's node, until the controller has read it."""

    def __init__(self, controller: ActiveController, name: str) -> None:
        self.name = name
        self._controller = controller
        self._version = NOT_STORED

    def wrote(self, version: int) -> None:
        """The node has this version, which the controller may have read already."""
        self._version = version
        self._controller.ready.check(self.name)

    def is_seen(self) -> bool:
        """Whether the controller knows the node in that version."""
        topic = self._controller.cluster.topics.get(self.name)
        return self._version != NOT_STORED and topic is not None and topic.version >= self._version
