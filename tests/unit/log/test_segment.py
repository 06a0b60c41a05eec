"""A segment: batches are found by offset and by time, and a wrong index heals itself."""

from __future__ import annotations

import random
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kavka.log.disk import Disk
from kavka.log.errors import CorruptLogError
from kavka.log.memfs import MemFs
from kavka.log.scan import BatchScanner
from kavka.log.segment import GAP_BYTES_MAX, Segment, file_name
from kavka.log.settings import LogSettings
from kavka.wire.record_batches import set_offset_and_epoch
from support import logs

BASE = 5000
STEP_MS = 10


def disk_on(fs: MemFs) -> Disk:
    return Disk(fs, open_files_max=10, index_cache_bytes=1 << 16)


def new_segment(log_settings: LogSettings | None = None) -> tuple[MemFs, Segment]:
    fs = MemFs()
    fs.make_dir("/d")
    return fs, Segment.create(disk_on(fs), "/d", BASE, log_settings or logs.settings())


def reopened(fs: MemFs, segment: Segment) -> Segment:
    """The same files, as after a restart."""
    segment.seal()
    return Segment(disk_on(fs), "/d", BASE, segment.size, logs.settings())


def fill(
    segment: Segment, count: int, *, size: int = 300, timestamps: list[int] | None = None
) -> None:
    """Batches of two records, the n-th at offsets BASE + 2n and BASE + 2n + 1."""
    offset = segment.next_offset(BatchScanner())
    for number in range(count):
        timestamp = timestamps[number] if timestamps else offset * STEP_MS
        data = logs.batch([bytes(size), b""], timestamps=timestamp)
        set_offset_and_epoch(data, offset, 0)
        segment.append(data, len(data), offset + 1, timestamp)
        offset += 2


def test_file_names() -> None:
    assert file_name(368769, ".log") == "00000000000000368769.log"
    _, segment = new_segment()
    assert segment.path == "/d/00000000000000005000.log"


def test_a_new_segment_has_its_files() -> None:
    fs, segment = new_segment()
    assert fs.list_dir("/d") == [
        "00000000000000005000.index",
        "00000000000000005000.log",
        "00000000000000005000.timeindex",
    ]
    assert segment.size == 0 and segment.next_offset(BatchScanner()) == BASE
    assert segment.first_timestamp == segment.max_timestamp == segment.max_timestamp_offset == -1
    assert segment.find(BASE) is None


@pytest.mark.parametrize("interval", [0, 1, 1000, 4096, 10**6])
@pytest.mark.parametrize("again", [False, True])
def test_each_offset_is_found(interval: int, again: bool) -> None:
    fs, segment = new_segment(logs.settings(index_interval_bytes=interval))
    fill(segment, 120)
    if again:
        segment = reopened(fs, segment)
    assert segment.next_offset(BatchScanner()) == BASE + 240
    end = 0
    for number in range(120):
        base = BASE + 2 * number
        found = {segment.find(base), segment.find(base + 1), segment.extent_at(end)}
        [extent] = found
        assert extent is not None
        assert (extent.position, extent.base_offset, extent.last_offset) == (end, base, base + 1)
        end += extent.size
    assert end == segment.size
    assert segment.find(BASE + 240) is None
    first = segment.find(0)
    assert first is not None and first.base_offset == BASE


