"""The simplest machine that a journal can drive: numbers by name, and requests that wait; and a
partition whose appends may fail.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

from kavka.log.journal import Decision, JournalRecord, Producer, Reply, ReplyFuture
from kavka.log.timers import Timers
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.steps import Steps, each

BROKEN = b"broken"
"""The key of a record that the machine can't apply."""


class Toy:
    """A `kavka.log.journal.Machine`."""

    def __init__(self) -> None:
        self.timers = Timers()
        self.numbers: dict[bytes, bytes] = {}
        self.pending: dict[int, list[JournalRecord]] = {}
        self.parked: dict[Hashable, ReplyFuture] = {}
        self.first: list[Decision] = []
        """The decisions after loading."""
        self.replays = 0
        self.refusals: list[tuple[ErrorCode, int]] = []

    # -- requests

    def put(
        self,
        future: ReplyFuture,
        key: bytes,
        value: bytes | None,
        *,
        producer: Producer | None = None,
        command: Hashable | None = None,
        on_refusal: object | None = None,
    ) -> Decision:
        """Set a number. With `on_refusal` that is the response if the append fails."""
        decision = Decision([JournalRecord(key, value)], [Reply(future, value)], producer=producer)
        if command is not None:
            decision.commands.append(command)
        if on_refusal is not None:

            def refused(code: ErrorCode, now_ms: int) -> Decision:
                self.refusals.append((code, now_ms))
                return Decision(replies=[Reply(future, on_refusal)])

            decision.on_failure = refused
        return decision

    def put_slowly(
        self,
        future: ReplyFuture,
        key: bytes,
        value: bytes,
        pauses: int,
        failure: Exception | None = None,
    ) -> Steps[Decision]:
        """The same in steps; with a `failure` that is raised in the end."""
        for _ in range(pauses):
            yield None
        if failure is not None:
            raise failure
        return self.put(future, key, value)

    def put_many(self, future: ReplyFuture, count: int, value: bytes) -> Decision:
        """Set so many numbers, of the keys "0", "1" and so on."""
        return Decision(
            [JournalRecord(b"%d" % number, value) for number in range(count)],
            [Reply(future, count)],
        )

    def get(self, future: ReplyFuture, key: bytes) -> Decision:
        """Read a number."""
        return Decision(replies=[Reply(future, self.numbers.get(key))])

    def park(self, future: ReplyFuture, key: bytes, until_ms: int) -> Decision:
        """Increment a number at that time, and respond then. An earlier request for `key` gets its
        response now."""
        before = self.parked.get(key)
        self.parked[key] = future
        self.timers.set(key, until_ms)
        return Decision(replies=[Reply(before, "replaced")] if before is not None else [])

    # -- Machine

    def apply(self, record: JournalRecord, producer: Producer | None) -> None:
        if record.key == BROKEN:
            raise ValueError("an unknown record")
        if producer is not None:
            self.pending.setdefault(producer.id, []).append(record)
        elif record.value is None:
            self.numbers.pop(record.key, None)
        else:
            self.numbers[record.key] = record.value

    def apply_all(self, records: Sequence[JournalRecord], producer: Producer | None) -> None:
        for record in records:
            self.apply(record, producer)

    def replay(self, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        self.replays += 1
        for key, value in zip(keys, values, strict=True):
            self.apply(JournalRecord(key, value), None)

    def apply_marker(self, producer_id: int, producer_epoch: int, committed: bool) -> Steps[None]:
        for number, record in enumerate(self.pending.pop(producer_id, [])):
            if number:
                yield None
            if committed:
                self.apply(record, None)

    def loaded(self, now_ms: int) -> Iterable[Decision]:
        yield from self.first

    def expire(self, key: Hashable, now_ms: int) -> Decision:
        assert isinstance(key, bytes)
        if key == BROKEN:
            raise ValueError("an unknown timer")
        future = self.parked.pop(key)
        value = b"%d" % (int(self.numbers.get(key, b"0")) + 1)
        return Decision([JournalRecord(key, value)], [Reply(future, value)])

    def resign(self) -> Sequence[ReplyFuture]:
        return list(self.parked.values())


class ToyPort:
    """A `kavka.log.journal.Port`: batches in a list; the test advances the high watermark."""

    def __init__(self) -> None:
        self.high_watermark = 0
        self.end = 0
        self.batches: list[tuple[tuple[JournalRecord, ...], Producer | None]] = []
        self.failures: list[ErrorCode] = []
        """The errors of the next appends."""

    def append(
        self, records: Sequence[JournalRecord], producer: Producer | None, now_ms: int
    ) -> Steps[int]:
        yield from each(records, lambda record: None)
        if self.failures:
            raise ApiError(self.failures.pop(0))
        self.batches.append((tuple(records), producer))
        self.end += len(records)
        return self.end
