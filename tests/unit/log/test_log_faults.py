"""A log and a list, under everything at once: retention, compaction, transactions, and a disk and
a process that fail in the middle of any of it.

What is flushed is never lost, what was never written never appears, and offsets stay dense where
nothing was compacted. FAULT_EXAMPLES and FAULT_STEPS (`make faults`) make the run longer.
"""

from __future__ import annotations

import copy
import errno
import os
import random
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from kavka.log.compaction.order import Progress, Replacement
from kavka.log.compaction.run import compact
from kavka.log.directory import CLEAN_SHUTDOWN_FILE
from kavka.log.errors import CorruptLogError, StorageError
from kavka.log.markers import append_marker
from kavka.log.memfs import Died, Fault, MemFs
from kavka.log.settings import FSYNC, SYSTEM
from kavka.log.verification import NOT_NEEDED
from kavka.wire.control_records import Marker
from kavka.wire.errors import ApiError
from kavka.wire.records import read_header
from support import batches, compaction, log_model, logs
from support.compaction import Keyed
from support.log_model import ABORT, COMMIT, Batch, Expected, History, by_offset, together
from support.virtual import InlineWorker

EXAMPLES = int(os.environ.get("FAULT_EXAMPLES", "150"))
STEPS = int(os.environ.get("FAULT_STEPS", "60"))

KEYS = [b"a", b"b", b"c", b"d", b"e"]
IDEMPOTENT = 7
TRANSACTIONAL = (11, 12)
DAY_MS = 24 * 3600 * 1000

OPS = ["pwrite", "create", "rename", "sync", "sync_dir", "remove", "open", "truncate"]
SUFFIXES = [".log", ".index", ".timeindex", ".snapshot", "checkpoint", ".cleaned", ".swap", ""]