def test_entries_come_at_their_interval() -> None:
    """As in Apache Kafka: a batch gets an entry when more than the interval lies before it."""
    fs, segment = new_segment(logs.settings(index_interval_bytes=1000))
    fill(segment, 40)
    segment.seal()
    batch_bytes = segment.extent_at(0).size
    apart = -(-1001 // batch_bytes)
    expected = [(2 * number + 1, number * batch_bytes) for number in range(apart, 40, apart)]
    data = fs.read_bytes(segment.path_of(".index"))
    assert list(struct.iter_unpack(">ii", data)) == expected
    times = [(STEP_MS * (BASE + offset - 1), offset) for offset, _ in expected]
    last = 79
    if times[-1][1] != last:
        times.append((STEP_MS * (BASE + last - 1), last))  # seal adds the newest
    assert list(struct.iter_unpack(">qi", fs.read_bytes(segment.path_of(".timeindex")))) == times


@settings(max_examples=60)
@given(st.lists(st.integers(0, 50), min_size=1, max_size=40), st.booleans(), st.data())
def test_times_are_found(timestamps: list[int], again: bool, data: st.DataObject) -> None:
    fs, segment = new_segment(logs.settings(index_interval_bytes=500))
    fill(segment, len(timestamps), timestamps=timestamps)
    if again:
        segment = reopened(fs, segment)
    most = max(timestamps)
    assert segment.first_timestamp == timestamps[0]
    assert segment.max_timestamp == most
    assert segment.max_timestamp_offset == BASE + 2 * timestamps.index(most) + 1
    target = data.draw(st.integers(0, most))
    start = data.draw(st.integers(0, len(timestamps) - 1))
    numbers = [n for n, found in enumerate(timestamps) if found >= target and n >= start]
    extent = segment.find_timestamp(target, BASE + 2 * start)
    assert (None if extent is None else extent.base_offset) == (
        BASE + 2 * numbers[0] if numbers else None
    )


@pytest.mark.parametrize("cut", [0, 1, 2, 77, 199, 200, 500])
def test_truncation(cut: int) -> None:
    fs, segment = new_segment(logs.settings(index_interval_bytes=1000))
    fill(segment, 100)
    segment.truncate(BASE + cut)
    left = min(cut // 2, 100)
    assert segment.next_offset(BatchScanner()) == BASE + 2 * left
    assert fs.size(segment.path) == segment.size
    assert segment.max_timestamp == ((BASE + 2 * left - 2) * STEP_MS if left else -1)
    fill(segment, 30)
    again = reopened(fs, segment)
    assert again.next_offset(BatchScanner()) == BASE + 2 * left + 60
    for number in range(left + 30):
        assert segment.find(BASE + 2 * number) == again.find(BASE + 2 * number)


def test_repair_truncates_the_rest_of_a_failed_write() -> None:
    fs, segment = new_segment()
    fill(segment, 3)
    size = segment.size
    fs.open(segment.path).pwrite(b"half a batch", size)
    segment.repair()
    assert fs.size(segment.path) == size


def test_a_full_index_says_so() -> None:
    _, segment = new_segment(logs.settings(index_interval_bytes=0, segment_index_bytes=60))
    fill(segment, 4)
    assert not segment.full
    fill(segment, 1)
    assert segment.full, "60 bytes hold 5 time entries, and one is kept for the last"


def damage(fs: MemFs, path: str, how: str) -> None:
    data = fs.read_bytes(path)
    if how == "missing":
        fs.remove(path)
        return
    changed = {
        "empty": b"",
        "zeros": bytes(len(data)),
        "garbage": random.Random(1).randbytes(len(data)),
        "odd": data[:-3],
        "half": data[: len(data) // 24 * 12 // 8 * 8],
        "shifted": data[:-4] + b"\x7f\xff\xff\xff",
    }[how]
    fs.create(path).pwrite(changed, 0)


@pytest.mark.parametrize("how", ["missing", "empty", "zeros", "garbage", "odd", "half", "shifted"])
def test_a_damaged_offset_index_is_rebuilt(how: str) -> None:
    fs, segment = new_segment(logs.settings(index_interval_bytes=1000))
    fill(segment, 100)
    again = reopened(fs, segment)
    damage(fs, segment.path_of(".index"), how)
    for number in range(100):
        extent = again.find(BASE + 2 * number)
        assert extent is not None and extent.base_offset == BASE + 2 * number
    assert again.find_timestamp(0, 0) == again.find(BASE)
    assert again.next_offset(BatchScanner()) == BASE + 200


@pytest.mark.parametrize("how", ["missing", "empty", "zeros", "garbage", "odd", "shifted"])
def test_a_damaged_time_index_is_rebuilt(how: str) -> None:
    fs, segment = new_segment(logs.settings(index_interval_bytes=1000))
    fill(segment, 100)
    again = reopened(fs, segment)
    damage(fs, segment.path_of(".timeindex"), how)
    assert again.max_timestamp == (BASE + 198) * STEP_MS
    found = again.find_timestamp((BASE + 50) * STEP_MS, 0)
    assert found is not None and found.base_offset == BASE + 50


def test_an_index_that_has_lost_its_end_does_not_make_searches_long() -> None:
    fs, segment = new_segment()
    fill(segment, 40, size=100_000)
    again = reopened(fs, segment)
    fs.open(segment.path_of(".index")).truncate(8)
    assert again.size > 3 * GAP_BYTES_MAX
    found = again.find(BASE + 70)
    assert found is not None and found.base_offset == BASE + 70
    assert fs.size(segment.path_of(".index")) == 39 * 8


def test_a_damaged_log_is_reported_with_its_position() -> None:
    fs, segment = new_segment(logs.settings(index_interval_bytes=1000))
    fill(segment, 100)
    again = reopened(fs, segment)
    at = again.find(BASE + 100)
    assert at is not None
    fs.open(segment.path).pwrite(bytes(61), at.position)
    before = again.find(BASE + 98)
    assert before is not None and before.base_offset == BASE + 98
    with pytest.raises(CorruptLogError, match="5000.log has no batch at byte") as error:
        again.find(BASE + 100)
    assert error.value.position == at.position
    assert again.size == segment.size, "nothing is lost"


def test_the_end_of_a_closed_segment_is_put_into_order() -> None:
    fs, segment = new_segment(logs.settings(index_interval_bytes=1000))
    fill(segment, 7)
    again = reopened(fs, segment)
    path, times = segment.path, segment.path_of(".timeindex")
    whole, whole_times = fs.read_bytes(path), fs.read_bytes(times)
    fs.open(times).truncate(len(whole_times) - 12)
    again.restore_end(BASE + 14)
    assert fs.read_bytes(times) == whole_times
    assert again.max_timestamp == (BASE + 12) * STEP_MS
    fs.open(path).pwrite(bytes(50), len(whole))
    longer = Segment(disk_on(fs), "/d", BASE, len(whole) + 50, logs.settings())
    longer.restore_end(BASE + 14)
    assert longer.size == len(whole)
    assert (fs.read_bytes(path), fs.read_bytes(times)) == (whole, whole_times)
    longer.restore_end(BASE + 20)
    assert longer.size == len(whole), "there is a gap behind it"


def test_files_are_closed_and_opened_as_needed() -> None:
    fs, segment = new_segment()
    fill(segment, 3)
    segment.seal()
    segment.release()
    assert segment.open_file is None
    found = segment.find(BASE + 2)
    assert found is not None and segment.open_file is not None
