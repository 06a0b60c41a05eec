"""The file system that fails: what a power failure, a full disk and a failing call leave."""

from __future__ import annotations

import errno
import random

import pytest

from kavka.log.memfs import SECTOR_BYTES, Died, Fault, MemFs


@pytest.fixture
def fs() -> MemFs:
    found = MemFs()
    found.make_dir("/d")
    found.sync_dir("/")
    return found


def test_a_power_failure_loses_unsynced_data(fs: MemFs) -> None:
    file = fs.create("/d/f")
    file.pwrite(b"synced", 0)
    file.sync()
    fs.sync_dir("/d")
    file.pwrite(b"SYN", 0)
    file.pwrite(b" and more", 6)
    fs.create("/d/g")
    fs.crash()
    assert fs.list_dir("/d") == ["f"]
    assert fs.read_bytes("/d/f") == b"synced"


def test_a_name_needs_its_directory_synced(fs: MemFs) -> None:
    file = fs.create("/d/f")
    file.pwrite(b"data", 0)
    file.sync()
    fs.crash()
    assert fs.list_dir("/d") == []


def test_a_kill_keeps_what_was_written(fs: MemFs) -> None:
    file = fs.create("/d/f")
    file.pwrite(b"data", 0)
    fs.lock("/d/.lock")
    fs.kill()
    assert fs.read_bytes("/d/f") == b"data"
    fs.lock("/d/.lock")
    with pytest.raises(OSError) as refused:
        file.pread(1, 0)
    assert refused.value.errno == errno.EBADF


def test_torn_writes_keep_whole_sectors() -> None:
    outcomes = set()
    for seed in range(50):
        fs = MemFs()
        file = fs.create("/f")
        file.pwrite(b"o" * 3 * SECTOR_BYTES, 0)
        file.sync()
        fs.sync_dir("/")
        file.pwrite(b"n" * 2 * SECTOR_BYTES, SECTOR_BYTES // 2)
        fs.crash(random.Random(seed))
        data = fs.read_bytes("/f")
        assert len(data) == 3 * SECTOR_BYTES
        half = SECTOR_BYTES // 2
        parts = (data[half : 2 * half], data[2 * half : 4 * half], data[4 * half : 5 * half])
        assert all(part.strip(b"n") == b"" or part.strip(b"o") == b"" for part in parts)
        outcomes.add("".join(chr(part[0]) for part in parts))
    assert {"nnn", "ooo"} < outcomes and len(outcomes) > 4


def test_directory_changes_survive_in_order() -> None:
    seen = set()
    for seed in range(30):
        fs = MemFs()
        fs.create("/a")
        fs.rename("/a", "/b")
        fs.create("/c")
        fs.crash(random.Random(seed))
        seen.add(tuple(fs.list_dir("/")))
    assert seen == {(), ("a",), ("b",), ("b", "c")}


def test_a_crash_is_repeatable_by_its_seed() -> None:
    def run() -> bytes:
        fs = MemFs()
        file = fs.create("/f")
        fs.sync_dir("/")
        for number in range(20):
            file.pwrite(bytes([number]) * 1000, number * 700)
        fs.crash(random.Random(5))
        return fs.read_bytes("/f")

    assert run() == run()


def test_a_full_disk_writes_a_part(fs: MemFs) -> None:
    fs.capacity_bytes = 10
    file = fs.create("/d/f")
    file.pwrite(b"123456", 0)
    with pytest.raises(OSError) as full:
        file.pwrite(b"abcdef", 6)
    assert full.value.errno == errno.ENOSPC
    assert file.pread(100, 0) == b"123456abcd"
    file.truncate(6)
    file.pwrite(b"abc", 6)
    fs.remove("/d/f")
    fs.create("/d/g").pwrite(bytes(10), 0)


def test_the_volume_is_as_big_as_its_capacity(fs: MemFs) -> None:
    fs.capacity_bytes = 100
    assert fs.volume("/d") == (100, 100)
    fs.create("/d/f").pwrite(bytes(30), 0)
    assert fs.volume("/d") == (100, 70)


def test_a_failed_fsync_loses_the_pages_permanently(fs: MemFs) -> None:
    file = fs.create("/d/f")
    file.sync()
    fs.sync_dir("/d")
    file.pwrite(b"lost", 0)
    fs.faults = [Fault("sync", "f")]
    with pytest.raises(OSError):
        file.sync()
    file.sync()
    assert fs.read_bytes("/d/f") == b"lost"
    fs.crash()
    assert fs.read_bytes("/d/f") == b""


def test_faults_count_their_calls(fs: MemFs) -> None:
    fs.faults = [Fault("create", ".log", error=errno.EACCES, times=2, skip=1)]
    fs.create("/d/a.log")
    fs.create("/d/a.index")
    for _ in range(2):
        with pytest.raises(PermissionError):
            fs.create("/d/b.log")
    fs.create("/d/b.log")


def test_files_that_are_not_in_memory(fs: MemFs) -> None:
    file = fs.create("/d/f")
    file.pwrite(b"data", 0)
    fs.cached = False
    buffer = memoryview(bytearray(4))
    assert file.read_cached(buffer, 0) is None
    assert file.read_into(buffer, 0) == 4


def test_a_process_may_end_in_the_middle_of_a_write(fs: MemFs) -> None:
    file = fs.create("/d/f")
    file.pwrite(b"before", 0)
    fs.dies_after = 1
    file.pwrite(b"12", 6)
    for _ in range(2):
        with pytest.raises(Died):
            file.pwrite(b"abcdef", 8)
    with pytest.raises(Died):
        fs.rename("/d/f", "/d/g")
    assert fs.read_bytes("/d/f") == b"before12abc", "looking changes nothing"
    fs.kill()
    fs.open("/d/f").pwrite(b"after", 0)


def test_a_tree_is_removed_file_by_file(fs: MemFs) -> None:
    fs.make_dir("/d/e/f")
    for name in ("a", "e/b", "e/f/c"):
        fs.create(f"/d/{name}").pwrite(b"x", 0)
    fs.dies_after = 2
    with pytest.raises(Died):
        fs.remove_tree("/d")
    assert fs.list_dir("/d") == ["e"] and fs.list_dir("/d/e") == ["f"]
    fs.kill()
    fs.remove_tree("/d")
    assert not fs.exists("/d")


def test_bits_that_flip_are_other_bits_on_the_disk_too(fs: MemFs) -> None:
    file = fs.create("/d/f")
    file.pwrite(b"ab", 0)
    file.sync()
    fs.sync_dir("/d")
    fs.flip_bit("/d/f", 8)
    assert fs.read_bytes("/d/f") == b"ac"
    fs.crash()
    assert fs.read_bytes("/d/f") == b"ac"
