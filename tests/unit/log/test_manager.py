"""Log directories: whose they are, what is in them, and the files that speak of all logs."""

from __future__ import annotations

import errno
import os
import random
from pathlib import Path
from uuid import UUID

import pytest

from kavka.log.deferred_deletes import remove_paths
from kavka.log.dir_names import MetaProperties
from kavka.log.errors import StorageError
from kavka.log.fs import FileSystem, OsFs
from kavka.log.manager import LogManager
from kavka.log.memfs import Fault, MemFs
from kavka.wire.steps import run_at_once
from support import logs
from support.logs import TOPIC_ID, Broker
from support.virtual import VirtualClock

META = MetaProperties("vPeOCWypqUOSepEvx0cbog", 3)


def manager(fs: FileSystem, *directories: str) -> LogManager:
    return LogManager(fs, directories, clock=VirtualClock(), random=random.Random(0))


def start(fs: FileSystem, *directories: str) -> LogManager:
    log_manager = manager(fs, *directories)
    log_manager.open()
    logs.load_all(log_manager, lambda topic: logs.settings())
    return log_manager


# --- directories


def test_a_second_broker_fails_with_the_name_of_the_directory(fs: MemFs) -> None:
    first = manager(fs, "/a", "/b/deep/er/")
    assert first.open() is None
    assert first.directories == ["/a", "/b/deep/er"]
    with pytest.raises(StorageError, match="the log directory /b/deep/er is in use"):
        manager(fs, "/c", "/b/deep/er").open()
    first.unlock()
    manager(fs, "/c", "/b/deep/er").open()


def test_meta_properties_name_the_owner_of_the_directories(fs: MemFs) -> None:
    first = manager(fs, "/a")
    assert first.open() is None
    first.claim(META)
    first.unlock()
    second = manager(fs, "/a", "/b")
    assert second.open() == META
    second.claim(META)
    owners = [fs.read_bytes(f"/{name}/meta.properties").splitlines()[:3] for name in "ab"]
    assert owners[0] == owners[1]
    assert b"cluster.id=vPeOCWypqUOSepEvx0cbog\n" in fs.read_bytes("/a/meta.properties")
    second.unlock()
    third = manager(fs, "/c")
    third.open()
    third.claim(MetaProperties("another", 3))
    third.unlock()
    with pytest.raises(StorageError, match="different brokers or clusters: /a, /c"):
        manager(fs, "/a", "/c").open()


def test_broken_meta_properties_are_reported(fs: MemFs) -> None:
    fs.make_dir("/a")
    fs.create("/a/meta.properties")
    with pytest.raises(StorageError, match="/a/meta.properties is corrupt"):
        manager(fs, "/a").open()


def test_a_directory_survives_a_power_failure_with_what_was_flushed(fs: MemFs) -> None:
    log_manager = manager(fs, "/new/data")
    log_manager.open()
    log_manager.claim(META)
    fs.crash()
    assert manager(fs, "/new/data").open() == META


def test_unexpected_directories_are_refused(fs: MemFs) -> None:
    fs.make_dir("/a/lost+found")
    fs.make_dir("/a/.snapshots")
    with pytest.raises(StorageError, match=r"/a/lost\+found is not named <topic>-<partition>"):
        start(fs, "/a")


def test_one_partition_in_two_directories(fs: MemFs) -> None:
    fs.make_dir("/a/t-0")
    fs.make_dir("/b/t-0")
    with pytest.raises(StorageError, match="t-0 is in /a and in /b"):
        start(fs, "/a", "/b")


# --- logs


def test_create_and_get(broker: Broker, fs: MemFs) -> None:
    assert broker.logs.get("t", 0) is None
    log = broker.logs.create("t", 0, TOPIC_ID, broker.settings)
    assert broker.logs.get("t", 0) is log
    assert (log.topic, log.partition, log.topic_id) == ("t", 0, TOPIC_ID)
    assert fs.list_dir("/data/t-0") == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
        "partition.metadata",
    ]
    with pytest.raises(StorageError, match="the log of t-0 already exists"):
        broker.logs.create("t", 0, TOPIC_ID, broker.settings)
    fs.make_dir("/data/other-1")
    with pytest.raises(StorageError, match="/data/other-1 already exists"):
        broker.logs.create("other", 1, TOPIC_ID, broker.settings)


