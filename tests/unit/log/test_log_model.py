"""A log and a list: after the same operations they are equal; nothing flushed is ever lost."""

from __future__ import annotations

import errno
import random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from kavka.log.memfs import Fault, MemFs
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.steps import run_at_once
from support import logs
from support.logs import Broker, Producer, Read

PRODUCER_ID = 7


class LogModel(RuleBasedStateMachine):
    """Small segments and indexes, so that every edge is met in a few steps."""

    @initialize(
        segment_bytes=st.sampled_from([1000, 5000, 100_000]),
        index_interval_bytes=st.sampled_from([0, 100, 4096]),
        segment_index_bytes=st.sampled_from([60, 10 << 20]),
    )
    def begin(
        self, segment_bytes: int, index_interval_bytes: int, segment_index_bytes: int
    ) -> None:
        self.fs = MemFs()
        self.broker = Broker(
            self.fs,
            log_settings=logs.settings(
                segment_bytes=segment_bytes,
                index_interval_bytes=index_interval_bytes,
                segment_index_bytes=segment_index_bytes,
            ),
        )
        self.log = self.broker.log()
        self.batches: list[list[Read]] = []
        self.epochs: list[int] = []  # of each batch
        self.sequences: list[Producer | None] = []  # of each batch
        self.durable = 0  # offset below which a power failure takes nothing
        self.clock = logs.TIMESTAMP
        self.leader_epoch = 0
        self.count = 0

    # --- the model

    def records(self) -> list[Read]:
        return [record for batch in self.batches for record in batch]

    def end(self) -> int:
        return self.batches[-1][-1].offset + 1 if self.batches else 0

    def cut(self, end: int) -> None:
        """Forget the batches that do not end before `end`."""
        while self.batches and self.batches[-1][-1].offset >= end:
            self.batches.pop()
            self.epochs.pop()
            self.sequences.pop()
        self.durable = min(self.durable, end)

    def last_producer(self) -> Producer | None:
        known = [sequence for sequence in self.sequences if sequence is not None]
        return known[-1] if known else None

    def value(self, size: int) -> bytes:
        """Never the same twice, so that no two batches can be mixed into a good third."""
        self.count += 1
        return random.Random(self.count).randbytes(size + 4)

    def bytes_of_logs(self) -> int:
        directory = self.log.directory
        names = [name for name in self.fs.list_dir(directory) if name.endswith(".log")]
        return sum(self.fs.size(f"{directory}/{name}") for name in names)

    # --- what may happen

    @rule(
        sizes=st.lists(st.integers(0, 400), min_size=1, max_size=4),
        step_ms=st.integers(-50, 200),
        idempotent=st.booleans(),
    )
    def append(self, sizes: list[int], step_ms: int, idempotent: bool) -> None:
        values = []
        for size in sizes:
            values.append(self.value(size))
        self.clock += step_ms
        producer = logs.NO_PRODUCER
        if idempotent:
            last = self.last_producer()
            producer = Producer(PRODUCER_ID, 0, 0 if last is None else last.sequence)
        data = logs.batch(values, timestamps=self.clock, producer=producer)
        base = self.end()
        if len(data) > self.log.settings.segment_bytes:
            with pytest.raises(ApiError):
                logs.append(self.log, data, leader_epoch=self.leader_epoch)
            return
        appended = logs.append(self.log, data, leader_epoch=self.leader_epoch)
        assert appended == (base, base + len(values) - 1, -1, False)
        self.batches.append(
            [Read(base + delta, self.clock, value) for delta, value in enumerate(values)]
        )
        self.epochs.append(self.leader_epoch)
        self.sequences.append(
            producer._replace(sequence=producer.sequence + len(values)) if idempotent else None
        )

    @precondition(lambda self: self.last_producer() is not None)
    @rule(gap=st.integers(1, 5))
    def append_with_gap(self, gap: int) -> None:
        last = self.last_producer()
        assert last is not None
        data = logs.batch([b"never"], producer=last._replace(sequence=last.sequence + gap))
        with pytest.raises(ApiError) as refused:
            logs.append(self.log, data)
        assert refused.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    @precondition(lambda self: self.sequences and self.sequences[-1] is not None)
    @rule()
    def append_again(self) -> None:
        last = self.sequences[-1]
        assert last is not None
        again = self.batches[-1]
        data = logs.batch(
            [record.value for record in again],
            timestamps=again[0].timestamp,
            producer=last._replace(sequence=last.sequence - len(again)),
        )
        appended = logs.append(self.log, data)
        assert appended.duplicate
        assert (appended.base_offset, appended.last_offset) == (again[0].offset, again[-1].offset)

    @rule(
        op=st.sampled_from(["pwrite", "create", "rename", "open"]),
        suffix=st.sampled_from([".log", ".index", ".tmp", ""]),
    )
    def append_on_a_failing_disk(self, op: str, suffix: str) -> None:
        self.fs.faults = [Fault(op, suffix, error=errno.EIO)]
        before = self.log.end_offset
        value = self.value(900)
        data = logs.batch([value], timestamps=self.clock)
        try:
            logs.append(self.log, data, leader_epoch=self.leader_epoch)
        except (OSError, ApiError):
            assert self.log.end_offset == before
        else:
            assert self.log.end_offset == before + 1
            self.batches.append([Read(before, self.clock, value)])
            self.epochs.append(self.leader_epoch)
            self.sequences.append(None)
        self.fs.faults = []

    @rule(room_bytes=st.integers(0, 300))
    def append_on_a_full_disk(self, room_bytes: int) -> None:
        left_over = self.bytes_of_logs() - self.log.size_bytes  # of earlier failures
        self.fs.capacity_bytes = 1 << 40
        self.fs.capacity_bytes -= self.fs.free_bytes() - room_bytes + left_over
        before = self.log.end_offset
        with pytest.raises((OSError, ApiError)):
            logs.append(self.log, logs.batch([self.value(900)]), leader_epoch=self.leader_epoch)
        assert self.log.end_offset == before
        self.fs.capacity_bytes = None

    @rule()
    def roll(self) -> None:
        self.log.roll(self.clock)

    @rule()
    def become_leader_again(self) -> None:
        self.leader_epoch += 1
        self.log.assign_epoch(self.leader_epoch, self.log.end_offset)

    @rule()
    def flush(self) -> None:
        logs.flush(self.log)
        assert self.log.recovery_point == self.end()
        self.durable = self.end()

    @rule()
    def flush_what_is_due(self) -> None:
        plan = self.log.flush_plan()
        if plan is not None:
            plan.run()
            self.log.flushed(plan)
            self.durable = max(self.durable, plan.offset)
        assert not self.log.flush_wanted

    @rule()
    def checkpoint(self) -> None:
        self.broker.logs.checkpoint({}).run()

    @precondition(lambda self: self.batches)
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        offset = data.draw(st.sampled_from([batch[0].offset for batch in self.batches]))
        run_at_once(self.broker.logs.truncate_in_steps(self.log, offset))
        self.cut(offset)
        logs.purge(self.broker.logs)

    # --- ends and beginnings

    def reopen(self) -> None:
        self.log = self.broker.log()

    @rule()
    def restart(self) -> None:
        self.broker.restart()
        self.reopen()
        self.durable = self.end()
        assert self.log.recovery_point == self.end()

    @rule()
    def kill(self) -> None:
        self.broker.kill()
        self.reopen()

    @rule(seed=st.none() | st.integers(0, 2**32))
    def crash(self, seed: int | None) -> None:
        self.broker.crash(None if seed is None else random.Random(seed))
        self.reopen()
        end = self.log.end_offset
        assert self.durable <= end <= self.end()
        self.cut(end)
        assert self.end() == end, "the log ends within a batch"
        self.leader_epoch += 1
        self.log.assign_epoch(self.leader_epoch, end)

    # --- what must hold

    @rule(data=st.data(), max_bytes=st.integers(0, 3000))
    def read(self, data: st.DataObject, max_bytes: int) -> None:
        end = self.end()
        offset = data.draw(st.integers(0, end))
        upto = data.draw(st.sampled_from([end] + [batch[0].offset for batch in self.batches]))
        expected = [record for record in self.records() if offset <= record.offset < upto]
        assert logs.read_from(self.log, offset, upto=upto, max_bytes=max_bytes) == expected

    @rule(delta_ms=st.integers(-300, 300))
    def find_time(self, delta_ms: int) -> None:
        target = self.clock + delta_ms
        first = next((batch for batch in self.batches if batch[0].timestamp >= target), None)
        found = self.log.batch_for_timestamp(target)
        assert (found is None) == (first is None)
        if found is not None:
            assert logs.parse(logs.bytes_of(found)) == first
        newest = self.log.batch_of_max_timestamp()
        if newest is not None:
            most = max(record.timestamp for record in self.records())
            first = next(batch for batch in self.batches if batch[0].timestamp == most)
            assert logs.parse(logs.bytes_of(newest)) == first

    @invariant()
    def same_end(self) -> None:
        assert self.log.end_offset == self.end()
        assert self.log.recovery_point <= self.end()

    @invariant()
    def same_producer(self) -> None:
        last = self.last_producer()
        states = list(self.log.producers)
        if last is None:
            assert not states
        else:
            assert [(state.producer_id, state.last_sequence + 1) for state in states] == [
                (PRODUCER_ID, last.sequence)
            ]

    def teardown(self) -> None:
        if not hasattr(self, "log"):
            return
        assert logs.read_from(self.log) == self.records()
        for batch, epoch in zip(self.batches, self.epochs, strict=True):
            assert self.log.epoch_of(batch[0].offset) == epoch


TestLogModel = LogModel.TestCase
TestLogModel.settings = settings(
    max_examples=300,
    stateful_step_count=40,
    suppress_health_check=list(HealthCheck),
)
