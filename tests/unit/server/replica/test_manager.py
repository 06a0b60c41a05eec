"""Replicas: who leads them, what an append sets going, and what becomes of a failed disk."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest

from kavka.log import producer_snapshots, producer_state
from kavka.log.memfs import Fault
from kavka.log.txn_guards import NOT_NEEDED
from kavka.server.replica.manager import FLUSHES_AT_ONCE_MAX
from kavka.server.replica.replica import Replica
from kavka.wire.control_records import Marker
from kavka.wire.errors import ErrorCode as Code
from kavka.wire.records import read_header
from support.batches import build
from support.refusals import refusal
from support.replicas import DATA, Hosting, leading, stopping, telling
from support.virtual import settle


def run(story: Callable[[Hosting], Awaitable[None]], directories: Sequence[str] = (DATA,)) -> None:
    async def main() -> None:
        hosting = Hosting(directories=directories)
        await story(hosting)
        for replica in hosting.manager:
            replica.partition.check_invariants()
        assert not hosting.tasks.failures

    asyncio.run(main())


def append(replica: Replica, producer: tuple[int, int, int] = (-1, -1, -1)) -> int:
    """Append three records; their base offset."""
    batch = memoryview(build(producer=producer))
    return replica.append(batch, read_header(batch)).base_offset


# -- finding --------------------------------------------------------------------------------


def test_where_a_client_is_told_to_look() -> None:
    async def story(hosting: Hosting) -> None:
        manager = hosting.manager
        assert refusal(lambda: manager.leader("t", 0)) == Code.UNKNOWN_TOPIC_OR_PARTITION
        await hosting.port.update_metadata(telling("t", 0, 1))
        assert refusal(lambda: manager.leader("t", 0)) == Code.NOT_LEADER_OR_FOLLOWER
        assert refusal(lambda: manager.leader("t", 2)) == Code.UNKNOWN_TOPIC_OR_PARTITION
        assert refusal(lambda: manager.leader("t", -1)) == Code.UNKNOWN_TOPIC_OR_PARTITION
        replica = await hosting.lead("t", 1)
        assert manager.leader("t", 1) is replica
        assert manager.find("t", 0) is None and list(manager) == [replica]
        elsewhere = leading("t", 1, leader=2, epoch=1, isr=(2,), replicas=(1, 2))
        await hosting.port.leader_and_isr(elsewhere)
        assert refusal(lambda: manager.leader("t", 1)) == Code.NOT_LEADER_OR_FOLLOWER
        assert manager.find("t", 1) is replica, "which it still hosts"

    run(story)


def test_epochs_of_clients() -> None:
    async def story(hosting: Hosting) -> None:
        replica = await hosting.lead(epoch=5)
        replica.check_epoch(-1)
        replica.check_epoch(5)
        assert refusal(lambda: replica.check_epoch(4)) == Code.FENCED_LEADER_EPOCH
        assert refusal(lambda: replica.check_epoch(6)) == Code.UNKNOWN_LEADER_EPOCH

    run(story)


# -- appending ------------------------------------------------------------------------------


def test_an_append_moves_the_watermark_and_wakes_who_waits() -> None:
    async def story(hosting: Hosting) -> None:
        replica = await hosting.lead(epoch=5)
        waiting = hosting.purgatory.wait([replica.key], lambda: True, 60)
        assert append(replica) == 0
        assert (replica.high_watermark, replica.last_stable_offset) == (3, 3)
        await settle()
        assert waiting.result() is True
        assert replica.log.epoch_of(0) == 5

    run(story)


def test_with_others_in_sync_it_wakes_nobody() -> None:
    async def story(hosting: Hosting) -> None:
        replica = await hosting.lead(isr=(1, 2), replicas=(1, 2))
        waiting = hosting.purgatory.wait([replica.key], lambda: True, 60)
        append(replica)
        await settle()
        assert not waiting.done()
        assert (replica.log.end_offset, replica.high_watermark) == (3, 0)

    run(story)


def test_a_copy_changes_nothing() -> None:
    async def story(hosting: Hosting) -> None:
        replica = await hosting.lead()
        assert append(replica, (7, 0, 0)) == 0
        waiting = hosting.purgatory.wait([replica.key], lambda: True, 60)
        assert append(replica, (7, 0, 0)) == 0
        await settle()
        assert not waiting.done()
        assert replica.log.end_offset == 3

    run(story)


def test_a_refusal_of_the_log_is_passed_on() -> None:
    async def story(hosting: Hosting) -> None:
        replica = await hosting.lead()
        append(replica, (7, 3, 0))
        assert refusal(lambda: append(replica, (7, 3, 9))) == Code.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert refusal(lambda: append(replica, (7, 2, 0))) == Code.INVALID_PRODUCER_EPOCH
        assert not replica.offline and replica.high_watermark == 3

    run(story)


# -- the end of a transaction ---------------------------------------------------------------


def begun(replica: Replica) -> int:
    """Three records in a transaction of producer 7; their base offset."""
    batch = memoryview(build(producer=(7, 0, 0), transactional=True))
    return replica.append(batch, read_header(batch), NOT_NEEDED).base_offset


def end(replica: Replica, *, commit: bool, epoch: int = 0, version: int = 0) -> int:
    """Its marker's offset."""
    return replica.append_marker(7, epoch, Marker(commit, 0, 0), version).last_offset