def test_the_settings_are_those_of_the_topic(fs: MemFs) -> None:
    log_manager = start(fs, "/a")
    log_manager.create("small", 0, TOPIC_ID, logs.settings())
    log_manager.create("large", 0, TOPIC_ID, logs.settings())
    log_manager.close()
    again = manager(fs, "/a")
    again.open()
    logs.load_all(
        again, lambda topic: logs.settings(segment_bytes=len(topic) * 1000 + topic.count("s"))
    )
    assert {log.topic: log.settings.segment_bytes for log in again} == {
        "small": 5001,
        "large": 5000,
    }
    assert len(again) == 2


def test_a_new_log_is_placed_in_the_directory_with_the_fewest_logs(fs: MemFs) -> None:
    log_manager = start(fs, "/a", "/b")
    for partition in range(5):
        log_manager.create("t", partition, TOPIC_ID, logs.settings())
    assert [log.directory for log in log_manager] == [
        "/a/t-0",
        "/b/t-1",
        "/a/t-2",
        "/b/t-3",
        "/a/t-4",
    ]
    log_manager.delete("t", 0)
    log_manager.delete("t", 2)
    assert log_manager.create("t", 9, TOPIC_ID, logs.settings()).directory == "/a/t-9"
    log_manager.close()
    again = start(fs, "/b", "/a")
    found = {log.partition: log.directory for log in again}
    assert found == {1: "/b/t-1", 3: "/b/t-3", 4: "/a/t-4", 9: "/a/t-9"}


def test_logs_by_directory(fs: MemFs) -> None:
    log_manager = start(fs, "/a", "/b", "/c")
    assert log_manager.by_directory() == {"/a": [], "/b": [], "/c": []}
    first = log_manager.create("t", 0, TOPIC_ID, logs.settings())
    second = log_manager.create("t", 1, TOPIC_ID, logs.settings())
    assert log_manager.by_directory() == {"/a": [first], "/b": [second], "/c": []}
    log_manager.delete("t", 0)
    assert log_manager.fail("/b", OSError(errno.EIO, "broken")) == [second]
    assert log_manager.by_directory() == {"/a": [], "/c": []}


def test_absolute_paths_and_volumes_of_directories(fs: MemFs) -> None:
    log_manager = start(fs, "a")
    assert log_manager.absolute("a") == "/a"
    assert log_manager.volume("a") == fs.volume("/a")


def test_a_failed_creation_leaves_no_files(broker: Broker, fs: MemFs) -> None:
    fs.faults = [Fault("create", ".timeindex", error=errno.ENOSPC)]
    with pytest.raises(OSError):
        broker.log()
    assert broker.logs.get("t", 0) is None
    assert not fs.exists("/data/t-0")
    logs.fill(broker.log(), 1)


def test_topic_ids_persist_and_can_not_change(broker: Broker, fs: MemFs) -> None:
    broker.log()
    broker.restart()
    log = broker.log()
    assert log.topic_id == TOPIC_ID
    broker.logs.assign_topic_id(log, TOPIC_ID)
    with pytest.raises(StorageError, match="/data/t-0 belongs to the topic id"):
        broker.logs.assign_topic_id(log, UUID(int=5))
    for content in (b"", bytes(43), b"version: 0\ntopic_id: x"):
        broker.logs.close()
        fs.create("/data/t-0/partition.metadata").pwrite(content, 0)
        broker.start()
        log = broker.log()
        assert log.topic_id is None
        broker.logs.assign_topic_id(log, TOPIC_ID)
        broker.kill()
        assert broker.log().topic_id == TOPIC_ID


def test_deleting(broker: Broker, fs: MemFs) -> None:
    logs.fill(broker.log(), 3)
    logs.fill(broker.log("t", 1), 3)
    found = broker.log().read(0, 1000, upto=3, at_least_one=True)
    broker.logs.delete("t", 0)
    assert broker.logs.get("t", 0) is None
    [renamed] = [name for name in fs.list_dir("/data") if name.endswith("-delete")]
    prefix, _, unique = renamed.removesuffix("-delete").partition(".")
    assert prefix == "t-0" and len(bytes.fromhex(unique)) == 16
    assert found is not None and len(logs.parse(logs.bytes_of(found))) == 3, "who reads goes on"
    fresh = broker.log()
    assert fresh.end_offset == 0
    logs.purge(broker.logs)
    assert [name for name in fs.list_dir("/data") if name.endswith("-delete")] == []
    assert len(logs.read_from(broker.log("t", 1))) == 3


