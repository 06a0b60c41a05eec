"""Verification of a producer's first batch of a transaction with the coordinator (KIP-890).

A partition has to be added to a transaction at the transaction coordinator first. To append the
first batch the caller requests a guard, has the coordinator verify the transaction, and passes the
guard with the batch. A marker or a batch appended in between invalidates the guard, so that a late
verification can't start a hanging transaction.
"""

from __future__ import annotations

from itertools import count
from typing import Final, NewType

from kavka.wire.errors import ApiError, ErrorCode

Guard = NewType("Guard", int)
"""Passed with a batch; valid for one producer, until its next transactional batch or marker."""

NOT_NEEDED: Final = Guard(0)
"""Passed if no verification is needed: `transaction.partition.verification.enable` is false."""

PENDING_MAX: Final = 10_000
"""Producers of a partition with a pending verification, at 250 bytes each. Since clients may send
any producer id, a further one only evicts one whose verification has failed, or is rejected; it
never evicts one that is being verified, or has been within `STALE_MS`."""

STALE_MS: Final = 60_000
"""Age at which the oldest one may be evicted, if no request waits for it."""

_guards: Final = count(NOT_NEEDED + 1)  # globally unique, so that none is valid for a recreated log


class _Pending:
    """A pending verification."""

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
        """The number of requests that wait for the coordinator."""
        self.confirmed = False


class Verifications:
    """The pending verifications of a partition.

    There is one for each producer with a request waiting for the coordinator, or with one that
    failed since the last expiration check (`producer.id.expiration.check.interval.ms`).
    """

    __slots__ = ("_idle", "_pending")

    def __init__(self) -> None:
        self._pending: dict[int, _Pending] = {}
        self._idle: dict[int, None] = {}
        """Producers in `_pending` without a waiting request and not verified: their clients are
        expected to retry."""

    def begin(
        self, producer_id: int, sequence: int, epoch: int, now_ms: int, *, v2: bool = False
    ) -> Guard:
        """The guard for a producer whose batch starts with `sequence`; `v2`: each of its
        transactions has its own epoch. The caller has to report the result, by `confirmed` or
        `failed`. ApiError COORDINATOR_NOT_AVAILABLE if there are too many.

        Remembers the lowest sequence: a batch must not overtake an earlier one that the client
        will retry.
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
        """The coordinator has verified the transaction: the guard is kept until the append."""
        pending = self._pending.get(producer_id)
        if pending is not None and pending.guard == guard:
            pending.waiting_requests -= 1
            pending.confirmed = True

    def failed(self, producer_id: int, guard: Guard, *, is_final: bool) -> None:
        """The verification has failed, or the coordinator was not available. If `is_final` the
        guard is dropped, unless other requests of the producer are waiting or were confirmed."""
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
        """Whether a batch with `guard` may start a transaction."""
        if guard == NOT_NEEDED:
            return True
        pending = self._pending.get(producer_id)
        return pending is not None and pending.guard == guard

    def lowest_sequence(self, producer_id: int, *, has_written: bool) -> int | None:
        """The sequence that the first batch has to start with; None if any. It is 0 for a producer
        with an epoch for each transaction that has not written in its epoch (`has_written`)."""
        pending = self._pending.get(producer_id)
        if pending is None:
            return None
        return 0 if pending.v2 and not has_written else pending.lowest_sequence

    def batch_appended(self, producer_id: int) -> None:
        """A transactional batch was appended: drop the guard."""
        self._forget(producer_id)

    def marker_appended(self, producer_id: int, epoch: int) -> None:
        """A marker was appended: drop the guard. But with an epoch for each transaction a guard
        with the marker's `epoch` is for the next transaction, and stays."""
        pending = self._pending.get(producer_id)
        if pending is not None and not (pending.v2 and pending.epoch == epoch):
            self._forget(producer_id)

    def expire(self, before_ms: int) -> None:
        """Drop those that were begun at `before_ms` or earlier."""
        for producer_id in [
            known for known, pending in self._pending.items() if pending.made_ms <= before_ms
        ]:
            self._forget(producer_id)

    def clear(self) -> None:
        """Drop all."""
        self._pending.clear()
        self._idle.clear()
