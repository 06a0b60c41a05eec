"""Duplicates of any of a producer's last five batches are recognised after every kind of restart,
although a snapshot has only the last one; a plain list of what was appended is the judge."""

from __future__ import annotations

import random
from collections import defaultdict

import pytest

from kavka.log import recent_batches
from kavka.log.errors import CorruptLogError
from kavka.log.memfs import MemFs
from kavka.log.partition_log import PartitionLog
from kavka.log.producer_state import ProducerStates
from kavka.log.scan import headers
from kavka.log.segment import Segment
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.record_batches import read_header
from kavka.wire.steps import Steps, run_at_once
from support import logs
from support.logs import TIMESTAMP, Broker, Producer

KEPT = 5
SETTINGS = {"segment_bytes": 2000, "index_interval_bytes": 200}


class Written:
    """What was appended: of each producer the (sequence, values, offset) of its batches."""

    def __init__(self, log: PartitionLog) -> None:
        self.log = log
        self.batches: dict[tuple[int, int], list[tuple[int, list[bytes], int]]] = defaultdict(list)

    def append(
        self, producer: int, count: int, *, epoch: int = 0, timestamp: int = TIMESTAMP
    ) -> None:
        written = self.batches[producer, epoch]
        sequence = written[-1][0] + len(written[-1][1]) if written else 0
        values = [b"%d" % number for number in range(count)]
        data = logs.batch(
            values, producer=Producer(producer, epoch, sequence), timestamps=timestamp
        )
        done = logs.append(self.log, data)
        assert not done.duplicate
        written.append((sequence, values, done.base_offset))

    def are_recognised(self, producer: int, *, epoch: int = 0, kept: int = KEPT) -> bool:
        """Whether the last ones, sent again, are duplicates with the offsets that they have."""
        for sequence, values, offset in self.batches[producer, epoch][-kept:]:
            data = logs.batch(values, producer=Producer(producer, epoch, sequence))
            try:
                done = logs.append(self.log, data)
            except ApiError as failure:
                assert failure.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
                return False
            if not done.duplicate:
                return False
            assert done.base_offset == offset
        return True


@pytest.mark.parametrize("how", ["restart", "kill"])
@pytest.mark.parametrize("seed", range(20))
def test_the_last_five_are_known_after(how: str, seed: int) -> None:
    chance = random.Random(seed)
    fs = MemFs()
    broker = Broker(fs, log_settings=logs.settings(**SETTINGS))
    written = Written(broker.log())
    epochs = [0, 0, 0]
    for _ in range(6):
        for _ in range(chance.randrange(1, 30)):
            producer = chance.randrange(3)
            epochs[producer] += chance.random() < 0.05
            written.append(producer, chance.randrange(1, 9), epoch=epochs[producer])
        getattr(broker, how)()
        written.log = broker.log()
        for producer, epoch in enumerate(epochs):
            assert written.are_recognised(producer, epoch=epoch)


def test_after_a_truncation(fs: MemFs) -> None:
    written = Written(Broker(fs, log_settings=logs.settings(**SETTINGS)).log())
    for _ in range(60):
        written.append(7, 1)
    assert len(logs.base_offsets(fs, written.log)) > 2
    offset = logs.base_offsets(fs, written.log)[-1]
    logs.truncate(written.log, offset)
    run_at_once(written.log.producer_manager.rebuild(0, offset))
    del written.batches[7, 0][offset:]
    assert written.are_recognised(7)


def read_bytes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How much is read of a log in search of batches, window by window."""
    sizes: list[int] = []
    take = recent_batches._Search._take

    def counted(
        search: recent_batches._Search, segment: Segment, lower: int, upper: int
    ) -> Steps[None]:
        sizes.append(upper - lower)
        yield from take(search, segment, lower, upper)

    monkeypatch.setattr(recent_batches._Search, "_take", counted)
    return sizes


def test_an_old_log_is_not_read(fs: MemFs, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(fs, log_settings=logs.settings())
    written = Written(broker.log())
    for _ in range(KEPT):
        written.append(7, 2)
    sizes = read_bytes(monkeypatch)
    broker.clock.set(recent_batches.WRITTEN_WITHIN_MS)
    broker.restart()
    written.log = broker.log()
    assert not sizes
    assert written.are_recognised(7, kept=1)
    assert not written.are_recognised(7)


def test_of_a_window_with_too_many_batches_the_newest_are_looked_at(
    fs: MemFs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without an index entry a window is the whole segment."""
    monkeypatch.setattr(recent_batches, "BATCHES_MAX", 20)
    broker = Broker(fs, log_settings=logs.settings(index_interval_bytes=1 << 20))
    written = Written(broker.log())
    for _ in range(100):
        written.append(7, 1)
        written.append(8, 1)
    broker.restart()
    written.log = broker.log()
    assert written.are_recognised(7)
    assert written.are_recognised(8)


