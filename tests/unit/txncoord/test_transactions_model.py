"""Transactional ids against a model: requests of versions 0 and 2, current and stale ones, refused
appends, late commits, markers reported in any order and twice, timers, and moves to brokers that
lack uncommitted records.

The last epoch is 2 here, so that producer ids change often.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import Any, Final, NamedTuple

from hypothesis import settings, strategies
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from pytest import MonkeyPatch

from kavka.log.journal import ReplyFuture
from kavka.txncoord import ending, expiry, transaction, transactional_producers
from kavka.txncoord.shard import TransactionShard
from kavka.txncoord.transaction_requests import NeedsProducerId, ProducerIdAndEpoch, WriteMarkers
from kavka.wire.errors import ApiError, ErrorCode
from support.journal_kit import COMMIT_MS
from support.transaction_machine import TransactionKit
from support.transaction_model import Known, NoProducerIds, Rules

IDS: Final = ("x", "y")
PLACES: Final = [("t", 0), ("t", 1), ("u", 0)]
LAST_EPOCH: Final = 2
CHECK_MS: Final = 10_000
SWEEP_MS: Final = 240_000
UNUSED_MS: Final = 600_000
RETRY_MS: Final = 500
"""As `ending.COMPLETION_RETRY_MS`."""

GONE: Final = ErrorCode.NOT_COORDINATOR
LATE: Final = ErrorCode.COORDINATOR_NOT_AVAILABLE

ids = strategies.sampled_from(IDS)
places = strategies.frozensets(strategies.sampled_from(PLACES), min_size=1)
versions = strategies.sampled_from((0, 2, 2))
rarely = strategies.integers(0, 7).map(lambda number: number == 7)
ages = strategies.sampled_from((0, 0, 0, 0, 0, 1, 1, 2, 3))
"""By how many ids and epochs that of a request is not the newest one given."""


Places = frozenset[tuple[str, int]]


class Expected(NamedTuple):
    """A pending response."""

    future: ReplyFuture
    answer: object
    when_late: object
    deadline_ms: int


class TransactionsAgainstModel(RuleBasedStateMachine):
    @initialize(feature=strategies.sampled_from((0, 1, 2, 2, 2)))
    def begin(self, feature: int) -> None:
        self.patch = MonkeyPatch()
        self.patch.setattr(expiry, "IDS_PER_STEP", 2)
        self.patch.setattr(transaction, "EPOCH_MAX", LAST_EPOCH + 1)
        changed: tuple[ModuleType, ...] = (transaction, ending, transactional_producers)
        for module in changed:
            self.patch.setattr(module, "EPOCH_GIVEN_MAX", LAST_EPOCH)
        self.kit = TransactionKit(
            kavka_transaction_version=feature,
            transaction_abort_timed_out_transaction_cleanup_interval_ms=CHECK_MS,
            transaction_remove_expired_transaction_cleanup_interval_ms=SWEEP_MS,
            transactional_id_expiration_ms=UNUSED_MS,
        )
        self.fresh_id = self.kit.fresh_id
        self.reservations = 0
        self.model = Rules(LAST_EPOCH, feature, self._fresh)
        self.plain = feature == 0
        self.known: dict[str, Known] = {}
        self.committed: dict[str, Known] = {}
        self.uncommitted: set[str] = set()
        """Ids with records that are not committed."""
        self.given: dict[str, list[tuple[int, int]]] = {
            transactional_id: [(1, 0)] for transactional_id in IDS
        }
        self.pending: list[Expected] = []
        self.past_markers: list[WriteMarkers] = []
        self.reported: set[str] = set()
        self.timeouts: dict[str, int] = {}
        self.retries: dict[str, int] = {}
        self.sweep_ms = self.kit.now_ms + SWEEP_MS

    def teardown(self) -> None:
        self.patch.undo()

    def _fresh(self) -> int:
        if self.kit.is_dry:
            raise NoProducerIds
        self.fresh_id += 1
        return self.fresh_id - 1

    # -- requests

    @rule(transactional_id=ids, age=ages, continues=strategies.booleans(), refused=rarely)
    def init(self, transactional_id: str, age: int, continues: bool, refused: bool) -> None:
        own = self._own(transactional_id, age) if continues else None
        timeout_ms = 15_000 if continues else 25_000
        self._ask(
            transactional_id,
            lambda: self.model.init(
                self.known.get(transactional_id), own, timeout_ms, self.kit.now_ms
            ),
            lambda: self.kit.init(transactional_id, own, timeout_ms=timeout_ms),
            refused,
        )

    @rule(transactional_id=ids, age=ages, partitions=places, version=versions, refused=rarely)
    def add(
        self, transactional_id: str, age: int, partitions: Places, version: int, refused: bool
    ) -> None:
        own, known = self._own(transactional_id, age), self.known.get(transactional_id)
        self._ask(
            transactional_id,
            lambda: self.model.add(known, own, partitions, version, self.kit.now_ms),
            lambda: self.kit.add(
                own, *partitions, transactional_id=transactional_id, version=version
            ),
            refused,
        )

    @rule(
        transactional_id=ids,
        age=ages,
        committed=strategies.booleans(),
        version=versions,
        refused=rarely,
    )
    def end(
        self, transactional_id: str, age: int, committed: bool, version: int, refused: bool
    ) -> None:
        own, known = self._own(transactional_id, age), self.known.get(transactional_id)
        self._ask(
            transactional_id,
            lambda: self.model.end(known, own, committed, version, self.kit.now_ms),
            lambda: self.kit.end(
                own, committed=committed, transactional_id=transactional_id, version=version
            ),
            refused,
        )

    @rule(
        transactional_id=ids,
        version=versions,
        committed=strategies.booleans(),
        steps=strategies.integers(1, 3),
        times=strategies.integers(1, 3),
    )
    def transact(
        self, transactional_id: str, version: int, committed: bool, steps: int, times: int
    ) -> None:
        """Whole transactions, or their first steps."""
        if transactional_id not in self.known:
            self.init(transactional_id, 0, False, False)
        for _ in range(times):
            self.add(transactional_id, 0, frozenset(PLACES[:1]), version, False)
            if steps > 1:
                self.end(transactional_id, 0, committed, version, False)
            if steps > 2 and self.kit.commands:
                self.write_markers(0, False)

    def _own(self, transactional_id: str, age: int) -> ProducerIdAndEpoch:
        given = self.given[transactional_id]
        return ProducerIdAndEpoch(*given[max(0, len(given) - 1 - age)])

    @precondition(lambda self: self.kit.commands)
    @rule(which=strategies.integers(0, 2), refused=rarely)
    def write_markers(self, which: int, refused: bool) -> None:
        markers = self.kit.commands[which % len(self.kit.commands)]
        transactional_id = markers.transactional_id
        self.reported.add(transactional_id)
        self.past_markers.append(markers)
        self._ask(
            transactional_id,
            lambda: (None, self.model.completed(self.known[transactional_id], self.kit.now_ms)),
            lambda: self.kit.mark(markers),
            refused,
            fails=False,
        )

    @precondition(lambda self: self.past_markers)
    @rule(which=strategies.integers(0, 9))
    def report_past_markers_again(self, which: int) -> None:
        markers = self.past_markers[which % len(self.past_markers)]
        self._ask("", lambda: (None, None), lambda: self.kit.mark(markers), False)

    def _ask(
        self,
        transactional_id: str,
        expect: Callable[[], tuple[object, Known | None]],
        call: Callable[[], Any],
        refused: bool,
        *,
        fails: bool = True,
    ) -> None:
        """One request to both. `fails`: it gets an error if the append is refused."""
        try:
            expected, new = expect()
        except NoProducerIds:
            expected, new = NeedsProducerId, None
        self.kit.port.failures = [ErrorCode.NOT_ENOUGH_REPLICAS] if refused else []
        answer = outcome(call)
        assert not refused or bool(self.kit.port.failures) == (new is None)
        self.kit.port.failures.clear()
        assert self.kit.fresh_id == self.fresh_id
        if new is not None and refused:
            expected = LATE if fails else expected
            if not fails:
                self.retries[transactional_id] = self.kit.now_ms + RETRY_MS
            elif new.is_ending and transactional_id in self.timeouts:  # it is checked again
                self._watch(transactional_id, self.kit.now_ms)
        elif new is not None:
            self._set(transactional_id, new)
        if isinstance(answer, ReplyFuture):
            assert self.kit.holds
            when_late = LATE if fails else expected
            deadline_ms = self.kit.now_ms + COMMIT_MS
            self.pending.append(Expected(answer, expected, when_late, deadline_ms))
        else:
            assert answer == expected
        if isinstance(expected, tuple) and expected[0] != -1:
            self.given[transactional_id].append(expected)
        self._maybe_committed()

    def _set(self, transactional_id: str, new: Known) -> None:
        self.known[transactional_id] = replace(new, plain=self.plain)
        self.uncommitted.add(transactional_id)
        self.timeouts.pop(transactional_id, None)
        if new.is_ending:
            self.reported.discard(transactional_id)
        elif new.state == "Ongoing":
            self._watch(transactional_id)

    def _watch(self, transactional_id: str, not_before_ms: int = 0) -> None:
        known = self.known[transactional_id]
        at_ms = max(known.started_ms + known.timeout_ms, not_before_ms)
        self.timeouts[transactional_id] = (at_ms // CHECK_MS + 1) * CHECK_MS

    # -- time, and the partition

    @rule(
        by_ms=strategies.sampled_from((1, 400, 4_000, 11_000, 30_000, 30_000)),
        refused=strategies.booleans(),
    )
    def advance(self, by_ms: int, refused: bool) -> None:
        self._advance(by_ms, refused)

    @rule()
    def advance_to_expiry(self) -> None:
        self._advance(UNUSED_MS + SWEEP_MS, False)

    def _advance(self, by_ms: int, refused: bool) -> None:
        appended, started_ms = len(self.kit.appended), self.kit.now_ms
        self.reservations = self.kit.reservations
        if refused:
            self.kit.port.failures = [ErrorCode.NOT_ENOUGH_REPLICAS] * 1_000
        self.kit.advance(by_ms)
        self.kit.port.failures.clear()
        order = [record.key[4:].decode() for record in self.kit.appended[appended:]]
        self._expire_timers(started_ms, order, refused)
        self._time_out_responses()
        assert self.kit.fresh_id == self.fresh_id
        if not self.kit.holds:  # else they are requested when all is committed, or again
            assert self.kit.reservations == self.reservations
        self._maybe_committed()

    def _expire_timers(self, started_ms: int, order: list[str], refused: bool) -> None:
        """All up to now; those at the same time in the `order` of their records. One that was in
        the past when it was set, because an abort had been refused, expires at once."""
        while True:
            deadlines = {**self.timeouts, **self.retries}
            coming = [
                (max(at, started_ms), transactional_id)
                for transactional_id, at in deadlines.items()
            ]
            coming.append((self.sweep_ms, ""))
            at_ms = min(coming)[0]
            if at_ms > self.kit.now_ms:
                return
            now = [transactional_id for at, transactional_id in coming if at == at_ms]
            transactional_id = min(now, key=lambda due: order.index(due) if due in order else -1)
            if transactional_id in order:
                order.remove(transactional_id)
            if transactional_id in self.timeouts:
                self._time_out(transactional_id, at_ms, refused)
            elif transactional_id:
                self._retry_completion(transactional_id, at_ms, refused)
            else:
                self._sweep(at_ms, order, refused)

    def _time_out(self, transactional_id: str, now_ms: int, refused: bool) -> None:
        try:
            new = self.model.aborted(self.known[transactional_id], now_ms)
        except NoProducerIds:
            self.reservations += 1
            self._watch(transactional_id, now_ms)
            return
        if refused:
            self._watch(transactional_id, now_ms)
        else:
            self._set(transactional_id, new)

    def _retry_completion(self, transactional_id: str, now_ms: int, refused: bool) -> None:
        del self.retries[transactional_id]
        if refused:
            self.retries[transactional_id] = now_ms + RETRY_MS
        else:
            self._set(transactional_id, self.model.completed(self.known[transactional_id], now_ms))

    def _sweep(self, now_ms: int, order: list[str], refused: bool) -> None:
        self.sweep_ms = now_ms + SWEEP_MS
        for transactional_id, known in list(self.known.items()):
            is_unused = known.state in ("Empty", "CompleteCommit", "CompleteAbort")
            if is_unused and known.updated_ms <= now_ms - UNUSED_MS and not refused:
                del self.known[transactional_id]
                order.remove(transactional_id)

    def _time_out_responses(self) -> None:
        if not self.kit.holds:
            return
        while self.pending and self.pending[0].deadline_ms <= self.kit.now_ms:
            expected = self.pending.pop(0)
            assert response_of(expected.future) == expected.when_late

    @precondition(lambda self: not self.kit.holds)
    @rule()
    def hold(self) -> None:
        """The high watermark does not advance any more."""
        self.kit.holds = True

    @precondition(lambda self: self.kit.holds)
    @rule()
    def commit(self) -> None:
        self.kit.holds = False
        self.kit.commit()
        self._maybe_committed()

    def _maybe_committed(self) -> None:
        if self.kit.holds:
            return
        self.committed = dict(self.known)
        self.uncommitted.clear()
        for expected in self.pending:
            assert response_of(expected.future) == expected.answer
        self.pending.clear()

    @rule(lost=strategies.booleans())
    def move(self, lost: bool) -> None:
        """Another broker becomes the coordinator; the uncommitted records may be `lost`."""
        self.past_markers += self.kit.commands
        self.kit.holds = False
        self.kit.move(lost=lost)
        for expected in self.pending:
            assert response_of(expected.future) == GONE
        self.pending.clear()
        known = self.committed if lost else self.known
        self.known = {
            transactional_id: as_replayed(state) for transactional_id, state in known.items()
        }
        self.reported.clear()
        self.retries.clear()
        self.timeouts.clear()
        for transactional_id, state in self.known.items():
            if state.state == "Ongoing":
                self._watch(transactional_id, self.kit.now_ms)
        self.sweep_ms = self.kit.now_ms + SWEEP_MS
        self._maybe_committed()

    @rule(is_dry=strategies.booleans())
    def producer_ids_are_available_or_not(self, is_dry: bool) -> None:
        self.kit.is_dry = is_dry

    # -- invariants

    @invariant()
    def the_state_is_the_models(self) -> None:
        assert as_known(self.kit.shard) == {
            transactional_id: replace(state, plain=False)
            for transactional_id, state in self.known.items()
        }

    @invariant()
    def partitions_are_verified(self) -> None:
        for transactional_id in IDS:
            own, known = self._own(transactional_id, 0), self.known.get(transactional_id)
            code = self.model.may_write(known, own)
            there = known.partitions if known else ()
            assert self.kit.verify(own, *PLACES, transactional_id=transactional_id) == [
                code or (0 if place in there else ErrorCode.TRANSACTION_ABORTABLE)
                for place in PLACES
            ]

    @invariant()
    def markers_are_requested_once_their_transaction_is_committed(self) -> None:
        requested = {markers.transactional_id: tuple(markers[1:]) for markers in self.kit.commands}
        assert len(requested) == len(self.kit.commands)
        assert requested == {
            transactional_id: known.markers
            for transactional_id, known in self.known.items()
            if known.is_ending
            and transactional_id not in self.reported
            and transactional_id not in self.uncommitted
        }

    @invariant()
    def a_replay_gives_the_same_state(self) -> None:
        again = self.kit.new_shard()
        self.kit.replay(again)
        list(again.loaded(self.kit.now_ms))
        assert as_known(again) == {
            transactional_id: replace(as_replayed(known), plain=False)
            for transactional_id, known in self.known.items()
        }


def outcome(call: Callable[[], Any]) -> Any:
    """The response to a request, its future, or its error."""
    try:
        return call()
    except NeedsProducerId:
        return NeedsProducerId
    except ApiError as failure:
        return failure.code


def response_of(future: ReplyFuture) -> object:
    """The response to a pending request."""
    assert future.is_complete, "no response yet"
    return future.failure.code if future.failure is not None else future.response


def as_known(shard: TransactionShard) -> dict[str, Known]:
    """The state of the machine as the model's."""
    return {
        transactional_id: Known(
            txn.state.title,
            txn.producer_id,
            txn.producer_epoch,
            txn.updated_ms,
            txn.timeout_ms,
            txn.started_ms,
            txn.partitions,
            txn.version,
            txn.previous_producer_id,
            txn.next_producer_id,
            txn.last_epoch,
        )
        for transactional_id, txn in shard.state.transactions.items()
    }


def as_replayed(known: Known) -> Known:
    """It without what the log does not store."""
    if known.plain:
        known = replace(known, version=0, previous_id=-1, next_id=-1)
    return replace(known, retry_epoch=-1)


TransactionsAgainstModel.TestCase.settings = settings(max_examples=200, stateful_step_count=60)
TestTransactionsAgainstModel = TransactionsAgainstModel.TestCase