@pytest.mark.parametrize("commit", [True, False])
def test_a_marker_is_an_append_as_any(commit: bool) -> None:
    async def story(hosting: Hosting) -> None:
        replica = await hosting.lead(epoch=5)
        begun(replica)
        assert (replica.high_watermark, replica.last_stable_offset) == (3, 0)
        waiting = hosting.purgatory.wait([replica.key], lambda: True, 60)
        before = replica.traffic.bytes_in
        assert end(replica, commit=commit) == 3
        assert (replica.high_watermark, replica.last_stable_offset) == (4, 4)
        assert replica.traffic.messages_in == 4
        assert replica.traffic.bytes_in - before == replica.log.size_bytes - before
        assert replica.log.epoch_of(3) == 5
        await settle()
        assert waiting.result() is True

    run(story)


def test_a_marker_that_is_refused() -> None:
    async def story(hosting: Hosting) -> None:
        replica = await hosting.lead()
        begun(replica)
        refused = Code.INVALID_PRODUCER_EPOCH
        assert refusal(lambda: end(replica, commit=True, epoch=-1)) == refused
        assert refusal(lambda: end(replica, commit=True, version=2)) == refused
        assert replica.log.end_offset == 3 and not replica.offline
        assert end(replica, commit=True, epoch=1, version=2) == 3

    run(story)


@pytest.mark.parametrize("name", ["00000000000000000000.log", "00000000000000000000.txnindex"])
def test_a_marker_that_can_t_be_written_or_noted(name: str) -> None:
    """Its log is not to be used any more: readers would take what is aborted for committed."""

    async def story(hosting: Hosting) -> None:
        replica = await hosting.lead()
        begun(replica)
        hosting.fs.faults.append(Fault("pwrite", f"t-0/{name}"))
        assert refusal(lambda: end(replica, commit=False)) == Code.KAFKA_STORAGE_ERROR
        assert replica.offline
        assert replica.last_stable_offset == 0

    run(story, (DATA, "/more"))


# -- flushing -------------------------------------------------------------------------------


def test_flushes_of_a_partition_come_one_after_the_other() -> None:
    async def story(hosting: Hosting) -> None:
        hosting.overrides.in_tree["t"] = {"flush.messages": "1"}
        replica = await hosting.lead()
        hosting.jobs.hold()
        append(replica)
        await settle()
        append(replica)
        append(replica)
        await settle()
        assert hosting.jobs.held == ["FlushPlan.run"]
        assert replica.partition.flushed_end == 0
        hosting.jobs.release()
        await hosting.manager.flushed()
        assert replica.partition.flushed_end == 9
        assert hosting.jobs.done.count("FlushPlan.run") == 2
        assert not replica.flushing

    run(story)


def test_only_so_many_hold_their_files_for_it() -> None:
    async def story(hosting: Hosting) -> None:
        hosting.overrides.in_tree["t"] = {"flush.messages": "1"}
        hosting.jobs.hold()
        replicas = [await hosting.lead("t", index) for index in range(FLUSHES_AT_ONCE_MAX + 3)]
        for replica in replicas:
            append(replica)
        await settle()
        assert len(hosting.jobs.held) == FLUSHES_AT_ONCE_MAX
        hosting.jobs.release()
        await hosting.manager.flushed()
        assert {replica.partition.flushed_end for replica in replicas} == {3}

    run(story)


