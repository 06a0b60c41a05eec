"""Whether a producer's first batch of a transaction was agreed with the coordinator (KIP-890).

A client may add a partition to a transaction only through the transaction coordinator. Whoever is
to append the first batch asks for a guard, has the coordinator confirm, and shows the guard with
the batch. A marker or a batch that gets in between takes the guard away, so that no late
confirmation opens a transaction that nobody will end.
"""

from __future__ import annotations

from itertools import count
from typing import Final, NewType

from kavka.wire.errors import ApiError, ErrorCode

Guard = NewType("Guard", int)
"""Shown with a batch; good for one producer, until something of a transaction is appended."""

NOT_NEEDED: Final = Guard(0)
"""Shown where nobody is to be asked: `transaction.partition.verification.enable` is false."""

PENDING_MAX: Final = 10_000
"""Producers of a partition whose confirmation is pending, at 250 bytes each. Anybody may name any
producer, so one more takes the place of nobody who is being confirmed, or has been: it takes that
of one whose request has failed, or is refused."""

STALE_MS: Final = 60_000
"""Age at which the oldest makes room for another, if no request waits for it."""

_guards: Final = count(NOT_NEEDED + 1)  # no two alike, so that none fits a log made anew


class _Pending:
    """A confirmation that is being asked for."""

    __slots__ = (
        "waiting_requests",
        "confirmed",
        "epoch",
        "guard",
        "lowest_sequence",
        "made_ms",
        "v2",
    )

    def __init__(self, guard: Guard, sequence: int, epoch: int, made_ms: int, v2: bool) -> None:
        self.guard = guard
        self.lowest_sequence = sequence
        self.epoch = epoch
        self.made_ms = made_ms
        self.v2 = v2
        self.waiting_requests = 0
        """Requests that wait for the coordinator."""
        self.confirmed = False


class Verifications:
    """The producers of a partition whose transaction is being confirmed.

    As many as there are requests waiting for the coordinator, and those that failed since the
    producers were looked through last (`producer.id.expiration.check.interval.ms`).
    """

    __slots__ = ("_idle", "_pending")

    def __init__(self) -> None:
        self._pending: dict[int, _Pending] = {}
        self._idle: dict[int, None] = {}
        """Those of `_pending` that nobody asks for now and that were not confirmed: their clients
        are to ask again."""

    def begin(
        self, producer_id: int, sequence: int, epoch: int, now_ms: int, *, v2: bool = False
    ) -> Guard:
        """The guard for a producer whose batch begins with `sequence`; `v2`: each of its
        transactions has an epoch of its own. Whoever asks tells the outcome, by `confirmed` or
        `refused`. ApiError COORDINATOR_NOT_AVAILABLE if there is no room.

        The lowest sequence is kept: where an earlier batch waits to be sent again, a later one
        may not overtake it.
        """
        pending = self._pending.get(producer_id)
        if pending is None:
            if len(self._pending) >= PENDING_MAX:
                self._make_room(now_ms)
            pending = _Pending(Guard(next(_guards)), sequence, epoch, now_ms, v2)
            self._pending[producer_id] = pending
        elif epoch > pending.epoch or (
            epoch == pending.epoch and sequence < pending.lowest_sequence
        ):
            pending.epoch = epoch
            pending.lowest_sequence = sequence
        pending.waiting_requests += 1
        self._idle.pop(producer_id, None)
        return pending.guard

    def _make_room(self, now_ms: int) -> None:
        if self._idle:
            self._forget(next(iter(self._idle)))
            return
        producer_id, oldest = next(iter(self._pending.items()))
        if oldest.waiting_requests or now_ms - oldest.made_ms < STALE_MS:
            raise ApiError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE, "too many transactions are being verified"
            )
        self._forget(producer_id)

    def _forget(self, producer_id: int) -> None:
        self._pending.pop(producer_id, None)
        self._idle.pop(producer_id, None)

    def confirmed(self, producer_id: int, guard: Guard) -> None:
        """The coordinator has agreed: the guard is kept until the batch is appended."""
        pending = self._pending.get(producer_id)
        if pending is not None and pending.guard == guard:
            pending.waiting_requests -= 1
            pending.confirmed = True

    def refused(self, producer_id: int, guard: Guard, *, is_final: bool) -> None:
        """The coordinator has not agreed, or could not be asked. Where that is `is_final` nothing
        is kept, unless others wait for an answer about the same producer, or had a better one."""
        pending = self._pending.get(producer_id)
        if pending is None or pending.guard != guard:
            return
        pending.waiting_requests -= 1
        if pending.waiting_requests or pending.confirmed:
            return
        if is_final:
            self._forget(producer_id)
        else:
            self._idle[producer_id] = None

    def holds(self, producer_id: int, guard: Guard | None) -> bool:
        """Whether a batch shown with `guard` may begin a transaction."""
        if guard == NOT_NEEDED:
            return True
        pending = self._pending.get(producer_id)
        return pending is not None and pending.guard == guard

    def lowest_sequence(self, producer_id: int, *, has_written: bool) -> int | None:
        """The sequence that has to come first; None when any may. Who `has_written` nothing in its
        epoch begins with 0, if each of its transactions has an epoch of its own."""
        pending = self._pending.get(producer_id)
        if pending is None:
            return None
        return 0 if pending.v2 and not has_written else pending.lowest_sequence

    def batch_appended(self, producer_id: int) -> None:
        """A batch of a transaction was appended: the guard has done its duty."""
        self._forget(producer_id)

    def marker_appended(self, producer_id: int, epoch: int) -> None:
        """So was a marker, in whose `epoch` the next transaction may have been begun already if
        each has one of its own: its guard stays."""
        pending = self._pending.get(producer_id)
        if pending is not None and not (pending.v2 and pending.epoch == epoch):
            self._forget(producer_id)

    def expire(self, before_ms: int) -> None:
        """Forget those that were begun at `before_ms` or earlier."""
        for producer_id in [
            known for known, pending in self._pending.items() if pending.made_ms <= before_ms
        ]:
            self._forget(producer_id)

    def clear(self) -> None:
        """Forget all."""
        self._pending.clear()
        self._idle.clear()