def test_deleted_logs_are_removed_after_a_restart(broker: Broker, fs: MemFs) -> None:
    logs.fill(broker.log(), 3)
    broker.logs.delete("t", 0)
    broker.kill()
    assert len(broker.logs) == 0
    paths = broker.logs.deferred_deletes.due(0)
    assert paths and broker.logs.deferred_deletes.take_all() == []
    remove_paths(fs, paths)
    remove_paths(fs, paths)
    assert not [name for name in fs.list_dir("/data") if name.startswith("t-")]


def test_checkpoints_of_a_deleted_log_do_not_apply_to_a_new_one(broker: Broker, fs: MemFs) -> None:
    """Checkpoints that name a deleted log may not speak of one made later."""
    for how in ("at once", "after a kill"):
        log = broker.log()
        logs.fill(log, 50)
        log.start_offset = 40
        logs.flush(log)
        broker.logs.checkpoint({}).run()
        assert b"t 0 40" in fs.read_bytes("/data/log-start-offset-checkpoint")
        broker.logs.delete("t", 0)
        if how == "after a kill":
            broker.kill()
        logs.fill(broker.log(), 45)
        broker.kill()
        log = broker.log()
        assert (log.start_offset, log.recovery_point, log.end_offset) == (0, 0, 45)
        broker.logs.delete("t", 0)


@pytest.mark.parametrize("second", ["none", "begins after it is deleted", "ends before"])
def test_a_superseded_checkpoint_does_not_write_deleted_logs(
    broker: Broker, fs: MemFs, second: str
) -> None:
    """One is under way in a thread while a log is deleted and recreated; or two."""
    log = broker.log()
    logs.fill(log, 50)
    log.start_offset = 40
    slow = broker.logs.checkpoint({})
    if second == "ends before":
        broker.logs.checkpoint({}).run()
    broker.logs.delete("t", 0)
    if second == "begins after it is deleted":
        broker.logs.checkpoint({}).run()
    broker.log()
    slow.run()
    assert fs.read_bytes("/data/log-start-offset-checkpoint") == b"0\n0\n"
    assert not slow.done
    assert not [name for name in fs.list_dir("/data") if name.endswith(".tmp")]


# --- directories that fail


BROKEN = OSError(errno.EIO, "broken")


def test_a_failed_directory_is_used_no_more(fs: MemFs) -> None:
    log_manager = start(fs, "/a", "/b")
    kept, lost = [log_manager.create("t", index, TOPIC_ID, logs.settings()) for index in range(2)]
    for log in (kept, lost):
        logs.fill(log, 3)
    assert log_manager.fail("/b", BROKEN) == [lost]
    assert log_manager.fail("/b", OSError("again")) == []
    lost.release()
    assert log_manager.failed_directories == {"/b": BROKEN}
    assert (log_manager.directories, log_manager.online_directories) == (["/a", "/b"], ["/a"])
    assert log_manager.get("t", 0) is kept and log_manager.get("t", 1) is None
    for index in range(2, 5):
        assert (
            log_manager.create("t", index, TOPIC_ID, logs.settings()).directory == f"/a/t-{index}"
        )
    log_manager.checkpoint({}).run()
    log_manager.close()
    assert fs.exists("/a/.kafka_cleanshutdown")
    assert not fs.exists("/b/.kafka_cleanshutdown")
    assert not fs.exists("/b/recovery-point-offset-checkpoint"), "nothing is written there"
    again = start(fs, "/a", "/b")
    assert sorted(log.directory for log in again)[-1] == "/b/t-1"
    found = again.get("t", 1)
    assert found is not None and len(logs.read_from(found)) == 3


