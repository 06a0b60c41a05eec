"""How many files are open at a time, and which are closed for others."""

from __future__ import annotations

import pytest

from kavka.log.disk import Disk
from kavka.log.errors import LoadingStopped
from kavka.log.fs import File
from kavka.log.memfs import MemFs


class FileHolder:
    def __init__(self, disk: Disk, path: str) -> None:
        self.open_file: File | None = disk.fs.create(path)
        self.used = False
        disk.files.hold(self)


def test_the_limit_of_open_files_holds_and_files_in_use_stay_open() -> None:
    disk = Disk(MemFs(), open_files_max=3, index_cache_bytes=0)
    holders = [FileHolder(disk, f"/{number}") for number in range(3)]
    assert len(disk.files) == 3
    for holder in holders:
        holder.used = False
    holders[0].used = True
    held = holders[1].open_file
    holders += [FileHolder(disk, "/3")]
    assert len(disk.files) == 3
    assert [holder.open_file is not None for holder in holders] == [True, False, True, True]
    assert held is not None
    held.pwrite(b"still open for its readers", 0)
    for number in range(4, 50):
        holders.append(FileHolder(disk, f"/{number}"))
        assert len(disk.files) == 3
        assert sum(holder.open_file is not None for holder in holders) == 3


def test_dropping() -> None:
    disk = Disk(MemFs(), open_files_max=3, index_cache_bytes=0)
    holder = FileHolder(disk, "/f")
    disk.files.drop(holder)
    disk.files.drop(holder)
    assert holder.open_file is None
    assert len(disk.files) == 0


def test_half_of_the_open_files_are_closed_when_the_limit_is_reached() -> None:
    disk = Disk(MemFs(), open_files_max=9, index_cache_bytes=0)
    holders = [FileHolder(disk, f"/{number}") for number in range(5)]
    assert disk.files.close_half()
    assert [holder.open_file is None for holder in holders] == [True, True, True, False, False]
    assert disk.files.close_half() and disk.files.close_half()
    assert not disk.files.close_half()


def test_a_thread_s_own_limits() -> None:
    disk = Disk(MemFs(), open_files_max=3, index_cache_bytes=0)
    apart = disk.with_limits(open_files_max=1, index_cache_bytes=10, watch=lambda: None)
    assert apart.fs is disk.fs
    for number in range(4):
        FileHolder(apart, f"/{number}")
    assert (len(apart.files), len(disk.files)) == (1, 0)


def test_a_read_can_be_aborted() -> None:
    fs = MemFs()
    fs.create("/log").pwrite(b"0123", 0)
    calls: list[str] = []

    def watch() -> None:
        calls.append("asked")
        if len(calls) > 3:
            raise LoadingStopped

    disk = Disk(fs, open_files_max=3, index_cache_bytes=0)
    file = disk.with_limits(open_files_max=1, index_cache_bytes=0, watch=watch).open("/log")
    buffer = memoryview(bytearray(2))
    assert file.pread(2, 1) == b"12"
    assert (file.read_into(buffer, 0), bytes(buffer)) == (2, b"01")
    assert (file.read_cached(buffer, 2), bytes(buffer)) == (2, b"23")
    for read in (lambda: file.pread(1, 0), lambda: file.read_into(buffer, 0)):
        with pytest.raises(LoadingStopped):
            read()
    file.pwrite(b"4", 4)  # what is under way in between is done
    file.truncate(3)
    file.sync()
    assert file.size() == 3
    file.close()
    assert disk.open("/log").pread(9, 0) == b"012", "others are not watched"
