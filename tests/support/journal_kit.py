"""A coordinator's machine without a broker: under a journal, over a partition, with a clock."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from kavka.log.journal import DecisionOrSteps, Journal, JournalRecord, Machine, ReplyFuture
from kavka.wire.errors import ErrorCode
from kavka.wire.steps import run_at_once
from support.toy_machine import ToyPort

START_MS = 1_700_000_000_000
COMMIT_MS = 5_000

M = TypeVar("M", bound=Machine)


class CountedReply(ReplyFuture):
    """Fails if it is completed twice."""

    def complete(self, response: Any) -> None:
        assert not self.is_complete, (
            f"answered with {self.response or self.failure}, then {response}"
        )
        super().complete(response)


class JournalKit(ABC, Generic[M]):
    """The machine of one partition; it has no timers before `begin` or `move`. Appended records
    are committed at once, unless `holds`."""

    shard: M
    journal: Journal

    def __init__(self) -> None:
        self.now_ms = START_MS
        self.port = ToyPort()
        self.holds = False
        self._take_over()

    @abstractmethod
    def new_shard(self) -> M:
        """A machine before it is loaded."""

    # -- the partition

    def begin(self) -> None:
        """Become the coordinator, by loading the log."""
        self._take_over()
        for decision in self.shard.loaded(self.now_ms):
            run_at_once(self.journal.execute_in_steps(decision, self.now_ms))

    def _take_over(self) -> None:
        """Without the decisions after loading."""
        self.shard = self.replayed()
        self.journal = Journal(
            self.shard, self.port, applied_end=self.port.end, commit_timeout_ms=COMMIT_MS
        )

    def move(self, *, lost: bool = False) -> None:
        """Another broker becomes the coordinator; the uncommitted records may be `lost`."""
        self.journal.resign(ErrorCode.NOT_COORDINATOR)
        if lost:
            while self.port.end > self.port.high_watermark:
                self.port.end -= len(self.port.batches.pop()[0])
        self.port.high_watermark = self.port.end
        self.begin()

    def replayed(self) -> M:
        """Another machine, which has replayed the log."""
        shard = self.new_shard()
        self.replay(shard)
        return shard

    def replay(self, shard: M) -> None:
        """Replay the log into a machine."""
        appended = self.appended
        shard.replay([record.key for record in appended], [record.value for record in appended])

    @property
    def appended(self) -> list[JournalRecord]:
        """All records of the log."""
        return [record for records, _ in self.port.batches for record in records]

    # -- requests

    def ask(self, decide: Callable[[ReplyFuture, int], DecisionOrSteps]) -> CountedReply:
        """Any request."""
        future = CountedReply()
        self.execute(decide(future, self.now_ms))
        return future

    def answer(self, decide: Callable[[ReplyFuture, int], DecisionOrSteps]) -> Any:
        """The response to a request; its future while it is pending. ApiError."""
        future = self.ask(decide)
        if future.failure is not None:
            raise future.failure
        return future.response if future.is_complete else future

    def execute(self, made: DecisionOrSteps) -> None:
        """Carry out a decision."""
        run_at_once(self.journal.execute_in_steps(made, self.now_ms))
        self.commit_unless_held()

    # -- time

    def advance(self, by_ms: int) -> None:
        """Let time pass, from timer to timer."""
        end_ms = self.now_ms + by_ms
        while True:
            at_ms = self.journal.wake_at()
            if at_ms is None or at_ms > end_ms:
                break
            self.now_ms = max(self.now_ms, at_ms)
            while run_at_once(self.journal.tick_in_steps(self.now_ms)):
                self.commit_unless_held()
        self.now_ms = end_ms

    def commit_unless_held(self) -> None:
        if not self.holds:
            self.commit()

    def commit(self) -> None:
        """The high watermark advances to the end."""
        self.port.high_watermark = self.port.end
        self.journal.release_replies()
