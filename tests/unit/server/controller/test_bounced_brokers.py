"""Brokers that restart before the controller sees them gone: their logs may have lost their ends,
and who wrote to the tree since may not have known of it."""

from __future__ import annotations

from kavka.server.controller.events import (
    BrokersChanged,
    Command,
    Elect,
    ElectionResults,
    Enqueue,
    PartitionsFound,
    StatesWritten,
    StateWrite,
    StoredState,
    WriteStates,
)
from kavka.server.controller.partition_machine import PartitionMachine
from kavka.wire.errors import ApiError, ErrorCode
from kavka.zktree.paths import PartitionState
from support.partition_machine import EPOCH, brokers, found, machine, stored, tp, with_partition

BOUNCED = brokers(1, 2, epochs={2: 60})
"""After a state was written at 50; broker 2 registers anew, and the controller learns it late."""


def examined(made: PartitionMachine, change: BrokersChanged) -> list[Command]:
    """What a change of brokers leads to in the end."""
    *_, post = made.handle(change)
    assert isinstance(post, Enqueue)
    return made.handle(post.event)


def test_a_broker_that_bounced_was_away_though_the_state_was_written_since() -> None:
    """By its leader, which changed the ISR, before the controller heard of the restart."""
    made = machine(1, 2)
    with_partition(made, 2, 1, state=stored(2, 2, 1, leader_epoch=4, version=6, mzxid=50))
    changed = stored(2, 2, 1, leader_epoch=4, version=7, mzxid=70)
    with_partition(made, 2, 1, state=changed)
    (write,) = examined(made, BOUNCED)
    state = PartitionState(1, 5, (1,), EPOCH)
    assert write == WriteStates((StateWrite(tp(), state, 7),))
    made.handle(StatesWritten({tp(): StoredState(state, 8, 80)}))
    back = StoredState(PartitionState(1, 5, (1, 2), EPOCH), 9, 90)
    commands = made.handle(PartitionsFound((found(2, 1, stored=back),)))
    assert not [one for one in commands if isinstance(one, WriteStates)], "it is in sync again"


def test_that_it_was_away_outlives_a_write_that_is_refused() -> None:
    """The state is read again, which was written after the broker came back."""
    made = machine(1, 2)
    with_partition(made, 2, 1, state=stored(2, 2, 1, leader_epoch=4, version=6, mzxid=50))
    (first,) = examined(made, BOUNCED)
    assert isinstance(first, WriteStates) and first.writes[0].state.isr == (1,)
    changed = stored(2, 2, 1, leader_epoch=4, version=7, mzxid=70)
    (again,) = made.handle(PartitionsFound((found(2, 1, stored=changed),)))
    state = PartitionState(1, 5, (1,), EPOCH)
    assert again == WriteStates((StateWrite(tp(), state, 7),))


def test_a_lone_leader_that_bounced_leads_in_a_new_epoch_whatever_was_written_since() -> None:
    made = machine(1)
    with_partition(made, 1, state=stored(1, 1, leader_epoch=4, version=7, mzxid=70))
    (write,) = examined(made, brokers(1, epochs={1: 60}))
    assert write == WriteStates((StateWrite(tp(), PartitionState(1, 5, (1,), EPOCH), 7),))


def test_the_preferred_replica_is_not_elected_before_what_it_missed_is_settled() -> None:
    made = machine(1, 2)
    with_partition(made, 2, 1, state=stored(1, 1, 2, leader_epoch=4, version=6, mzxid=70))
    examined(made, BOUNCED)
    (elected,) = made.handle(Elect((tp(),), False))
    assert isinstance(elected, ElectionResults)
    failure = elected.results[tp()]
    assert isinstance(failure, ApiError)
    assert failure.code == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
