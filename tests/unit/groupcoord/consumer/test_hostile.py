"""Consumer groups with members of both protocols that report wrong partitions, repeat requests,
rejoin under other ids and send any epoch, while some appends fail: the group stays sound, requests
are refused with known errors, and silent members are fenced.
"""

from __future__ import annotations

from collections import Counter
from typing import Any
from uuid import UUID

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kavka.groupcoord.classic.members import OfferedProtocol
from kavka.groupcoord.consumer.group import ConsumerGroup
from kavka.groupcoord.consumer.member import JOIN_EPOCH
from kavka.wire.errors import ApiError, ErrorCode
from support.classic_groups import reading
from support.consumer_groups import ConsumerKit, FakeTopics, assert_sound

IDS = st.sampled_from(["a", "b", "c", "d"])
INSTANCES = st.sampled_from([None, None, "i", "j"])
NAMES = st.sampled_from([["t"], ["t", "u"], ["t", "t", "w"], [], None])
REGEXES = st.sampled_from([None, None, "", "t", "[tuw]"])
PARTITIONS = st.dictionaries(
    st.sampled_from([UUID(int=number) for number in range(4)]),
    st.lists(st.integers(-1, 5), max_size=4),
    max_size=3,
)
REPORTS: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from(["assigned", "assigned", {}, None]), PARTITIONS
)
EPOCHS: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from(["own", "own", "own", "previous"]), st.integers(-2, 12)
)
STARTS = {"rebalance_timeout_ms": 7_000, "reported": {}}


class Hostile(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        never = {"offsets_retention_check_interval_ms": 10**12}
        self.kit = ConsumerKit(topics=FakeTopics(t=3, u=2), **never)
        self.last: tuple[Any, ...] | None = None

    def _group(self) -> ConsumerGroup | None:
        return self.kit.find_consumer_group()

    def _send(self, member_id: str, epoch: int, more: dict[str, Any]) -> None:
        self.last = (member_id, epoch, more)
        try:
            answer = self.kit.consumer_heartbeat(member_id, epoch, **more)
        except ApiError as error:
            assert error.code is not ErrorCode.UNKNOWN_SERVER_ERROR
            return
        group = self._group()
        if epoch >= JOIN_EPOCH and group is not None:
            assert group.members[answer.member_id].member_epoch == answer.member_epoch

    @rule(member_id=IDS, instance_id=INSTANCES, names=NAMES, regex=REGEXES)
    def join(
        self, member_id: str, instance_id: str | None, names: list[str] | None, regex: str | None
    ) -> None:
        more = {**STARTS, "instance_id": instance_id, "topic_names": names, "topic_regex": regex}
        if names is not None or regex is not None:
            self._send(member_id, JOIN_EPOCH, more)

    @rule(
        member_id=IDS,
        epoch=EPOCHS,
        instance_id=INSTANCES,
        reported=REPORTS,
        names=st.one_of(st.none(), NAMES),
        regex=REGEXES,
    )
    def heartbeat(
        self,
        member_id: str,
        epoch: Any,
        instance_id: str | None,
        reported: Any,
        names: list[str] | None,
        regex: str | None,
    ) -> None:
        group = self._group()
        member = group.members.get(member_id) if group is not None else None
        if isinstance(epoch, str):
            if member is None:
                return
            epoch = member.member_epoch if epoch == "own" else member.previous_member_epoch
            instance_id = member.instance_id
        if reported == "assigned":
            reported = member.assigned if member is not None else {}
        more = {"instance_id": instance_id, "topic_names": names, "topic_regex": regex}
        self._send(member_id, epoch, {**more, "reported": {} if epoch == 0 else reported})

    @rule()
    def repeat(self) -> None:
        if self.last is not None:
            self._send(*self.last)

    # -- the classic protocol

    @rule(
        member_id=IDS,
        instance_id=INSTANCES,
        kind=st.sampled_from(["join", "join", "sync", "beat", "leave"]),
        generation=st.one_of(st.just("own"), st.integers(-1, 12)),
    )
    def classic(self, member_id: str, instance_id: str | None, kind: str, generation: Any) -> None:
        kit, group = self.kit, self._group()
        if isinstance(generation, str):
            member = group.members.get(member_id) if group is not None else None
            generation = member.member_epoch if member is not None else 1
        try:
            if kind == "join":
                protocols = [OfferedProtocol("range", reading("t"))]
                new_id = "" if instance_id is not None else member_id
                kit.join(new_id, instance_id=instance_id, protocols=protocols)
            elif kind == "sync":
                kit.sync(member_id, generation)
            elif kind == "beat":
                kit.beat(member_id, generation)
            else:
                kit.leave(member_id)
        except ApiError as error:
            assert error.code is not ErrorCode.UNKNOWN_SERVER_ERROR

    # -- the partition, time and the cluster

    @rule(count=st.integers(1, 3))
    def fail(self, count: int) -> None:
        """The next appends fail."""
        self.kit.port.failures = [ErrorCode.NOT_ENOUGH_REPLICAS] * count

    @rule(by_ms=st.sampled_from([1, 1_000, 3_000, 11_000]))
    def pass_time(self, by_ms: int) -> None:
        self.kit.advance(by_ms)

    @rule(name=st.sampled_from(["t", "u", "w"]))
    def change_topic(self, name: str) -> None:
        self.kit.change_topic(name, 4)

    @rule()
    def move(self) -> None:
        self.kit.port.failures = []
        self.kit.move()

    @rule(times=st.integers(1, 9))
    def all_send_heartbeats(self, times: int) -> None:
        """They report the partitions that they have now, regardless of what is assigned to them."""
        group = self._group()
        owned = (
            {member_id: group.members[member_id].assigned for member_id in group.members}
            if group
            else {}
        )
        for _ in range(times):
            self.kit.advance(1_000)
            for member in list(group.members.values()) if group else ():
                more = {"instance_id": member.instance_id, "reported": owned.get(member.member_id)}
                self._send(member.member_id, member.member_epoch, more)
            group = self._group()

    @rule()
    def all_are_silent(self) -> None:
        """All members are fenced, and no timer of a member is left."""
        self.kit.port.failures = []
        self.kit.advance(200_000)
        group = self._group()
        assert group is None or not (group.members or group.resolved or group.subscriptions)
        for timer in ("session", "rebalance", "join", "sync"):
            for member_id in "abcd":
                assert ("consumer", timer, "g", member_id) not in self.kit.shard.timers

    # -- invariants

    @invariant()
    def is_sound(self) -> None:
        group = self._group()
        if group is not None:
            assert_sound(self.kit, group)

    @invariant()
    def counts_are_right(self) -> None:
        """The counts that a group keeps are those of its members."""
        group = self._group()
        if group is None:
            return
        members = group.members.values()
        classic = [member.classic for member in members if member.classic is not None]
        assert group.classic_members == len(classic)
        protocols = [name for member in classic for name, _ in member.protocols]
        assert group.classic_protocols == Counter(protocols)
        regexes = [member.regex for member in members if member.regex is not None]
        assert group.regexes == Counter(regexes)
        names = [name for member in members for name in member.topic_names]
        resolved = [name for result in group.resolved.values() for name in result.topics]
        assert group.subscriptions == {
            name: (names.count(name), resolved.count(name)) for name in (*names, *resolved)
        }


Hostile.TestCase.settings = settings(max_examples=80, stateful_step_count=40)
TestHostile = Hostile.TestCase
