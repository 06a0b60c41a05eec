"""A log and a list, under everything at once: retention, compaction, transactions, and a disk and
a process that fail in the middle of any of it.

What is flushed is never lost, what was never written never appears, and offsets stay dense where
nothing was compacted. FAULT_EXAMPLES and FAULT_STEPS (`make faults`) make the run longer.
"""

from __future__ import annotations

import copy
import os
import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from kavka.compat_tests.raw.codec import batches
from kavka.log import producer_snapshots, producer_state
from kavka.log.compaction.order import Progress, Replacement
from kavka.log.compaction.run import compact
from kavka.log.errors import CorruptLogError, StorageError
from kavka.log.markers import append_marker
from kavka.log.memfs import Died, MemFs
from kavka.log.txn_guards import NOT_NEEDED
from kavka.wire.control_records import Marker
from kavka.wire.errors import ApiError
from kavka.wire.record_batches import read_header
from kavka.wire.steps import run_at_once
from support import compaction, log_model, logs
from support.compaction import Keyed
from support.log_life import DAY_MS, IDEMPOTENT, TRANSACTIONAL
from support.log_model import ABORT, COMMIT, Batch, Expected, by_offset, together
from support.log_moves import LogThatMoves
from support.virtual import InlineWorker

EXAMPLES = int(os.environ.get("FAULT_EXAMPLES", "400"))
STEPS = int(os.environ.get("FAULT_STEPS", "60"))

pytestmark = pytest.mark.timeout(120 + EXAMPLES)

KEYS = [b"a", b"b", b"c", b"d", b"e"]