def test_without_flush_messages_nothing_is_flushed_but_what_was_rolled() -> None:
    async def story(hosting: Hosting) -> None:
        hosting.overrides.in_tree["t"] = {"segment.bytes": str(1 << 20)}
        replica = await hosting.lead()
        append(replica)
        await settle()
        assert "FlushPlan.run" not in hosting.jobs.done
        replica.log.roll(hosting.clock.now_ms())
        append(replica)
        await settle()
        assert hosting.jobs.done == ["FlushPlan.run"]
        assert replica.partition.flushed_end == 3

    run(story)


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Snapshots of producers are written two entries at a time."""
    for module in (producer_state, producer_snapshots):
        monkeypatch.setattr(module, "ENTRIES_PER_STEP", 2)


@pytest.mark.usefixtures("small_steps")
def test_very_many_producers_are_saved_in_pieces_before_their_segment_is_flushed() -> None:
    async def story(hosting: Hosting) -> None:
        replica = await hosting.lead()
        for producer_id in range(9):
            append(replica, (producer_id, 0, 0))
        await settle()
        log = replica.log
        hosting.jobs.hold()
        log.roll(hosting.clock.now_ms())
        assert log.history.snapshots.is_writing
        append(replica, (1, 0, 3))
        assert log.history.snapshots.is_writing
        await settle()
        assert not log.history.snapshots.is_writing
        assert log.history.snapshots.offsets == [27]
        assert hosting.jobs.held == ["FlushPlan.run"]
        hosting.jobs.release()
        await hosting.manager.flushed()
        assert log.recovery_point == 27

    run(story)


@pytest.mark.usefixtures("small_steps")
def test_what_is_known_of_very_many_is_saved_too_when_nothing_is_left_of_them() -> None:
    """All segments go, all had been flushed, and nobody writes: nothing else asks for a flush."""

    async def story(hosting: Hosting) -> None:
        hosting.overrides.in_tree["t"] = {"flush.messages": "1", "retention.bytes": "0"}
        replica = await hosting.lead()
        for producer_id in range(9):
            append(replica, (producer_id, 0, 0))
        await hosting.manager.flushed()
        log = replica.log
        assert log.recovery_point == 27 and not log.history.snapshots.offsets
        assert replica.delete_old(hosting.clock.now_ms()) == 0, "not before it is saved"
        assert not log.flush_wanted
        await settle()
        assert log.history.snapshots.offsets == [27]
        assert replica.delete_old(hosting.clock.now_ms()) == 1

    run(story)


@pytest.mark.usefixtures("small_steps")
def test_a_replica_that_is_removed_has_no_more_of_them_saved() -> None:
    """The name of its directory may by then be another log's."""

    async def story(hosting: Hosting) -> None:
        replica = await hosting.lead()
        for producer_id in range(9):
            append(replica, (producer_id, 0, 0))
        replica.log.roll(hosting.clock.now_ms())
        hosting.manager.flush_soon(replica)
        await hosting.tasks.sleep(0)
        hosting.manager.remove(*replica.key)
        await settle()
        assert replica.log.history.snapshots.offsets == []

    run(story)


# -- a failed disk --------------------------------------------------------------------------


def test_a_failed_write_takes_the_partition_offline(caplog: pytest.LogCaptureFixture) -> None:
    async def story(hosting: Hosting) -> None:
        replica = await hosting.lead("t", 0, 1)
        other = hosting.manager.leader("t", 1)
        append(replica)
        waiting = hosting.purgatory.wait([replica.key], lambda: True, 60)
        hosting.fs.faults.append(Fault("pwrite", "t-0/00000000000000000000.log", times=9))
        assert refusal(lambda: append(replica)) == Code.KAFKA_STORAGE_ERROR
        assert replica.offline
        await settle()
        assert waiting.done(), "who waits is told"
        assert refusal(lambda: hosting.manager.leader("t", 0)) == Code.KAFKA_STORAGE_ERROR
        assert append(other) == 0
        assert hosting.logs.get("t", 0) is None
        hosting.manager.storage_failed(replica, OSError("again"))
        hosting.manager.directory_failed(DATA, OSError("again"))
        assert caplog.messages[0].startswith("can't write to t-0")
        assert caplog.messages[1].startswith("log directory /data with 1 logs is offline")
        assert len(caplog.messages) == 2

    run(story, (DATA, "/more"))


