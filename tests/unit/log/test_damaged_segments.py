"""A batch of a flushed segment that is damaged: only what can't be reached without it is lost."""

from __future__ import annotations

import logging

import pytest

from kavka.log.errors import CorruptLogError
from kavka.log.memfs import MemFs
from kavka.log.scan import headers
from support import logs
from support.logs import Broker

COUNT = 100


def written() -> tuple[MemFs, Broker]:
    """Several flushed segments of one batch a record; each second one is indexed."""
    fs = MemFs()
    broker = Broker(fs, log_settings=logs.settings(segment_bytes=8000, index_interval_bytes=300))
    for number in range(COUNT):
        logs.append(broker.log(), logs.batch([b"%0200d" % number]))
    logs.flush(broker.log())
    broker.logs.checkpoint({}).run()
    return fs, broker


def positions(fs: MemFs, path: str) -> list[int]:
    file = fs.open(path)
    return [position for position, _ in headers(file, path, 0, file.size())]


def readable(broker: Broker) -> set[int]:
    """The offsets at which a read finds its record."""
    found = set()
    log = broker.log()
    for offset in range(min(COUNT, log.end_offset)):
        try:
            read = log.read(offset, 1, upto=log.end_offset, at_least_one=True)
        except CorruptLogError:
            continue
        assert read is not None
        first = logs.parse(logs.bytes_of(read))[0]
        assert (first.offset, first.value) == (offset, b"%0200d" % offset)
        found.add(offset)
    return found


@pytest.mark.parametrize("number", range(8, 14))
@pytest.mark.parametrize("field", [8, 16])  # size, magic
def test_what_lies_behind_a_damaged_batch_is_found_through_the_index(
    number: int, field: int
) -> None:
    fs, broker = written()
    path = logs.files(fs, broker.log(), ".log")[0]
    fs.open(path).pwrite(b"\x7f", positions(fs, path)[number] + field)
    broker.kill()
    lost = set(range(COUNT)) - readable(broker)
    assert number in lost
    assert lost <= {number, number + 1}
    broker.restart()
    assert set(range(COUNT)) - readable(broker) == lost


@pytest.mark.parametrize("lost", ["", ".index"])
@pytest.mark.parametrize("back", [1, 2, 3])
@pytest.mark.parametrize("field", [8, 16])
def test_what_lies_before_a_damaged_batch_is_found_without_the_index(
    back: int, lost: str, field: int
) -> None:
    fs, broker = written()
    path = logs.files(fs, broker.log(), ".log")[0]
    places = positions(fs, path)
    fs.open(path).pwrite(b"\x7f", places[-back] + field)
    if lost:
        fs.remove(path.replace(".log", lost))
    for _ in range(2):
        broker.kill()
        assert set(range(COUNT)) - readable(broker) <= set(range(len(places) - back, len(places)))


@pytest.mark.parametrize("back", [1, 2, 3, 10])
@pytest.mark.parametrize("lost", ["", ".index", ".timeindex"])
@pytest.mark.parametrize("field", [0, 8, 16])
def test_a_broker_starts_with_damage_just_before_its_recovery_point(
    back: int, lost: str, field: int, caplog: pytest.LogCaptureFixture
) -> None:
    fs, broker = written()
    path = logs.files(fs, broker.log(), ".log")[-2]
    base = logs.base_offsets(fs, broker.log())[-2]
    places = positions(fs, path)
    size = fs.size(path)
    fs.open(path).pwrite(b"\x7f", places[-back] + field)
    if lost:
        fs.remove(path.replace(".log", lost))
    with caplog.at_level(logging.WARNING):
        broker.kill()
    assert broker.log().end_offset == COUNT
    assert fs.size(path) == size
    intact = {*range(base), *range(base + len(places), COUNT)}
    assert intact <= readable(broker)


def test_a_flipped_offset_does_not_truncate_flushed_batches() -> None:
    """One that looks like the last batch before the recovery point."""
    fs, broker = written()
    path = logs.files(fs, broker.log(), ".log")[-2]
    base = logs.base_offsets(fs, broker.log())[-2]
    places = positions(fs, path)
    last = base + len(places) - 1
    size = fs.size(path)
    fs.open(path).pwrite(last.to_bytes(8, "big"), places[-3])
    broker.kill()
    assert fs.size(path) == size


@pytest.mark.parametrize("bit", range(64))
def test_a_flipped_offset_of_the_last_batch_after_a_clean_stop_reuses_no_offset(bit: int) -> None:
    """No checksum covers it. With a lower one the log would end before records that were
    acknowledged; one beyond what a segment's indexes can hold could not be read."""
    fs, broker = written()
    path = logs.files(fs, broker.log(), ".log")[-1]
    broker.logs.close()
    file = fs.open(path)
    at = positions(fs, path)[-1]
    offset = int.from_bytes(file.pread(8, at), "big") ^ 1 << bit
    file.pwrite(offset.to_bytes(8, "big"), at)
    broker.start()
    end = broker.log().end_offset
    assert COUNT - 1 <= end <= 1 << 32
    intact = logs.read_from(broker.log(), upto=COUNT - 1)
    assert [record.value for record in intact] == [
        b"%0200d" % number for number in range(COUNT - 1)
    ]
    appended = logs.append(broker.log(), logs.batch([b"next"]))
    assert appended.base_offset == end
    assert [record.value for record in logs.read_from(broker.log(), end)] == [b"next"]
