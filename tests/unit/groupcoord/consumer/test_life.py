"""A consumer group with members that follow the protocol: no partition has two owners, epochs only
grow, all members reach their targets, and a replay of the log gives the same group.
"""

from __future__ import annotations

from typing import Any

from hypothesis import assume, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from kavka.groupcoord.consumer.group import ConsumerGroup
from kavka.wire.errors import ApiError, ErrorCode
from support.consumer_groups import (
    INTERVAL_MS,
    Client,
    ConsumerKit,
    FakeTopics,
    assert_sound,
)

TOPICS = {"t": 4, "u": 3, "v": 1}
NAMES = st.sets(st.sampled_from([*TOPICS, "w"]), min_size=1).map(sorted)
MEMBERS_MAX = 6


class Life(RuleBasedStateMachine):
    """One group, its members, its topics, and the time."""

    clients = Bundle("clients")

    def __init__(self) -> None:
        super().__init__()
        # an empty group is not deleted, so its epochs only grow
        never = {"offsets_retention_check_interval_ms": 10**12}
        self.kit = ConsumerKit(topics=FakeTopics(**TOPICS), **never)
        self.members: dict[str, Client] = {}
        self.epochs: dict[str, int] = {}
        self.group_epoch = 0
        self.count = 0

    # -- what members do

    @rule(target=clients, names=NAMES, assignor=st.sampled_from([None, "uniform", "range"]))
    def join(self, names: list[str], assignor: str | None) -> Client:
        assume(len(self.members) < MEMBERS_MAX)
        self.count += 1
        client = self.kit.client(f"m{self.count}", names, assignor=assignor)
        return self._join(client)

    @rule(target=clients, regex=st.sampled_from(["[tu]", "t.*", "nothing", "[uvw]"]))
    def join_with_regex(self, regex: str) -> Client:
        assume(len(self.members) < MEMBERS_MAX)
        self.count += 1
        return self._join(self.kit.client(f"m{self.count}", None, regex=regex))

    @rule(target=clients, number=st.integers(1, 2), names=NAMES)
    def join_with_instance_id(self, number: int, names: list[str]) -> Client:
        assume(len(self.members) < MEMBERS_MAX)
        self.count += 1
        client = self.kit.client(f"m{self.count}", names, instance_id=f"i{number}")
        try:
            return self._join(client)
        except ApiError as error:
            assert error.code is ErrorCode.UNRELEASED_INSTANCE_ID
            return client

    def _join(self, client: Client) -> Client:
        client.join()
        self.members[client.member_id] = client
        return client

    @rule(client=clients, reports=st.booleans())
    def heartbeat(self, client: Client, reports: bool) -> None:
        more = {} if reports else {"reported": None}
        self._try(client, lambda: client.heartbeat(**more))

    @rule(client=clients, names=NAMES)
    def subscribe(self, client: Client, names: list[str]) -> None:
        self._try(client, lambda: client.heartbeat(topic_names=names, topic_regex=""))

    @rule(client=clients)
    def lose_a_response(self, client: Client) -> None:
        """The response to a heartbeat is lost, and the member sends the same again."""
        before = client.epoch, client.owned

        def twice() -> Any:
            client.heartbeat()
            client.epoch, client.owned = before
            return client.heartbeat()

        self._try(client, twice)

    @rule(client=clients, pauses=st.booleans())
    def leave(self, client: Client, pauses: bool) -> None:
        epoch = -2 if pauses and client.instance_id is not None else -1
        self._try(client, lambda: client.leave(epoch))
        self.members.pop(client.member_id, None)

    @rule(client=clients)
    def be_silent(self, client: Client) -> None:
        """Others get its partitions when its session expires."""
        self.members.pop(client.member_id, None)

    def _try(self, client: Client, ask: Any) -> None:
        """A member that was fenced joins again later, as clients do."""
        if client.member_id not in self.members:
            return
        try:
            ask()
        except ApiError as error:
            assert error.code in (
                ErrorCode.UNKNOWN_MEMBER_ID,
                ErrorCode.FENCED_MEMBER_EPOCH,
                ErrorCode.FENCED_INSTANCE_ID,
                ErrorCode.GROUP_ID_NOT_FOUND,
            )
            client.owned = {}
            self.members.pop(client.member_id)

    # -- time and the cluster

    @rule(by_ms=st.sampled_from([1, INTERVAL_MS, 11_000, 46_000, 61_000]))
    def pass_time(self, by_ms: int) -> None:
        self.kit.advance(by_ms)

    @rule(name=st.sampled_from([*TOPICS, "w"]))
    def change_topic(self, name: str) -> None:
        self.kit.change_topic(name, 5)

    @rule()
    def move(self) -> None:
        """Another broker becomes the coordinator."""
        self.kit.move()

    @rule()
    def become_stable(self) -> None:
        """Each member has its target assignment, and all partitions are assigned."""
        kit = self.kit
        kit.advance(61_000)  # silent members are fenced, and those that do not revoke
        for client in list(self.members.values()):
            if client.member_id in self._group_members():
                continue
            try:
                client.join()
            except ApiError as error:
                assert error.code is ErrorCode.UNRELEASED_INSTANCE_ID, "another has it now"
                del self.members[client.member_id]
        for _ in range(4):  # regexes are resolved every ten seconds
            kit.reconcile(*self.members.values())
            kit.advance(11_000)
        kit.reconcile(*self.members.values())
        group = kit.find_consumer_group()
        if group is None or not group.members:
            return
        assert group.state(kit.now_ms) == "Stable"
        for member in group.members.values():
            client = self.members[member.member_id]
            assert kit.named(member.assigned) == client.partitions
            target = group.targets.get(member.member_id, {})
            live = {
                topic_id: target[topic_id]
                for topic_id in target
                if kit.known.topic_name(topic_id) is not None
            }
            assert kit.named(live) == client.partitions
        self._assert_all_assigned(group)

    def _group_members(self) -> dict[str, Any]:
        group = self.kit.find_consumer_group()
        return group.members if group is not None else {}

    def _assert_all_assigned(self, group: ConsumerGroup) -> None:
        read = {
            topic for member in group.members.values() for topic in group.subscribed_topics(member)
        }
        expected = sorted(
            (name, partition)
            for name, count in self.kit.known.counts.items()
            if name in read
            for partition in range(count)
        )
        have = [partition for client in self.members.values() for partition in client.partitions]
        assert sorted(have) == expected

    # -- invariants

    @invariant()
    def is_sound(self) -> None:
        group = self.kit.find_consumer_group()
        if group is not None:
            assert_sound(self.kit, group)

    @invariant()
    def epochs_only_grow(self) -> None:
        group = self.kit.find_consumer_group()
        if group is None:
            return
        assert group.group_epoch >= self.group_epoch
        self.group_epoch = group.group_epoch
        for member in group.members.values():
            if member.member_epoch > 0:
                assert member.member_epoch >= self.epochs.get(member.member_id, 0)
                self.epochs[member.member_id] = member.member_epoch


Life.TestCase.settings = settings(max_examples=60, stateful_step_count=30)
TestLife = Life.TestCase
