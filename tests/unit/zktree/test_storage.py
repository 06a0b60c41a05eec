"""Loading a directory: torn ends are truncated, other damage stops the start."""

from __future__ import annotations

import asyncio

import pytest

from kavka.log.dir_names import NOT_OURS
from kavka.log.memfs import MemFs
from kavka.zktree import storage
from kavka.zktree.storage_format import LOG_HEADER, Corrupt
from support.embedded_coordination import DIRECTORY, new_fs, open_on

LOG = f"{DIRECTORY}/{storage.LOG_NAME}"
SNAPSHOT = f"{DIRECTORY}/{storage.SNAPSHOT_NAME}"
TRANSACTIONS = 5


async def disk_with_transactions() -> tuple[MemFs, list[int]]:
    """A disk where `/0` to `/4` were made one by one; the log's size before and after each."""
    fs = new_fs()
    session = await open_on(fs)
    sizes = [fs.size(LOG)]
    for number in range(TRANSACTIONS):
        await session.create(f"/{number}", b"x" * 10)
        sizes.append(fs.size(LOG))
    await session.close()
    return fs, sizes


def disk_with(log: bytes, snapshot: bytes | None = None) -> MemFs:
    fs = new_fs()
    fs.write_atomic(LOG, log, sync=True)
    if snapshot is not None:
        fs.write_atomic(SNAPSHOT, snapshot, sync=True)
    return fs


async def names_on(fs: MemFs) -> list[str]:
    session = await open_on(fs)
    names = await session.children("/")
    await session.close()
    return names


async def test_a_log_truncated_anywhere_has_the_transactions_before() -> None:
    fs, sizes = await disk_with_transactions()
    log = fs.read_bytes(LOG)[: sizes[-1]]
    for cut in range(sizes[0], len(log)):
        whole = sum(size <= cut for size in sizes) - 1
        cut_fs = disk_with(log[:cut])
        session = await open_on(cut_fs)
        assert cut_fs.size(LOG) == sizes[whole], "the torn end is gone"
        assert await session.children("/") == [str(number) for number in range(whole)]
        await session.create("/after")
        cut_fs.crash()
        assert await names_on(cut_fs) == [*map(str, range(whole)), "after"]


async def test_garbage_after_the_last_frame_is_truncated() -> None:
    fs, sizes = await disk_with_transactions()
    log = fs.read_bytes(LOG)[: sizes[-1]]
    for tail in (bytes(5000), b"\xff" * 100, LOG_HEADER, log[sizes[0] : sizes[1]][1:]):
        assert await names_on(disk_with(log + tail)) == ["0", "1", "2", "3", "4"]


def test_read_tree_changes_nothing() -> None:
    fs, sizes = asyncio.run(disk_with_transactions())
    torn = fs.read_bytes(LOG)[: sizes[-1] - 1]
    for log, names in ((fs.read_bytes(LOG), "01234"), (torn, "0123")):
        alone = disk_with(log)
        tree = storage.read_tree(storage.Storage(alone, DIRECTORY))
        assert tree.children("/") == list(names)
        assert alone.read_bytes(LOG) == log
    damaged = bytearray(fs.read_bytes(LOG))
    damaged[sizes[1] + 20] ^= 1
    with pytest.raises(Corrupt, match=rf"{DIRECTORY}: {storage.LOG_NAME} or .*damaged"):
        storage.read_tree(storage.Storage(disk_with(bytes(damaged)), DIRECTORY))


async def test_damage_in_the_middle_stops_the_start() -> None:
    fs, sizes = await disk_with_transactions()
    log = bytearray(fs.read_bytes(LOG))
    log[sizes[1] + 20] ^= 1
    with pytest.raises(Corrupt, match=rf"{DIRECTORY}: {storage.LOG_NAME} or .*damaged"):
        await open_on(disk_with(bytes(log)))


async def test_any_damage_before_other_frames_stops_the_start() -> None:
    """Whichever bits of a frame it is: were its length taken at its word, or a lost page for the
    end, all later frames would be cut off as a torn write."""
    fs, sizes = await disk_with_transactions()
    log = fs.read_bytes(LOG)
    damaged = bytearray(log)
    damaged[sizes[1] : sizes[3]] = bytes(sizes[3] - sizes[1])
    logs = [bytes(damaged)]
    for position in range(sizes[1], sizes[2]):
        for bit in range(8):
            damaged = bytearray(log)
            damaged[position] ^= 1 << bit
            logs.append(bytes(damaged))
    for damaged_log in logs:
        fs = disk_with(damaged_log)
        with pytest.raises(Corrupt, match=f"the frame at byte {sizes[1]} of .* is damaged"):
            await open_on(fs)
        assert fs.read_bytes(LOG) == damaged_log


@pytest.mark.parametrize("log", [b"", LOG_HEADER[:5], b"something else entirely, and longer"])
def test_a_file_that_is_no_log_stops_the_start(log: bytes) -> None:
    with pytest.raises(Corrupt, match="not a log"):
        asyncio.run(open_on(disk_with(log)))


async def test_missing_transactions_stop_the_start() -> None:
    fs, sizes = await disk_with_transactions()
    log = fs.read_bytes(LOG)
    with pytest.raises(Corrupt, match="transactions after 2 are missing"):
        await open_on(disk_with(log[: sizes[2]] + log[sizes[3] :]))


def test_a_damaged_snapshot_stops_the_start() -> None:
    with pytest.raises(Corrupt, match="snapshot"):
        asyncio.run(open_on(disk_with(LOG_HEADER, b"kavka coordination snapshot 1\nbroken")))


async def test_a_snapshot_with_the_log_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A power cut after the snapshot was written and before the log was replaced."""
    monkeypatch.setattr(storage, "LOG_BYTES_MAX", 0)
    fs, _ = await disk_with_transactions()
    snapshot = fs.read_bytes(SNAPSHOT)
    monkeypatch.setattr(storage, "LOG_BYTES_MAX", 1 << 20)
    fs, _ = await disk_with_transactions()
    log = fs.read_bytes(LOG)
    assert await names_on(disk_with(log, snapshot)) == ["0", "1", "2", "3", "4"]


async def test_a_snapshot_without_its_log_stops_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Later transactions would be lost: producer ids would be allocated again."""
    monkeypatch.setattr(storage, "LOG_BYTES_MAX", 0)
    fs, _ = await disk_with_transactions()
    session = await open_on(fs)
    await session.create("/since")
    await session.close()
    alone = new_fs()
    alone.write_atomic(SNAPSHOT, fs.read_bytes(SNAPSHOT), sync=True)
    for _ in range(2):
        with pytest.raises(Corrupt, match=f"{DIRECTORY}: {storage.LOG_NAME} is missing"):
            await open_on(alone)


def test_its_files_are_not_removed_by_the_log_manager() -> None:
    assert all(name.startswith(NOT_OURS) for name in (storage.LOG_NAME, storage.SNAPSHOT_NAME))


async def test_apache_kafka_accepts_its_files() -> None:
    """It refuses a log directory with sub-directories that are no partitions."""
    fs, _ = await disk_with_transactions()
    names = fs.list_dir(DIRECTORY)
    assert names == ["coordination.log"]
    assert not any(fs.is_dir(f"{DIRECTORY}/{name}") for name in names)