@pytest.mark.parametrize(
    "fault",
    [
        Fault("make_dir", "/b"),
        Fault("lock", "/b/.lock"),
        Fault("read_bytes", "/b/meta.properties"),
        Fault("remove", "/b/.kafka_cleanshutdown", error=errno.EROFS),
        Fault("read_bytes", "/b/recovery-point-offset-checkpoint"),
        Fault("list_dir", "/b"),
        Fault("list_dir", "/b/t-1"),
        Fault("pread", "/b/t-1/00000000000000000000.log"),
        Fault("read_bytes", "/b/t-1/partition.metadata"),
    ],
    ids=lambda fault: f"{fault.op} {fault.suffix}",
)
def test_a_directory_that_fails_at_the_start(fs: MemFs, fault: Fault) -> None:
    log_manager = start(fs, "/a", "/b")
    log_manager.claim(META)
    for index in range(3):
        logs.fill(log_manager.create("t", index, TOPIC_ID, logs.settings()), 3)
    log_manager.close()
    if fault.op == "make_dir":
        fs.remove_tree("/b")
    fs.faults = [fault]
    again = manager(fs, "/a", "/b")
    assert again.open() == META
    again.claim(META)
    logs.load_all(again, lambda topic: logs.settings())
    assert list(again.failed_directories) == ["/b"]
    assert sorted(log.directory for log in again) == ["/a/t-0", "/a/t-2"]
    assert again.create("t", 5, TOPIC_ID, logs.settings()).directory == "/a/t-5"


def test_without_any_directory_there_is_no_broker(fs: MemFs) -> None:
    fs.faults = [Fault("lock", ".lock", error=errno.EROFS, times=2)]
    with pytest.raises(StorageError, match="none of the log directories can be used: /a: .*; /b:"):
        manager(fs, "/a", "/b").open()
    log_manager = manager(fs, "/a")
    log_manager.open()
    fs.faults = [Fault("list_dir", "/a", error=errno.EIO)]
    with pytest.raises(StorageError, match="none of the log directories can be used: /a"):
        logs.load_all(log_manager, lambda topic: logs.settings())


def test_a_failing_checkpoint_is_reported_by_directory(fs: MemFs) -> None:
    log_manager = start(fs, "/a", "/b")
    for index in range(2):
        log_manager.create("t", index, TOPIC_ID, logs.settings())
    fs.faults = [Fault("create", ".1.tmp", error=errno.ENOSPC)]
    plan = log_manager.checkpoint({("t", 0): 0, ("t", 1): 0})
    plan.run()
    assert [(path, error.errno) for path, error in plan.failures.items()] == [("/a", errno.ENOSPC)]
    assert fs.read_bytes("/b/replication-offset-checkpoint") == b"0\n1\nt 1 0\n"
    assert plan.done


def test_the_next_directory(fs: MemFs) -> None:
    log_manager = start(fs, "/a", "/b")
    assert log_manager.next_directory() == "/a"
    log_manager.create("t", 0, TOPIC_ID, logs.settings())
    assert log_manager.next_directory() == "/b"
    log_manager.fail("/b", BROKEN)
    assert log_manager.next_directory() == "/a"
    log_manager.fail("/a", BROKEN)
    assert log_manager.next_directory() is None
    with pytest.raises(StorageError, match="none of the log directories"):
        log_manager.create("t", 1, TOPIC_ID, logs.settings())


