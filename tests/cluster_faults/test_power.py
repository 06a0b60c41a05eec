"""What is not synced is lost with the power, and nothing else."""

from __future__ import annotations

import pickle
import random
from pathlib import Path

import pytest

from cluster_faults.broken_fs import BrokenFs, broken_fs
from cluster_faults.power import cut, unsynced

SEEDS = range(20)


class Machine:
    """A data directory, and who writes in it."""

    def __init__(self, home: Path) -> None:
        self.data = home / "data"
        self.data.mkdir()
        self.notes = home / "synced"
        self._control = str(home / "control")
        self.start()

    def start(self) -> None:
        """Another life of the broker."""
        self.notes.unlink(missing_ok=True)
        self.fs: BrokenFs = broken_fs(self._control, str(self.notes))

    def path(self, name: str) -> str:
        return str(self.data / name)

    def cut(self, seed: int = 0) -> dict[str, bytes]:
        """The power; what is left of each file, without zeros at its end."""
        cut(self.data, self.notes, random.Random(seed))
        return {file.name: file.read_bytes().rstrip(b"\0") for file in self.data.iterdir()}


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_what_is_synced_stays(machine: Machine) -> None:
    file = machine.fs.create(machine.path("a"))
    file.pwrite(b"synced", 0)
    file.sync()
    assert machine.cut() == {"a": b"synced"}


def test_what_is_not_synced_is_lost(machine: Machine) -> None:
    file = machine.fs.create(machine.path("a"))
    file.pwrite(b"synced", 0)
    file.sync()
    file.pwrite(b" and not", 6)
    machine.fs.create(machine.path("b")).pwrite(b"not", 0)
    assert machine.cut() == {"a": b"synced", "b": b""}


def test_it_is_missing_or_zeros(machine: Machine) -> None:
    sizes = set()
    for seed in SEEDS:
        machine.fs.create(machine.path("a")).pwrite(b"not", 0)
        assert machine.cut(seed) == {"a": b""}
        sizes.add((machine.data / "a").stat().st_size)
    assert sizes == {0, 3}


def test_what_was_there_at_the_start_stays(machine: Machine) -> None:
    machine.fs.create(machine.path("a")).pwrite(b"before", 0)
    machine.start()
    machine.fs.open(machine.path("a")).pwrite(b" and after", 6)
    assert machine.cut() == {"a": b"before"}


def test_what_is_written_again_after_a_truncation_is_lost(machine: Machine) -> None:
    file = machine.fs.create(machine.path("a"))
    file.pwrite(b"one two", 0)
    file.sync()
    file.truncate(4)
    file.pwrite(b"three", 4)
    assert machine.cut() == {"a": b"one "}


def test_a_file_that_is_replaced(machine: Machine) -> None:
    machine.fs.write_atomic(machine.path("a"), b"old", sync=True)
    machine.fs.write_atomic(machine.path("b"), b"old", sync=True)
    machine.fs.write_atomic(machine.path("a"), b"new", sync=True)
    machine.fs.write_atomic(machine.path("b"), b"new", sync=False)
    assert machine.cut() == {"a": b"new", "b": b""}


def test_a_file_is_synced_by_its_name(machine: Machine) -> None:
    machine.fs.write_atomic(machine.path("a"), b"new", sync=False)
    machine.fs.sync_file(machine.path("a"))
    assert machine.cut() == {"a": b"new"}


def test_a_file_has_the_inode_of_one_that_was_removed(machine: Machine) -> None:
    for name in ("a", "b", "c"):
        machine.fs.create(machine.path(name)).pwrite(b"not", 0)
    machine.fs.remove(machine.path("a"))
    Path(machine.path("other")).write_bytes(b"of another process, perhaps with the inode")
    machine.fs.open(machine.path("other")).pwrite(b"OF", 0)
    assert machine.cut()["other"].startswith(b"OF another process")


def test_a_child_process_notes_what_it_syncs(machine: Machine) -> None:
    child = pickle.loads(pickle.dumps(machine.fs))
    file = child.create(machine.path("a"))
    file.pwrite(b"synced", 0)
    file.sync()
    file.pwrite(b" and not", 6)
    assert [(path.name, size) for path, size in unsynced(machine.data, machine.notes)] == [("a", 6)]
