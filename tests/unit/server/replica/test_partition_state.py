"""The state of a partition: scenarios, and random events."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.server.replica.partition_state import (
    NEVER,
    LeaderAndIsrState,
    PartitionState,
    ProposeIsr,
)
from support.controller_text import ids
from support.scenarios import Command, Scenario, scenario_files


class PartitionMachine:
    """`PartitionState` on broker 1. It is written when it has changed: role, leader epoch and
    partition epoch, ISR, log end and high watermark."""

    def __init__(self) -> None:
        self._state = PartitionState(1, high_watermark=0, log_end=0)
        self._text = ""
        self._high_watermark = 0
        self._now_ms = 0
        self._proposal: ProposeIsr | None = None

    def do_partition(self, command: Command) -> Iterator[str]:
        """A log as it is found at the start, with the high watermark of the checkpoint."""
        self._state = PartitionState(
            1, high_watermark=command.number("hw"), log_end=command.number("end")
        )
        return self._changes()

    def do_lead(self, command: Command) -> Iterator[str]:
        decision = _decision(command, leader=1)
        for assigned in self._state.lead(decision, self._at(command)):
            yield f"epoch {assigned.epoch} begins at {assigned.start_offset}"
        yield from self._changes()

    def do_follow(self, command: Command) -> Iterator[str]:
        self._state.follow(_decision(command, leader=2))
        return self._changes()

    def do_stop(self, command: Command) -> Iterator[str]:
        self._state.stop()
        return self._changes()

    def do_replicate(self, command: Command) -> Iterator[str]:
        """This follower's log has grown to this end; its leader has this high watermark."""
        end, watermark = map(int, command.words)
        return self._moved(self._state.replicated(end, watermark))

    def do_truncate(self, command: Command) -> Iterator[str]:
        """This follower's log has been truncated to this end."""
        self._state.truncated(int(command.words[0]))
        return self._changes()

    def do_fetch(self, command: Command) -> Iterator[str]:
        """A follower has fetched from this offset."""
        follower, offset = map(int, command.words)
        yield from self._proposed(self._state.fetched(follower, offset, self._at(command)))

    def do_shrink(self, command: Command) -> Iterator[str]:
        """Followers that lag are to leave the ISR."""
        yield from self._proposed(self._state.shrink(self._at(command)))

    def do_decided(self, command: Command) -> Iterator[str]:
        """The controller has answered with this leader epoch, partition epoch and ISR."""
        epoch, _, version = command.words[0].partition("/")
        isr = tuple(map(int, command.list("isr")))
        return self._moved(self._state.isr_decided(int(epoch), isr, int(version)))

    def do_refused(self, command: Command) -> Iterator[str]:
        """The controller has refused the last proposal."""
        assert self._proposal is not None
        return self._moved(self._state.isr_refused(self._proposal))

    def do_min_isr(self, command: Command) -> Iterator[str]:
        return self._moved(self._state.configure(NEVER, int(command.words[0])))

    def _at(self, command: Command) -> int:
        self._now_ms = command.ms("at", self._now_ms)
        return self._now_ms

    def _proposed(self, proposal: ProposeIsr | None) -> Iterator[str]:
        if proposal is not None:
            self._proposal = proposal
            epochs = f"{proposal.leader_epoch}/{proposal.partition_epoch}"
            yield f"propose isr {ids(proposal.isr)} at {epochs}"
        yield from self._changes()

    def do_append(self, command: Command) -> Iterator[str]:
        """The log has grown to this end."""
        return self._moved(self._state.appended(int(command.words[0])))

    def do_flush(self, command: Command) -> Iterator[str]:
        """What is below this offset is on the disk."""
        return self._moved(self._state.flushed(int(command.words[0])))

    def do_flush_messages(self, command: Command) -> Iterator[str]:
        """The config: a number, or never."""
        word = command.words[0]
        return self._moved(self._state.configure(NEVER if word == "never" else int(word), 1))

    def do_safe(self, command: Command) -> Iterator[str]:
        """Which of these offsets are as safe here as the topic asks."""
        yield f"safe: {ids(filter(self._state.is_safe_here, map(int, command.words)))}"

    def _moved(self, moved: bool) -> Iterator[str]:
        assert moved == (self._state.high_watermark != self._high_watermark)
        return self._changes()

    def _changes(self) -> Iterator[str]:
        state, before = self._state, self._text
        state.check_invariants()
        self._high_watermark = state.high_watermark
        role = "leader" if state.is_leader else f"follower of {state.leader}"
        if state.maximal_isr != state.isr:
            role += f", maximal isr {ids(state.maximal_isr)},"
        more = " catching up" * state.is_catching_up + " awaits flush" * state.awaits_flush
        self._text = (
            f"{role} epoch {state.leader_epoch}/{state.partition_epoch} isr {ids(state.isr)} "
            f"end {state.log_end} high watermark {state.high_watermark}{more}"
        )
        if self._text != before:
            yield self._text


