"""One log directory and its own files."""

from __future__ import annotations

import errno
import random
from typing import Any

import pytest

from kavka.log.dir_names import MetaProperties
from kavka.log.errors import CorruptFileError, StorageError
from kavka.log.log_dir import CheckpointPlan, LogDirectory
from kavka.log.memfs import Fault, MemFs

META = MetaProperties("vPeOCWypqUOSepEvx0cbog", 3)


@pytest.fixture
def directory(fs: MemFs) -> LogDirectory:
    log_directory = LogDirectory(fs, "/a/b")
    assert log_directory.open() is None
    return log_directory


def test_a_log_directory_is_created_and_locked(fs: MemFs, directory: LogDirectory) -> None:
    with pytest.raises(StorageError, match="/a/b is in use by another broker"):
        LogDirectory(fs, "/a/b").open()
    directory.unlock()
    directory.unlock()
    fs.crash()
    assert LogDirectory(fs, "/a/b").open() is None, "its name is on the disk"


def test_meta_properties_are_written_once(fs: MemFs, directory: LogDirectory) -> None:
    directory.claim(META, random.Random(0))
    first_id = directory.id
    directory.claim(MetaProperties("another", 4), random.Random(1))
    assert directory.read_meta() == META
    assert directory.id == first_id is not None
    fs.crash()
    assert LogDirectory(fs, "/a/b").open() == META
    fs.create("/a/b/meta.properties")
    with pytest.raises(CorruptFileError, match="/a/b/meta.properties"):
        directory.read_meta()


def test_the_clean_shutdown_marker_is_used_once(fs: MemFs, directory: LogDirectory) -> None:
    assert not directory.consume_clean_shutdown_marker()
    directory.write_clean_shutdown_marker()
    fs.crash()
    assert directory.consume_clean_shutdown_marker()
    assert not directory.consume_clean_shutdown_marker()
    fs.crash()
    assert not directory.consume_clean_shutdown_marker(), (
        "it does not come back with a power failure"
    )


def test_the_logs_in_a_directory(fs: MemFs, directory: LogDirectory) -> None:
    for name in ("t-0", "t-0.0123456789abcdef0123456789abcdef-delete", "u.v-12", "w-0-stray"):
        fs.make_dir(f"/a/b/{name}")
    fs.create("/a/b/recovery-point-offset-checkpoint.4.tmp")
    under_way = "coordination.snapshot.tmp"  # the coordination service is writing it
    fs.create(f"/a/b/{under_way}")
    found = directory.list_content()
    assert found.logs == [("t", 0), ("u.v", 12)]
    assert found.deleted == ["/a/b/t-0.0123456789abcdef0123456789abcdef-delete"]
    assert fs.list_dir("/a/b") == [
        ".lock",
        under_way,
        "t-0",
        "t-0.0123456789abcdef0123456789abcdef-delete",
        "u.v-12",
        "w-0-stray",
    ]
    fs.make_dir("/a/b/lost+found")
    with pytest.raises(StorageError, match=r"/a/b/lost\+found"):
        directory.list_content()


def test_checkpoints(fs: MemFs, directory: LogDirectory) -> None:
    assert directory.read_offsets("x-checkpoint") == {}
    plan = CheckpointPlan(fs, 1)
    plan.add(directory, {"x-checkpoint": ["t 0 7", "u 1 0"]})
    plan.run()
    assert plan.done and not plan.failures
    fs.crash()
    assert directory.read_offsets("x-checkpoint") == {("t", 0): 7, ("u", 1): 0}
    assert fs.read_bytes("/a/b/x-checkpoint") == b"0\n2\nt 0 7\nu 1 0\n"


def test_a_superseded_plan_changes_nothing(fs: MemFs, directory: LogDirectory) -> None:
    plan = CheckpointPlan(fs, 1)
    plan.add(directory, {"x-checkpoint": ["t 0 7"]})
    plan.supersede()
    plan.run()
    assert not plan.done
    assert fs.list_dir("/a/b") == [".lock"]


@pytest.mark.parametrize("when", ["create", "rename", "remove", "sync_dir"])
def test_a_plan_that_is_superseded_while_a_thread_runs_it(
    fs: MemFs, directory: LogDirectory, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if that comes between its last look at it and what it then does."""
    later, plan = CheckpointPlan(fs, 2), CheckpointPlan(fs, 1)
    plan.add(directory, {"x-checkpoint": ["t 0 7"], "y-checkpoint": []})
    later.add(directory, {"x-checkpoint": ["t 0 0"], "y-checkpoint": []})
    if when == "remove":
        plan.supersede()
    real = getattr(fs, when)

    def at_last(*args: Any) -> Any:
        monkeypatch.undo()
        plan.supersede()
        later.run()
        return real(*args)

    monkeypatch.setattr(fs, when, at_last)
    plan.run()
    assert (plan.done, plan.ended, later.done) == (False, True, True)
    assert not plan.failures
    assert directory.read_offsets("x-checkpoint") == {("t", 0): 0}
    assert fs.list_dir("/a/b") == [".lock", "x-checkpoint", "y-checkpoint"]


@pytest.mark.parametrize("op", ["create", "pwrite", "sync", "rename"])
def test_a_plan_goes_on_with_the_next_directory(
    fs: MemFs, directory: LogDirectory, op: str
) -> None:
    other = LogDirectory(fs, "/c")
    other.open()
    plan = CheckpointPlan(fs, 1)
    for log_directory in (directory, other):
        plan.add(log_directory, {"x-checkpoint": ["t 0 7"]})
    fs.faults = [Fault(op, "/a/b/x-checkpoint.1.tmp", error=errno.ENOSPC)]
    plan.run()
    assert list(plan.failures) == ["/a/b"]
    assert plan.failures["/a/b"].errno == errno.ENOSPC
    assert (directory.read_offsets("x-checkpoint"), plan.done) == ({}, True)
    assert other.read_offsets("x-checkpoint") == {("t", 0): 7}


def test_no_checkpoint_is_written_to_a_failed_directory(fs: MemFs, directory: LogDirectory) -> None:
    plan = CheckpointPlan(fs, 1)
    plan.add(directory, {"x-checkpoint": ["t 0 7"]})
    directory.failure = OSError("broken")
    plan.run()
    assert plan.done and not plan.failures
    assert fs.list_dir("/a/b") == [".lock"]
