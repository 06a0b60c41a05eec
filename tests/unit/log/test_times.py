"""Times are found by entries that were checked. `test_index_damage.py` flips each bit of them."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator

import pytest

from kavka.log import scan, times
from kavka.log.disk import Disk
from kavka.log.fs import File
from kavka.log.memfs import MemFs
from kavka.log.scan import BatchScanner
from kavka.log.segment import Segment
from kavka.wire.record_batches import set_offset_and_epoch
from support import logs

SETTINGS = logs.settings(index_interval_bytes=300)
TIMES = [100, 90, 300, 200, 300, 300, 400, 50, 500]


def written_open(timestamps: list[int]) -> Segment:
    """A segment with batches of a record each, to which more may be appended."""
    fs = MemFs()
    fs.make_dir("/d")
    disk = Disk(fs, open_files_max=10, index_cache_bytes=1 << 16)
    segment = Segment.create(disk, "/d", 0, SETTINGS)
    for offset, timestamp in enumerate(timestamps):
        data = logs.batch([bytes(300)], timestamps=timestamp)
        set_offset_and_epoch(data, offset, 0)
        segment.append(data, len(data), offset, timestamp)
    return segment


def written(timestamps: list[int]) -> tuple[MemFs, Segment]:
    """A closed one, as it is after a restart."""
    segment = written_open(timestamps)
    segment.seal()
    disk = segment._disk
    assert isinstance(disk.fs, MemFs)
    return disk.fs, Segment(disk, "/d", 0, segment.size, SETTINGS)


def first(timestamp: int) -> int | None:
    return next((offset for offset, at in enumerate(TIMES) if at >= timestamp), None)


def entries(fs: MemFs, segment: Segment) -> list[tuple[int, int]]:
    data = fs.read_bytes(segment.path_of(".timeindex"))
    return [struct.unpack_from(">qi", data, at) for at in range(0, len(data), 12)]


@pytest.mark.parametrize("slot", range(4))
@pytest.mark.parametrize("entry", [(300, 4), (300, 5), (90, 1), (1, 6), (600, 3), (100, 0)])
def test_a_wrong_entry_does_not_mislead(slot: int, entry: tuple[int, int]) -> None:
    """Also one that names another batch with the same time."""
    for target in (0, 60, 91, 101, 250, 300, 301, 400, 401, 500, 501):
        fs, segment = written(TIMES)
        known = entries(fs, segment)
        assert known == [(100, 0), (300, 2), (400, 6), (500, 8)]
        assert len(segment.times) == len(known)  # it is checked when it is opened: before
        fs.open(segment.path_of(".timeindex")).pwrite(struct.pack(">qi", *entry), 12 * slot)
        found = segment.find_timestamp(target, 0)
        assert (None if found is None else found.base_offset) == first(target)


def test_sparse_entries_are_checked_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is between them is not read."""
    monkeypatch.setattr(times, "CHECKED_BYTES_MAX", 2000)
    fs, segment = written([1000, *[10] * 20, 2000, 3000, 4000])
    read: list[int] = []
    looked = scan.headers

    def counted(file: object, path: str, start: int, end: int) -> object:
        read.append(start)
        return looked(segment.file, path, start, end)

    assert segment.times.slot(2500) == 1
    monkeypatch.setattr(times, "headers", counted)
    found = segment.find_timestamp(2500, 0)
    assert found is not None and found.base_offset == 22
    assert min(read) > 5000
    assert segment.next_offset(BatchScanner()) == 24


class Counting:
    """Counts the headers that are read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        looked = scan.headers

        def counted(file: File, path: str, start: int, end: int) -> Iterator[object]:
            for found in looked(file, path, start, end):
                self.count += 1
                yield found

        monkeypatch.setattr(times, "headers", counted)


def test_records_of_one_time_are_not_read_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Timestamps of whole days: there is an entry a day, and a search between two of them begins
    shortly before the second."""
    _, segment = written([1000] * 3000 + [2000] * 3000)
    counting = Counting(monkeypatch)
    for target, offset in ((0, 0), (1000, 0), (1001, 3000), (2000, 3000)):
        counting.count = 0
        found = segment.find_timestamp(target, 0)
        assert found is not None and found.base_offset == offset
        assert counting.count < 500


def test_a_segment_without_timestamps_is_not_read_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records of old producers have none, and so its time index is empty."""
    _, segment = written([-1] * 3000)
    counting = Counting(monkeypatch)
    assert segment.max_timestamp == -1
    assert counting.count < 500


@pytest.mark.parametrize("seed", range(40))
def test_searches_at_random(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Far and close entries, from any offset on, open and closed, beside a plain search."""
    chance = random.Random(seed)
    monkeypatch.setattr(times, "CHECKED_BYTES_MAX", chance.choice((0, 2000, 20_000)))
    timestamps: list[int] = []
    while len(timestamps) < 200:
        timestamps += [chance.randrange(-1, 20)] * chance.randrange(1, 30)
    _, closed = written(timestamps)
    for segment in (closed, written_open(timestamps)):
        for _ in range(60):
            target, start = chance.randrange(21), chance.choice((0, chance.randrange(200)))
            expected = next(
                (at for at, time in enumerate(timestamps) if time >= target and at >= start), None
            )
            found = segment.find_timestamp(target, start)
            assert (None if found is None else found.base_offset) == expected
