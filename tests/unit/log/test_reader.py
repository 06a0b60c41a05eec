"""What a reader is given of a log that compaction has left batches without records in."""

from __future__ import annotations

import pytest

from kavka.compat_tests.raw.codec.batches import Written, build
from kavka.log import reader
from kavka.log.memfs import MemFs
from kavka.log.partition_log import PartitionLog
from kavka.log.segment import LOG
from support import logs
from support.compaction import clean, end_of, read_all, records_of
from support.logs import Broker

SEGMENT_BYTES = 700
"""Room for one batch of the following."""

VALUE = bytes(500)


def written(fs: MemFs, keys: bytes) -> PartitionLog:
    """A log with a segment for each of these one-letter keys, compacted."""
    settings = logs.settings(cleanup_policy=("compact",), segment_bytes=SEGMENT_BYTES)
    log = Broker(fs, log_settings=settings).log()
    for key in keys:
        record = Written(bytes([key]), VALUE, (), logs.TIMESTAMP)
        logs.append(log, memoryview(build([record])))
    clean(log, fs)
    return log


def reads(log: PartitionLog, upto: int, max_bytes: int = 1 << 20) -> list[list[int]]:
    """The offsets of the records that a consumer is given, answer by answer, until it is at
    `upto`."""
    offset, answers = log.start_offset, []
    while offset < upto:
        found = log.read(offset, max_bytes, upto=upto, at_least_one=True)
        assert found is not None
        data = logs.bytes_of(found)
        answers.append([record.offset for record in records_of(data)])
        assert end_of(data) > offset
        offset = end_of(data)
    return answers


def test_a_read_skips_empty_batches_before_records() -> None:
    """Else librdkafka takes its limit for too small, and fails with MSG_SIZE_TOO_LARGE."""
    log = written(MemFs(), b"a" * 12)
    assert reads(log, log.end_offset) == [[10], [11]]
    assert [record.offset for record in read_all(log)] == [10, 11]


def test_a_follower_is_given_the_empty_batches() -> None:
    log = written(MemFs(), b"a" * 4)
    for offset in range(4):
        found = log.read(offset, 1, upto=4, at_least_one=True, skip_empty=False)
        assert found is not None
        assert (found.base_offset, end_of(logs.bytes_of(found))) == (offset, offset + 1)


def test_batches_above_the_limit_are_not_read() -> None:
    log = written(MemFs(), b"a" * 12)
    assert reads(log, 10) == [[]]
    assert reads(log, 11) == [[10]]


def test_a_limit_of_bytes_does_not_leave_empty_ones_only() -> None:
    log = written(MemFs(), b"a" * 7 + b"b")
    assert reads(log, log.end_offset, max_bytes=1) == [[6], [7]]


def test_one_read_skips_a_bounded_number_of_empty_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    log = written(MemFs(), b"a" * 22)
    monkeypatch.setattr(reader, "EMPTY_SEGMENTS_MAX", 8)
    assert reads(log, log.end_offset) == [[], [], [20], [21]]
    monkeypatch.setattr(reader, "EMPTY_SEGMENTS_MAX", 100)
    monkeypatch.setattr(reader, "EMPTY_BATCHES_MAX", 15)
    assert reads(log, log.end_offset) == [[], [20], [21]]


def test_damage_after_empty_batches_is_reported_when_it_is_read() -> None:
    fs = MemFs()
    log = written(fs, b"a" * 7 + b"b")
    damaged = f"{log.directory}/{3:020d}{LOG}"
    fs.open(damaged).pwrite(bytes(20), 0)
    found = log.read(0, 1 << 20, upto=log.end_offset, at_least_one=True)
    assert found is not None
    assert end_of(logs.bytes_of(found)) == 3
