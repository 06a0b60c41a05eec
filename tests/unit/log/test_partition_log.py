"""A partition's log, as clients and replicas see it."""

from __future__ import annotations

import errno
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record import MemoryRecords

from kavka.log.fs import OsFs
from kavka.log.memfs import Fault, MemFs
from kavka.log.partition_log import PartitionLog
from kavka.wire.record_batches import read_header
from support import logs
from support.logs import Broker, Producer, Read


@pytest.fixture
def log(broker: Broker) -> PartitionLog:
    return broker.log()


def small(fs: MemFs, **changes: int) -> PartitionLog:
    return Broker(fs, log_settings=logs.settings(**{"segment_bytes": 2000} | changes)).log()


def used_bytes(fs: MemFs) -> int:
    fs.capacity_bytes = 1 << 40
    return fs.capacity_bytes - fs.free_bytes()


# --- append


def test_offset_and_epoch_are_stamped_into_the_producers_bytes(log: PartitionLog) -> None:
    logs.append(log, logs.batch([b"first"]))
    data = logs.batch([b"a", b"b"])
    sent = bytes(data)
    logs.append(log, data, leader_epoch=7)
    found = log.read(1, 1 << 20, upto=3, at_least_one=True)
    assert found is not None
    stored = logs.bytes_of(found)
    assert stored == bytes(data)
    assert stored[8:12] + stored[16:] == sent[8:12] + sent[16:]
    [batch] = [batch for batch in iter(MemoryRecords(stored).next_batch, None)]
    assert (batch.base_offset, batch.leader_epoch) == (1, 7)


@pytest.mark.parametrize("compression", [0, 1, 2, 3, 4])
def test_every_codec_is_kept_as_it_is(log: PartitionLog, compression: int) -> None:
    values = [b"%d" % number * 20 for number in range(50)]
    logs.append(log, logs.batch(values, compression=compression))
    assert [read.value for read in logs.read_from(log)] == values


def test_a_segment_is_never_larger_than_it_may_be(fs: MemFs) -> None:
    log = small(fs)
    logs.fill(log, 50)
    sizes = [fs.size(path) for path in logs.files(fs, log)]
    assert log.segment_count == len(sizes) > 3
    batch_bytes = len(logs.batch([bytes(100)]))
    assert all(2000 - batch_bytes < size <= 2000 for size in sizes[:-1])
    assert len(logs.read_from(log)) == 50


def test_a_segment_is_rolled_where_relative_offsets_end(fs: MemFs, log: PartitionLog) -> None:
    """A batch of compacted records may span any number of offsets."""
    logs.append(log, logs.batch([b"v"]))
    wide = logs.batch([b"v"])
    header = read_header(wide)._replace(last_offset_delta=2**31 - 2)
    assert log.append(wide, header, leader_epoch=0, now_ms=0).last_offset == 2**31 - 1
    logs.append(log, logs.batch([b"v"]))
    assert logs.base_offsets(fs, log) == [0, 2**31]


# --- a failing disk


@pytest.mark.parametrize("room_bytes", [0, 1, 60, 61, 100])
def test_a_full_disk_leaves_the_log_as_it_was(fs: MemFs, broker: Broker, room_bytes: int) -> None:
    log = broker.log()
    logs.fill(log, 5)
    size = log.size_bytes
    big = logs.batch([b"x" * 1000], producer=Producer(5, 0, 0))
    kept = bytes(big)
    fs.capacity_bytes = used_bytes(fs) + room_bytes
    for _ in range(3):
        with pytest.raises(OSError) as full:
            logs.append(log, memoryview(bytearray(kept)))
        assert full.value.errno == errno.ENOSPC
    assert (log.end_offset, log.size_bytes, len(log.producers)) == (5, size, 0)
    assert len(logs.read_from(log)) == 5
    fs.capacity_bytes = None
    logs.append(log, logs.batch([b"small"]))
    assert fs.size(f"{log.directory}/{0:020d}.log") == log.size_bytes, "nothing is left over"
    logs.append(log, memoryview(bytearray(kept)))
    broker.kill()
    assert [read.value for read in logs.read_from(broker.log())][5:] == [b"small", b"x" * 1000]


@pytest.mark.parametrize("suffix", [".log", ".index", ".timeindex", ".snapshot.tmp"])
@pytest.mark.parametrize("op", ["create", "pwrite"])
def test_a_roll_that_fails_is_tried_again(fs: MemFs, op: str, suffix: str) -> None:
    log = small(fs, index_interval_bytes=200)
    logs.fill(log, 15)
    while fs.size(logs.files(fs, log)[-1]) + len(logs.batch([bytes(100)])) <= 2000:
        logs.fill(log, 1, start=log.end_offset)
    before = log.end_offset
    fs.faults = [Fault(op, suffix)]
    try:
        logs.fill(log, 1, start=before)
    except OSError:
        assert log.end_offset == before
        logs.fill(log, 1, start=before)
    fs.faults = []
    logs.fill(log, 20, start=before + 1)
    expected = [b"%0100d" % number for number in range(before + 21)]
    assert [read.value for read in logs.read_from(log)] == expected