def _decision(command: Command, *, leader: int) -> LeaderAndIsrState:
    """A leader epoch such as 3, or 3/5 with the partition epoch; by default the leader is alone in
    the ISR of replicas 1 and 2."""
    epoch, _, version = command.words[0].partition("/")
    isr = tuple(map(int, command.list("isr", str(leader))))
    replicas = tuple(map(int, command.list("replicas", "1,2")))
    return LeaderAndIsrState(1, leader, int(epoch), isr, int(version or 0), replicas)


@scenario_files("replica/partition_state", "replica/isr")
def test_scenarios(scenario: Scenario, rewrite: bool) -> None:
    scenario.check(PartitionMachine(), rewrite)


events = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 100)),
        st.tuples(st.just("lead"), st.integers(0, 20)),
        st.tuples(st.just("follow"), st.integers(0, 20)),
        st.tuples(st.just("flush"), st.just(0)),
    ),
    max_size=60,
)


@given(events)
def test_invariants_hold_and_the_high_watermark_never_decreases(
    steps: list[tuple[str, int]],
) -> None:
    partition = PartitionState(1, high_watermark=0, log_end=0)
    end = watermark = 0
    epoch = -1
    for step, number in steps:
        if step == "append" and partition.is_leader:
            end += number
            assert partition.appended(end)
        elif step == "lead":
            commands = partition.lead(LeaderAndIsrState(1, 1, number, (1,), 0, (1,)))
            assert bool(commands) == (number > epoch)
            epoch = max(epoch, number)
        elif step == "follow":
            partition.follow(LeaderAndIsrState(1, 2, number, (2,), 0, (1, 2)))
            epoch = max(epoch, number)
        elif step == "flush":
            partition.flushed(end)
        partition.check_invariants()
        assert partition.high_watermark >= watermark
        assert partition.leader_epoch == epoch
        watermark = partition.high_watermark
        if partition.is_leader:
            assert watermark == end


def test_a_follower_that_has_gone_does_not_hold_back_the_high_watermark() -> None:
    """As `Partition.maybeIncrementLeaderHW` of Apache Kafka, which looks at brokers that are alive:
    one that is to join counts while it is, and not until it lags."""
    live = {1, 2, 3}
    partition = PartitionState(1, high_watermark=0, log_end=0, is_live=live.__contains__)
    partition.lead(LeaderAndIsrState(1, 1, 5, (1, 2), 0, (1, 2, 3)))
    refused = partition.fetched(3, 0, 10)
    assert refused is not None
    partition.isr_refused(refused)
    partition.appended(1)
    partition.fetched(2, 1, 20)
    assert partition.high_watermark == 0
    assert not partition.brokers_gone()
    live.remove(3)
    assert partition.brokers_gone() and partition.high_watermark == 1
    partition.appended(2)
    partition.fetched(2, 2, 30)
    assert partition.high_watermark == 2
    live.remove(2)
    partition.appended(3)
    assert not partition.brokers_gone(), "it is in the ISR until the controller says otherwise"


@pytest.mark.parametrize(
    ("leader", "isr", "may_be"), [(-1, (3, 1), True), (-1, (3,), False), (1, (3, 1), False)]
)
def test_a_part_of_the_isr_may_be_dropped_replicas_without_a_leader(
    leader: int, isr: tuple[int, ...], may_be: bool
) -> None:
    """A reassignment may drop them while the others are dead."""
    state = PartitionState(4, high_watermark=0, log_end=0)
    state.follow(LeaderAndIsrState(1, leader, 13, isr, 31, (4, 1, 2)))
    if may_be:
        state.check_invariants()
    else:
        with pytest.raises(AssertionError, match=f"follow {leader} epoch 13"):
            state.check_invariants()