def test_paths_that_can_not_be_removed_are_logged_and_left(
    fs: MemFs, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("/a/one", "/a/two"):
        fs.make_dir("/a")
        fs.create(name)
    fs.faults = [Fault("remove", "/a/one", error=errno.EROFS)]
    remove_paths(fs, ["/a/one", "/a/two"])
    assert fs.list_dir("/a") == ["one"]
    assert "can't remove /a/one" in caplog.text


# --- checkpoints and the end


def test_checkpoints(fs: MemFs) -> None:
    broker = Broker(fs)
    for partition in range(2):
        log = broker.log("t", partition)
        logs.fill(log, 5)
        logs.flush(log)
    broker.log().start_offset = 2
    logs.fill(broker.log(), 5)
    broker.logs.checkpoint({("t", 0): 7, ("t", 1): 5, ("gone", 0): 1}).run()
    assert fs.read_bytes("/data/recovery-point-offset-checkpoint") == b"0\n2\nt 0 5\nt 1 5\n"
    assert fs.read_bytes("/data/log-start-offset-checkpoint") == b"0\n1\nt 0 2\n"
    assert fs.read_bytes("/data/replication-offset-checkpoint") == b"0\n2\nt 0 7\nt 1 5\n"
    broker.crash()
    assert broker.logs.high_watermarks() == {("t", 0): 7, ("t", 1): 5}
    assert broker.log().start_offset == 2
    assert broker.log().recovery_point == 5


def test_checkpoints_are_written_per_directory(fs: MemFs) -> None:
    log_manager = start(fs, "/a", "/b")
    for partition in range(2):
        log_manager.create("t", partition, TOPIC_ID, logs.settings())
    log_manager.checkpoint({("t", 0): 0, ("t", 1): 0}).run()
    for directory, partition in (("/a", 0), ("/b", 1)):
        for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
            assert fs.read_bytes(f"{directory}/{name}") == b"0\n1\nt %d 0\n" % partition


@pytest.mark.parametrize("content", [b"", b"garbage", bytes(100), b"0\n5\nt 0 1\n"])
def test_corrupt_checkpoints_are_ignored(
    broker: Broker, fs: MemFs, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    logs.fill(broker.log(), 5)
    broker.logs.checkpoint({("t", 0): 5}).run()
    for name in ("recovery-point", "log-start", "replication"):
        fs.create(f"/data/{name}-offset-checkpoint").pwrite(content, 0)
    broker.kill()
    assert broker.logs.high_watermarks() == {}
    assert len(logs.read_from(broker.log())) == 5
    assert not content or "recovery-point-offset-checkpoint is corrupt" in caplog.text


def test_a_truncation_is_on_the_disk_before_the_next_append(fs: MemFs) -> None:
    broker = Broker(fs, log_settings=logs.settings(segment_bytes=500))
    log = broker.log()
    logs.fill(log, 20)
    logs.flush(log)
    broker.logs.checkpoint({}).run()
    run_at_once(broker.logs.truncate_in_steps(log, 5))
    assert fs.read_bytes("/data/recovery-point-offset-checkpoint") == b"0\n1\nt 0 5\n"


def test_an_orderly_stop(broker: Broker, fs: MemFs) -> None:
    logs.fill(broker.log(), 4)
    logs.append(broker.log(), logs.batch([b"5"], producer=logs.Producer(7, 0, 0)))
    logs.fill(broker.log("without-producers"), 1)
    broker.logs.close({("t", 0): 4})
    assert fs.exists("/data/.kafka_cleanshutdown")
    assert fs.list_dir("/data/t-0")[2:4] == [
        "00000000000000000000.timeindex",
        "00000000000000000005.snapshot",
    ]
    left = fs.list_dir("/data/without-producers-0")
    assert not [name for name in left if name.endswith("snapshot")]
    fs.crash()
    broker.start()
    assert not fs.exists("/data/.kafka_cleanshutdown")
    assert broker.logs.high_watermarks() == {("t", 0): 4}
    log = broker.log()
    assert (log.end_offset, log.recovery_point) == (5, 5)
    logs.fill(log, 3, start=5)
    broker.crash()
    assert broker.log().end_offset == 5, "the marker of an earlier stop does not come back"


def test_an_abandoned_directory_is_as_after_sigkill(broker: Broker, fs: MemFs) -> None:
    log = broker.logs.create("t", 0, TOPIC_ID, broker.settings)
    logs.fill(log, 3)
    before = fs.list_dir("/data")
    broker.logs.abandon()
    assert len(broker.logs) == 0
    assert fs.list_dir("/data") == before
    assert ".kafka_cleanshutdown" not in before
    start(fs, "/data")  # the lock is free
    broker.logs.abandon()  # nothing to do


def test_a_stop_that_fails_leaves_no_marker(
    broker: Broker, fs: MemFs, caplog: pytest.LogCaptureFixture
) -> None:
    logs.fill(broker.log(), 5)
    fs.faults = [Fault("sync", ".log")]
    broker.logs.close()
    assert "clean close of /data/t-0 failed" in caplog.text
    assert not fs.exists("/data/.kafka_cleanshutdown")
    broker.start()
    assert broker.log().end_offset == 5


def test_many_logs_share_few_open_files(tmp_path: Path) -> None:
    fs, directory = OsFs(), str(tmp_path)
    log_manager = LogManager(
        fs, [directory], clock=VirtualClock(), random=random.Random(0), open_files_max=5
    )
    log_manager.open()
    before = len(os.listdir("/proc/self/fd"))
    logs.load_all(log_manager, lambda topic: logs.settings())
    for partition in range(40):
        logs.fill(log_manager.create("t", partition, TOPIC_ID, logs.settings()), 2)
    for log in log_manager:
        logs.fill(log, 2, start=2)
        assert len(logs.read_from(log)) == 4
    assert len(os.listdir("/proc/self/fd")) - before <= 5
    log_manager.close()
    assert [log.end_offset for log in start(fs, directory)] == [4] * 40