@pytest.mark.parametrize("how", ["roll", "restart", "flush"])
def test_the_rest_of_a_failed_write_is_truncated(fs: MemFs, broker: Broker, how: str) -> None:
    log = broker.log()
    logs.fill(log, 2)
    path, whole = f"{log.directory}/{0:020d}.log", log.size_bytes
    fs.capacity_bytes = used_bytes(fs) + 70
    with pytest.raises(OSError):
        logs.append(log, logs.batch([bytes(500)]))
    fs.capacity_bytes = None
    assert fs.size(path) == whole + 70
    if how == "roll":
        log.roll(0)
    elif how == "restart":
        broker.restart()
    else:
        logs.flush(log)
    assert fs.size(path) == whole
    broker.kill()
    assert len(logs.read_from(broker.log())) == 2


# --- read


def test_the_first_batch_is_returned_whole_or_not_at_all(log: PartitionLog) -> None:
    for _ in range(3):
        logs.append(log, logs.batch([bytes(5000)]))
    batch_bytes = log.size_bytes // 3
    for max_bytes in (0, 1, 61, batch_bytes - 1):
        assert log.read(1, max_bytes, upto=3, at_least_one=False) is None
        found = log.read(1, max_bytes, upto=3, at_least_one=True)
        assert found is not None
        assert (found.position, found.length, found.base_offset) == (batch_bytes, batch_bytes, 1)


@settings(max_examples=60)
@given(
    sizes=st.lists(st.integers(0, 3000), min_size=1, max_size=60),
    interval=st.sampled_from([0, 1000, 4096]),
    max_bytes=st.integers(0, 20_000),
    segment_bytes=st.sampled_from([4000, 20_000, 10**6]),
    again=st.booleans(),
)
def test_repeated_reads_return_every_batch_once(
    sizes: list[int], interval: int, max_bytes: int, segment_bytes: int, again: bool
) -> None:
    broker = Broker(
        MemFs(),
        log_settings=logs.settings(index_interval_bytes=interval, segment_bytes=segment_bytes),
    )
    for size in sizes:
        logs.append(broker.log(), logs.batch([bytes(size)]))
    if again:
        broker.restart()
    read = logs.read_from(broker.log(), max_bytes=max_bytes)
    assert [len(record.value or b"") for record in read] == sizes
    assert [record.offset for record in read] == list(range(len(sizes)))


def test_a_read_ends_before_an_indexed_batch(log: PartitionLog) -> None:
    """No part of a batch is sent for nothing, and the next read finds its place at once."""
    for _ in range(50):
        logs.append(log, logs.batch([bytes(5000)]))
    batch_bytes = log.size_bytes // 50
    offset = 0
    while offset < 50:
        found = log.read(offset, 30_000, upto=50, at_least_one=True)
        assert found is not None
        assert (
            found.length % batch_bytes == 0
            and found.length > 30_000 - 2 * batch_bytes
            or offset > 44
        )
        offset += found.length // batch_bytes


def test_reading_while_writing(log: PartitionLog) -> None:
    """A reader at the end asks for each new batch; all of it, and its place, is known."""
    chance = random.Random(3)
    offset = 0
    read: list[Read] = []
    for number in range(300):
        logs.append(log, logs.batch([b"%d" % number] * chance.randint(1, 3)))
        if chance.random() < 0.7:
            read += logs.read_from(log, offset)
            offset = log.end_offset
    read += logs.read_from(log, offset)
    assert [record.offset for record in read] == list(range(log.end_offset))


def test_a_follower_of_the_high_watermark(log: PartitionLog) -> None:
    """The limit lies behind the end all the time, now more and now less."""
    chance = random.Random(4)
    watermark = offset = 0
    ends = [0]
    read: list[Read] = []
    for number in range(300):
        ends.append(logs.append(log, logs.batch([b"%d" % number] * 2)).last_offset + 1)
        if chance.random() < 0.5:
            watermark = max(watermark, ends[-1 - chance.randint(0, 3)])
            got = logs.read_from(log, offset, upto=watermark)
            assert not got or got[-1].offset == watermark - 1
            read += got
            offset = watermark
    assert [record.offset for record in read] == list(range(watermark))


# --- by time


def test_by_timestamp(fs: MemFs) -> None:
    log = small(fs, index_interval_bytes=300)
    times = [50, 10, 60, 20, 90, 30, 90, 95] + [5] * 40 + [200]
    for timestamp in times:
        logs.append(log, logs.batch([bytes(100)], timestamps=timestamp))
    assert log.segment_count > 2
    for target in range(0, 210, 5):
        number = next((n for n, time in enumerate(times) if time >= target), None)
        found = log.batch_for_timestamp(target)
        assert (None if found is None else found.base_offset) == number
    later = log.batch_for_timestamp(90, from_offset=5)
    assert later is not None and later.base_offset == 6
    assert [read.timestamp for read in logs.parse(logs.bytes_of(later))] == [90]
    newest = log.batch_of_max_timestamp()
    assert newest is not None and newest.base_offset == 48


# --- the real thing


def test_on_the_real_file_system(tmp_path: Path) -> None:
    broker = Broker(
        OsFs(), str(tmp_path / "data"), log_settings=logs.settings(segment_bytes=50_000)
    )
    chance = random.Random(1)
    values = [chance.randbytes(chance.randint(0, 3000)) for _ in range(200)]
    for number, value in enumerate(values):
        logs.append(broker.log(), logs.batch([value], timestamps=number))
    for again in ("at once", "kill", "restart"):
        if again != "at once":
            getattr(broker, again)()
        log = broker.log()
        assert [read.value for read in logs.read_from(log, max_bytes=10_000)] == values
        found = log.batch_for_timestamp(150)
        assert found is not None and found.base_offset == 150
    broker.logs.close()
