"""JoinGroup: who becomes a member, who is refused, who waits."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from kavka.groupcoord.classic import joining
from kavka.groupcoord.classic.group import ClassicGroup, GroupState
from kavka.groupcoord.classic.members import OfferedProtocol
from kavka.groupcoord.classic.rebalancing import NEW_MEMBER_JOIN_TIMEOUT_MS
from kavka.wire.errors import ErrorCode
from kavka.wire.steps import run_at_once
from support.classic_groups import (
    BOTH,
    DELAY_MS,
    RANGE,
    SESSION_MS,
    STICKY,
    ClassicKit,
    assert_sound,
    code_of,
    reading,
)

OTHER_TOPIC = (OfferedProtocol("range", reading("u")),)


@pytest.mark.parametrize("version", [4, 9])
def test_a_new_member_comes_twice(version: int) -> None:
    kit = ClassicKit()
    first = kit.join(client_id="me", version=version).answer
    assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED
    client_id, _, uuid = first.member_id.partition("-")
    assert client_id == "me"
    assert UUID(uuid).version == 4
    assert kit.group.current is GroupState.EMPTY
    second = kit.join(first.member_id, version=version)
    kit.advance(DELAY_MS)
    answer = second.answer
    assert (answer.member_id, answer.leader, answer.generation_id) == (first.member_id,) * 2 + (1,)
    assert (answer.protocol_type, answer.protocol_name) == ("consumer", "range")
    assert [(one.member_id, one.metadata) for one in answer.members] == [
        (first.member_id, RANGE[0].metadata)
    ]


def test_ids_come_from_the_seed() -> None:
    ids = [ClassicKit(seed=seed).join().answer.member_id for seed in (1, 1, 2)]
    assert ids[0] == ids[1] != ids[2]


@pytest.mark.parametrize("version", [0, 3])
def test_before_version_4_a_new_member_comes_once(version: int) -> None:
    kit = ClassicKit()
    ticket = kit.join(version=version)
    assert not ticket.settled
    kit.advance(DELAY_MS)
    assert ticket.answer.member_id.startswith("c-")


def test_one_that_waits_without_knowing_its_id_is_given_up_some_time() -> None:
    kit = ClassicKit()
    leader = kit.form()[0]
    ticket = kit.join(version=3, session_ms=1_000, rebalance_ms=1_000_000)
    for _ in range(NEW_MEMBER_JOIN_TIMEOUT_MS // 5_000):
        assert not ticket.settled
        assert kit.beat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS
        kit.advance(5_000)
    assert code_of(ticket) is ErrorCode.UNKNOWN_MEMBER_ID
    assert ticket.answer.member_id == ""


def test_an_id_is_kept_for_one_session() -> None:
    kit = ClassicKit()
    first = kit.join().answer.member_id
    kit.advance(SESSION_MS - 1)
    assert not kit.join(first).settled
    kit = ClassicKit()
    late = kit.join().answer.member_id
    kit.advance(SESSION_MS)
    assert code_of(kit.join(late)) is ErrorCode.UNKNOWN_MEMBER_ID


def test_not_all_ids_that_nobody_comes_with_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joining, "PENDING_MAX", 3)
    kit = ClassicKit()
    ids = [kit.join().answer.member_id for _ in range(5)]
    assert list(kit.group.pending) == ids[2:]
    assert_sound(kit.group, kit)
    assert code_of(kit.join(ids[1])) == ErrorCode.UNKNOWN_MEMBER_ID
    last = [kit.join(one) for one in ids[2:]]
    kit.advance(2 * DELAY_MS)
    assert [code_of(one) for one in last] == [ErrorCode.NONE] * 3


def test_an_id_that_was_given_holds_the_others_up() -> None:
    kit = ClassicKit()
    leader = kit.form()[0]
    kit.join(version=4)
    again = kit.join(leader)
    assert not again.settled
    kit.advance(SESSION_MS)
    assert code_of(again) is ErrorCode.NONE


def test_a_static_member_can_not_have_an_id_that_waits_for_a_dynamic_one() -> None:
    kit = ClassicKit()
    given = kit.join().answer.member_id
    assert code_of(kit.join(given, instance_id="i")) is ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize("instance_id", [None, "i"])
def test_an_id_in_a_group_that_is_not_there(instance_id: str | None) -> None:
    kit = ClassicKit()
    ticket = kit.join("somebody", instance_id=instance_id)
    assert code_of(ticket) is ErrorCode.UNKNOWN_MEMBER_ID
    assert ticket.answer.member_id == "somebody"
    assert not kit.shard.state.groups
    assert not kit.port.batches


@pytest.mark.parametrize("wrong", [{"kind": ""}, {"protocols": ()}])
def test_a_group_needs_protocols_and_their_type(wrong: dict[str, Any]) -> None:
    kit = ClassicKit()
    assert code_of(kit.join(**wrong)) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize("wrong", [{"kind": "connect"}, {"protocols": STICKY}, {"protocols": ()}])
def test_a_newcomer_needs_a_protocol_that_all_others_have(wrong: dict[str, Any]) -> None:
    kit = ClassicKit()
    kit.form(RANGE, BOTH)
    assert code_of(kit.join(**wrong)) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert kit.group.current is GroupState.STABLE
    assert code_of(kit.join(protocols=BOTH)) is ErrorCode.MEMBER_ID_REQUIRED


def test_a_member_that_is_refused_keeps_its_id() -> None:
    kit = ClassicKit()
    _, follower = kit.form(RANGE, RANGE)
    ticket = kit.join(follower, protocols=STICKY)
    assert code_of(ticket) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert ticket.answer.member_id == follower


def test_a_new_group_is_stored_as_an_empty_one() -> None:
    kit = ClassicKit()
    kit.holds = True
    ticket = kit.join()
    assert len(kit.port.batches) == 1
    assert not ticket.settled, "it is not stored yet"
    kit.commit()
    assert code_of(ticket) is ErrorCode.MEMBER_ID_REQUIRED
    again = kit.replayed().state.groups["g"]
    assert (again.kind, again.state(0), again.protocol_type) == ("classic", "Empty", "")


@pytest.mark.parametrize("version", [3, 9])
def test_a_new_group_that_can_not_be_stored(version: int) -> None:
    kit = ClassicKit()
    kit.port.failures = [ErrorCode.NOT_ENOUGH_REPLICAS]
    ticket = kit.join(version=version)
    assert code_of(ticket) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert not kit.shard.state.groups
    assert len(kit.shard.timers) == 0


def test_a_new_group_that_is_stored_too_late() -> None:
    kit = ClassicKit()
    kit.holds = True
    ticket = kit.join()
    kit.advance(SESSION_MS)
    assert code_of(ticket) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    kit.holds = False
    kit.commit()
    kit.form()


# -- those that are members


def test_a_follower_that_says_the_same_again_is_told_how_it_is() -> None:
    kit = ClassicKit()
    leader, follower = kit.form(RANGE, RANGE)
    answer = kit.join(follower).answer
    assert (answer.error_code, answer.generation_id, answer.leader) == (0, 1, leader)
    assert not answer.members
    assert kit.group.current is GroupState.STABLE


@pytest.mark.parametrize("index", [0, 1])
def test_leaders_and_changed_subscriptions_mean_a_rebalance(index: int) -> None:
    kit = ClassicKit()
    ids = kit.form(RANGE, RANGE)
    ticket = kit.join(ids[index], protocols=OTHER_TOPIC if index else RANGE)
    assert not ticket.settled
    assert kit.group.current is GroupState.PREPARING_REBALANCE
    other = kit.join(ids[1 - index])
    assert ticket.answer.generation_id == other.answer.generation_id == 2
    metadata = {one.member_id: one.metadata for one in kit.join(ids[0]).answer.members}
    assert metadata[ids[1]] == (OTHER_TOPIC if index else RANGE)[0].metadata


def test_before_the_assignment_the_leader_is_told_all_again() -> None:
    kit = ClassicKit(group_initial_rebalance_delay_ms=0)
    member_id, ticket = kit.join_twice()
    kit.advance(0)
    again = kit.join(member_id)
    assert again.answer == ticket.answer
    assert again.answer.members
    changed = kit.join(member_id, protocols=OTHER_TOPIC)
    assert changed.answer.generation_id == 2


def test_one_that_asks_twice_is_answered_twice() -> None:
    kit = ClassicKit()
    member_id, first = kit.join_twice()
    second = kit.join(member_id)
    assert code_of(first) is ErrorCode.REBALANCE_IN_PROGRESS
    assert first.answer.member_id == member_id
    kit.advance(DELAY_MS)
    assert code_of(second) is ErrorCode.NONE


def test_one_that_nobody_knows() -> None:
    kit = ClassicKit()
    kit.form()
    assert code_of(kit.join("somebody")) is ErrorCode.UNKNOWN_MEMBER_ID
    assert code_of(kit.join("somebody", instance_id="i")) is ErrorCode.UNKNOWN_MEMBER_ID


# -- how many there may be


def test_a_stable_group_is_full() -> None:
    kit = ClassicKit(group_max_size=2)
    leader, follower = kit.form(RANGE, RANGE)
    ticket = kit.join()
    assert code_of(ticket) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert ticket.answer.member_id == ""
    assert code_of(kit.join(follower)) is ErrorCode.NONE
    assert leader in kit.group.members


def test_of_those_that_join_the_first_are_taken() -> None:
    kit = ClassicKit(group_max_size=2)
    ids = [kit.join().answer.member_id for _ in range(3)]
    tickets = [kit.join(one) for one in ids]
    assert code_of(tickets[2]) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert ids[2] not in kit.group.pending
    again = kit.join(ids[0])
    kit.advance(2 * DELAY_MS)
    assert [code_of(one) for one in (again, tickets[1])] == [ErrorCode.NONE] * 2


def test_a_smaller_limit_sends_the_last_ones_away() -> None:
    kit = ClassicKit()
    ids = kit.form(RANGE, RANGE, RANGE)
    kit.settings.group_max_size = 2
    kit.move()
    assert kit.group.current is GroupState.PREPARING_REBALANCE
    tickets = [kit.join(one) for one in ids]
    codes = [code_of(one) for one in tickets]
    assert codes == [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.GROUP_MAX_SIZE_REACHED]
    assert list(kit.group.members) == ids[:2]


# -- static members


def stable_instance(kit: ClassicKit, *others: Any, version: int = 9) -> str:
    """A stable group with one static member, "i", who leads, and dynamic ones; its id."""
    ticket = kit.join(instance_id="i", version=version)
    tickets = [kit.join_twice(protocols=one) for one in others]
    for _ in range(1 + len(others)):
        kit.advance(DELAY_MS)
    own = str(ticket.answer.member_id)
    assert own.startswith("i-")
    ids = [own, *(one for one, _ in tickets)]
    kit.sync_all(ids, {one: f"of {index}".encode() for index, one in enumerate(ids)})
    return own


def test_a_static_member_comes_once() -> None:
    kit = ClassicKit()
    stable_instance(kit)
    assert kit.group.current is GroupState.STABLE


@pytest.mark.parametrize("version", [5, 8, 9])
def test_a_static_leader_comes_back(version: int) -> None:
    """KIP-345, and KIP-814 since version 9."""
    kit = ClassicKit()
    old = stable_instance(kit, RANGE)
    answer = kit.join(instance_id="i", version=version).answer
    new = answer.member_id
    assert (answer.error_code, answer.generation_id, answer.protocol_name) == (0, 1, "range")
    assert new != old
    assert answer.leader == (new if version == 9 else old)
    assert answer.skip_assignment == (version == 9)
    assert len(answer.members) == (2 if version == 9 else 0)
    assert kit.group.current is GroupState.STABLE
    assert kit.sync(new, 1, instance_id="i").answer.assignment == b"of 0"
    assert kit.beat(old, 1, "i") is ErrorCode.FENCED_INSTANCE_ID
    assert code_of(kit.join(old, instance_id="i")) is ErrorCode.FENCED_INSTANCE_ID
    assert code_of(kit.sync(old, 1, instance_id="i")) is ErrorCode.FENCED_INSTANCE_ID
    stored = kit.replayed().state.groups["g"]
    assert vars_of(stored) == vars_of(kit.group)


def vars_of(group: Any) -> Any:
    members = {one.member_id: (one.instance_id, one.assignment) for one in group.members.values()}
    return group.generation, group.leader, members


def test_a_static_follower_comes_back() -> None:
    kit = ClassicKit()
    member_id, _ = kit.join_twice()
    first = kit.join(instance_id="i")
    kit.advance(2 * DELAY_MS)
    kit.sync_all([member_id, first.answer.member_id], {first.answer.member_id: b"part"})
    answer = kit.join(instance_id="i").answer
    assert (answer.error_code, answer.leader, answer.skip_assignment) == (0, member_id, False)
    assert not answer.members
    assert kit.sync(answer.member_id, 1, instance_id="i").answer.assignment == b"part"


def test_a_static_member_that_comes_back_keeps_its_session() -> None:
    kit = ClassicKit()
    stable_instance(kit)
    kit.advance(SESSION_MS - 1)
    new = kit.join(instance_id="i").answer.member_id
    kit.advance(SESSION_MS - 1)
    assert kit.beat(new, 1, "i") is ErrorCode.NONE


def test_a_static_member_with_a_protocol_that_changes_the_choice() -> None:
    kit = ClassicKit()
    stable_instance(kit)
    kit.join(instance_id="i", protocols=BOTH)
    assert kit.group.state(0) == "Stable"
    ticket = kit.join(instance_id="i", protocols=STICKY + RANGE)
    assert kit.group.state(0) == "CompletingRebalance"
    assert (ticket.answer.generation_id, ticket.answer.protocol_name) == (2, "sticky")


def test_a_static_member_that_can_not_be_stored_is_the_old_one_again() -> None:
    kit = ClassicKit()
    old = stable_instance(kit)
    kit.port.failures = [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    ticket = kit.join(instance_id="i", protocols=BOTH)
    assert code_of(ticket) is ErrorCode.NOT_COORDINATOR
    assert ticket.answer.member_id == ""
    assert kit.beat(old, 1, "i") is ErrorCode.NONE
    assert tuple(kit.group.members[old].protocols) == RANGE
    assert run_at_once(kit.group.choose_protocol()) == "range"


def test_an_older_one_that_waits_is_fenced() -> None:
    kit = ClassicKit()
    first = kit.join(instance_id="i")
    second = kit.join(instance_id="i")
    assert code_of(first) is ErrorCode.FENCED_INSTANCE_ID
    assert first.answer.member_id.startswith("i-")
    kit.advance(2 * DELAY_MS)
    assert code_of(second) is ErrorCode.NONE
    assert list(kit.group.members) == [second.answer.member_id]


def test_a_static_member_that_comes_back_before_the_assignment() -> None:
    kit = ClassicKit()
    first = kit.join(instance_id="i")
    follower = kit.join(instance_id="j")
    kit.advance(2 * DELAY_MS)
    waiting = kit.sync(follower.answer.member_id, 1, instance_id="j")
    again = kit.join(instance_id="j")
    assert code_of(waiting) is ErrorCode.FENCED_INSTANCE_ID
    assert kit.group.current is GroupState.PREPARING_REBALANCE
    kit.join(first.answer.member_id, instance_id="i")
    assert again.answer.generation_id == 2


def test_a_reason_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    kit = ClassicKit()
    member_id, _ = kit.join_twice()
    assert (
        "Preparing to rebalance group g in state PreparingRebalance with old generation 0 "
        f"(reason: Adding new member {member_id} with group instance id None; client reason: not "
        "provided)." in caplog.messages
    )


def test_timeouts_are_those_of_the_last_time() -> None:
    kit = ClassicKit()
    (leader,) = kit.form()
    kit.join(leader, session_ms=2 * SESSION_MS, rebalance_ms=7)
    kit.sync(leader, 2, {})
    kit.advance(2 * SESSION_MS - 1)
    assert kit.beat(leader, 2) is ErrorCode.NONE
    stored = kit.replayed().state.groups["g"]
    assert isinstance(stored, ClassicGroup)
    member = stored.members[leader]
    assert (member.session_timeout_ms, member.rebalance_timeout_ms) == (2 * SESSION_MS, 7)
