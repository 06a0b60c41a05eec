"""Members of the classic protocol in a consumer group."""

from __future__ import annotations

from typing import Any

import pytest

from kavka.groupcoord.classic.members import OfferedProtocol
from kavka.groupcoord.classic.requests import Leaver
from kavka.groupcoord.consumer import embedded_protocol
from kavka.groupcoord.consumer.group import ConsumerGroup
from kavka.wire.errors import ApiError, ErrorCode
from support.classic_groups import SESSION_MS, reading
from support.consumer_groups import INTERVAL_MS, Client, ConsumerKit, assert_sound
from support.refusals import refusal

RANGE = (OfferedProtocol("range", reading("t")),)


def owning(*partitions: int) -> tuple[OfferedProtocol, ...]:
    """What a cooperative consumer of "t" says that has these partitions."""
    own = b"\0\0\0\1\0\1t" + len(partitions).to_bytes(4, "big")
    own += b"".join(one.to_bytes(4, "big") for one in partitions)
    metadata = b"\0\1" + reading("t")[2:-4] + b"\xff\xff\xff\xff" + own
    return (OfferedProtocol("cooperative-sticky", metadata),)


def one_of_each(kit: ConsumerKit, **more: Any) -> tuple[Client, str]:
    """A member of the consumer protocol, and the id of one of the classic one."""
    (consumer,) = kit.joined("n")
    member_id, ticket = kit.join_twice(protocols=RANGE, **more)
    assert ticket.answer.error_code == 0
    return consumer, member_id


def got(kit: ConsumerKit, member_id: str, generation: int, **more: Any) -> list[tuple[str, int]]:
    """What SyncGroup gives a member."""
    answer = kit.sync(member_id, generation, **more).answer
    assert (answer.error_code, answer.protocol_type) == (0, "consumer")
    partitions = embedded_protocol.read_assignment(answer.assignment).partitions
    return sorted((topic, one) for topic, own in partitions.items() for one in own)


def test_a_new_member_gets_its_part_as_others_give_up() -> None:
    kit = ConsumerKit()
    consumer, member_id = one_of_each(kit)
    generation = kit.member(member_id).member_epoch
    assert got(kit, member_id, generation) == []
    assert kit.beat(member_id, generation) is ErrorCode.NONE, "it has to wait"
    consumer.beat()
    consumer.beat()
    assert kit.beat(member_id, generation) is ErrorCode.REBALANCE_IN_PROGRESS
    joined = kit.join(member_id, protocols=RANGE).answer
    assert got(kit, member_id, joined.generation_id) == [("t", 2), ("t", 3)]
    assert kit.beat(member_id, joined.generation_id) is ErrorCode.NONE
    assert kit.consumer_group().state(kit.now_ms) == "Stable"
    assert_sound(kit, kit.consumer_group())


def test_a_cooperative_member_gives_up_first_and_joins_twice() -> None:
    kit = ConsumerKit(group_consumer_migration_policy="upgrade")
    (consumer,) = kit.joined("n")
    member_id, ticket = kit.join_twice(protocols=owning())
    kit.sync(member_id, ticket.answer.generation_id, protocol="cooperative-sticky")
    consumer.leave()
    kit.advance(INTERVAL_MS)
    joined = kit.join(member_id, protocols=owning()).answer
    name = "cooperative-sticky"
    assert len(got(kit, member_id, joined.generation_id, protocol=name)) == 4
    kit.client("o").join()
    kit.advance(INTERVAL_MS)
    kit.client("o").join()
    assert kit.beat(member_id, joined.generation_id) is ErrorCode.REBALANCE_IN_PROGRESS
    told = kit.join(member_id, protocols=owning(0, 1, 2, 3)).answer
    assert told.generation_id == joined.generation_id, "it has to give up before it goes on"
    kept = got(kit, member_id, told.generation_id, protocol=name)
    assert len(kept) == 2
    assert kit.beat(member_id, told.generation_id) is ErrorCode.REBALANCE_IN_PROGRESS
    last = kit.join(member_id, protocols=owning(*(one for _, one in kept))).answer
    assert last.generation_id == kit.consumer_group().group_epoch
    assert kit.beat(member_id, last.generation_id) is ErrorCode.NONE
    assert_sound(kit, kit.consumer_group())


def test_joins_before_version_4_need_no_second_one() -> None:
    kit = ConsumerKit()
    kit.joined("n")
    answer = kit.join(protocols=RANGE, version=3).answer
    assert answer.error_code == 0
    assert answer.member_id in kit.consumer_group().members


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"kind": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": ()}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (
            {"protocols": (OfferedProtocol("other", reading("t")),)},
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ),
        (
            {"protocols": (OfferedProtocol("range", b"\0"),), "version": 3},
            ErrorCode.UNKNOWN_SERVER_ERROR,
        ),
    ],
)
def test_who_may_not_join(more: dict[str, Any], code: ErrorCode) -> None:
    kit = ConsumerKit()
    one_of_each(kit)
    before = list(kit.consumer_group().members)
    assert refusal(lambda: kit.join(**more).answer) is code
    assert list(kit.consumer_group().members) == before