class LogUnderFaults(RuleBasedStateMachine):
    """Small segments, and trouble that is armed by one rule and met by a later one."""

    @initialize(
        segment_bytes=st.sampled_from([700, 2000, 20_000]),
        index_interval_bytes=st.sampled_from([0, 300]),
        policy=st.sampled_from([("delete",), ("compact",), ("compact", "delete")]),
        durability=st.sampled_from([SYSTEM, FSYNC]),
    )
    def begin(
        self,
        segment_bytes: int,
        index_interval_bytes: int,
        policy: tuple[str, ...],
        durability: str,
    ) -> None:
        self.settings = logs.settings(
            segment_bytes=segment_bytes,
            index_interval_bytes=index_interval_bytes,
            cleanup_policy=policy,
            kavka_durability=durability,
            delete_retention_ms=DAY_MS,
        )
        self.now_ms = logs.TIMESTAMP
        self.leader_epoch = 0
        self.count = 0
        self.power_cut: int | None = None  # whether an end is one of these, and with which tears
        self.armed = False
        self.begin_anew()

    def begin_anew(self) -> None:
        """An empty log."""
        self.fs = MemFs()
        self.broker = logs.Broker(self.fs, log_settings=self.settings)
        self.log = self.broker.log()
        self.is_loaded = False
        self.history = History()
        self.resumed: dict[int, int] = {}  # last sequences of producers without records here
        self.seen: dict[int, Keyed] = {}  # what the log shows
        self.gone: dict[int, Keyed] = {}  # removed, and may be back after an end in disorder
        self.durable = 0  # a power cut takes nothing below
        self.watermark = 0  # nothing below is ever truncated
        self.dense_from = 0  # nothing was compacted from here on

    @property
    def compacts(self) -> bool:
        return "compact" in self.settings.cleanup_policy

    # --- trouble

    @precondition(lambda self: not self.armed)
    @rule(
        op=st.sampled_from(OPS),
        suffix=st.sampled_from(SUFFIXES),
        error=st.sampled_from([errno.EIO, errno.ENOSPC]),
        skip=st.integers(0, 3),
        tears=st.none() | st.integers(0, 99),
    )
    def arm_a_fault(self, op: str, suffix: str, error: int, skip: int, tears: int | None) -> None:
        self.armed = True
        self.power_cut = tears
        self.fault: Any = Fault(op, suffix, error=error, skip=skip)

    @precondition(lambda self: not self.armed)
    @rule(dies_after=st.integers(0, 25), tears=st.none() | st.integers(0, 99))
    def arm_a_death(self, dies_after: int, tears: int | None) -> None:
        self.armed = True
        self.power_cut = tears
        self.fault = dies_after

    def attempt(
        self,
        work: Callable[[], None],
        *,
        adds: Iterable[Keyed] = (),
        loses: Iterable[int] = (),
        stays_usable: bool = False,
    ) -> bool:
        """Do something that trouble may meet; whether it was done.

        `adds`: what it writes; `loses`: which records it may take away. `stays_usable`: after an
        error of the disk the log is as it was before.
        """
        if self.armed:
            self.armed = False
            if isinstance(self.fault, Fault):
                self.fs.faults = [self.fault]
            else:
                self.fs.dies_after = self.fault
        try:
            work()
        except Died:
            self.end_in_disorder(adds, loses)
            return False
        except OSError:
            self.disarm()
            if self.fault.op == "sync" and self.settings.kavka_durability == SYSTEM:
                # what the operating system takes for written now is gone with the power, even if
                # the log is flushed again; without kavka.durability=fsync nobody sees to that
                self.power_cut = 0
            if stays_usable:
                self.look()
            else:
                self.end_in_disorder(adds, loses)
            return False
        self.disarm()
        return True

    def disarm(self) -> None:
        self.fs.faults = []
        self.fs.dies_after = None

    # --- ends and beginnings

    def end_in_disorder(self, adds: Iterable[Keyed] = (), loses: Iterable[int] = ()) -> None:
        """The process or the machine ends and starts again; what is there has to fit."""
        adds = by_offset(adds)
        taken = set(loses)
        cut = self.power_cut is not None
        kept = {o: one for o, one in self.seen.items() if not cut or o < self.durable}
        may_have_holes = cut and self.compacts
        expected = Expected(
            {o: one for o, one in kept.items() if o not in taken},
            together(self.gone, self.seen, adds),
            self.history.end + 1 if may_have_holes else self.dense_from,
        )
        least_end = min([self.durable if cut else self.history.end, *taken])
        self.disarm()
        if cut:
            self.fs.crash(random.Random(self.power_cut) if self.power_cut else None)
        else:
            self.fs.kill()
        self.start()
        found = by_offset(compaction.read_all(self.log))
        expected.check(list(found.values()))
        end = self.log.end_offset
        assert least_end <= end <= self.history.end + len(adds)
        if may_have_holes and found != self.seen:
            # what was not flushed may have gone from between two segments: which transactions
            # and producers are known then is hard to tell from outside
            self.begin_anew()
            return
        if adds and end > self.history.end:
            self.appended_after_all(end)
        self.history.cut(end)
        if end > self.history.end:
            assert end == self.log.start_offset, "the log ends within a batch"
            # it has lost its end to where it was to begin: nothing is there, ever
            self.history.batches.append(Batch(self.history.end, end - 1))
        self.gone = {} if cut else (self.gone | self.seen).copy()
        for offset in found:
            self.gone.pop(offset, None)
        self.seen = found
        self.durable = min(self.durable, end)
        self.watermark = min(self.watermark, end)
        self.look_at_producers()

    def start(self) -> None:
        """Start, now and then with another end in the middle of it."""
        if self.count % 3 == 0:
            self.fs.dies_after = self.count % 17
        try:
            self.broker.start()
        except Died:
            if self.count % 2 and self.power_cut is not None:
                self.fs.crash(random.Random(self.count))
            else:
                self.fs.kill()
            self.broker.start()
        self.disarm()
        self.log = self.broker.log()
        self.is_loaded = True
        self.leader_epoch += 1
        self.log.assign_epoch(self.leader_epoch, self.log.end_offset)

    def appended_after_all(self, end: int) -> None:
        """The batch that was being written when the end came is there as a whole."""
        assert self.pending is not None and self.pending.last + 1 == end
        self.history.batches.append(self.pending)

    @rule(tears=st.none() | st.integers(0, 99))
    def ends_between_two_steps(self, tears: int | None) -> None:
        self.power_cut = tears
        self.armed = False
        self.end_in_disorder()

    @rule()
    def restart(self) -> None:
        def close() -> None:
            self.broker.logs.close()

        if not self.attempt(close):
            return
        if not self.fs.exists(f"{logs.DIRECTORY}/{CLEAN_SHUTDOWN_FILE}"):
            self.end_in_disorder()  # it could not be closed in order, and says so
        else:
            self.durable = self.history.end
            self.gone = {}
            self.broker.start()
            self.log = self.broker.log()
            self.is_loaded = True
            self.look()
            self.look_at_producers()

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
            batches.Written(one.key, one.value, time_ms=one.timestamp - batches.BASE_TIMESTAMP_MS)
            for one in batch.records
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
        self.pending = Batch(offset, offset, kind, producer=producer, epoch=self.leader_epoch)

        def end() -> None:
            append_marker(
                self.log, producer, 0, marker, leader_epoch=self.leader_epoch, now_ms=self.now_ms
            )
            self.history.batches.append(self.pending)

        # a record that nobody reads stands for the marker
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
            self.broker.logs.truncate(self.log, offset)

        if self.attempt(cut, loses=[*gone, offset]):
            self.history.cut(offset)
            for one in gone:
                del self.seen[one]
            self.durable = min(self.durable, offset)
            self.look()

    # --- flushing

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

    def shortened(self, work: Callable[[], None]) -> None:
        loses = [offset for offset in self.seen if offset < self.watermark]
        if self.attempt(work, loses=[*loses, self.history.end]):
            start = self.log.start_offset
            assert start <= self.watermark
            self.gone |= {o: one for o, one in self.seen.items() if o < start}
            self.seen = {o: one for o, one in self.seen.items() if o >= start}
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
        map_bytes=st.sampled_from([96, 1 << 20]),
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

        def told(news: Progress | Replacement) -> None:
            nonlocal swapping
            if isinstance(news, Replacement):
                swapping = True
                assert log.compaction.replace(log.settings, news, serial)
                swapping = False

        def work() -> None:
            try:
                outcome = compact(InlineWorker(told), self.fs, order)
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
            one.key: one.offset
            for one in before
            if one.offset < order.end_offset
            and one.offset not in aborted
            and one.offset >= order.first_dirty
        }
        loses = [
            one.offset
            for one in before
            if one.offset < order.end_offset
            and (one.value is None or one.offset in aborted or last.get(one.key, -1) > one.offset)
        ]
        self.dense_from = max(self.dense_from, order.end_offset)
        if self.attempt(work, loses=[*loses, self.history.end]):
            after = by_offset(compaction.read_all(self.log))
            needed = {o: one for o, one in self.seen.items() if o not in loses}
            Expected(needed, together(self.seen), self.history.end).check(list(after.values()))
            self.gone |= {o: one for o, one in self.seen.items() if o not in after}
            self.seen = after
            self.look_at_producers()

    @rule()
    def remove_garbage(self) -> None:
        self.attempt(self.broker.logs.purge, stays_usable=True)

    # --- what must hold

    @rule()
    def look(self) -> None:
        """The log shows what it should and nothing else."""
        assert self.log.end_offset == self.history.end
        found = compaction.read_all(self.log)
        assert found == [self.seen[offset] for offset in sorted(self.seen)]

    @rule(data=st.data(), max_bytes=st.integers(0, 2000))
    def read(self, data: st.DataObject, max_bytes: int) -> None:
        """From any offset, in pieces of any size."""
        start, end = self.log.start_offset, self.history.end
        offset = data.draw(st.integers(start, max(start, end)))
        upto = data.draw(st.sampled_from(self.history.bounds()))
        found = self.log.read(offset, max_bytes, upto=upto, at_least_one=True)
        wanted = [o for o in self.seen if offset <= o < upto]
        if found is None:
            return
        records = compaction.records_of(logs.bytes_of(found))
        first = next((one for one in records if one.offset >= offset), None)
        if first is not None:
            assert first == self.seen[min(wanted)]

    @rule(isolated_from=st.integers(0, 30))
    def read_committed(self, isolated_from: int) -> None:
        """The last stable offset, and the aborted transactions among what is read."""
        history, watermark = self.history, self.watermark
        start = self.log.start_offset
        stable = self.log.last_stable_offset(watermark)
        if self.is_loaded:
            # it is not known which markers lie above the watermark, nor of transactions that
            # began with records which are hidden since
            assert max(history.stable(watermark), start) <= stable
            assert stable <= max(min(watermark, history.stable(history.end, start)), start)
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
        told = {
            (t.producer_id, t.first_offset)
            for t in self.log.aborted_transactions(offset, found).found
        }
        aborted = [t for t in history.ended_transactions() if t.kind == ABORT]
        after = {(t.producer, t.first) for t in aborted if t.marker >= offset}
        within = {(t.producer, t.first) for t in aborted if t.marker >= offset and t.first < end}
        assert within <= told <= after, "a reader passes over those that come later"

    def look_at_producers(self) -> None:
        """Each producer goes on where it stopped, as long as its last batch is there."""
        states = {one.producer_id: one for one in self.log.producers}
        for producer in (IDEMPOTENT, *TRANSACTIONAL):
            last = self.history.last_of(producer)
            state = states.get(producer)
            if last is None:
                assert state is None or producer in self.resumed, "nobody ever wrote as this"
                self.resumed[producer] = -1 if state is None else state.last_sequence
            elif last.first >= self.log.start_offset:
                assert state is not None and state.last_sequence == last.sequence
            elif state is not None and state.last_sequence >= 0:
                assert state.last_sequence == last.sequence
            else:
                # forgotten with its records, but for a marker perhaps: it begins anew, or goes on
                # where it was, should an older snapshot show up again
                self.resumed[producer] = -1
                self.history.batches = [
                    one._replace(producer=-2) if one.producer == producer else one
                    for one in self.history.batches
                ]

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
        fs.flip(path, data.draw(st.integers(0, 8 * fs.size(path) - 1)))
        try:
            broker = logs.Broker(fs, log_settings=self.settings)
        except StorageError:
            return
        values = {(one.key, one.value, one.timestamp) for one in self.history.records().values()}
        log = broker.log()
        offset = log.start_offset
        while offset < log.end_offset:
            following = offset + 1
            try:
                part = log.read(offset, 1, upto=log.end_offset, at_least_one=True)
                if part is None:
                    break
                data_read = logs.bytes_of(part)
                for one in compaction.records_of(data_read):
                    assert (one.key, one.value, one.timestamp) in values, one
                following = max(following, compaction.end_of(data_read))
            except (CorruptLogError, AssertionError, ValueError) as told:
                if isinstance(told, AssertionError) and told.args and "Keyed" in str(told):
                    raise
            offset = following


TestLogUnderFaults = LogUnderFaults.TestCase
TestLogUnderFaults.settings = settings(
    max_examples=EXAMPLES,
    stateful_step_count=STEPS,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)
