"""Consumer groups without a broker: their state machine under a journal, topics, and a clock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from uuid import UUID

from kavka.groupcoord.consumer.group import ConsumerGroup
from kavka.groupcoord.consumer.heartbeats import Heartbeat, HeartbeatResult
from kavka.wire.steps import run_at_once
from support.classic_groups import ClassicKit
from support.journal_kit import CountedReply

REBALANCE_MS = 60_000
SESSION_MS = 45_000
INTERVAL_MS = 1_000


class FakeTopics:
    """`kavka.groupcoord.state.Topics`: names with partitions; ids are given in order."""

    def __init__(self, **partitions: int) -> None:
        self.counts: dict[str, int] = {}
        self.ids: dict[str, UUID] = {}
        self.labels: dict[UUID, str] = {}
        """All there ever were; a later topic of the same name has a prime."""
        self.rack: dict[tuple[str, int], list[str]] = {}
        self._given = 0
        for name, count in partitions.items():
            self.create(name, count)

    def create(self, name: str, partitions: int) -> UUID:
        self._given += 1
        self.counts[name] = partitions
        self.ids[name] = UUID(int=self._given)
        self.labels[self.ids[name]] = name + "'" * list(self.labels.values()).count(name)
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
        return next((name for name, known_id in self.ids.items() if known_id == topic_id), None)

    def racks(self, topic: str, partition: int) -> list[str]:
        return self.rack.get((topic, partition), [])


@dataclass
class Client:
    """A member as its client sees it: its epoch and the partitions that it owns. It revokes
    partitions as soon as a response does not assign them any more."""

    kit: ConsumerKit
    member_id: str
    topics: Sequence[str] | None = ("t",)
    regex: str | None = None
    instance_id: str | None = None
    assignor: str | None = None
    rebalance_ms: int = REBALANCE_MS
    epoch: int = 0
    owned: Mapping[UUID, Sequence[int]] = field(default_factory=dict)

    def join(self) -> HeartbeatResult:
        """The first heartbeat, or that of a member that was fenced."""
        self.owned, self.epoch = {}, 0
        return self.heartbeat(
            topic_names=self.topics,
            topic_regex=self.regex,
            rebalance_timeout_ms=self.rebalance_ms,
            server_assignor=self.assignor,
        )

    def heartbeat(self, **more: Any) -> HeartbeatResult:
        """A heartbeat, which reports the owned partitions unless `reported` is given."""
        values = {"instance_id": self.instance_id, "reported": self.owned, **more}
        answer = self.kit.consumer_heartbeat(self.member_id, self.epoch, **values)
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.owned = answer.assignment
        return answer

    def leave(self, epoch: int = -1) -> HeartbeatResult:
        self.owned = {}
        return self.kit.consumer_heartbeat(self.member_id, epoch, instance_id=self.instance_id)

    @property
    def partitions(self) -> list[tuple[str, int]]:
        """The owned partitions, by name of topic."""
        return self.kit.named(self.owned)


class ConsumerKit(ClassicKit):
    """The groups of one partition, with a topic "t" of four partitions unless others are given."""

    def __init__(self, *, topics: FakeTopics | None = None, **settings: Any) -> None:
        self.known = FakeTopics(t=4) if topics is None else topics
        super().__init__(topics=self.known, **settings)

    def client(self, member_id: str, topics: Sequence[str] | None = ("t",), **more: Any) -> Client:
        return Client(self, member_id, topics, **more)

    def reconcile(self, *clients: Client) -> None:
        """Heartbeats of all, an assignment interval apart, until nothing has changed twice: after
        the first time regular expressions may have been resolved."""
        quiet = 0
        for _ in range(100):
            self.advance(INTERVAL_MS)
            before = [(client.epoch, dict(client.owned)) for client in clients]
            for client in clients:
                client.heartbeat()
            changed = before != [(client.epoch, dict(client.owned)) for client in clients]
            quiet = 0 if changed else quiet + 1
            if quiet == 2:
                return
        raise AssertionError("the group does not become stable")

    def consumer_heartbeat(self, member_id: str, epoch: int, **more: Any) -> HeartbeatResult:
        """One ConsumerGroupHeartbeat, to which there must be a response at once. ApiError."""
        future = self.send_heartbeat(member_id, epoch, **more)
        assert future.is_complete
        if future.failure is not None:
            raise future.failure
        answer: HeartbeatResult = future.response
        return answer

    def send_heartbeat(self, member_id: str, epoch: int, **more: Any) -> CountedReply:
        """One ConsumerGroupHeartbeat. ApiError if it is refused."""
        values = {"client_id": "c", "client_host": "/127.0.0.1", **more}
        request = Heartbeat("g", member_id, epoch, **values)
        return self.ask(partial(self.shard.consumer.heartbeat, request))

    def find_consumer_group(self) -> ConsumerGroup | None:
        """The group "g", if it is a consumer group now."""
        group = self.shard.state.groups.get("g")
        return group if isinstance(group, ConsumerGroup) else None

    def change_topics(self, *names: str) -> None:
        """The coordinator is notified that topics were created, deleted or changed."""
        for decision in self.shard.metadata_changed(names, self.now_ms):
            run_at_once(self.journal.execute_in_steps(decision, self.now_ms))
        self.commit_unless_held()

    def change_topic(self, name: str, most: int) -> None:
        """Create a topic with two partitions, add one to it, or delete it if it has more than
        `most`."""
        if name not in self.known.counts:
            self.known.create(name, 2)
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
    """All that follows from a group's records."""
    not_replayed = {"refresh_topics", "refreshed_epoch"}
    names = {name for name in ConsumerGroup.__slots__ if not name.startswith("_")}
    return {name: getattr(group, name) for name in names - not_replayed}


def assert_sound(kit: ConsumerKit, group: ConsumerGroup) -> None:
    """What is true of every consumer group at any time; and that a replay gives the same one."""
    owners: dict[UUID, dict[int, str]] = {}
    for member in group.members.values():
        for part in (member.assigned, member.revoking):
            for topic, partitions in part.items():
                assert partitions, "a topic without partitions"
                for partition in partitions:
                    assert partition not in owners.setdefault(topic, {}), "two owners"
                    owners[topic][partition] = member.member_id
        assert member.member_epoch <= group.group_epoch
        if member.member_epoch >= 0:
            key = ("consumer", "session", group.group_id, member.member_id)
            assert key in kit.shard.timers, f"{member.member_id} has no session"
    assert owners == group.owners
    assert group.assignment_epoch <= group.group_epoch
    assert set(group.targets) <= set(group.members)
    assert group.static_members == {
        member.instance_id: member.member_id
        for member in group.members.values()
        if member.instance_id is not None
    }
    replayed = kit.replayed().state.groups.get(group.group_id)
    assert isinstance(replayed, ConsumerGroup)
    assert contents(replayed) == contents(group)
