"""The partition machine, by example and against a simple model."""

from hypothesis import given
from hypothesis import strategies as st

from kavka.server.replica.partition_state import NEVER, AssignEpoch, Leadership, PartitionState


def leadership(
    *,
    leader: int = 1,
    epoch: int = 0,
    isr: tuple[int, ...] = (1,),
    replicas: tuple[int, ...] = (1,),
) -> Leadership:
    return Leadership(1, leader, epoch, isr, 0, replicas)


def test_the_first_leadership_assigns_its_epoch_at_the_log_end() -> None:
    partition = PartitionState(1, high_watermark=0, log_end=7)
    assert partition.lead(leadership(epoch=3)) == (AssignEpoch(3, 7),)
    assert partition.is_leader
    assert partition.high_watermark == 7, "an ISR of one commits what it has"


def test_a_new_leader_is_catching_up_until_its_log_is_flushed() -> None:
    """With `kavka.durability=fsync`, after a crash, that takes an fsync."""
    partition = PartitionState(1, high_watermark=5, log_end=7)
    partition.flush_after = 1
    partition.lead(leadership(epoch=3))
    assert partition.high_watermark == 5 and partition.is_catching_up
    partition.appended(9)
    partition.flushed(6)
    assert partition.is_catching_up
    partition.flushed(7)
    assert partition.high_watermark == 7 and not partition.is_catching_up
    partition.lead(leadership(epoch=3))
    assert not partition.is_catching_up, "the same leader epoch goes on"


def test_the_same_leader_epoch_assigns_no_epoch() -> None:
    partition = PartitionState(1, high_watermark=0, log_end=0)
    partition.lead(leadership(epoch=3))
    assert partition.lead(leadership(epoch=3)) == ()


def test_an_older_leader_epoch_changes_nothing() -> None:
    partition = PartitionState(1, high_watermark=0, log_end=0)
    partition.lead(leadership(epoch=3))
    assert partition.lead(leadership(epoch=2, isr=(1, 2), replicas=(1, 2))) == ()
    partition.follow(leadership(leader=2, epoch=2))
    assert partition.is_leader
    assert partition.leader_epoch == 3
    assert partition.isr == (1,)


def test_an_older_partition_epoch_changes_nothing() -> None:
    """As in Apache Kafka: a LeaderAndIsr that is late does not bring a replica back into the ISR
    that AlterPartition has removed."""
    partition = PartitionState(1, high_watermark=0, log_end=10)
    partition.lead(Leadership(1, 1, 3, (1,), 5, (1, 2)))
    assert partition.lead(Leadership(1, 1, 3, (1, 2), 4, (1, 2))) == ()
    assert (partition.isr, partition.partition_epoch) == ((1,), 5)
    partition.follow(Leadership(1, 2, 3, (2,), 4, (1, 2)))
    assert partition.is_leader
    partition.lead(Leadership(1, 1, 3, (1, 2), 6, (1, 2)))
    assert partition.isr == (1, 2)


def test_an_append_advances_the_high_watermark_with_an_isr_of_one() -> None:
    partition = PartitionState(1, high_watermark=0, log_end=0)
    partition.lead(leadership())
    assert partition.appended(10)
    assert partition.high_watermark == 10
    assert not partition.appended(10)


def test_with_another_replica_in_sync_an_append_alone_commits_nothing() -> None:
    partition = PartitionState(1, high_watermark=0, log_end=0)
    partition.lead(leadership(isr=(1, 2), replicas=(1, 2)))
    assert not partition.appended(10)
    assert partition.high_watermark == 0


def test_a_checkpointed_high_watermark_is_bounded_by_the_log_end() -> None:
    assert PartitionState(1, high_watermark=9, log_end=4).high_watermark == 4


def test_following_keeps_the_high_watermark() -> None:
    partition = PartitionState(1, high_watermark=0, log_end=5)
    partition.lead(leadership(epoch=1))
    partition.follow(leadership(leader=2, epoch=2, isr=(2,), replicas=(1, 2)))
    assert not partition.is_leader
    assert partition.high_watermark == 5


def test_unflushed_records_are_committed_up_to_flush_messages() -> None:
    """`flush.messages`; 1 is `kavka.durability=fsync`."""
    partition = PartitionState(1, high_watermark=0, log_end=0)
    partition.lead(leadership())
    partition.configure(3)
    assert partition.appended(2)
    assert partition.high_watermark == 2 and not partition.awaits_flush
    assert not partition.appended(4)
    assert partition.high_watermark == 2, "what counts goes on counting"
    assert (
        partition.awaits_flush and not partition.is_safe_here(1) and not partition.is_safe_here(3)
    )
    assert partition.flushed(2)
    assert partition.high_watermark == 4, "the rest are too few to wait by themselves"


def test_a_flush_advances_the_high_watermark() -> None:
    partition = PartitionState(1, high_watermark=0, log_end=0)
    partition.lead(leadership())
    partition.configure(1)
    assert not partition.appended(4)
    assert partition.flushed(3)
    assert partition.high_watermark == 3
    assert partition.is_safe_here(2) and not partition.is_safe_here(3)
    assert partition.configure(NEVER)
    assert partition.high_watermark == 4


def test_a_flush_does_not_advance_a_follower_s_high_watermark() -> None:
    partition = PartitionState(1, high_watermark=0, log_end=5)
    partition.follow(leadership(leader=2, isr=(2,), replicas=(1, 2)))
    assert not partition.flushed(5)
    assert partition.high_watermark == 0


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
            commands = partition.lead(leadership(epoch=number))
            assert bool(commands) == (number > epoch)
            epoch = max(epoch, number)
        elif step == "follow":
            partition.follow(leadership(leader=2, epoch=number, isr=(2,), replicas=(1, 2)))
            epoch = max(epoch, number)
        elif step == "flush":
            partition.flushed(end)
        partition.check_invariants()
        assert partition.high_watermark >= watermark
        assert partition.leader_epoch == epoch
        watermark = partition.high_watermark
        if partition.is_leader:
            assert watermark == end
