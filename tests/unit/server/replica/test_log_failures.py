"""What becomes of a disk that fails."""

from __future__ import annotations

import pytest

from kavka.log.memfs import Fault
from kavka.wire.errors import ErrorCode as Code
from support.refusals import refusal
from support.replicas import DATA, Hosting, append, stopping
from support.virtual import settle


async def test_a_failed_write_takes_the_partition_offline(
    two_dirs: Hosting, caplog: pytest.LogCaptureFixture
) -> None:
    hosting = two_dirs
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
    hosting.manager.failures.storage_failed(replica, OSError("again"))
    hosting.manager.failures.directory_failed(DATA, OSError("again"))
    assert caplog.messages[0].startswith("can't write to t-0")
    assert caplog.messages[1].startswith("log directory /data with 1 logs is offline")
    assert len(caplog.messages) == 2


async def test_with_a_partition_goes_its_directory(two_dirs: Hosting) -> None:
    hosting = two_dirs
    replicas = [await hosting.lead("t", index) for index in range(4)]
    told: list[list[str]] = []
    hosting.manager.failures.on_failure = lambda: told.append(hosting.logs.online_directories)
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


async def test_a_directory_that_fails_while_a_flush_is_under_way(hosting: Hosting) -> None:
    """What the thread brings back says nothing of a log that is not served any more."""
    hosting.overrides.in_tree["t"] = {"flush.messages": "1"}
    replica = await hosting.lead()
    hosting.jobs.hold("FlushPlan.run")
    append(replica)
    await settle()
    hosting.manager.failures.directory_failed(DATA, OSError("broken"))
    hosting.jobs.release()
    await hosting.manager.flusher.wait_idle()
    assert (replica.partition.flushed_end, replica.flushing) == (0, False)


async def test_a_failed_fsync_does_so_too(hosting: Hosting) -> None:
    hosting.overrides.in_tree["t"] = {"flush.messages": "1"}
    replica = await hosting.lead()
    hosting.fs.faults.append(Fault("sync", ".log"))
    append(replica)
    await hosting.manager.flusher.wait_idle()
    assert replica.offline and not replica.flushing
    assert replica.partition.flushed_end == 0


async def test_a_fsync_that_fails_after_the_partition_was_deleted(hosting: Hosting) -> None:
    hosting.overrides.in_tree["t"] = {"flush.messages": "1"}
    replica = await hosting.lead()
    hosting.jobs.hold("FlushPlan.run")
    append(replica)
    await settle()
    await hosting.port.stop_replica(stopping())
    hosting.fs.faults.append(Fault("sync", ".log"))
    hosting.jobs.release()
    await hosting.manager.flusher.wait_idle()
    assert list(hosting.manager) == []