def test_damage_in_a_segment_before_does_not_matter(fs: MemFs) -> None:
    broker = Broker(fs, log_settings=logs.settings(segment_bytes=8000))
    written = Written(broker.log())
    for _ in range(100):
        logs.append(written.log, logs.batch([b"v" * 200]))
    for _ in range(2 * KEPT):
        written.append(7, 1)
    path = logs.files(fs, written.log, ".log")[0]
    file = fs.open(path)
    *_, (position, _) = headers(file, path, 0, file.size())
    broker.logs.close()
    file.pwrite(b"\x7f", position + 16)
    broker.start()
    written.log = broker.log()
    assert written.are_recognised(7)


@pytest.mark.parametrize("ahead_ms", [24 * 3_600_000, -24 * 3_600_000])
def test_what_the_timestamps_say_does_not_matter(fs: MemFs, ahead_ms: int) -> None:
    """They come from other machines' clocks, or are those of events long ago."""
    broker = Broker(fs, log_settings=logs.settings(**SETTINGS))
    written = Written(broker.log())
    for _ in range(2 * KEPT):
        written.append(7, 2)
        written.append(8, 2, timestamp=TIMESTAMP + ahead_ms)
    broker.restart()
    written.log = broker.log()
    assert written.are_recognised(7)
    assert written.are_recognised(8)


def test_producers_that_have_stopped_are_not_looked_for(
    fs: MemFs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their newest batch is further from the end of the log than may be read."""
    monkeypatch.setattr(recent_batches, "BYTES_MAX", 100_000)
    broker = Broker(fs, log_settings=logs.settings(index_interval_bytes=200))
    written = Written(broker.log())
    for _ in range(KEPT):
        written.append(7, 1)
    others = logs.batch([b"v" * 1000])
    for _ in range(120):
        logs.append(written.log, others)
    for _ in range(KEPT):
        written.append(8, 1)
    sizes = read_bytes(monkeypatch)
    broker.restart()
    written.log = broker.log()
    assert len(sizes) == 1
    assert written.are_recognised(8)
    assert not written.are_recognised(7)


def test_no_more_is_read_than_the_limits_allow(fs: MemFs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent_batches, "BYTES_MAX", 50_000)
    broker = Broker(fs, log_settings=logs.settings())
    written = Written(broker.log())
    written.append(7, 1)
    written.append(7, 1)
    for _ in range(300):
        written.append(8, 100)
    written.append(7, 1)
    sizes = read_bytes(monkeypatch)
    broker.restart()
    assert sum(sizes[:-1]) < 50_000 <= sum(sizes)
    states = {
        entry.producer_id: len(entry.batches) for entry in broker.log().producer_manager.states
    }
    assert states == {7: 1, 8: KEPT}


def test_no_more_batches_are_looked_at_than_the_limit_whosever_they_are(
    fs: MemFs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recent_batches, "BATCHES_MAX", 10)
    broker = Broker(fs, log_settings=logs.settings())
    written = Written(broker.log())
    for number in range(20):
        logs.append(written.log, logs.batch([b"%d" % number]))  # of no producer
    written.append(7, 1)
    written.append(7, 1)
    for number in range(20):
        logs.append(written.log, logs.batch([b"%d" % number]))
    broker.restart()
    (entry,) = broker.log().producer_manager.states
    assert len(entry.batches) == 1


def test_damage_ends_the_search(fs: MemFs, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(fs, log_settings=logs.settings())
    written = Written(broker.log())
    for _ in range(3):
        written.append(7, 1)

    def damaged(*_: object) -> None:
        raise CorruptLogError("t", 0, "damaged")

    monkeypatch.setattr(Segment, "indexed_before", damaged)
    broker.restart()
    written.log = broker.log()
    assert written.are_recognised(7, kept=1)


def test_a_batch_that_does_not_follow_is_not_taken() -> None:
    """Of another epoch, or with others missing in between, as after compaction."""
    producers = ProducerStates()
    for sequence in (0, 2, 6):
        header = read_header(logs.batch([b"v", b"w"], producer=Producer(7, 1, sequence)))
        producers.update(header, sequence + 1)
    (entry,) = producers
    entry.batches = entry.batches[-1:]
    for epoch, sequence in ((0, 4), (1, 2)):
        header = read_header(logs.batch([b"v", b"w"], producer=Producer(7, epoch, sequence)))
        recent_batches._prepend(entry, header)
        assert len(entry.batches) == 1
