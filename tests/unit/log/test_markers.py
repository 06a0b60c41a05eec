"""Transactions in a log, through restarts, crashes and cuts, against a list of what was written."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from kavka.log.fs import OsFs
from kavka.log.memfs import Fault, MemFs
from kavka.log.partition_log import PartitionLog
from kavka.log.txn_index import AbortedTxn
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.steps import run_at_once
from support import dump_log, logs
from support.log_model import ABORT, COMMIT, Batch, History
from support.logs import Broker, Producer

SMALL = logs.settings(segment_bytes=1500, index_interval_bytes=300)


class Story:
    """Writes to a log at random, and remembers what it wrote."""

    def __init__(self, broker: Broker, seed: int) -> None:
        self.broker = broker
        self.chance = random.Random(seed)
        self.written = History()

    @property
    def log(self) -> PartitionLog:
        return self.broker.log()

    def go_on(self, steps: int) -> None:
        for _ in range(steps):
            producer = self.chance.randint(1, 4)
            if producer in self.written.open_transactions() and self.chance.random() < 0.4:
                self.end(producer, commit=self.chance.random() < 0.5)
            else:
                # the last producer uses no transactions
                self.write(producer, transactional=producer != 4)

    def write(self, producer: int, *, transactional: bool) -> None:
        count = self.chance.randint(1, 3)
        values = [self.chance.randbytes(self.chance.randint(1, 60)) for _ in range(count)]
        sequence = self.last_sequence(producer) + 1
        data = logs.batch(
            values, producer=Producer(producer, 0, sequence), transactional=transactional
        )
        done = logs.append(self.log, data)
        self.written.batches.append(
            Batch(
                done.base_offset,
                done.last_offset,
                producer=producer,
                sequence=sequence + count - 1,
                transactional=transactional,
            )
        )

    def end(self, producer: int, *, commit: bool) -> None:
        offset = logs.end_transaction(self.log, Producer(producer, 0, -1), commit=commit)
        self.note_marker(offset, producer, COMMIT if commit else ABORT)

    def note_marker(self, offset: int, producer: int, kind: str) -> None:
        self.written.batches.append(Batch(offset, offset, kind, producer=producer))

    def cut(self) -> None:
        """Truncate to somewhere in the later half, as a follower does."""
        batches = self.written.batches
        offset = self.chance.choice(batches[len(batches) // 2 :]).first
        run_at_once(self.broker.logs.truncate_in_steps(self.log, offset))
        self.written.cut(offset)

    # --- what must be true

    def last_sequence(self, producer: int) -> int:
        last = self.written.last_of(producer)
        return -1 if last is None else last.sequence

    def aborted(self) -> list[AbortedTxn]:
        """The aborted transactions, with the last stable offset right after their markers."""
        found: list[AbortedTxn] = []
        for transaction in self.written.ended_transactions():
            if transaction.kind == ABORT:
                before = History(
                    [batch for batch in self.written.batches if batch.last <= transaction.marker]
                )
                stable = before.stable(transaction.marker + 1)
                found.append(
                    AbortedTxn(transaction.producer, transaction.first, transaction.marker, stable)
                )
        return found

    def check(self) -> None:
        log, aborted = self.log, self.aborted()
        opened = self.written.open_transactions()
        end = self.written.end
        assert log.end_offset == end
        assert log.last_stable_offset(end) == min(opened.values(), default=end)
        assert logs.aborted_entries(self.broker.fs, log) == aborted
        for offset in range(end):
            found = log.read(offset, 700, upto=end, at_least_one=True)
            assert found is not None
            upper = logs.parse(logs.bytes_of(found))[-1].offset + 1
            reported, upto = log.aborted_transactions(offset, found)
            assert upto is None
            concerned = [
                transaction for transaction in aborted if transaction.last_offset >= offset
            ]
            assert [
                transaction for transaction in reported if transaction.first_offset < upper
            ] == [transaction for transaction in concerned if transaction.first_offset < upper]
            assert set(reported) <= set(concerned)
        for entry in log.producers:
            assert entry.txn_first_offset == opened.get(entry.producer_id, -1)
            assert entry.last_sequence == self.last_sequence(entry.producer_id)


def lose_indexes(broker: Broker) -> None:
    """A kill, after which every index of transactions is broken in one way or another."""
    log = broker.log()
    logs.flush(log)
    broker.logs.checkpoint(None).run()
    paths = logs.files(broker.fs, log, ".txnindex")
    for number, path in enumerate(paths):
        content = broker.fs.read_bytes(path)
        bad = (bytes(len(content)), content[:-3], content[::-1], b"garbage")[number % 4]
        broker.fs.create(path).pwrite(bad, 0)
    broker.kill()


def flush_and_crash(broker: Broker) -> None:
    logs.flush(broker.log())
    broker.crash(random.Random(1))


ENDS = [Broker.restart, Broker.kill, flush_and_crash, lose_indexes]


@pytest.mark.parametrize("end", ENDS, ids=lambda end: end.__name__)
@pytest.mark.parametrize("seed", range(4))
def test_the_state_survives_every_kind_of_end(end: Callable[[Broker], None], seed: int) -> None:
    story = Story(Broker(MemFs(), log_settings=SMALL), seed)
    for steps in (30, 60, 90):
        story.go_on(steps)
        story.check()
        end(story.broker)
        story.check()
    assert len(story.aborted()) > 5 and story.log.segment_count > 5


@pytest.mark.parametrize("seed", range(6))
def test_truncation_removes_transactions(seed: int) -> None:
    story = Story(Broker(MemFs(), log_settings=SMALL), seed)
    for again in (None, Broker.restart, Broker.kill, Broker.crash):
        story.go_on(80)
        story.cut()
        story.check()
        if again is not None:
            logs.flush(story.log)
            again(story.broker)
            story.check()


def test_a_clean_stop_with_broken_indexes() -> None:
    story = Story(Broker(MemFs(), log_settings=SMALL), 3)
    story.go_on(150)
    paths = logs.files(story.broker.fs, story.log, ".txnindex")
    story.broker.logs.close()
    good = {path: story.broker.fs.read_bytes(path) for path in paths}
    for path in paths:
        story.broker.fs.create(path).pwrite(good[path][1:], 0)
    story.broker.start()
    story.check()
    assert {path: story.broker.fs.read_bytes(path) for path in paths} == good
    assert isinstance(story.broker.fs, MemFs)
    story.broker.crash()
    story.check()


def flush_active(story: Story) -> None:
    """As `flush.messages` has it, without the indexes."""
    plan = story.log.flush_plan()
    assert plan is not None and plan.offset == story.log.end_offset
    plan.run()
    story.log.flushed(plan)
    story.broker.logs.checkpoint(None).run()


CRASHES = range(20)


@pytest.mark.parametrize("crash", CRASHES)
@pytest.mark.parametrize("recovered", [False, True])
def test_what_was_flushed_before_a_roll_survives_a_power_failure(
    recovered: bool, crash: int
) -> None:
    """The recovery point is at the new segment, so the old one is not read again."""
    story = Story(Broker(MemFs(), log_settings=logs.settings(flush_messages=1)), 0)
    story.write(1, transactional=True)
    story.end(1, commit=False)
    flush_active(story)
    if recovered:
        story.broker.kill()
    story.log.roll(logs.TIMESTAMP)
    story.broker.crash(random.Random(crash))
    story.check()


@pytest.mark.parametrize("crash", CRASHES)
def test_truncated_records_do_not_come_back_after_a_power_failure(crash: int) -> None:
    """Where an abort was, there is a commit now."""
    story = Story(Broker(MemFs(), log_settings=logs.settings(flush_messages=1)), 0)
    story.write(1, transactional=True)
    story.end(1, commit=False)
    flush_active(story)
    first = story.written.batches.pop().first
    run_at_once(story.broker.logs.truncate_in_steps(story.log, first))
    story.end(1, commit=True)
    flush_active(story)
    story.log.roll(logs.TIMESTAMP)
    story.broker.crash(random.Random(crash))
    story.check()


def test_an_index_that_cannot_be_written_shows_nothing_as_decided() -> None:
    fs = MemFs()
    story = Story(Broker(fs, log_settings=SMALL), 0)
    story.write(1, transactional=True)
    first_end = story.log.end_offset
    fs.faults.append(Fault("pwrite", ".txnindex"))
    with pytest.raises(OSError, match="txnindex|No space|Input/output"):
        story.end(1, commit=False)
    assert story.log.end_offset == first_end + 1, "the marker is there"
    assert story.log.last_stable_offset(first_end + 1) == 0
    story.broker.kill()
    story.note_marker(first_end, 1, ABORT)
    story.check()


def test_the_last_stable_offset_waits_for_replication() -> None:
    story = Story(Broker(MemFs()), 0)
    log = story.log
    story.write(4, transactional=False)
    start = log.end_offset
    story.write(1, transactional=True)
    story.write(4, transactional=False)
    assert log.last_stable_offset(start) == start
    assert log.last_stable_offset(log.end_offset) == start
    story.end(1, commit=True)
    end = log.end_offset
    assert log.last_stable_offset(end - 1) == start, "a fail-over could take the marker back"
    assert log.last_stable_offset(end) == end
    assert log.transactions.all_decided


def test_the_first_batch_of_a_transaction_is_to_be_verified() -> None:
    log = Broker(MemFs()).log()

    def write(sequence: int, guard: object) -> ErrorCode:
        data = logs.batch([b"v"], producer=Producer(1, 0, sequence), transactional=True)
        try:
            logs.append(log, data, guard=guard)  # type: ignore[arg-type]
        except ApiError as refused:
            return refused.code
        return ErrorCode.NONE

    assert write(0, None) == ErrorCode.INVALID_TXN_STATE
    late = log.producers.verifications.begin(1, 0, 0, logs.TIMESTAMP)
    assert write(0, late) == ErrorCode.NONE
    assert write(1, None) == ErrorCode.NONE, "it is going on"
    assert write(1, None) == ErrorCode.NONE, "a copy"
    assert log.end_offset == 2
    logs.end_transaction(log, Producer(1, 0, -1), commit=True)
    assert write(2, late) == ErrorCode.INVALID_TXN_STATE, "confirmed before the marker"
    now = log.producers.verifications.begin(1, 2, 0, logs.TIMESTAMP)
    assert write(2, now) == ErrorCode.NONE


def test_apache_kafka_reads_it(tmp_path: Path, kafka_libs: Path) -> None:
    broker = Broker(OsFs(), str(tmp_path / "data"), log_settings=SMALL)
    story = Story(broker, 5)
    story.go_on(150)
    broker.kill()
    story.go_on(50)
    story.check()
    broker.logs.close()
    dumped = dump_log.assert_sound(tmp_path / "data")
    assert dumped.records == story.written.end
    assert dumped.aborted == len(story.aborted()) > 5
    assert dumped.producers > 4
