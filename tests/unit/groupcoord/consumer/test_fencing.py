"""Members that are put out of a group because they are silent, or keep what is not theirs."""

from __future__ import annotations

from kavka.wire.errors import ErrorCode
from support.consumer_groups import (
    INTERVAL_MS,
    REBALANCE_MS,
    SESSION_MS,
    ConsumerKit,
    assert_sound,
    refusal,
)


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
