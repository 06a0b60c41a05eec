"""One flipped bit in an index: the log answers each question with what it holds.

A log is written once and closed in order, so that its indexes are trusted. Each bit of each index
is flipped in a copy, and each kind of question asked of a copy of its own, since the first that
finds the damage rebuilds the index. The judge is a plain list of the batches.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest

from kavka.log.memfs import MemFs
from kavka.log.partition_log import PartitionLog
from support import logs
from support.logs import Broker, Producer

WHOLE = os.environ.get("DAMAGE") == "whole"
"""Every bit, else each seventh."""

pytestmark = pytest.mark.timeout(1800 if WHOLE else 300)

SETTINGS = logs.settings(segment_bytes=3000, index_interval_bytes=250)
TIMES = (5, 3, 9, 9, 2, 14, 14, 13, 20, 1, 20, 26, 25, 30, 30, 22)
"""Of one batch after the other: not in order, and some more than once."""
TRANSACTIONS = {8: Producer(7, 0, 0), 19: Producer(8, 0, 0)}
"""The batches that are transactions of their own, which are aborted."""
BATCHES = 32


@dataclass(frozen=True)
class Batch:
    """What the log holds."""

    segment: int
    position: int
    size: int
    base: int
    last: int
    timestamp: int


@dataclass(frozen=True)
class Written:
    """The files of a stopped broker, and what is in its log."""

    files: dict[str, bytes]
    batches: tuple[Batch, ...]
    aborted: tuple[tuple[int, int], ...]
    """First and last offsets of transactions."""

    def opened(self, damaged: str, bit: int) -> PartitionLog:
        """A start on a copy with one bit flipped."""
        fs = MemFs()
        fs.make_dir("/data/t-0")
        for path, content in self.files.items():
            fs.create(path).pwrite(content, 0)
        fs.flip_bit(damaged, bit)
        return Broker(fs, log_settings=SETTINGS).log()

    def of(self, offset: int) -> Batch:
        """The batch that holds an offset."""
        return next(batch for batch in self.batches if batch.last >= offset)

    @property
    def end(self) -> int:
        return self.batches[-1].last + 1


def write() -> Written:
    fs = MemFs()
    broker = Broker(fs, log_settings=SETTINGS)
    log = broker.log()
    batches: list[Batch] = []
    aborted: list[tuple[int, int]] = []

    def note(data: memoryview, timestamp: int) -> None:
        found = log.read(log.end_offset - 1, 1 << 20, upto=log.end_offset, at_least_one=True)
        assert found is not None
        segment = logs.base_offsets(fs, log)[-1]
        base = found.base_offset
        batches.append(
            Batch(segment, found.position, found.length, base, log.end_offset - 1, timestamp)
        )

    for number in range(BATCHES):
        timestamp = logs.TIMESTAMP + TIMES[number % len(TIMES)] + 15 * (number // len(TIMES))
        producer = TRANSACTIONS.get(number)
        values = [b"%d" % number * (20 * (number % 5))] * (1 + number % 3)
        data = logs.batch(
            values,
            timestamps=timestamp,
            producer=producer or logs.NO_PRODUCER,
            transactional=producer is not None,
        )
        first = log.end_offset
        logs.append(log, data)
        note(data, timestamp)
        if producer is not None:
            marker = logs.end_transaction(log, producer, commit=False)
            note(data, logs.TIMESTAMP)
            aborted.append((first, marker))
    broker.logs.close({("t", 0): log.end_offset})
    names = [f"/data/{name}" for name in fs.list_dir("/data") if not fs.is_dir(f"/data/{name}")]
    names += [f"/data/t-0/{name}" for name in fs.list_dir("/data/t-0")]
    files = {name: fs.read_bytes(name) for name in names if not name.endswith(".lock")}
    return Written(files, tuple(batches), tuple(aborted))


WRITTEN = write()


def read_everywhere(log: PartitionLog, chance: random.Random) -> None:
    """At each offset, with each small limit."""
    questions = [
        (offset, max_bytes, upto, at_least_one)
        for offset in range(WRITTEN.end)
        for max_bytes in (1, 300, 700, 4000)
        for upto in (WRITTEN.end, WRITTEN.of(chance.randrange(offset, WRITTEN.end)).last + 1)
        for at_least_one in (True, False)
    ]
    chance.shuffle(questions)
    for offset, max_bytes, upto, at_least_one in questions[:60]:
        first = WRITTEN.of(offset)
        fits = first.size <= max_bytes
        found = log.read(offset, max_bytes, upto=upto, at_least_one=at_least_one)
        if found is None:
            assert upto <= first.last or not (fits or at_least_one)
            continue
        assert (found.position, found.base_offset) == (first.position, first.base)
        readable = [
            batch
            for batch in WRITTEN.batches
            if batch.segment == first.segment and batch.last < upto and batch.base >= first.base
        ]
        last = readable[-1]
        assert found.position + found.length <= last.position + last.size
        if fits or at_least_one:
            assert found.length >= first.size
        assert found.length <= max(max_bytes, first.size if at_least_one else 0)


def read_times(log: PartitionLog, chance: random.Random) -> None:
    """The first batch at a time or later, from some offset on."""
    times = sorted({batch.timestamp for batch in WRITTEN.batches})
    questions = [
        (time + delta, start) for time in times for delta in (0, 1) for start in (0, 7, 20, 41)
    ]
    chance.shuffle(questions)
    for time, start in questions:
        expected = next(
            (batch for batch in WRITTEN.batches if batch.timestamp >= time and batch.last >= start),
            None,
        )
        found = log.batch_for_timestamp(time, start)
        assert (found and found.base_offset) == (expected and expected.base)


def read_newest(log: PartitionLog, chance: random.Random) -> None:
    """The greatest time, and how old each segment is."""
    newest = max(batch.timestamp for batch in WRITTEN.batches)
    expected = next(batch for batch in WRITTEN.batches if batch.timestamp == newest)
    found = log.batch_of_max_timestamp()
    assert found is not None and found.base_offset == expected.base
    for segment in log._segments:
        times = [
            batch.timestamp for batch in WRITTEN.batches if batch.segment == segment.base_offset
        ]
        assert segment.newest_ms() == max(times)
        assert segment.first_timestamp == times[0]


def read_aborted(log: PartitionLog, chance: random.Random) -> None:
    """Every aborted transaction with a record in what is read is reported."""
    offsets = list(range(WRITTEN.end))
    chance.shuffle(offsets)
    for offset in offsets:
        found = log.read(offset, 500, upto=WRITTEN.end, at_least_one=True)
        assert found is not None
        whole = [
            batch
            for batch in WRITTEN.batches
            if batch.segment == WRITTEN.of(offset).segment
            and found.position <= batch.position < found.position + found.length
        ]
        reported = {
            transaction.first_offset
            for transaction in log.aborted_transactions(offset, found).found
        }
        for first, last in WRITTEN.aborted:
            if last >= offset and any(first <= batch.last for batch in whole):
                assert first in reported


def cut_and_read(log: PartitionLog, chance: random.Random) -> None:
    """A truncation at the beginning of a batch, and what is left."""
    kept = WRITTEN.batches[: chance.randrange(1, len(WRITTEN.batches))]
    logs.truncate(log, kept[-1].last + 1)
    assert log.end_offset == kept[-1].last + 1
    for batch in kept:
        found = log.read(batch.base, 1, upto=log.end_offset, at_least_one=True)
        assert found is not None and found.base_offset == batch.base
    newest = max(batch.timestamp for batch in kept)
    found = log.batch_of_max_timestamp()
    assert found is not None
    assert found.base_offset == next(batch.base for batch in kept if batch.timestamp == newest)
    for time in sorted({batch.timestamp for batch in kept}):
        found = log.batch_for_timestamp(time)
        assert found is not None
        assert found.base_offset == next(batch.base for batch in kept if batch.timestamp >= time)


def append_and_read(log: PartitionLog, chance: random.Random) -> None:
    """Further batches, and all there is."""
    end = log.end_offset
    assert end == WRITTEN.end
    logs.fill(log, 5)
    assert len(logs.read_from(log, 0, max_bytes=400)) > 5
    assert [record.offset for record in logs.read_from(log, end, max_bytes=400)] == list(
        range(end, end + 5)
    )


Question = Callable[[PartitionLog, random.Random], None]
QUESTIONS: Sequence[Question] = (
    read_everywhere,
    read_times,
    read_newest,
    read_aborted,
    cut_and_read,
    append_and_read,
)


def indexes() -> list[str]:
    return [path for path in WRITTEN.files if path.endswith((".index", ".timeindex"))]


def test_the_log_has_what_it_takes() -> None:
    sizes = [len(WRITTEN.files[path]) for path in indexes()]
    assert len(sizes) >= 4 and max(sizes) >= 8 * 5
    assert len(WRITTEN.aborted) == len(TRANSACTIONS)


@pytest.mark.parametrize("path", indexes(), ids=lambda path: path.rpartition("/")[2])
@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.__name__)
def test_every_bit_of_an_index(path: str, question: Question) -> None:
    for bit in range(0, 8 * len(WRITTEN.files[path]), 1 if WHOLE else 7):
        log = WRITTEN.opened(path, bit)
        try:
            question(log, random.Random(bit))
        except AssertionError as wrong:
            raise AssertionError(f"bit {bit % 8} of byte {bit // 8} of {path}") from wrong


def closed_often(batches: int) -> MemFs:
    """A log of one segment with a batch and a clean stop in turn: each stop adds an entry to the
    time index, so that it has more entries than one that is built from the batches."""
    fs = MemFs()
    for number in range(batches):
        broker = Broker(fs, log_settings=SETTINGS_OF_ONE)
        log = broker.log()
        logs.append(log, logs.batch([b"%d" % number], timestamps=logs.TIMESTAMP + 10 * number))
        broker.logs.close({("t", 0): log.end_offset})
    return fs


SETTINGS_OF_ONE = logs.settings(segment_bytes=1 << 20, index_interval_bytes=1 << 20)


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("first", ["append", "time", "newest", "truncate"])
def test_an_index_that_is_gone_is_rebuilt(suffix: str, first: str) -> None:
    fs = closed_often(5)
    fs.remove(f"/data/t-0/{0:020d}{suffix}")
    log = Broker(fs, log_settings=SETTINGS_OF_ONE).log()
    if first == "append":
        logs.append(log, logs.batch([b"5"], timestamps=logs.TIMESTAMP + 50))
        assert log.end_offset == 6
    elif first == "newest":
        newest = log.batch_of_max_timestamp()
        assert newest is not None and newest.base_offset == 4
    elif first == "truncate":
        logs.truncate(log, 4)
        assert log.end_offset == 4
    for number in range(4):
        for delta in (-9, 0):
            found = log.batch_for_timestamp(logs.TIMESTAMP + 10 * number + delta)
            assert found is not None and found.base_offset == number