class LogUnderFaults(LogThatMoves):
    """What may be done to a log, and what it must show."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()

    @initialize(are_many=st.booleans())
    def begin_with_producers(self, are_many: bool) -> None:
        """Their snapshot is made in pieces where they count as very many."""
        for module in (producer_state, producer_snapshots) if are_many else ():
            self.patch.setattr(module, "ENTRIES_PER_STEP", 1)

    def teardown(self) -> None:
        self.patch.undo()

    # --- writing

    def made(self, size: int, count: int) -> list[Keyed]:
        """Records with keys; no value twice; some are tombstones."""
        found = []
        for delta in range(count):
            self.count += 1
            chance = random.Random(self.count)
            value = b"%d/" % self.count + chance.randbytes(size) if chance.random() < 0.85 else None
            self.now_ms += chance.randint(-3, 10)
            offset = self.history.end + delta
            found.append(Keyed(offset, chance.choice(KEYS), value, self.now_ms))
        return found

    def write(self, batch: Batch, *, codec: str = "none") -> None:
        written = [
            batches.Written(
                record.key, record.value, time_ms=record.timestamp - batches.BASE_TIMESTAMP_MS
            )
            for record in batch.records
        ]
        first = batch.sequence - len(written) + 1 if batch.producer >= 0 else -1
        epoch = 0 if batch.producer >= 0 else -1
        data = memoryview(
            batches.build(
                written,
                codec=codec,
                producer=(batch.producer, epoch, first),
                transactional=batch.transactional,
            )
        )
        self.pending = batch

        def append() -> None:
            appended = self.log.append(
                data,
                read_header(data),
                leader_epoch=self.leader_epoch,
                now_ms=self.now_ms,
                guard=NOT_NEEDED,
            )
            assert (appended.base_offset, appended.last_offset) == (batch.first, batch.last)
            assert not appended.duplicate
            self.history.batches.append(batch)
            self.seen |= by_offset(batch.records)

        if len(data) > self.log.settings.segment_bytes:
            with pytest.raises(ApiError):
                append()
            return
        self.attempt(append, adds=batch.records, stays_usable=True)

    @rule(
        size=st.integers(0, 300),
        count=st.integers(1, 4),
        idempotent=st.booleans(),
        codec=st.sampled_from(["none", "none", "gzip", "zstd"]),
    )
    def append(self, size: int, count: int, idempotent: bool, codec: str) -> None:
        records = self.made(size, count)
        producer = IDEMPOTENT if idempotent else -1
        self.write(self.batch_of(records, producer), codec=codec)

    @rule(size=st.integers(0, 150), times=st.integers(3, 9))
    def append_many(self, size: int, times: int) -> None:
        for _ in range(times):
            self.write(self.batch_of(self.made(size, 3), IDEMPOTENT))

    def batch_of(
        self, records: list[Keyed], producer: int, *, transactional: bool = False
    ) -> Batch:
        last = self.history.last_of(producer) if producer >= 0 else None
        sequence = -1
        if producer >= 0:
            before = self.resumed.get(producer, -1) if last is None else last.sequence
            sequence = before + len(records)
        first = self.history.end
        return Batch(
            first,
            first + len(records) - 1,
            records=tuple(records),
            producer=producer,
            sequence=sequence,
            transactional=transactional,
            epoch=self.leader_epoch,
        )

    @rule(size=st.integers(0, 200), producer=st.sampled_from(TRANSACTIONAL))
    def append_in_a_transaction(self, size: int, producer: int) -> None:
        self.write(self.batch_of(self.made(size, 2), producer, transactional=True))

    @rule(producer=st.sampled_from(TRANSACTIONAL), kind=st.sampled_from([COMMIT, ABORT]))
    def end_a_transaction(self, producer: int, kind: str) -> None:
        if producer not in self.history.open_transactions():
            return
        offset = self.history.end
        marker = Marker(kind == COMMIT, 0, self.now_ms)
        batch = Batch(offset, offset, kind, producer=producer, epoch=self.leader_epoch)
        self.pending = batch

        def end() -> None:
            append = partial(self.log.append, leader_epoch=self.leader_epoch, now_ms=self.now_ms)
            append_marker(self.log, producer, 0, marker, append)
            self.history.batches.append(batch)

        # an unread record in place of the marker
        self.attempt(end, adds=[Keyed(offset, None, None, 0)])

    @rule()
    def roll(self) -> None:
        self.attempt(lambda: self.log.roll(self.now_ms), stays_usable=True)

    @precondition(lambda self: self.history.end > self.watermark)
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        offset = data.draw(
            st.sampled_from([bound for bound in self.history.bounds() if bound >= self.watermark])
        )
        gone = [o for o in self.seen if o >= offset]

        def cut() -> None:
            run_at_once(self.broker.logs.truncate_in_steps(self.log, offset))

        if not self.attempt(cut, loses=[*gone, offset]):
            self.write_back()  # else a power failure much later may undo what it did
        else:
            self.history.cut(offset)
            for o in gone:
                del self.seen[o]
            self.durable = min(self.durable, offset)
            self.is_loaded = True  # what is known of producers is as after a start
            self.look()
            self.look_at_producers()

    # --- flushing

    @rule(steps=st.integers(1, 4))
    def save_producers(self, steps: int) -> None:
        def work() -> None:
            for _ in range(steps):
                self.log.producer_manager.write_snapshot_step()

        self.attempt(work)

    @rule()
    def flush(self) -> None:
        def work() -> None:
            logs.flush(self.log)

        if self.attempt(work):
            self.durable = self.history.end
            assert self.log.recovery_point == self.history.end

    @rule()
    def flush_what_is_due(self) -> None:
        def work() -> None:
            plan = self.log.flush_plan()
            if plan is not None:
                plan.run()
                self.log.flushed(plan)

        if self.attempt(work):
            self.durable = max(self.durable, self.log.recovery_point)
            assert not self.log.flush_wanted

    @rule()
    def checkpoint(self) -> None:
        self.attempt(lambda: self.broker.logs.checkpoint({}).run(), stays_usable=True)

    # --- what makes logs shorter

    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        """The high watermark moves."""
        bounds = [bound for bound in self.history.bounds() if bound >= self.watermark]
        self.watermark = data.draw(st.sampled_from([*bounds[-3:], self.history.end]))

    def commit_all(self) -> None:
        self.watermark = self.history.end

    def shortened(self, work: Callable[[], object]) -> None:
        loses = [offset for offset in self.seen if offset < self.watermark]
        if self.attempt(work, loses=[*loses, self.history.end]):
            start = self.log.start_offset
            assert start <= self.watermark
            self.gone |= {o: record for o, record in self.seen.items() if o < start}
            self.seen = {o: record for o, record in self.seen.items() if o >= start}
            self.look()

    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        offset = data.draw(
            st.integers(self.log.start_offset, max(self.watermark, 0))
            if (self.watermark >= self.log.start_offset)
            else st.just(self.log.start_offset)
        )
        self.shortened(lambda: self.log.advance_start(offset))

    @rule(
        retention_bytes=st.integers(0, 4000),
        retention_ms=st.sampled_from([-1, 50, 500]),
        everything=st.booleans(),
    )
    def delete_old_segments(
        self, retention_bytes: int, retention_ms: int, everything: bool
    ) -> None:
        if everything:
            self.commit_all()
        self.log.configure(
            replace(self.settings, retention_bytes=retention_bytes, retention_ms=retention_ms)
        )
        self.shortened(lambda: self.log.delete_old(self.now_ms, self.watermark))
        self.log.configure(self.settings)

    @precondition(lambda self: self.compacts)
    @rule(
        later_ms=st.sampled_from([0, 0, 3 * DAY_MS]),
        map_bytes=st.sampled_from([96, 1600, 1 << 20]),
        segment_index_bytes=st.sampled_from([48, 1 << 20]),
        everything=st.booleans(),
    )
    def compact(
        self, later_ms: int, map_bytes: int, segment_index_bytes: int, everything: bool
    ) -> None:
        self.now_ms += later_ms
        if everything:
            self.commit_all()
            self.roll()
        self.log.configure(replace(self.settings, segment_index_bytes=segment_index_bytes))
        stable = self.log.last_stable_offset(self.watermark)
        limits = replace(compaction.LIMITS, map_bytes=map_bytes)
        order = compaction.order(self.log, now_ms=self.now_ms, limits=limits, last_stable=stable)
        if not order.segments or order.end_offset <= order.first_dirty:
            self.log.configure(self.settings)
            return
        log, serial = self.log, self.log.compaction.serial
        before = [self.seen[offset] for offset in sorted(self.seen)]
        swapping = False

        def on_message(message: Progress | Replacement) -> None:
            nonlocal swapping
            if isinstance(message, Replacement):
                swapping = True
                assert log.compaction.replace(log.settings, message, serial)
                swapping = False

        def work() -> None:
            try:
                outcome = compact(InlineWorker(on_message), self.fs, order)
            except OSError:
                if swapping:
                    raise
                return  # what was swapped already stays so
            finally:
                log.configure(self.settings)
            log.compaction.clean_upto = outcome.end_offset
            after = compaction.read_all(log)
            log_model.assert_compacted(
                before, after, self.history, first_dirty=order.first_dirty, end=outcome.end_offset
            )

        aborted = self.history.aborted_records()
        last = {
            record.key: record.offset
            for record in before
            if record.offset < order.end_offset
            and record.offset not in aborted
            and record.offset >= order.first_dirty
        }
        loses = [
            record.offset
            for record in before
            if record.offset < order.end_offset
            and (
                record.value is None
                or record.offset in aborted
                or last.get(record.key, -1) > record.offset
            )
        ]
        self.dense_from = max(self.dense_from, order.end_offset)
        if self.attempt(work, loses=[*loses, self.history.end]):
            after = by_offset(compaction.read_all(self.log))
            needed = {o: record for o, record in self.seen.items() if o not in loses}
            Expected(needed, together(self.seen), self.history.end).check(list(after.values()))
            self.gone |= {o: record for o, record in self.seen.items() if o not in after}
            self.seen = after
            self.look_at_producers()

    @rule()
    def remove_deleted_files(self) -> None:
        self.attempt(lambda: logs.purge(self.broker.logs), stays_usable=True)

    # --- what must hold

    @rule(data=st.data(), max_bytes=st.integers(0, 2000))
    def read(self, data: st.DataObject, max_bytes: int) -> None:
        """From any offset, in pieces of any size."""
        start, end = self.log.start_offset, self.history.end
        offset = data.draw(st.integers(start, max(start, end)))
        upto = data.draw(st.sampled_from(self.history.bounds()))
        found = self.log.read(offset, max_bytes, upto=upto, at_least_one=True)
        expected = [o for o in self.seen if offset <= o < upto]
        if found is None:
            return
        records = compaction.records_of(logs.bytes_of(found))
        first = next((record for record in records if record.offset >= offset), None)
        if first is not None:
            assert first == self.seen[min(expected)]

    @rule(isolated_from=st.integers(0, 30))
    def read_committed(self, isolated_from: int) -> None:
        """The last stable offset, and the aborted transactions among what is read."""
        history, watermark = self.history, self.watermark
        start = self.log.start_offset
        stable = self.log.last_stable_offset(watermark)
        if self.is_loaded:
            # it is not known which markers lie above the watermark, nor of transactions that
            # began with records which are hidden since, or were until a start brought them back
            assert max(history.stable(watermark), start) <= stable
            most = history.stable(history.end, start, forgotten=False)
            assert stable <= max(min(watermark, most), start)
        else:
            assert stable == max(history.stable(watermark), start)
        offset = self.log.start_offset + isolated_from
        found = (
            self.log.read(offset, 1 << 20, upto=stable, at_least_one=True)
            if (offset < stable)
            else None
        )
        if found is None or self.dense_from > self.log.start_offset:
            return
        end = compaction.end_of(logs.bytes_of(found))
        reported = {
            (transaction.producer_id, transaction.first_offset)
            for transaction in self.log.aborted_transactions(offset, found).found
        }
        aborted = [
            transaction for transaction in history.ended_transactions() if transaction.kind == ABORT
        ]
        after = {
            (transaction.producer, transaction.first)
            for transaction in aborted
            if transaction.marker >= offset
        }
        within = {
            (transaction.producer, transaction.first)
            for transaction in aborted
            if transaction.marker >= offset and transaction.first < end
        }
        assert within <= reported <= after, "a reader passes over those that come later"

    @rule(data=st.data())
    def the_medium_ages(self, data: st.DataObject) -> None:
        """Any bit of a log file flips, in a copy: its batch fails its checksum, or is not there."""
        fs = copy.deepcopy(self.fs)
        fs.kill()
        directory = self.log.directory
        names = [
            n for n in fs.list_dir(directory) if n.endswith(".log") and fs.size(f"{directory}/{n}")
        ]
        if not names:
            return
        path = f"{directory}/{data.draw(st.sampled_from(names))}"
        fs.flip_bit(path, data.draw(st.integers(0, 8 * fs.size(path) - 1)))
        try:
            broker = logs.Broker(fs, log_settings=self.settings)
        except StorageError:
            return
        values = {
            (record.key, record.value, record.timestamp)
            for record in self.history.records().values()
        }
        log = broker.log()
        offset = log.start_offset
        while offset < log.end_offset:
            following = offset + 1
            try:
                part = log.read(offset, 1, upto=log.end_offset, at_least_one=True)
                if part is None:
                    break
                data_read = logs.bytes_of(part)
                for record in compaction.records_of(data_read):
                    assert (record.key, record.value, record.timestamp) in values, record
                following = max(following, compaction.end_of(data_read))
            except (CorruptLogError, AssertionError, ValueError) as error:
                if isinstance(error, AssertionError) and error.args and "Keyed" in str(error):
                    raise
            offset = following


TestLogUnderFaults = LogUnderFaults.TestCase
TestLogUnderFaults.settings = settings(
    max_examples=EXAMPLES,
    stateful_step_count=STEPS,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)


def ready_to_split() -> tuple[logs.Broker, list[Keyed]]:
    """A log whose closed segments do not fit into one when they are compacted: its indexes may
    hold less now."""
    usual = logs.settings(
        cleanup_policy=("compact",), segment_bytes=100_000, index_interval_bytes=0
    )
    broker = logs.Broker(MemFs(), log_settings=usual)
    log = broker.log()
    for number in range(60):
        written = [batches.Written(b"key %d" % (number % 25), b"%d" % number * 20)]
        logs.append(log, memoryview(batches.build(written)))
    log.roll(logs.TIMESTAMP)
    logs.flush(log)
    broker.logs.checkpoint({}).run()
    log.configure(replace(usual, segment_index_bytes=60))
    return broker, compaction.read_all(log)


@pytest.mark.parametrize("tears", [None, 0, 1, 2])
def test_every_step_of_a_compaction_that_splits_segments(tears: int | None) -> None:
    """SIGKILL, or a power failure with some tears, before each single thing that it does."""
    broker, before = ready_to_split()
    outcome = compaction.clean(broker.log(), broker.fs)
    after = compaction.read_all(broker.log())
    assert broker.log().segment_count >= 4 and 0 < len(after) < len(before)
    assert outcome.end_offset == 60
    steps = 0
    while True:
        broker, before = ready_to_split()
        fs = broker.fs
        assert isinstance(fs, MemFs)
        fs.dies_after = steps
        try:
            compaction.clean(broker.log(), fs)
        except Died:
            pass
        else:
            break
        broker.die(tears, steps)
        found = compaction.read_all(broker.log())
        Expected(by_offset(after), together(by_offset(before)), 60).check(found)
        steps += 1
    assert steps > 40
