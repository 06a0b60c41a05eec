"""Groups that go over to the other protocol while they have members (KIP-848)."""

from __future__ import annotations

import pytest

from kavka.groupcoord.classic.group import ClassicGroup, GroupState
from kavka.groupcoord.classic.members import OfferedProtocol
from kavka.groupcoord.consumer import embedded_protocol
from kavka.groupcoord.consumer.group import ConsumerGroup
from kavka.groupcoord.consumer.member import MemberState
from kavka.wire.errors import ErrorCode
from support.classic_groups import SESSION_MS, code_of, reading
from support.consumer_groups import INTERVAL_MS, ConsumerKit, assert_sound
from support.refusals import refusal

RANGE = (OfferedProtocol("range", reading("t")),)
ALL_OF_T = {"t": [0, 1, 2, 3]}


def classic_pair(kit: ConsumerKit) -> tuple[str, str]:
    """A stable classic group of two members with two partitions each."""
    tickets = [kit.join_twice(protocols=RANGE) for _ in range(2)]
    while not all(ticket.settled for _, ticket in tickets):
        kit.advance(kit.settings.group_initial_rebalance_delay_ms)
    first, second = (member_id for member_id, _ in tickets)
    halves = {first: {"t": [0, 1]}, second: {"t": [2, 3]}}
    kit.sync_all(
        [first, second], {one: embedded_protocol.assignment(own, 1) for one, own in halves.items()}
    )
    assert kit.group.current is GroupState.STABLE
    return first, second


def classic_group(kit: ConsumerKit) -> ClassicGroup:
    group = kit.shard.state.groups["g"]
    assert isinstance(group, ClassicGroup)
    return group


# -- up ----------------------------------------------------------------------------------------


def test_a_classic_group_becomes_a_consumer_group_with_its_members() -> None:
    kit = ConsumerKit()
    first, second = classic_pair(kit)
    generation = classic_group(kit).generation
    newcomer = kit.client("n")
    newcomer.join()
    group = kit.consumer_group()
    assert (group.group_epoch, newcomer.epoch, newcomer.partitions) == (generation + 1, 2, [])
    members = {one: kit.named(group.members[one].assigned) for one in (first, second)}
    assert members == {first: [("t", 0), ("t", 1)], second: [("t", 2), ("t", 3)]}
    assert group.classic_members == 2
    assert_sound(kit, group)


def test_classic_members_give_up_by_joining_again() -> None:
    kit = ConsumerKit()
    first, second = classic_pair(kit)
    for _ in range(2):
        assert {kit.beat(one, 1) for one in (first, second)} == {ErrorCode.NONE}
    assert kit.fast_heartbeats == 2, "as what was asked before"
    newcomer = kit.client("n")
    newcomer.join()
    told = {one: kit.beat(one, 1) for one in (first, second)}
    assert set(told.values()) == {ErrorCode.REBALANCE_IN_PROGRESS}
    assert kit.fast_heartbeats == 2, "which does not hold for a consumer group"
    for one in (first, second):
        joined = kit.join(one, protocols=RANGE).answer
        assert (joined.error_code, joined.protocol_name, joined.leader) == (0, "range", "")
        synced = kit.sync(one, joined.generation_id).answer
        embedded_protocol.read_assignment(synced.assignment)
    newcomer.beat()
    assert newcomer.partitions == [("t", 3)]
    assert_sound(kit, kit.consumer_group())


def test_those_who_wait_for_a_classic_rebalance_are_told_to_join_again() -> None:
    kit = ConsumerKit()
    first, second = classic_pair(kit)
    waiting = kit.join(first, protocols=(OfferedProtocol("range", reading("t", "u")),))
    assert not waiting.settled
    kit.client("n").join()
    assert code_of(waiting) is ErrorCode.REBALANCE_IN_PROGRESS
    assert second in kit.consumer_group().members


def test_an_empty_classic_group_makes_room() -> None:
    kit = ConsumerKit()
    first, second = classic_pair(kit)
    kit.leave(first, second)
    kit.advance(SESSION_MS)
    assert classic_group(kit).current is GroupState.EMPTY
    newcomer = kit.client("n")
    newcomer.join()
    assert (newcomer.epoch, len(newcomer.partitions)) == (2, 4)
    assert_sound(kit, kit.consumer_group())