def test_with_a_partition_goes_its_directory() -> None:
    async def story(hosting: Hosting) -> None:
        replicas = [await hosting.lead("t", index) for index in range(4)]
        told: list[list[str]] = []
        hosting.manager.on_directory_failed = lambda: told.append(hosting.logs.online_directories)
        for replica in replicas:
            append(replica)
        waiting = hosting.purgatory.wait([replicas[2].key], lambda: True, 60)
        hosting.fs.faults.append(Fault("pwrite", "t-0/00000000000000000000.log"))
        assert refusal(lambda: append(replicas[0])) == Code.KAFKA_STORAGE_ERROR
        await settle()
        assert [replica.offline for replica in replicas] == [True, False, True, False]
        assert told == [["/more"]]
        assert waiting.done()
        assert refusal(lambda: hosting.manager.leader("t", 2)) == Code.KAFKA_STORAGE_ERROR
        assert append(hosting.manager.leader("t", 3)) == 3
        assert all(segment.open_file is None for segment in replicas[2].log._segments)

    run(story, (DATA, "/more"))


def test_a_directory_that_fails_while_a_flush_is_under_way() -> None:
    """What the thread brings back says nothing of a log that is not served any more."""

    async def story(hosting: Hosting) -> None:
        hosting.overrides.in_tree["t"] = {"flush.messages": "1"}
        replica = await hosting.lead()
        hosting.jobs.hold("FlushPlan.run")
        append(replica)
        await settle()
        hosting.manager.directory_failed(DATA, OSError("broken"))
        hosting.jobs.release()
        await hosting.manager.flushed()
        assert (replica.partition.flushed_end, replica.flushing) == (0, False)

    run(story)


def test_a_failed_fsync_does_so_too() -> None:
    async def story(hosting: Hosting) -> None:
        hosting.overrides.in_tree["t"] = {"flush.messages": "1"}
        replica = await hosting.lead()
        hosting.fs.faults.append(Fault("sync", ".log"))
        append(replica)
        await hosting.manager.flushed()
        assert replica.offline and not replica.flushing
        assert replica.partition.flushed_end == 0

    run(story)


def test_a_fsync_that_fails_after_the_partition_was_deleted() -> None:
    async def story(hosting: Hosting) -> None:
        hosting.overrides.in_tree["t"] = {"flush.messages": "1"}
        replica = await hosting.lead()
        hosting.jobs.hold("FlushPlan.run")
        append(replica)
        await settle()
        await hosting.port.stop_replica(stopping())
        hosting.fs.faults.append(Fault("sync", ".log"))
        hosting.jobs.release()
        await hosting.manager.flushed()
        assert list(hosting.manager) == []

    run(story)


@pytest.mark.parametrize("held", [True, False])
def test_a_partition_that_was_deleted_is_flushed_no_more(
    held: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Its files have other names then, and the old names may be those of a new partition."""

    async def story(hosting: Hosting) -> None:
        replica = await hosting.lead()
        if held:
            hosting.jobs.hold("FlushPlan.run")
        for _ in range(2):
            append(replica)
            replica.log.roll(hosting.clock.now_ms())
            hosting.manager.flush_soon(replica)
            if held:
                await settle()
        await hosting.port.stop_replica(stopping())
        await hosting.lead()
        files = {path: hosting.fs.read_bytes(path) for path in _files(hosting)}
        hosting.jobs.release()
        await hosting.manager.flushed()
        assert {path: hosting.fs.read_bytes(path) for path in _files(hosting)} == files
        assert not caplog.messages
        assert not replica.offline and not replica.flushing

    run(story)


def _files(hosting: Hosting) -> list[str]:
    return [f"{DATA}/t-0/{name}" for name in hosting.fs.list_dir(f"{DATA}/t-0")]


def test_watermarks_to_be_saved() -> None:
    async def story(hosting: Hosting) -> None:
        append(await hosting.lead("t", 0))
        await hosting.lead("u", 3)
        assert hosting.manager.high_watermarks() == {("t", 0): 3, ("u", 3): 0}

    run(story)


def test_a_removed_replica_leads_no_more_and_wakes_who_waits() -> None:
    async def story(hosting: Hosting) -> None:
        replica = await hosting.lead()
        waiting = hosting.purgatory.wait([replica.key], lambda: True, 60)
        assert hosting.manager.of_topic("t") == [replica]
        assert hosting.manager.remove("t", 0) is replica
        assert hosting.manager.remove("t", 0) is None
        assert hosting.manager.of_topic("t") == []
        assert not hosting.manager._of_topics
        assert not replica.partition.is_leader
        await settle()
        assert waiting.done()

    run(story)
