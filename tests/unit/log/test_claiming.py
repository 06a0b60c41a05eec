"""Which directories are lost, as a log manager finds out from the ids that it is handed."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kavka.log.dir_names import MetaProperties, decode_directory_id
from kavka.log.errors import StorageError
from kavka.log.fs import FileSystem, OsFs
from kavka.log.manager import LogManager
from kavka.log.memfs import Fault, MemFs
from support.virtual import VirtualClock

META = MetaProperties("vPeOCWypqUOSepEvx0cbog", 3)
KAFKA_META = b"#\n#Sun Nov 22 2026\nbroker.id=3\nversion=0\ncluster.id=vPeOCWypqUOSepEvx0cbog\n"


def manager(fs: FileSystem, *directories: str) -> LogManager:
    log_manager = LogManager(fs, directories, clock=VirtualClock(), random=random.Random())
    log_manager.open(make=())
    return log_manager


def claimed(fs: FileSystem, *directories: str) -> dict[str, str]:
    """What is recorded at a first start."""
    log_manager = manager(fs, *directories)
    try:
        return log_manager.claim(META)
    finally:
        log_manager.unlock()


def test_losing_the_only_directory_is_fatal() -> None:
    """If the record is kept elsewhere; a record in the directory itself could not reveal it."""
    fs = MemFs()
    known = claimed(fs, "/a")
    (directory_id,) = known
    fs.remove_tree("/a")
    for _ in range(2):
        lost = manager(fs, "/a")
        with pytest.raises(StorageError, match=rf"kavka\.lost\.log\.dirs={directory_id}"):
            lost.claim(META, known)
        lost.unlock()
        assert not fs.exists("/a")
    again = manager(fs, "/a")
    assert list(again.claim(META, known, [directory_id]).values()) == ["/a"]
    assert again.online_directories == ["/a"]


def test_paths_are_compared_from_the_root_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    known = claimed(OsFs(), "data")
    assert list(known.values()) == [str(tmp_path / "data")]
    again = manager(OsFs(), str(tmp_path / "data"))
    assert again.claim(META, known) == known
    assert not again.failed_directories
    again.unlock()


def test_a_directory_of_apache_kafka_gets_an_id_and_keeps_the_rest() -> None:
    fs = MemFs()
    fs.make_dir("/a")
    fs.sync_dir("/")
    fs.write_atomic("/a/meta.properties", KAFKA_META, sync=True)
    (directory_id,) = claimed(fs, "/a")
    data = fs.read_bytes("/a/meta.properties")
    assert data.startswith(KAFKA_META)
    assert decode_directory_id(data) == directory_id
    fs.crash()
    assert fs.read_bytes("/a/meta.properties") == data, "it is on the disk before it is recorded"


def test_an_unreadable_directory_is_kept_in_the_set() -> None:
    fs = MemFs()
    known = claimed(fs, "/a", "/b")
    fs.faults.append(Fault("read_bytes", "/b/meta.properties"))
    broken = manager(fs, "/a", "/b")
    assert broken.claim(META, known) == known
    assert list(broken.failed_directories) == ["/b"]
    broken.unlock()


def test_a_directory_that_was_given_up_is_removed_from_the_set() -> None:
    fs = MemFs()
    known = claimed(fs, "/a", "/b")
    lost = next(directory_id for directory_id, path in known.items() if path == "/b")
    fs.remove_tree("/b")
    log_manager = manager(fs, "/a")
    assert log_manager.claim(META, known, [lost, "anything else"]) == {
        directory_id: path for directory_id, path in known.items() if path == "/a"
    }
    assert not log_manager.failed_directories