@pytest.mark.parametrize("policy", ["downgrade", "disabled", "DISABLED"])
def test_upgrades_can_be_forbidden(policy: str) -> None:
    kit = ConsumerKit(group_consumer_migration_policy=policy)
    classic_pair(kit)
    assert refusal(kit.client("n").join) is ErrorCode.GROUP_ID_NOT_FOUND
    assert classic_group(kit).current is GroupState.STABLE


def test_groups_that_do_not_fit_are_not_upgraded() -> None:
    kit = ConsumerKit(group_consumer_max_size=1)
    classic_pair(kit)
    assert refusal(kit.client("n").join) is ErrorCode.GROUP_ID_NOT_FOUND


def test_groups_of_other_kinds_are_not_upgraded() -> None:
    kit = ConsumerKit()
    kit.join_twice(protocols=(OfferedProtocol("x", b"x"),), kind="connect")
    assert refusal(kit.client("n").join) is ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize(
    "assignment",
    [b"\0\0", b"\0\0" + bytes(4) + b"\0\0\0\1x"],
    ids=["malformed", "of a custom assignor"],
)
def test_what_can_not_be_read_is_not_upgraded(assignment: bytes) -> None:
    kit = ConsumerKit()
    member_id, ticket = kit.join_twice(protocols=RANGE)
    kit.advance(kit.settings.group_initial_rebalance_delay_ms)
    assert ticket.settled
    kit.sync_all([member_id], {member_id: assignment})
    waiting = kit.join(member_id, protocols=(OfferedProtocol("range", reading("u")),))
    assert refusal(kit.client("n").join) is ErrorCode.GROUP_ID_NOT_FOUND
    assert code_of(waiting) is ErrorCode.NONE, "the group goes on"


def test_a_refused_upgrade_leaves_those_who_wait_alone() -> None:
    kit = ConsumerKit()
    first, _ = classic_pair(kit)
    waiting = kit.join(first, protocols=(OfferedProtocol("range", reading("t", "u")),))
    bad = kit.client("n", None, regex="(")
    assert refusal(bad.join) is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert not waiting.settled


# -- down --------------------------------------------------------------------------------------


def mixed(kit: ConsumerKit) -> tuple[str, str]:
    """A consumer group whose last member of the consumer protocol is "n"; the others' ids."""
    first, second = classic_pair(kit)
    kit.client("n").join()
    return first, second


def test_a_consumer_group_becomes_a_classic_one_when_the_last_consumer_goes() -> None:
    kit = ConsumerKit()
    first, second = mixed(kit)
    epoch = kit.consumer_group().group_epoch
    kit.heartbeat("g", "n", -1)
    group = classic_group(kit)
    assert (group.current, group.generation) == (GroupState.PREPARING_REBALANCE, epoch)
    assert list(group.members) == [first, second]
    assert kit.beat(first, epoch) is ErrorCode.REBALANCE_IN_PROGRESS
    tickets = [kit.join(one, protocols=RANGE) for one in (first, second)]
    assert [code_of(one) for one in tickets] == [ErrorCode.NONE] * 2
    replayed = kit.replayed().state.groups["g"]
    assert isinstance(replayed, ClassicGroup)
    assert list(replayed.members) == [first, second]


def unreadable(kit: ConsumerKit) -> None:
    """A group of which only "n" uses the consumer protocol; what the others have in common is
    nothing that can be read."""
    kit.client("n").join()
    offered = OfferedProtocol("z", b"")
    kit.join("", protocols=(*RANGE, offered), version=3)
    kit.join("", protocols=(OfferedProtocol("z", RANGE[0].metadata),), version=3)
    assert kit.consumer_group().classic_members == 2


def test_who_leaves_what_can_not_become_a_classic_group_is_told() -> None:
    kit = ConsumerKit()
    unreadable(kit)
    assert refusal(kit.heartbeat, "g", "n", -1) == ErrorCode.GROUP_ID_NOT_FOUND
    assert "n" in kit.consumer_group().members


