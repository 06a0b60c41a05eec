"""Flushes of logs: when, how many at once, and those of a removed log."""

from __future__ import annotations

import pytest

from kavka.log import producer_snapshots, producer_state
from kavka.server.replica.flushing import FLUSHES_AT_ONCE_MAX
from support.replicas import DATA, Hosting, append, stopping
from support.virtual import run_until_idle


async def test_a_partition_has_one_flush_at_a_time(hosting: Hosting) -> None:
    hosting.overrides.in_tree["t"] = {"flush.messages": "1"}
    replica = await hosting.lead()
    hosting.jobs.hold()
    append(replica)
    await run_until_idle()
    append(replica)
    append(replica)
    await run_until_idle()
    assert hosting.jobs.held == ["FlushPlan.run"]
    assert replica.partition.flushed_end == 0
    hosting.jobs.release()
    await hosting.manager.flusher.wait_idle()
    assert replica.partition.flushed_end == 9
    assert hosting.jobs.done.count("FlushPlan.run") == 2
    assert not replica.flushing


async def test_concurrent_flushes_are_bounded(hosting: Hosting) -> None:
    hosting.overrides.in_tree["t"] = {"flush.messages": "1"}
    hosting.jobs.hold()
    replicas = [await hosting.lead("t", index) for index in range(FLUSHES_AT_ONCE_MAX + 3)]
    for replica in replicas:
        append(replica)
    await run_until_idle()
    assert len(hosting.jobs.held) == FLUSHES_AT_ONCE_MAX
    hosting.jobs.release()
    await hosting.manager.flusher.wait_idle()
    assert {replica.partition.flushed_end for replica in replicas} == {3}


async def test_without_flush_messages_only_rolled_segments_are_flushed(
    hosting: Hosting,
) -> None:
    hosting.overrides.in_tree["t"] = {"segment.bytes": str(1 << 20)}
    replica = await hosting.lead()
    append(replica)
    await run_until_idle()
    assert "FlushPlan.run" not in hosting.jobs.done
    replica.log.roll(hosting.clock.now_ms())
    append(replica)
    await run_until_idle()
    assert hosting.jobs.done == ["FlushPlan.run"]
    assert replica.partition.flushed_end == 3


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Snapshots of producers are written two entries at a time."""
    for module in (producer_state, producer_snapshots):
        monkeypatch.setattr(module, "ENTRIES_PER_STEP", 2)


@pytest.mark.usefixtures("small_steps")
async def test_many_producers_are_saved_in_steps_before_the_flush(
    hosting: Hosting,
) -> None:
    replica = await hosting.lead()
    for producer_id in range(9):
        append(replica, (producer_id, 0, 0))
    await run_until_idle()
    log = replica.log
    hosting.jobs.hold()
    log.roll(hosting.clock.now_ms())
    assert log.producer_manager.snapshots.is_writing
    append(replica, (1, 0, 3))
    assert log.producer_manager.snapshots.is_writing
    await run_until_idle()
    assert not log.producer_manager.snapshots.is_writing
    assert log.producer_manager.snapshots.offsets == [27]
    assert hosting.jobs.held == ["FlushPlan.run"]
    hosting.jobs.release()
    await hosting.manager.flusher.wait_idle()
    assert log.recovery_point == 27


@pytest.mark.usefixtures("small_steps")
async def test_many_producers_are_saved_before_their_last_segment_is_deleted(
    hosting: Hosting,
) -> None:
    """All segments are deleted after they were flushed: nothing else causes a flush."""
    hosting.overrides.in_tree["t"] = {"flush.messages": "1", "retention.bytes": "0"}
    replica = await hosting.lead()
    for producer_id in range(9):
        append(replica, (producer_id, 0, 0))
    await hosting.manager.flusher.wait_idle()
    log = replica.log
    assert log.recovery_point == 27 and not log.producer_manager.snapshots.offsets
    assert replica.delete_old(hosting.clock.now_ms()) == 0, "not before it is saved"
    assert not log.flush_wanted
    await run_until_idle()
    assert log.producer_manager.snapshots.offsets == [27]
    assert replica.delete_old(hosting.clock.now_ms()) == 1


@pytest.mark.usefixtures("small_steps")
async def test_producers_of_a_removed_replica_are_not_saved(hosting: Hosting) -> None:
    """The name of its directory may by then be another log's."""
    replica = await hosting.lead()
    for producer_id in range(9):
        append(replica, (producer_id, 0, 0))
    replica.log.roll(hosting.clock.now_ms())
    hosting.manager.flusher.flush_soon(replica)
    await hosting.tasks.sleep(0)
    hosting.manager.remove(*replica.key)
    await run_until_idle()
    assert replica.log.producer_manager.snapshots.offsets == []


@pytest.mark.parametrize("held", [True, False])
async def test_a_deleted_partition_is_not_flushed(
    hosting: Hosting, held: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Its files have other names then, and the old names may be those of a new partition."""
    replica = await hosting.lead()
    if held:
        hosting.jobs.hold("FlushPlan.run")
    for _ in range(2):
        append(replica)
        replica.log.roll(hosting.clock.now_ms())
        hosting.manager.flusher.flush_soon(replica)
        if held:
            await run_until_idle()
    await hosting.port.stop_replica(stopping())
    await hosting.lead()
    files = {path: hosting.fs.read_bytes(path) for path in _files(hosting)}
    hosting.jobs.release()
    await hosting.manager.flusher.wait_idle()
    assert {path: hosting.fs.read_bytes(path) for path in _files(hosting)} == files
    assert not caplog.messages
    assert not replica.offline and not replica.flushing


def _files(hosting: Hosting) -> list[str]:
    return [f"{DATA}/t-0/{name}" for name in hosting.fs.list_dir(f"{DATA}/t-0")]
