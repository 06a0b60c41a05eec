"""Requests to reassign partitions: each writes the topics' nodes, and is answered when the
controller has begun (KIP-455)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

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
)
from kavka.wire.errors import ApiError, ErrorCode
from kavka.zktree.api import BadVersion, NoNode

PARTITIONS_PER_STEP: Final = 200
"""Partitions checked between two yields to the event loop; each takes about 15 us."""


class Reassignment(NamedTuple):
    """The wish of one request for one partition. `target` is None to cancel a reassignment."""

    tp: TopicPartition
    target: Sequence[int] | None
    may_change_factor: bool = True


class ReassignmentRequests:
    """Handles requests: writes to the tree, and waits until the active controller has seen it."""

    def __init__(self, controller: ActiveController, *, tasks: Tasks) -> None:
        self._controller = controller
        self._tasks = tasks

    async def reassign(
        self, wanted: Sequence[Reassignment], *, timeout_ms: int
    ) -> list[ApiError | None]:
        """None or an error for each; see `Controller.reassign`."""
        results: dict[int, ApiError | None] = {}
        changed: dict[str, dict[int, Reassignment]] = {}
        for number, one in enumerate(wanted):
            if number % PARTITIONS_PER_STEP == PARTITIONS_PER_STEP - 1:
                await self._tasks.sleep(0)
            results[number] = None
            try:
                partition = find(self._controller.cluster, one.tp)
                before = partition.finishing or partition.assignment
                if self._plan(one, before) != before:
                    changed.setdefault(one.tp.topic, {})[number] = one
            except ApiError as error:
                results[number] = error.with_traceback(None)  # its frames make a reference cycle
        with RequestOutcomes(self._controller.ready, self._tasks) as begun:
            for name, those in changed.items():
                write = _TopicWrite(self._controller, name)
                begun.add(name, write.is_seen, self._write(write, those, results))
            for name, failure in (await begun.wait(timeout_ms)).items():
                results |= dict.fromkeys(changed[name], failure)
        return [results[number] for number in range(len(wanted))]

    def _plan(self, one: Reassignment, before: Assignment) -> Assignment:
        cluster = self._controller.cluster
        return reassign(
            cluster, one.tp, before, one.target, may_change_factor=one.may_change_factor
        )

    async def _write(
        self,
        write: _TopicWrite,
        wanted: Mapping[int, Reassignment],
        results: dict[int, ApiError | None],
    ) -> None:
        """Write the topic's node; if something else has changed it, plan again."""
        store, name = self._controller.store, write.name
        while True:
            try:
                before, version = await store.topic(name)
                after: dict[int, Assignment] = {}
                for number, one in wanted.items():
                    index = one.tp.partition
                    current = after.get(index) or assignment_of(before, index)
                    try:
                        after[index] = self._plan(one, current)
                    except ApiError as error:
                        results[number] = error.with_traceback(None)
                planned = with_assignments(before, after)
                if planned != before:
                    await store.set_assignment(name, planned, version)
                    version += 1
            except BadVersion:
                continue
            except NoNode:
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) from None
            write.wrote(version)
            return


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
