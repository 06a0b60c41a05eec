"""Small files of a log directory whose damage can be seen from what the log itself says."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest

from kavka.log.memfs import MemFs
from support import logs
from support.logs import Broker, Producer, Read

SMALL = logs.settings(segment_bytes=1500, index_interval_bytes=300)


def written() -> tuple[MemFs, Broker, list[Read]]:
    """A broker with a log of several segments and leader epochs."""
    fs = MemFs()
    broker = Broker(fs, log_settings=SMALL)
    log = broker.log()
    for number in range(40):
        logs.append(log, logs.batch([b"%0100d" % number, b"x"]), leader_epoch=number // 10)
    return fs, broker, logs.read_from(log)


def assert_whole(broker: Broker, records: list[Read]) -> None:
    """The log has these records and epochs, and takes more."""
    log = broker.log()
    assert logs.read_from(log) == records
    assert logs.epoch_entries(log) == [(0, 0), (1, 20), (2, 40), (3, 60)]
    assert logs.append(log, logs.batch([b"more"]), leader_epoch=3).base_offset == 80


@pytest.mark.parametrize("again", [Broker.restart, Broker.kill])
def test_an_aborted_transaction_is_found_though_its_entry_was_damaged(
    again: Callable[[Broker], None],
) -> None:
    """Each bit of the marker's offset, in the index of the last segment that was flushed whole."""
    fs = MemFs()
    broker = Broker(fs, log_settings=SMALL)
    log = broker.log()
    producer = Producer(7, 0, 0)
    logs.append(log, logs.batch([b"aborted"], producer=producer, transactional=True))
    logs.end_transaction(log, producer, commit=False)
    log.roll(0)
    logs.append(log, logs.batch([b"plain"]))
    before = logs.aborted_entries(fs, log)
    assert len(before) == 1
    logs.flush(log)
    broker.logs.checkpoint({}).run()
    (path,) = logs.files(fs, log, ".txnindex")
    for bit in range(64):
        fs.flip_bit(path, 18 * 8 + bit)
        again(broker)
        assert logs.aborted_entries(fs, broker.log()) == before


OFFSET_BITS = [*range(64), *range(23 * 8, 27 * 8)]
"""Of the first batch of a file: its base offset and its last offset delta, which no checksum and
one that recovery does not read cover."""


@pytest.mark.parametrize("index_interval_bytes", [0, 300])
def test_a_damaged_offset_does_not_prevent_a_start(index_interval_bytes: int) -> None:
    """After a kill, in segments that were flushed."""
    settings = logs.settings(segment_bytes=700, index_interval_bytes=index_interval_bytes)
    fs = MemFs()
    broker = Broker(fs, log_settings=settings)
    log = broker.log()
    for number in range(12):  # segments of two batches, of which the first is later, then of one
        size = 250 if number < 6 else 600
        logs.append(log, logs.batch([bytes(size)], timestamps=logs.TIMESTAMP - number))
    logs.flush(log)
    broker.restart()
    log = broker.log()
    records = logs.read_from(log)
    paths = logs.files(fs, log, ".log")
    assert len(paths) == 9
    for path in paths[:-1]:
        for bit in OFFSET_BITS:
            damaged = copy.deepcopy(fs)
            damaged.kill()
            damaged.flip_bit(path, bit)
            log = Broker(damaged, log_settings=settings).log()
            assert log.end_offset == len(records)


def test_a_start_offset_behind_a_log_that_was_closed_in_order_is_ignored(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Apache Kafka deletes such a log: its checkpoint is damaged, or a copy of another one."""
    fs, broker, records = written()
    broker.logs.close()
    fs.write_atomic("/data/log-start-offset-checkpoint", b"0\n1\nt 0 500\n", sync=True)
    broker.start()
    log = broker.log()
    assert log.start_offset == 0
    assert logs.read_from(log) == records
    assert "its log start offset 500" in caplog.text


@pytest.mark.parametrize("again", [Broker.restart, Broker.kill])
@pytest.mark.parametrize("content", [b"0\n1\n-1 0\n", b"0\n1\n0 -5\n", b"0\n1\n99999999999 0\n"])
def test_leader_epochs_that_can_not_be_are_rebuilt(
    content: bytes, again: Callable[[Broker], None]
) -> None:
    fs, broker, records = written()
    directory = broker.log().directory
    broker.logs.close()
    fs.write_atomic(f"{directory}/leader-epoch-checkpoint", content, sync=True)
    broker.start()
    again(broker)
    assert_whole(broker, records)


def test_files_whose_names_are_no_offsets_are_left_alone() -> None:
    fs, broker, records = written()
    directory = broker.log().directory
    for name in ("12.log", "00000000000000000012.log.copy", "+0000000000000000012.log"):
        fs.create(f"{directory}/{name}").pwrite(b"?", 0)
    broker.restart()
    assert_whole(broker, records)
