"""Consumer groups without a broker: their machine under a journal, topics, and a clock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from uuid import UUID

from kavka.groupcoord.consumer.group import ConsumerGroup
from kavka.groupcoord.consumer.heartbeats import Heartbeat, HeartbeatResult
from kavka.groupcoord.consumer.member import Member
from kavka.wire.steps import run_at_once
from support.classic_groups import ClassicKit
from support.journal_kit import CountedTicket

REBALANCE_MS = 60_000
SESSION_MS = 45_000
INTERVAL_MS = 1_000


class FakeTopics:
    """`kavka.groupcoord.state.Topics`: names with partitions; ids are given in order."""

    def __init__(self, **partitions: int) -> None:
        self.counts: dict[str, int] = {}
        self.ids: dict[str, UUID] = {}
        self.rack: dict[tuple[str, int], list[str]] = {}
        self._given = 0
        for name, count in partitions.items():
            self.make(name, count)

    def make(self, name: str, partitions: int) -> UUID:
        """A new topic."""
        self._given += 1
        self.counts[name] = partitions
        self.ids[name] = UUID(int=self._given)
        return self.ids[name]

    def delete(self, name: str) -> None:
        del self.counts[name], self.ids[name]

    def names(self) -> list[str]:
        return list(self.counts)

    def partition_count(self, topic: str) -> int | None:
        return self.counts.get(topic)

    def topic_id(self, topic: str) -> UUID | None:
        return self.ids.get(topic)

    def topic_name(self, topic_id: UUID) -> str | None:
        return next((name for name, one in self.ids.items() if one == topic_id), None)

    def racks(self, topic: str, partition: int) -> list[str]:
        return self.rack.get((topic, partition), [])


@dataclass
class Client:
    """A member as its client sees it: what it was told, and what it has.

    It gives up what is not assigned any more when it hears of it, unless `holds_on`.
    """

    kit: ConsumerKit
    member_id: str
    topics: Sequence[str] | None = ("t",)
    regex: str | None = None
    instance_id: str | None = None
    assignor: str | None = None
    group_id: str = "g"
    rebalance_ms: int = REBALANCE_MS
    epoch: int = 0
    owned: Mapping[UUID, Sequence[int]] = field(default_factory=dict)

    def join(self) -> HeartbeatResult:
        """The first heartbeat, or that of a member that was fenced."""
        self.owned, self.epoch = {}, 0
        return self.tell(
            topic_names=self.topics,
            topic_regex=self.regex,
            rebalance_timeout_ms=self.rebalance_ms,
            server_assignor=self.assignor,
            reported={},
        )

    def beat(self, **more: Any) -> HeartbeatResult:
        """A heartbeat, which tells what the member has."""
        return self.tell(reported=self.owned, **more)

    def idle(self) -> HeartbeatResult:
        """A heartbeat that tells nothing."""
        return self.tell()

    def tell(self, **more: Any) -> HeartbeatResult:
        values = {"instance_id": self.instance_id, **more}
        answer = self.kit.heartbeat(self.group_id, self.member_id, self.epoch, **values)
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.owned = answer.assignment
        return answer

    def leave(self, epoch: int = -1) -> HeartbeatResult:
        self.owned = {}
        return self.kit.heartbeat(
            self.group_id, self.member_id, epoch, instance_id=self.instance_id
        )

    @property
    def partitions(self) -> list[tuple[str, int]]:
        """What it has."""
        return self.kit.named(self.owned)


class ConsumerKit(ClassicKit):
    """Consumer groups of one partition, with a topic "t" of four partitions unless others are
    given."""

    def __init__(self, *, topics: FakeTopics | None = None, **settings: Any) -> None:
        self.known = FakeTopics(t=4) if topics is None else topics
        super().__init__(topics=self.known, **settings)

    def client(self, member_id: str, topics: Sequence[str] | None = ("t",), **more: Any) -> Client:
        return Client(self, member_id, topics, **more)

    def joined(self, *member_ids: str, **more: Any) -> list[Client]:
        """Members that have joined, one an assignment interval after the other, and have all that
        they shall have."""
        clients = []
        for member_id in member_ids:
            client = self.client(member_id, **more)
            client.join()
            clients.append(client)
            self.settle(*clients)
        return clients

    def settle(self, *clients: Client) -> None:
        """Let time pass and heartbeats go around until nothing changes, twice: the first one may
        have had regular expressions resolved."""
        quiet = 0
        for _ in range(100):
            self.advance(INTERVAL_MS)
            before = [(one.epoch, dict(one.owned)) for one in clients]
            for one in clients:
                one.beat()
            changed = before != [(one.epoch, dict(one.owned)) for one in clients]
            quiet = 0 if changed else quiet + 1
            if quiet == 2:
                return
        raise AssertionError("the group does not come to rest")

    def heartbeat(self, group_id: str, member_id: str, epoch: int, **more: Any) -> HeartbeatResult:
        """One ConsumerGroupHeartbeat, which must be answered at once. ApiError."""
        ticket = self.send(group_id, member_id, epoch, **more)
        assert ticket.settled
        if ticket.failure is not None:
            raise ticket.failure
        answer: HeartbeatResult = ticket.answer
        return answer

    def send(self, group_id: str, member_id: str, epoch: int, **more: Any) -> CountedTicket:
        """One ConsumerGroupHeartbeat. ApiError if it is refused."""
        values = {"client_id": "c", "client_host": "/127.0.0.1", **more}
        request = Heartbeat(group_id, member_id, epoch, **values)
        return self.ask(partial(self.shard.consumer.heartbeat, request))

    def consumer_group(self, group_id: str = "g") -> ConsumerGroup:
        group = self.shard.state.groups[group_id]
        assert isinstance(group, ConsumerGroup)
        return group

    def member(self, member_id: str, group_id: str = "g") -> Member:
        return self.consumer_group(group_id).members[member_id]

    def change_topics(self, *names: str) -> None:
        """Tell the machine that topics have come, gone, or changed."""
        for decision in self.shard.metadata_changed(names, self.now_ms):
            run_at_once(self.journal.carry_out_in_steps(decision, self.now_ms))
        self.commit_unless_held()

    def change_topic(self, name: str, most: int) -> None:
        """A topic comes with two partitions, gets one more, or goes if it has more than
        `most`."""
        if name not in self.known.counts:
            self.known.make(name, 2)
        elif self.known.counts[name] > most:
            self.known.delete(name)
        else:
            self.known.counts[name] += 1
        self.change_topics(name)

    def named(self, owned: Mapping[UUID, Iterable[int]]) -> list[tuple[str, int]]:
        """Partitions with the names of their topics, in order."""
        return sorted(
            (self.known.topic_name(topic) or str(topic), partition)
            for topic, partitions in owned.items()
            for partition in partitions
        )


def contents(group: ConsumerGroup) -> dict[str, Any]:
    """All that a group's records say, and what follows from them."""
    soft = {"refresh_topics", "refreshed_epoch", "_reconciled_to", "_unreconciled"}
    names = (name for name in ConsumerGroup.__slots__ if name not in soft)
    return {name: getattr(group, name) for name in names}


def assert_sound(kit: ConsumerKit, group: ConsumerGroup) -> None:
    """What is true of every consumer group, whatever is under way."""
    owners: dict[UUID, dict[int, str]] = {}
    for member in group.members.values():
        for part in (member.assigned, member.revoking):
            for topic, partitions in part.items():
                assert partitions, "no topic is without partitions"
                for partition in partitions:
                    assert partition not in owners.setdefault(topic, {}), "two members have it"
                    owners[topic][partition] = member.member_id
        assert member.member_epoch <= group.group_epoch
        if member.member_epoch >= 0:
            key = ("consumer", "session", group.group_id, member.member_id)
            assert key in kit.shard.timers, f"{member.member_id} stays for ever"
    assert owners == group.owners
    assert group.assignment_epoch <= group.group_epoch
    assert set(group.targets) <= set(group.members)
    assert group.static_members == {
        one.instance_id: one.member_id
        for one in group.members.values()
        if one.instance_id is not None
    }
    replayed = kit.replayed().state.groups.get(group.group_id)
    assert isinstance(replayed, ConsumerGroup)
    assert contents(replayed) == contents(group)
