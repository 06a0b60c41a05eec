"""What a log knows of its compaction."""

from __future__ import annotations

from typing import Any

import pytest

from kavka.compat_tests.raw.codec.batches import Written, build
from kavka.log import producer_state, replay
from kavka.log.compaction.order import LastRecord, LastRecords
from kavka.log.compaction.run import compact
from kavka.log.memfs import MemFs
from kavka.wire.steps import run_at_once
from support import logs
from support.compaction import clean, order, read_all
from support.logs import Broker
from support.virtual import InlineWorker

CHECKPOINT = f"{logs.DIRECTORY}/cleaner-offset-checkpoint"


def a_broker(fs: MemFs) -> Broker:
    return Broker(fs, log_settings=logs.settings(cleanup_policy=("compact",), segment_bytes=1000))


def fill(broker: Broker, count: int = 100) -> None:
    for number in range(count):
        batch = build([Written(b"%d" % (number % 3), b"value")])
        logs.append(broker.log(), memoryview(batch))


def test_the_cleaned_offset_survives_restarts() -> None:
    fs = MemFs()
    broker = a_broker(fs)
    fill(broker)
    assert broker.log().compaction.first_dirty(0, 100) == 0
    upto = clean(broker.log(), fs).end_offset
    assert upto > 50
    broker.restart()
    assert fs.read_bytes(CHECKPOINT) == b"0\n1\nt 0 %d\n" % upto
    assert broker.log().compaction.first_dirty(0, 100) == upto


def test_a_broker_that_compacts_nothing_writes_no_checkpoint() -> None:
    fs = MemFs()
    broker = a_broker(fs)
    fill(broker)
    broker.restart()
    assert not fs.exists(CHECKPOINT)


def test_a_topic_of_the_same_name_is_not_taken_for_clean() -> None:
    fs = MemFs()
    broker = a_broker(fs)
    fill(broker)
    clean(broker.log(), fs)
    broker.logs.checkpoint(None).run()
    broker.logs.delete("t", 0)
    fill(broker)
    broker.kill()
    assert broker.log().compaction.clean_upto is None
    assert b"t 0" not in fs.read_bytes(CHECKPOINT)


@pytest.mark.parametrize("saved", [100, 101, 150, 10**9])
def test_a_checkpointed_offset_beyond_the_closed_segments_is_ignored(
    saved: int, caplog: pytest.LogCaptureFixture
) -> None:
    """When the log has grown beyond it: what was never compacted would never be compacted."""
    fs = MemFs()
    broker = a_broker(fs)
    fill(broker)
    fs.write_atomic(CHECKPOINT, b"0\n1\nt 0 %d\n" % saved, sync=True)
    broker.kill()
    assert f"compacted up to {saved}" in caplog.text
    fill(broker, 200)
    log = broker.log()
    assert log.compaction.first_dirty(0, log.end_offset) == 0
    clean(log, fs)
    assert not [record for record in read_all(log) if record.offset < 100]


def test_an_offset_out_of_bounds_is_of_another_log() -> None:
    fs = MemFs()
    compaction = a_broker(fs).log().compaction
    compaction.clean_upto = 50
    assert compaction.first_dirty(50, 50) == 50
    assert compaction.first_dirty(51, 90) == 51
    assert compaction.first_dirty(10, 49) == 10


def test_a_truncated_log_is_dirty_from_there_and_a_running_compaction_is_void() -> None:
    fs = MemFs()
    broker = a_broker(fs)
    fill(broker)
    log = broker.log()
    clean(log, fs)
    messages: list[Any] = []
    fill(broker)
    serial = log.compaction.serial
    compact(InlineWorker(messages.append), fs, order(log))
    run_at_once(broker.logs.truncate_in_steps(log, 20))
    assert log.compaction.first_dirty(0, 20) == 20
    fill(broker)
    before = read_all(log)
    assert not any(
        log.compaction.replace(log.settings, replacement, serial) for replacement in messages
    )
    assert read_all(log) == before


def test_a_compaction_begun_during_a_truncation_is_void(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It knows no producer, and would replace the segments that are read to find them."""
    monkeypatch.setattr(replay, "BATCHES_PER_STEP", 4)
    fs = MemFs()
    broker = a_broker(fs)
    fill(broker)
    log = broker.log()
    cutting = log.truncate_in_steps(log.end_offset - 1)
    next(cutting)
    messages: list[Any] = []
    serial = log.compaction.serial
    compact(InlineWorker(messages.append), fs, order(log))
    before = read_all(log)
    assert not any(
        log.compaction.replace(log.settings, replacement, serial) for replacement in messages
    )
    for _ in cutting:
        pass
    assert not any(
        log.compaction.replace(log.settings, replacement, serial) for replacement in messages
    )
    assert messages and read_all(log) == before


def test_records_after_a_truncation_are_not_clean_after_a_crash() -> None:
    fs = MemFs()
    broker = a_broker(fs)
    fill(broker)
    log = broker.log()
    clean(log, fs)
    broker.logs.checkpoint(None).run()
    assert log.recovery_point == 0, "nothing of it was flushed, so no recovery point goes back"
    run_at_once(broker.logs.truncate_in_steps(log, 20))
    fill(broker)
    broker.kill()
    assert broker.log().end_offset == 120
    assert broker.log().compaction.first_dirty(0, 120) == 20


def test_segments_that_went_meanwhile_are_not_replaced() -> None:
    fs = MemFs()
    broker = a_broker(fs)
    fill(broker)
    log = broker.log()
    messages: list[Any] = []
    compact(InlineWorker(messages.append), fs, order(log))
    log.advance_start(30)
    assert log.delete_old(logs.TIMESTAMP, log.end_offset)
    before = read_all(log)
    assert not log.compaction.replace(log.settings, messages[0], log.compaction.serial)
    assert read_all(log) == before


def test_very_many_producers_are_collected_in_steps_while_they_write(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(producer_state, "ENTRIES_PER_PART", 2)
    log = a_broker(MemFs()).log()

    def write(producer_id: int, sequence: int) -> None:
        producer = logs.Producer(producer_id, 1, sequence)
        logs.append(log, logs.batch([b"x"], keys=[b"a"], producer=producer))

    for producer_id in range(5):
        write(producer_id, 0)
    found = LastRecords.none()
    steps = log.compaction.collect_last_records(found)
    next(steps)
    for producer_id in (0, 4, 5):
        write(producer_id, int(producer_id < 5))
    assert len(list(steps)) == 2
    last = {0: 0, 1: 1, 2: 2, 3: 3, 4: 6, 5: 7}
    assert found.by_producer() == {producer: LastRecord(at, 1) for producer, at in last.items()}


def test_an_order_names_producers_and_later_transactions() -> None:
    fs = MemFs()
    broker = a_broker(fs)
    fill(broker, 30)
    log = broker.log()
    first, second = logs.Producer(7, 3, 0), logs.Producer(8, 0, 0)
    at = logs.append(log, logs.batch([b"x"], keys=[b"a"], producer=first)).last_offset
    logs.append(log, logs.batch([b"x"], keys=[b"a"], producer=second, transactional=True))
    logs.end_transaction(log, second, commit=False)
    found = order(log)
    assert found.producers.by_producer() == {7: LastRecord(at, 3), 8: LastRecord(at + 1, 0)}
    assert found.end_offset == found.later_bases[0] > max(base for base, _ in found.segments)
    assert len(found.later_bases) == 1