def test_nobody_joins_where_groups_may_not_go_over() -> None:
    kit = ConsumerKit()
    kit.joined("n")
    kit.settings.group_consumer_migration_policy = "disabled"
    code = refusal(lambda: kit.join(protocols=RANGE).answer)
    assert code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_full_group_takes_none() -> None:
    kit = ConsumerKit(group_consumer_max_size=1)
    kit.joined("n")
    code = refusal(lambda: kit.join(protocols=RANGE).answer)
    assert code is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_requests_of_who_is_not_a_classic_member() -> None:
    kit = ConsumerKit()
    consumer, member_id = one_of_each(kit)
    generation = kit.member(member_id).member_epoch

    def code(ask: Any) -> ErrorCode:
        return refusal(ask)

    assert code(lambda: kit.beat("n", consumer.epoch)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert code(lambda: kit.beat("x", 1)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert code(lambda: kit.beat(member_id, generation + 1)) is ErrorCode.ILLEGAL_GENERATION
    assert code(lambda: kit.beat(member_id, generation, "i")) is ErrorCode.UNKNOWN_MEMBER_ID
    assert code(lambda: kit.sync("n", consumer.epoch)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert code(lambda: kit.sync(member_id, 1)) is ErrorCode.ILLEGAL_GENERATION
    for other in ({"kind": "connect"}, {"protocol": "sticky"}):
        code_ = code(lambda other=other: kit.sync(member_id, generation, **other))
        assert code_ is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert kit.sync(member_id, generation, kind=None, protocol=None).answer.error_code == 0


def test_a_sync_that_is_too_late_has_to_join_again() -> None:
    kit = ConsumerKit()
    _, member_id = one_of_each(kit)
    generation = kit.member(member_id).member_epoch
    kit.advance(INTERVAL_MS)
    kit.client("o").join()
    assert refusal(lambda: kit.sync(member_id, generation)) is ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize("syncs", [True, False])
def test_one_that_joined_has_to_sync_in_time(syncs: bool) -> None:
    kit = ConsumerKit()
    consumer, member_id = one_of_each(kit, rebalance_ms=2 * SESSION_MS)
    generation = kit.member(member_id).member_epoch
    if syncs:
        kit.sync(member_id, generation)
    for _ in range(2):
        kit.advance(SESSION_MS - 1)
        kit.beat(member_id, generation)
        consumer.beat()
    kit.advance(2)
    assert (member_id in members(kit)) is syncs


def members(kit: ConsumerKit) -> list[str]:
    return list(kit.shard.state.groups["g"].members)  # type: ignore[attr-defined]


def test_one_that_is_told_to_join_has_to_in_time() -> None:
    kit = ConsumerKit()
    consumer, member_id = one_of_each(kit, rebalance_ms=2 * SESSION_MS)
    generation = kit.member(member_id).member_epoch
    kit.sync(member_id, generation)
    consumer.beat()
    consumer.beat()
    for _ in range(3):
        if member_id in members(kit):
            kit.beat(member_id, generation)
        consumer.beat()
        kit.advance(SESSION_MS - 1)
    assert members(kit) == ["n"]


def test_one_that_joins_when_it_is_told_to_stays() -> None:
    kit = ConsumerKit()
    consumer, member_id = one_of_each(kit, rebalance_ms=2 * SESSION_MS)
    generation = kit.member(member_id).member_epoch
    kit.sync(member_id, generation)
    consumer.beat()
    consumer.beat()
    assert kit.beat(member_id, generation) is ErrorCode.REBALANCE_IN_PROGRESS
    generation = kit.join(member_id, protocols=RANGE).answer.generation_id
    kit.sync(member_id, generation)
    for _ in range(4):
        assert kit.beat(member_id, generation) is ErrorCode.NONE
        consumer.beat()
        kit.advance(SESSION_MS - 1)
    assert member_id in members(kit)


def test_a_silent_one_is_gone_after_its_own_session() -> None:
    kit = ConsumerKit()
    consumer, member_id = one_of_each(kit)
    kit.advance(SESSION_MS - 1)
    assert member_id in members(kit)
    kit.advance(1)
    assert members(kit) == ["n"]
    kit.settle(consumer)
    assert len(consumer.partitions) == 4


def test_leaving() -> None:
    kit = ConsumerKit()
    _, member_id = one_of_each(kit)
    static = kit.join(instance_id="i", protocols=RANGE).answer.member_id
    answer = kit.leave(
        Leaver(member_id),
        Leaver("x"),
        Leaver("other", "i"),
        Leaver("", "j"),
        Leaver("", "i"),
    ).answer
    assert [one.error_code for one in answer.members] == [
        0,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        0,
    ]
    assert static not in members(kit)
    assert members(kit) == ["n"]
    assert_sound(kit, kit.consumer_group())


def test_when_nobody_of_those_named_is_there_nothing_happens() -> None:
    kit = ConsumerKit()
    one_of_each(kit)
    epoch = kit.consumer_group().group_epoch
    kit.leave("x", "y")
    assert kit.consumer_group().group_epoch == epoch


def test_the_last_consumer_may_be_made_to_leave_by_the_classic_request() -> None:
    kit = ConsumerKit()
    _, member_id = one_of_each(kit)
    kit.leave("n")
    assert not isinstance(kit.shard.state.groups["g"], ConsumerGroup)
    assert members(kit) == [member_id]


def test_refusals_are_errors() -> None:
    kit = ConsumerKit()
    one_of_each(kit)
    with pytest.raises(ApiError, match="UNKNOWN_MEMBER_ID"):
        kit.beat("x", 1)