def test_who_is_gone_from_what_can_not_become_a_classic_group() -> None:
    """Apache Kafka keeps the member, and its partitions, for as long as the others stay."""
    kit = ConsumerKit(group_consumer_session_timeout_ms=SESSION_MS - 5000)
    unreadable(kit)
    kit.advance(SESSION_MS - 5000)
    assert list(kit.consumer_group().members) and "n" not in kit.consumer_group().members
    assert_sound(kit, kit.consumer_group())


def test_it_becomes_a_classic_one_when_the_last_consumers_session_is_over() -> None:
    kit = ConsumerKit(group_consumer_session_timeout_ms=SESSION_MS - 5000)
    mixed(kit)
    kit.advance(SESSION_MS - 5000)
    assert classic_group(kit).current is GroupState.PREPARING_REBALANCE


def test_sessions_of_classic_members_go_on_in_the_classic_group() -> None:
    kit = ConsumerKit()
    mixed(kit)
    kit.heartbeat("g", "n", -1)
    kit.advance(10 * SESSION_MS)
    assert classic_group(kit).current is GroupState.EMPTY


@pytest.mark.parametrize(
    "settings",
    [{"group_consumer_migration_policy": "upgrade"}, {"group_max_size": 1}],
    ids=["forbidden", "too big"],
)
def test_a_group_that_may_not_go_down_stays(settings: dict[str, object]) -> None:
    kit = ConsumerKit(group_consumer_migration_policy="bidirectional")
    mixed(kit)
    for name, value in settings.items():
        setattr(kit.settings, name, value)
    kit.heartbeat("g", "n", -1)
    group = kit.consumer_group()
    assert len(group.members) == group.classic_members == 2
    assert_sound(kit, group)


def test_an_empty_group_stays_what_it_is() -> None:
    kit = ConsumerKit()
    (member,) = kit.joined("a")
    member.leave()
    assert isinstance(kit.shard.state.groups["g"], ConsumerGroup)


def test_a_downgrade_that_can_not_be_stored_has_not_happened() -> None:
    kit = ConsumerKit()
    first, second = mixed(kit)
    kit.port.failures = [ErrorCode.NOT_ENOUGH_REPLICAS]
    refusal(lambda: kit.heartbeat("g", "n", -1))
    group = kit.consumer_group()
    assert list(group.members) == [first, second, "n"]
    kit.heartbeat("g", "n", -1)
    assert list(classic_group(kit).members) == [first, second]


def static_classic(kit: ConsumerKit, member_id: str = "", topic: str = "t") -> object:
    offered = (OfferedProtocol("range", reading(topic)),)
    return kit.join(member_id, instance_id="i", protocols=offered).answer


def test_an_instance_comes_back_with_the_classic_protocol() -> None:
    kit = ConsumerKit()
    (static,) = kit.joined("a", instance_id="i")
    static.leave(-2)
    joined = static_classic(kit)
    assert joined.error_code == 0  # type: ignore[attr-defined]
    group = classic_group(kit)
    assert (group.current, group.generation) == (GroupState.STABLE, 2)
    (member,) = group.members.values()
    assert embedded_protocol.read_assignment(member.assignment).partitions == ALL_OF_T
    replayed = kit.replayed().state.groups["g"]
    assert isinstance(replayed, ClassicGroup)
    assert list(replayed.members) == list(group.members)


def test_an_instance_that_reads_other_topics_then_has_the_group_rebalance() -> None:
    kit = ConsumerKit()
    (static,) = kit.joined("a", instance_id="i")
    static.leave(-2)
    static_classic(kit, topic="u")
    assert classic_group(kit).current is GroupState.PREPARING_REBALANCE


def test_an_instance_takes_its_place_from_the_classic_protocol() -> None:
    """The other way: the old member need not have left."""
    kit = ConsumerKit()
    _, second = classic_pair(kit)
    newcomer = kit.client("n")
    newcomer.join()
    joined = static_classic(kit)
    kit.sync(joined.member_id, joined.generation_id, instance_id="i")  # type: ignore[attr-defined]
    again = kit.client("z", instance_id="i")
    again.join()
    group = kit.consumer_group()
    assert group.static_members == {"i": "z"}
    assert group.members["z"].classic is None
    assert second in group.members
    kit.advance(INTERVAL_MS)
    assert group.members["z"].state in tuple(MemberState)
    assert_sound(kit, group)
