"""Bugs that are planted into the broker, to see that the simulation finds them.

Each is a small patch of production code that takes away what some promise rests on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from kavka.groupcoord import expiry
from kavka.groupcoord.classic.group import ClassicGroup
from kavka.groupcoord.consumer.group import ConsumerGroup
from kavka.log.compaction import filtering
from kavka.log.flush import FlushPlan
from kavka.log.index import Floor, OffsetIndex
from kavka.log.journal import Decision, Journal
from kavka.log.manager import LogManager
from kavka.log.memfs import MemFs
from kavka.log.partition_log import PartitionLog
from kavka.log.producer_state import ProducerStates
from kavka.log.segment import Segment
from kavka.log.snapshots import Snapshots
from kavka.log.txn_guards import Guard
from kavka.server.connections.connection import Connection
from kavka.server.connections.registry import Connections
from kavka.server.instance import Instance
from kavka.server.replica.batch_admission import InlineBudget
from kavka.server.replica.partition_state import PartitionState
from kavka.server.request.context import RequestContext
from kavka.txncoord.ending import Ending
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.record_batches import BatchHeader
from kavka.wire.steps import Steps, run_at_once
from sim.run import run

Plant = Callable[[pytest.MonkeyPatch], None]


class Bug(NamedTuple):
    """A planted bug."""

    name: str
    seeds_max: int
    """Within so many seeds, from `first` on, it is found."""
    plant: Plant
    first: int = 1


def _view_outlives_its_request(patch: pytest.MonkeyPatch) -> None:
    init = InlineBudget.__init__

    def borrow(budget: InlineBudget, own: object) -> None:
        init(budget, lambda view: view)

    patch.setattr(InlineBudget, "__init__", borrow)
    patch.setattr(RequestContext, "keep_frame", lambda context: None)


def _no_fsync(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(FlushPlan, "sync_files", lambda plan: None)


def _no_fsync_of_directories(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MemFs, "sync_dir", lambda fs, path: None)


def _checkpoint_before_its_data(patch: pytest.MonkeyPatch) -> None:
    def append(log: PartitionLog, *args: Any, **more: Any) -> Any:
        done = original(log, *args, **more)
        log.recovery_point = log.end_offset
        return done

    original = PartitionLog.append
    patch.setattr(PartitionLog, "append", append)


def _answer_before_its_append(patch: pytest.MonkeyPatch) -> None:
    class Later:
        """Writes a little later."""

        def __init__(self, file: Any) -> None:
            self._file = file

        def pwrite(self, data: Any, offset: int) -> None:
            loop = asyncio.get_running_loop()
            loop.call_later(0.01, self._file.pwrite, bytes(data), offset)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._file, name)

    def late_append(segment: Segment, *args: Any) -> None:
        file = segment.file
        segment.open_file = Later(file)
        try:
            append(segment, *args)
        finally:
            segment.open_file = file

    append = Segment.append
    patch.setattr(Segment, "append", late_append)


def _sequences_not_restored(patch: pytest.MonkeyPatch) -> None:
    def load(snapshots: Snapshots, upto: int, states: ProducerStates) -> Steps[int]:
        found = yield from original(snapshots, upto, states)
        states.clear()
        return found

    original = Snapshots.load
    patch.setattr(Snapshots, "load", load)


def markers_dropped_at_the_start(patch: pytest.MonkeyPatch) -> None:
    """A coordinator that has loaded its log leaves transactions as they are."""
    patch.setattr(Ending, "loaded", lambda ending, now_ms: iter(()))


def _stable_offset_too_high(patch: pytest.MonkeyPatch) -> None:
    def last_stable_offset(log: PartitionLog, high_watermark: int) -> int:
        return min(high_watermark, original(log, high_watermark) + 1)

    original = PartitionLog.last_stable_offset
    patch.setattr(PartitionLog, "last_stable_offset", last_stable_offset)


def _answers_out_of_order(patch: pytest.MonkeyPatch) -> None:
    def send_ready(connection: Connection, slot: Any, response: Any, failure: Any) -> None:
        connection._slots.remove(slot)
        connection._slots.appendleft(slot)
        send(connection, slot, response, failure)

    send = Connection._send_ready
    patch.setattr(Connection, "_send_ready", send_ready)


def _stale_generation_accepted(patch: pytest.MonkeyPatch) -> None:
    def check_commit(
        group: ClassicGroup, member_id: str, instance: str | None, generation: int, **more: Any
    ) -> None:
        check(group, member_id, instance, group.generation if generation >= 0 else -1, **more)

    check = ClassicGroup.check_commit
    patch.setattr(ClassicGroup, "check_commit", check_commit)


def _fenced_member_commits(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ConsumerGroup, "check_commit", lambda *args, **more: None)


def _offsets_expire_by_the_wrong_clock(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(expiry, "_MS_A_MINUTE", 0)


def _acknowledged_before_its_fsync(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PartitionState, "configure", lambda partition, flush_after: False)


def _duplicates_appended(patch: pytest.MonkeyPatch) -> None:
    def check(states: ProducerStates, header: BatchHeader, guard: Guard | None = None) -> None:
        try:
            original(states, header, guard)
        except ApiError as failure:
            if failure.code is not ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
                raise

    original = ProducerStates.check
    patch.setattr(ProducerStates, "check", check)


def _applied_before_its_append(patch: pytest.MonkeyPatch) -> None:
    def append(journal: Journal, decision: Decision, now_ms: int) -> Steps[None]:
        records, producer = decision.records, decision.producer
        journal.machine.apply_all(records, producer)

        def append_late() -> None:
            run_at_once(journal._port.append(records, producer, now_ms))

        asyncio.get_running_loop().call_later(0.01, append_late)
        return
        yield

    patch.setattr(Journal, "_append", append)


def _index_off_by_one(patch: pytest.MonkeyPatch) -> None:
    def floor(index: OffsetIndex, offset: int) -> Floor:
        return original(index, offset + 1)

    original = OffsetIndex.floor
    patch.setattr(OffsetIndex, "floor", floor)


def _marker_removed_too_early(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(filtering, "_horizon_of", lambda header: 0)


def _hang_up_cancels_its_request(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Connections, "add_orphan", lambda connections, request: request.cancel())


def _deleted_log_stays(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LogManager, "_mark_for_deletion", lambda *args: None)


def _goes_on_without_its_session(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Instance, "_session_event", lambda instance, event: None)


BUGS = (
    Bug("a view outlives its request", 20, _view_outlives_its_request),
    Bug("an fsync is skipped", 20, _no_fsync),
    Bug("directories are not synced", 20, _no_fsync_of_directories),
    Bug("a checkpoint is written before its data", 20, _checkpoint_before_its_data),
    Bug("an answer is sent before the append", 20, _answer_before_its_append),
    Bug("sequences of producers are not restored", 100, _sequences_not_restored),
    Bug("markers are dropped at the start", 60, markers_dropped_at_the_start),
    Bug("answers overtake each other", 60, _answers_out_of_order),
    Bug("a stale generation is accepted", 40, _stale_generation_accepted),
    Bug("a fenced member may still commit", 100, _fenced_member_commits, 101),
    Bug("offsets expire by the wrong clock", 40, _offsets_expire_by_the_wrong_clock),
    Bug("records are acknowledged before their fsync", 60, _acknowledged_before_its_fsync),
    Bug("duplicates are appended", 60, _duplicates_appended),
    Bug("a coordinator applies before it appends", 60, _applied_before_its_append),
    Bug("a position of an index is off by one", 60, _index_off_by_one),
    Bug("compaction removes a marker too early", 100, _marker_removed_too_early),
    Bug("the log of a deleted topic stays", 60, _deleted_log_stays),
    Bug("a hang-up cancels half a request", 60, _hang_up_cancels_its_request),
    Bug("the last stable offset is too high by one", 20, _stable_offset_too_high),
    Bug("a broker goes on without its session", 60, _goes_on_without_its_session),
)


def caught_by(bug: Bug, *, cluster: bool = False) -> tuple[int, str] | None:
    """The number of seeds until it is found, and what is found first; None if it is not."""
    with pytest.MonkeyPatch.context() as patch:
        bug.plant(patch)
        for number, seed in enumerate(range(bug.first, bug.first + bug.seeds_max), 1):
            outcome = run(seed, cluster=cluster)
            if outcome.violations:
                return number, outcome.violations[0]
    return None
