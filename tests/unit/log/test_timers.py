"""Deadlines of a machine: the earliest first, each once, and a later one costs nothing."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kavka.log.timers import Deadline, Timers

KEYS = st.integers(0, 5)
TIMES = st.integers(0, 50)


class AgainstADict(RuleBasedStateMachine):
    """What a plain dict of deadlines would do."""

    def __init__(self) -> None:
        super().__init__()
        self.timers = Timers()
        self.model: dict[int, int] = {}
        self.given: dict[int, Deadline] = {}
        self.now = 0

    @rule(key=KEYS, after=TIMES)
    def set(self, key: int, after: int) -> None:
        self.given[key] = self.timers.set(key, self.now + after)
        self.model[key] = self.now + after

    @rule(key=KEYS, after=TIMES)
    def postpone(self, key: int, after: int) -> None:
        """What is given out stays good for as long as it waits, and is good for nothing later."""
        known = self.given.get(key)
        if known is not None and self.timers.postpone(known, self.now + after):
            self.model[key] = self.now + after
            assert key in self.timers

    @rule(key=KEYS)
    def cancel(self, key: int) -> None:
        self.timers.cancel(key)
        self.model.pop(key, None)

    @rule(by=TIMES)
    def time_passes(self, by: int) -> None:
        self.now += by

    @rule(by=st.integers(-100, 100))
    def the_clock_is_set(self, by: int) -> None:
        self.now += by
        self.timers.clock_shifted(by)
        self.model = {key: at + by for key, at in self.model.items()}

    @rule()
    def ask(self) -> None:
        due = {key: at for key, at in self.model.items() if at <= self.now}
        key = self.timers.due(self.now)
        if key is None:
            assert not due
        else:
            assert isinstance(key, int)
            assert due[key] == min(due.values())
            del self.model[key]

    @invariant()
    def it_knows_as_much(self) -> None:
        assert len(self.timers) == len(self.model)
        for key in range(6):
            assert self.timers.at(key) == self.model.get(key)
            assert (key in self.timers) is (key in self.model)

    @invariant()
    def no_deadline_is_late(self) -> None:
        wake_at = self.timers.wake_at()
        if self.model:
            assert wake_at is not None
            assert wake_at <= min(self.model.values())


TestAgainstADict = AgainstADict.TestCase


def test_a_timer_runs_until_it_expires_or_is_cancelled() -> None:
    timers = Timers()
    known = timers.set("a", 10)
    assert timers.postpone(known, 30)
    assert not timers.postpone(known, 9), "earlier than it is looked at next"
    assert timers.at("a") == 30
    assert timers.due(29) is None
    assert not timers.postpone(known, 29)
    assert timers.due(30) == "a"
    assert not timers.postpone(known, 50)
    again = timers.set("a", 60)
    timers.cancel("a")
    assert not timers.postpone(again, 70)
    assert timers.at("a") is timers.due(100) is None


def test_equal_deadlines_expire_in_the_order_they_were_set() -> None:
    timers = Timers()
    for key in ("b", ("a", 1), 7):  # which do not compare
        timers.set(key, 10)
    assert [timers.due(10) for _ in range(4)] == ["b", ("a", 1), 7, None]


def test_no_deadline_is_pending_once_all_are_cancelled() -> None:
    timers = Timers()
    timers.set("a", 10)
    timers.cancel("a")
    timers.cancel("never set")
    assert timers.due(10) is None
    assert timers.wake_at() is None


def test_a_moved_deadline_takes_no_more_memory() -> None:
    timers = Timers()
    for at in range(10, 10_000):
        timers.set("a", at)
    assert timers.due(9_998) is None
    assert timers.wake_at() == 9_999
    assert timers.due(9_999) == "a"
    assert timers.wake_at() is None


def test_cancelled_deadlines_do_not_accumulate() -> None:
    """Of members who come and go at once, each with half an hour's time."""
    timers = Timers()
    timers.set("stays", 10_000)
    for number in range(100_000):
        timers.set(number, 1_800_000 + number)
        timers.cancel(number)
    assert timers.queued < 10_000
    assert timers.due(10_000) == "stays"
