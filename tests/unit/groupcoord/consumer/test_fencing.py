"""Members that are put out of a group because they are silent, or keep what is not theirs."""

from __future__ import annotations

from kavka.wire.errors import ErrorCode
from support.consumer_groups import INTERVAL_MS, REBALANCE_MS, SESSION_MS, ConsumerKit, assert_sound
from support.refusals import refusal


def test_a_silent_member_is_gone_when_its_session_is_over() -> None:
    kit = ConsumerKit()
    first, second = kit.joined("a", "b")
    kit.advance(SESSION_MS - 1)
    assert list(kit.consumer_group().members) == ["a", "b"]
    first.beat()
    kit.advance(1)
    assert list(kit.consumer_group().members) == ["a"]
    first.beat()
    assert len(first.partitions) == 4
    assert refusal(second.beat) is ErrorCode.UNKNOWN_MEMBER_ID
    assert_sound(kit, kit.consumer_group())


def test_a_member_that_keeps_what_it_should_give_up_is_fenced() -> None:
    kit = ConsumerKit()
    (first,) = kit.joined("a")
    kept = first.owned
    second = kit.client("b")
    second.join()
    first.beat()
    for _ in range(REBALANCE_MS // 10_000):
        first.tell(reported=kept)
        second.beat()
        kit.advance(10_000)
    assert list(kit.consumer_group().members) == ["b"]
    kit.settle(second)
    assert len(second.partitions) == 4


def test_one_that_gives_up_in_time_stays() -> None:
    kit = ConsumerKit()
    (first,) = kit.joined("a")
    second = kit.client("b")
    second.join()
    first.beat()
    for _ in range(2 * REBALANCE_MS // 10_000):
        first.beat()
        second.beat()
        kit.advance(10_000)
    assert list(kit.consumer_group().members) == ["a", "b"]


def test_each_epoch_has_its_time() -> None:
    """Told to give up twice, it has the whole time for the second."""
    kit = ConsumerKit()
    (first,) = kit.joined("a")
    second = kit.client("b")
    second.join()
    first.beat()
    kit.advance(REBALANCE_MS // 2)
    first.beat()
    kit.client("c").join()
    kit.advance(INTERVAL_MS)
    first.beat()
    second.beat()
    kit.advance(REBALANCE_MS // 2)
    assert "a" in kit.consumer_group().members


def test_one_that_could_not_be_told_to_give_up_is_not_fenced_for_it() -> None:
    kit = ConsumerKit(group_consumer_session_timeout_ms=10 * REBALANCE_MS)
    (first,) = kit.joined("a")
    kit.client("b").join()
    kit.port.failures = [ErrorCode.NOT_ENOUGH_REPLICAS]
    assert refusal(first.beat) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    kit.advance(2 * REBALANCE_MS)
    assert list(kit.consumer_group().members) == ["a", "b"]


def test_the_last_reader_takes_its_expression_with_it() -> None:
    kit = ConsumerKit()
    first, second = kit.joined("a", "b", topics=None, regex="t")
    kit.settle(first, second)
    group = kit.consumer_group()
    first.leave()
    assert list(group.resolved) == ["t"]
    assert group.metadata_hash != 0
    second.leave()
    assert (group.resolved, group.metadata_hash) == ({}, 0)
    assert_sound(kit, group)


def test_no_deadline_is_left_of_one_that_has_gone() -> None:
    kit = ConsumerKit()
    first, second = kit.joined("a", "b")
    first.leave()
    second.leave()
    for member_id in ("a", "b"):
        for what in ("session", "rebalance", "join", "sync"):
            assert ("consumer", what, "g", member_id) not in kit.shard.timers


def test_a_silent_member_goes_later_if_its_going_can_not_be_written() -> None:
    kit = ConsumerKit()
    first, _ = kit.joined("a", "b")
    kit.advance(SESSION_MS - 1)
    first.beat()
    kit.port.failures = [ErrorCode.NOT_ENOUGH_REPLICAS] * 3
    kit.advance(1)
    assert list(kit.consumer_group().members) == ["a", "b"]
    kit.advance(10_000)
    assert list(kit.consumer_group().members) == ["a"]
    assert kit.port.failures == []


def test_one_whose_leave_can_not_be_written_goes_when_its_session_is_over() -> None:
    kit = ConsumerKit()
    first, second = kit.joined("a", "b")
    kit.port.failures = [ErrorCode.NOT_ENOUGH_REPLICAS]
    assert refusal(second.leave) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    for _ in range(SESSION_MS // 10_000 + 1):
        assert_sound(kit, kit.consumer_group())
        first.beat()
        kit.advance(10_000)
    assert list(kit.consumer_group().members) == ["a"]


def test_one_that_left_in_time_but_is_told_late_has_no_deadlines() -> None:
    """The records are in the log, though nobody knows for long whether they stay there."""
    kit = ConsumerKit()
    kit.joined("a", "b")
    kit.holds = True
    ticket = kit.send("g", "b", -1)
    kit.advance(10_000)
    assert ticket.failure is not None
    assert ticket.failure.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert list(kit.consumer_group().members) == ["a"]
    assert ("consumer", "session", "g", "b") not in kit.shard.timers


def test_a_static_member_that_has_gone_for_now_has_its_session_to_come_back() -> None:
    """Though it went while it had partitions to give up."""
    kit = ConsumerKit()
    client = kit.client("a", instance_id="i", rebalance_ms=5_000)
    client.join()
    kit.settle(client)
    kit.client("b").join()
    kit.advance(INTERVAL_MS)
    client.beat()
    assert kit.member("a").state == 1
    client.leave(-2)
    kit.advance(6_000)
    assert "a" in kit.consumer_group().members
    kit.move()
    kit.advance(6_000)
    assert "a" in kit.consumer_group().members
    kit.advance(SESSION_MS)
    assert "a" not in kit.consumer_group().members


def test_a_member_that_went_over_has_no_deadlines_of_the_classic_protocol() -> None:
    kit = ConsumerKit()
    kit.joined("a")
    for what in ("join", "sync"):
        kit.shard.timers.set(("consumer", what, "g", "a"), kit.now_ms + 10)
    kit.advance(20)
    assert list(kit.consumer_group().members) == ["a"]
