"""Scenarios of consumer groups: ConsumerGroupHeartbeats, besides what `group_scenarios` has.

    a: epoch 2, assignment t:0-3 + member a [t]; epoch 2; target a t:0-3; ... => Stable

A batch is the records in their order. `a@2 t:0-3` is the current assignment of the member a: its
epoch, its partitions, those to be revoked, and its state unless that is stable; `-a` stands for the
tombstones of all three records of a member. After each command the group must be sound. `reconcile`
and `members` have so many heartbeats that only the outcome is shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from uuid import UUID

from kavka.groupcoord.classic import group_records as classic_records
from kavka.groupcoord.consumer import consumer_group_records
from kavka.log.journal import Decision, JournalRecord
from kavka.wire.errors import ApiError
from kavka.wire.steps import run_at_once
from support.consumer_groups import Client
from support.group_scenarios import GroupScenarios, names_of, shown
from support.scenarios import Command, duration_ms


class ConsumerGroups(GroupScenarios):
    """The machine, and the clients of its members."""

    def __init__(self) -> None:
        super().__init__()
        self.clients: dict[str, Client] = {}

    def _heartbeat(self, name: str, epoch: int, **more: Any) -> Iterator[str]:
        client = self.clients[name]

        def show(answer: Any) -> str:
            self.names[answer.member_id] = name
            client.member_id, client.epoch = answer.member_id, answer.member_epoch
            if answer.assignment is None:
                return f"epoch {client.epoch}"
            client.owned = answer.assignment
            return f"epoch {client.epoch}, assignment {self.text(client.owned)}"

        values = {"instance_id": client.instance_id, **more}
        ask = lambda: self.send_heartbeat(client.member_id, epoch, **values)  # noqa: E731
        yield from self.request(name, ask, show)

    @shown
    def do_join(self, command: Command) -> Iterator[str]:
        """ConsumerGroupHeartbeats with epoch 0; `without_id` the coordinator generates the id."""
        for name in names_of(command):
            yield from self._join(name, command)

    def _join(self, name: str, command: Command) -> Iterator[str]:
        topics = command.list("topics") if "topics" in command else None
        if topics is None and command.get("regex") is None:
            topics = ["t"]
        if name not in self.clients or "topics" in command or "regex" in command:
            known = self.classic.pop(name, None)
            member_id = "" if "without_id" in command.words else known.member_id if known else name
            self.clients[name] = Client(self, member_id, topics)
        client = self.clients[name]
        client.regex = command.get("regex") or client.regex
        client.instance_id = command.get("instance") or client.instance_id
        client.owned = {}
        yield from self._heartbeat(
            name,
            0,
            topic_names=client.topics,
            topic_regex=client.regex,
            rebalance_timeout_ms=command.ms("rebalance", client.rebalance_ms),
            server_assignor=command.get("assignor"),
            reported={},
        )

    @shown
    def do_heartbeat(self, command: Command) -> Iterator[str]:
        """Heartbeats that report the owned partitions, or those given as `owned`, or none if
        `minimal`; `full` ones have all fields. Of classic members, and others if `classic`, it is
        a Heartbeat of the classic protocol."""
        for name in names_of(command):
            if name in self.classic or "classic" in command.words:
                yield from self._classic_heartbeat(name, command)
            else:
                yield from self._consumer_heartbeat(name, command)

    def _consumer_heartbeat(self, name: str, command: Command) -> Iterator[str]:
        client = self.clients.setdefault(name, Client(self, name))
        reported = self._owned(command) if "owned" in command else client.owned
        full = "full" in command.words
        more: dict[str, Any] = {
            "topic_names": command.list("topics") if "topics" in command else None,
            "topic_regex": command.get("regex"),
            "rack_id": command.get("rack"),
            "client_id": command.text("client", "c"),
            "client_host": command.text("host", "/127.0.0.1"),
            "rebalance_timeout_ms": command.ms("rebalance", client.rebalance_ms if full else -1),
            "reported": None if "minimal" in command.words else reported,
        }
        if full:
            more["topic_names"] = client.topics
        if "instance" in command:
            more["instance_id"] = command.get("instance")
        yield from self._heartbeat(name, command.number("epoch", client.epoch), **more)

    def _owned(self, command: Command) -> dict[UUID, list[int]]:
        topic, _, numbers = command.text("owned").partition(":")
        return (
            {self.known.ids[topic]: [int(index) for index in numbers.split(",")]} if numbers else {}
        )

    @shown
    def do_leave(self, command: Command) -> Iterator[str]:
        """Heartbeats with epoch -1; of static members that leave `temporarily` with -2."""
        for name in names_of(command):
            client = self.clients.setdefault(name, Client(self, name))
            client.owned = {}
            epoch = -2 if "temporarily" in command.words else -1
            more = {"instance_id": command.get("instance")} if "instance" in command else {}
            yield from self._heartbeat(name, epoch, **more)

    @shown
    def do_members(self, command: Command) -> Iterator[str]:
        """Members join, one after the other has all its partitions, and then a `classic` one."""
        for name in names_of(command):
            list(self._join(name, command))
            self._reconcile(*self.clients)
        for name in command.list("classic"):
            list(self.do_classic_join(Command("", [name], command.options)))
        yield self._outcome()

    @shown
    def do_reconcile(self, command: Command) -> Iterator[str]:
        """Heartbeats of all members, or of those named, until nothing changes any more."""
        self._reconcile(*names_of(command) or self.clients)
        yield self._outcome()

    def _reconcile(self, *names: str) -> None:
        group = self.find_consumer_group()
        members = group.members if group is not None else {}
        clients = [self.clients[name] for name in names]
        self.reconcile(*(client for client in clients if client.member_id in members))

    def _outcome(self) -> str:
        """What the members of the consumer group have now."""
        list(self.changes())
        group = self.find_consumer_group()
        assert group is not None
        members = [
            f"{self.name(member.member_id)}@{member.member_epoch} {self.text(member.assigned)}"
            for member in group.members.values()
        ]
        return f"{'; '.join(members)}; {group.state(self.now_ms)} in epoch {group.group_epoch}"

    @shown
    def do_run(self, command: Command) -> Iterator[str]:
        """Time passes, with heartbeats of these members every 5s, or `every`; those that change
        nothing are not shown. Members that are `keeping` their partitions do not revoke any."""
        names = command.words[1:]
        every_ms, left_ms = command.ms("every", 5_000), duration_ms(command.words[0])
        owned = {member: self.clients[member].owned for member in command.list("keeping")}
        while left_ms > 0:
            for name in list(names):
                before = self._seen(name)
                more = {"reported": owned[name]} if name in owned else {}
                lines = list(self._run_heartbeat(name, more))
                if before != self._seen(name) or len(lines) > 1 or _is_error(lines[0]):
                    yield from lines
            self.advance(min(every_ms, left_ms))
            yield from self.changes()
            left_ms -= every_ms

    def _seen(self, name: str) -> Any:
        client = self.clients.get(name)
        return client and (client.epoch, client.owned)

    def _run_heartbeat(self, name: str, more: dict[str, Any]) -> Iterator[str]:
        if name in self.classic:
            return self._classic_heartbeat(name, Command("", [], {}))
        client = self.clients[name]
        return self._heartbeat(name, client.epoch, **{"reported": client.owned, **more})

    @shown
    def do_record(self, command: Command) -> None:
        """A record that another version of Apache Kafka has written: `topics`, `member`, or
        `classic_group_tombstone`."""
        kind, *names = command.words
        if kind == "topics":
            record = JournalRecord(
                consumer_group_records.tombstone(consumer_group_records.TOPICS, "g").key,
                b"\0\0\1\0",
            )
        elif kind == "classic_group_tombstone":
            record = classic_records.tombstone("g")
        else:
            group = self.find_consumer_group()
            assert group is not None
            assignor = command.text("assignor")
            record = run_at_once(
                consumer_group_records.member_in_steps(
                    "g", replace(group.members[names[0]], server_assignor=assignor)
                )
            )
        run_at_once(self.journal.execute_in_steps(Decision([record]), self.now_ms))
        self.commit()

    @shown
    def do_timers(self, command: Command) -> Iterator[str]:
        """The deadlines of the group's members that are set."""
        names = {**self.clients, **self.classic}
        for name in names:
            known = self.classic.get(name) or self.clients[name]
            found = [
                f"{timer} {(at_ms - self.now_ms) / 1000:g}s"
                for timer in ("session", "rebalance", "join", "sync")
                for at_ms in (self.shard.timers.at(("consumer", timer, "g", known.member_id)),)
                if at_ms is not None
            ]
            yield f"{name}: {', '.join(found) or 'none'}"

    @shown
    def do_describe(self, command: Command) -> Iterator[str]:
        """ConsumerGroupDescribe."""
        try:
            found = self.shard.consumer.describe("".join(names_of(command)) or "g", self.now_ms)
        except ApiError as error:
            yield error.code.name
            return
        yield (
            f"{found.state}, epoch {found.group_epoch}, assignment epoch {found.assignment_epoch}, "
            f"{found.assignor}"
        )
        for member, target in found.members:
            has = self.text(member.assigned)
            yield f"{self.name(member.member_id)}: {has}, target {self.text(target)}"


def _is_error(line: str) -> bool:
    answer = line.partition(": ")[2]
    return answer.isupper() and answer != "NONE"
