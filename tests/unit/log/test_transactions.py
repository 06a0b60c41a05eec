"""What is undecided, against a model that remembers every transaction."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kavka.log import transactions
from kavka.log.transactions import Transactions

PRODUCERS = 4


class Machine(RuleBasedStateMachine):
    """Producers begin and end transactions; the high watermark follows behind."""

    @initialize()
    def start(self) -> None:
        self.found = Transactions()
        self.end = 0
        self.high_watermark = 0
        self.ongoing: dict[int, int] = {}
        self.ended: list[tuple[int, int]] = []  # first offset, marker

    @rule(producer=st.integers(1, PRODUCERS), gap=st.integers(0, 3))
    def write(self, producer: int, gap: int) -> None:
        self.end += gap
        if producer not in self.ongoing:
            self.ongoing[producer] = self.end
            self.found.begin(producer, self.end)
        self.end += 1

    @rule(producer=st.integers(1, PRODUCERS))
    def finish(self, producer: int) -> None:
        first = self.ongoing.pop(producer, None)
        if first is not None:
            expected = min(self.ongoing.values(), default=self.end + 1)
            assert self.found.stable_after(first, self.end) == expected
            self.found.end(first, self.end)
            self.ended.append((first, self.end))
            self.end += 1

    @rule(share=st.floats(0, 1))
    def replicate(self, share: float) -> None:
        self.high_watermark += round((self.end - self.high_watermark) * share)

    @invariant()
    def is_as_remembered(self) -> None:
        undecided = [first for first, marker in self.ended if marker >= self.high_watermark]
        undecided += self.ongoing.values()
        expected = min(undecided, default=None)
        assert self.found.first_unstable(self.high_watermark) == expected
        assert self.found.all_decided == (expected is None)
        assert len(self.found) == len(self.ongoing)
        oldest = min(self.ongoing, key=lambda producer: self.ongoing[producer], default=None)
        assert self.found.oldest_producer == oldest


TestTransactions = Machine.TestCase


def test_many_that_are_not_replicated_are_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions, "ENDED_MAX", 3)
    found = Transactions()
    for first in range(0, 100, 10):
        found.begin(1, first)
        found.end(first, first + 5)
    assert [found.first_unstable(end) for end in (0, 5, 6, 15, 16, 95)] == [0, 0, 10, 10, 20, 20]
    assert found.first_unstable(96) is None and found.all_decided


def test_clear() -> None:
    found = Transactions()
    found.begin(1, 0)
    found.begin(2, 3)
    found.end(0, 5)
    found.clear()
    assert found.all_decided and found.first_unstable(0) is None and len(found) == 0
