"""Where a follower truncates: the truth table of KIP-101, KIP-279 and KIP-595, and that it then has
the longest part of its log that the leader's begins with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.log.epochs import LeaderEpochs
from kavka.server.replica.following import Divergence, Following


class EpochsOnly:
    """A log of which only the leader epochs of its records count. A leader has begun another one,
    above all others, of which there is no record yet."""

    def __init__(self, epochs: Sequence[int], *, leads: bool = False) -> None:
        self.epochs = list(epochs)
        self.start_offset = 0
        self._leads = leads

    @property
    def end_offset(self) -> int:
        return len(self.epochs)

    def epoch_of(self, offset: int) -> int:
        return self.epochs[offset]

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        starts = {known_epoch: self.epochs.index(known_epoch) for known_epoch in self.epochs}
        if self._leads:
            starts[1000] = self.end_offset
        return LeaderEpochs(starts.items()).end_offset(epoch, self.end_offset)


class Replica:
    def __init__(self, log: EpochsOnly) -> None:
        self.log = log


def truncation_offset(follower: Sequence[int], divergence: Divergence) -> int:
    replica: Any = Replica(EpochsOnly(follower))
    return Following(replica)._truncation_offset(divergence)


@pytest.mark.parametrize(
    ("follower", "answer", "offset"),
    [
        # the leader's epoch ends before the follower's
        ([1, 1, 1], Divergence(1, 2), 2),
        # the follower has an epoch that the leader never had: it goes whole
        ([1, 1, 2, 2], Divergence(1, 4), 2),
        # the leader's last common epoch is one that the follower never had (KIP-279)
        ([1, 1, 4, 4], Divergence(3, 9), 2),
        # nothing in common
        ([4, 4], Divergence(3, 9), 0),
        ([4, 4], Divergence(3, 1), 0),
    ],
)
def test_table(follower: list[int], answer: Divergence, offset: int) -> None:
    assert truncation_offset(follower, answer) == offset


def _leader_answers(leader: EpochsOnly, follower: EpochsOnly) -> Divergence | None:
    """What a Fetch is answered with; None: no divergence is known."""
    epoch, end = leader.end_offset_for_epoch(follower.epochs[-1])
    assert epoch >= 0, "the leader's own epoch is above all others"
    if epoch < follower.epochs[-1] or end < follower.end_offset:
        return Divergence(epoch, end)
    return None


_tails = st.lists(st.integers(1, 3), max_size=6)


@given(st.lists(st.integers(1, 2), max_size=5), _tails, _tails, st.booleans())
def test_after_at_most_as_many_truncations_as_there_are_epochs_the_logs_agree(
    common: list[int], ours: list[int], theirs: list[int], ours_are_odd: bool
) -> None:
    """Two brokers never lead in the same epoch, so the epochs of the tails differ."""
    top = len(common) + 1
    common = sorted(common)
    odd = [2 * epoch + 1 + top for epoch in sorted(ours)]
    even = [2 * epoch + top for epoch in sorted(theirs)]
    mine, other = (odd, even) if ours_are_odd else (even, odd)
    leader = EpochsOnly([*common, *other], leads=True)
    follower = EpochsOnly([*common, *mine])
    rounds = 0
    while follower.epochs and (answer := _leader_answers(leader, follower)) is not None:
        offset = truncation_offset(follower.epochs, answer)
        assert offset < follower.end_offset, "else it would ask the same again for ever"
        assert offset >= len(common), "what both have must stay"
        del follower.epochs[offset:]
        rounds += 1
    assert rounds <= len(set(mine)) + 1
    assert leader.epochs[: follower.end_offset] == follower.epochs
