"""Scenarios of classic groups: clients send requests to the coordinator of the group "g".

A client is a word such as `a`, which in the output also stands for its member id; `a@i` is a static
member with group.instance.id "i". It sends the member id, generation and protocol that it knows,
unless the options `id`, `generation` and `protocol` say otherwise. Commands:

    set group.max.size=2         settings
    stable a b                   a stable group of these clients and those that are joining, led by
                                 the first; nothing is shown. Options as of `join`
    joined a b                   the same before SyncGroup
    new a                        the first JoinGroup, without a member id
    join a b                     JoinGroup. A client without a member id sends it again with the one
                                 that it is given (KIP-394); only the second response is shown.
                                 Options: version, session, rebalance, protocols, topics, type;
                                 they hold for its later requests too
    sync a assign=a:x,b:y        SyncGroup. The leader assigns to each member its name, or what
                                 `assign` says. Option: type, which is null if empty
    heartbeat a                  Heartbeat; again as the fast path answers it
    leave a @i a@i               LeaveGroup by member id, by instance id, by both; reason=x
    commit a                     OffsetCommit; with producer=5 TxnOffsetCommit
    wait 10s heartbeats=a,b      time passes; these send a Heartbeat each second, and responses
                                 unlike the one before are shown
    hold_commits, commits_go_on  the high watermark stays, or follows the log end again
    fail_append CODE             the next append fails
    reload                       another broker becomes the coordinator
    rebalance                    for a reason outside of the group
    offset_rules t u             whether offsets of these topics may be deleted, and whether offsets
                                 expire
    delete_group                 DeleteGroups
    log                          from now on INFO messages are shown too

Shown are warnings, responses (errors with their API if the request is of an earlier command; the
members of the leader's JoinGroup with what they subscribe to, unless that is the topic "t"), behind
`+` appended records of the group, and behind `=>` what has changed of the group; in a `wait` with
the time since its beginning. After each command the group must be sound, each request answered or
waiting in the group, and a stable group as it is read from the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

import pytest

from kavka.groupcoord.classic.group import ClassicGroup
from kavka.groupcoord.classic.group_records import KEY_VERSION, decode, encode_key
from kavka.groupcoord.classic.group_requests import LeavingMember
from kavka.groupcoord.classic.members import OfferedProtocol
from kavka.wire.errors import ErrorCode
from kavka.wire.steps import run_at_once
from support.classic_clients import FAST_HEARTBEAT, ClassicClients, Client, Request
from support.classic_groups import code_of, reading
from support.scenarios import Command, duration_ms

LINE_MAX: Final = 100
HEARTBEAT_MS: Final = 1_000
DEADLINES_MAX: Final = 100
"""That may expire between two heartbeats."""

JOIN_OPTIONS: Final[Mapping[str, tuple[str, Callable[[str], Any]]]] = {
    "session": ("session_ms", duration_ms),
    "rebalance": ("rebalance_ms", duration_ms),
    "version": ("version", int),
    "type": ("kind", str),
}
"""What they are called by `ClassicKit.join`."""


class ClassicScenario(ClassicClients):
    """The machine of these scenarios."""

    def __init__(self, log: pytest.LogCaptureFixture) -> None:
        super().__init__()
        self.log = log
        self.log.set_level("INFO")
        self.levels = {"WARNING", "ERROR"}
        self.clients: dict[str, Client] = {}
        self.subscriptions: dict[tuple[str, bytes], str] = {}
        """How metadata is shown, by protocol and metadata."""
        self.earlier: list[Request] = []
        """What waited before this command."""
        self.records_shown = 0
        self.group_shown: dict[str, str] = {}

    # -- requests

    def do_new(self, command: Command) -> Iterator[str]:
        for client in self._clients(command):
            self.join(client, "")
        return self._outcome()

    def do_join(self, command: Command) -> Iterator[str]:
        for client in self._clients(command):
            future = self.join(client, self._values(client, command)["member_id"])
            if future.is_complete and code_of(future) is ErrorCode.MEMBER_ID_REQUIRED:
                self.waiting.pop()
                client.member_id = future.response.member_id
                self.join(client, client.member_id)
        return self._outcome()

    def do_joined(self, command: Command) -> Iterator[str]:
        self.do_join(command)
        while self.waiting:
            self.kit.advance(self.kit.settings.group_initial_rebalance_delay_ms)
            self._outcome()
        return self._outcome()

    def do_stable(self, command: Command) -> Iterator[str]:
        self.do_joined(command)
        for client in self.clients.values():
            if client.member_id in self.kit.group.members:
                self.sync(client)
        self._outcome()
        assert self.group_shown["state"] == "Stable"
        return self._outcome()

    def do_sync(self, command: Command) -> Iterator[str]:
        for client in self._clients(command):
            values = self._values(client, command)
            for option, name in (("type", "kind"), ("protocol", "protocol")):
                if option in command:
                    values[name] = command.text(option) or None
            if "assign" in command:
                pairs = (word.partition(":") for word in command.list("assign"))
                values["assignments"] = {
                    self._id(member): part.encode() for member, _, part in pairs
                }
            self.sync(client, **values)
        return self._outcome()

    def do_heartbeat(self, command: Command) -> Iterator[str]:
        for client in self._clients(command):
            self.heartbeat(client, **self._values(client, command))
        return self._outcome()

    def do_commit(self, command: Command) -> Iterator[str]:
        producer = command.number("producer") if "producer" in command else None
        for client in self._clients(command):
            values = self._values(client, command)
            values |= {"instance_id": client.instance_id, "producer_id": producer}
            commit = partial(self.kit.commit_offsets, {("t", 0): 1}, **values)
            self.ask(client, "OffsetCommit", commit)
        return self._outcome()

    def do_leave(self, command: Command) -> Iterator[str]:
        leaving_members = []
        for word in command.words:
            name, _, instance_id = word.partition("@")
            leaving_members.append(
                LeavingMember(self._id(name), instance_id or None, command.get("reason"))
            )
        client = Client(" ".join(command.words) or "-")
        self.waiting.append(Request(client, "LeaveGroup", self.kit.leave(*leaving_members)))
        return self._outcome()

    def do_delete_group(self, command: Command) -> Iterator[str]:
        self.ask(Client("g"), "DeleteGroups", lambda: not self.kit.delete_group())
        return self._outcome()

    def do_offset_rules(self, command: Command) -> Iterator[str]:
        for topic in command.words:
            delete = partial(self.kit.delete_offsets, [(topic, 0)])
            code = self.ask(Client(topic), "OffsetDelete", delete)
            is_subscribed = code is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
            assert self.kit.group.is_subscribed_to(topic) == is_subscribed
        yield from self._outcome()
        since_ms = self.kit.group.expires_since()
        assert since_ms in (None, 0, self.kit.group.since_ms)
        since = "never" if since_ms is None else "after the group" if since_ms else "after a commit"
        yield f"offsets expire {since}"

    # -- what else happens

    def do_set(self, command: Command) -> Iterator[str]:
        for name in command.options:
            setattr(self.kit.settings, name.replace(".", "_"), command.number(name))
        return self._outcome()

    def do_log(self, command: Command) -> Iterator[str]:
        self.levels.add("INFO")
        return self._outcome()

    def do_hold_commits(self, command: Command) -> Iterator[str]:
        self.kit.holds = True
        return self._outcome()

    def do_commits_go_on(self, command: Command) -> Iterator[str]:
        self.kit.holds = False
        self.kit.commit()
        return self._outcome()

    def do_fail_append(self, command: Command) -> Iterator[str]:
        self.kit.port.failures = [ErrorCode[command.words[0]]]
        return self._outcome()

    def do_reload(self, command: Command) -> Iterator[str]:
        self.kit.move()
        return self._outcome()

    def do_rebalance(self, command: Command) -> Iterator[str]:
        prepare = self.kit.shard.classic.prepare_rebalance
        self.kit.execute(prepare(self.kit.group, "because", self.kit.now_ms))
        return self._outcome()

    def do_wait(self, command: Command) -> Iterator[str]:
        kit = self.kit
        begin_ms, end_ms = kit.now_ms, kit.now_ms + duration_ms(command.words[0])
        clients = [self._client(word) for word in command.list("heartbeats")]
        while True:
            next_ms = min(kit.now_ms + HEARTBEAT_MS, end_ms) if clients else end_ms
            expired = 0
            while (at_ms := kit.journal.wake_at()) is not None and at_ms <= next_ms:
                expired += 1
                assert expired < DEADLINES_MAX, "deadlines expire without an end"
                kit.now_ms = max(kit.now_ms, at_ms)
                run_at_once(kit.journal.tick_in_steps(kit.now_ms))
                kit.commit_unless_held()
                yield from self._outcome(kit.now_ms - begin_ms)
            kit.now_ms = next_ms
            for client in clients:
                before = client.last_heartbeat
                client.last_heartbeat = self.heartbeat(client)
                if client.last_heartbeat is before:
                    self.waiting.pop()
            yield from self._outcome(next_ms - begin_ms)
            if next_ms == end_ms:
                return

    # -- clients

    def _client(self, word: str) -> Client:
        name, _, instance_id = word.partition("@")
        client = self.clients.setdefault(name, Client(name))
        client.instance_id = instance_id or client.instance_id
        return client

    def _clients(self, command: Command) -> list[Client]:
        """The clients of a command, with its options for their JoinGroup requests."""
        clients = [self._client(word) for word in command.words]
        if command.name in ("sync", "heartbeat", "commit"):
            return clients
        for client in clients:
            for option, (name, read) in JOIN_OPTIONS.items():
                if option in command:
                    client.values[name] = read(command.text(option))
            if {"protocols", "topics"} & command.options.keys() or "protocols" not in client.values:
                names, topics = command.list("protocols", "range"), command.text("topics", "t")
                client.values["protocols"] = [
                    self._protocol(protocol, topics) for protocol in names
                ]
        return clients

    def _protocol(self, name: str, topics: str) -> OfferedProtocol:
        """With metadata of its own; for the topic "?" with what is not a consumer's."""
        metadata = b"?" if topics == "?" else reading(*topics.split(","), user_data=name.encode())
        self.subscriptions[name, metadata] = "" if topics == "t" else f"({topics})"
        return OfferedProtocol(name, metadata)

    def _id(self, text: str) -> str:
        """The member id of a client, or what the text says."""
        return self.clients[text].member_id if text in self.clients else text

    def _values(self, client: Client, command: Command) -> dict[str, Any]:
        """What a request says, unless it is what the client knows."""
        return {
            "member_id": self._id(command.text("id", client.name)),
            "generation": command.number("generation", client.generation),
        }

    # -- what comes out

    def _outcome(self, after_ms: int = 0) -> Iterator[str]:
        """All that has come out since the last time."""
        records, responses = list(self._records()), list(self._responses())
        both = " ".join([*responses, *records])
        if len(records) == len(responses) == 1 and len(both) < LINE_MAX:
            responses, records = [both], []
        lines = [*self._log_lines(), *responses, *records]
        changed = self._group_changes()
        if changed:
            lines[-1:] = [f"{lines[-1]} => {changed}" if lines else changed]
        self.check()
        self.log.clear()
        time = f"+{_duration(after_ms)} " if after_ms else ""
        return (self.ids.named(f"{time}{line}") for line in lines)

    def _log_lines(self) -> Iterator[str]:
        for record in self.log.records:
            if record.levelname in self.levels:
                yield f"{record.levelname.lower()}: {record.getMessage()}"

    def _records(self) -> Iterator[str]:
        appended = self.kit.appended
        for record in appended[self.records_shown :]:
            if int.from_bytes(record.key[:2], "big") == KEY_VERSION:
                assert record.key == encode_key("g")
                yield "+ tombstone" if record.value is None else _stored(record.value)
        self.records_shown = len(appended)

    def _responses(self) -> Iterator[str]:
        """Lines of clients and their responses; clients with equal ones share a line."""
        lines: dict[str, list[str]] = {}
        members: dict[str, str] = {}
        """What the leader gets, by line."""
        for request in self.receive():
            for name, text in self._response(request):
                lines.setdefault(text, []).append(name)
                if text.startswith("generation") and request.future.response.members:
                    members[text] = f", members {self._members(request.future.response)}"
        self.earlier = list(self.waiting)
        for text, names in lines.items():
            yield f"{' '.join(names)}: {text}{members.get(text, '')}"

    def _response(self, request: Request) -> Iterator[tuple[str, str]]:
        """Clients and what they get."""
        client, api, future = request
        code, answer = code_of(future), future.response
        if api == "LeaveGroup" and not code and answer.members:
            for member in answer.members:
                instance = (
                    "" if member.group_instance_id is None else f"@{member.group_instance_id}"
                )
                yield f"{member.member_id}{instance}" or "-", ErrorCode(member.error_code).name
        elif code or api not in ("JoinGroup", "SyncGroup"):
            text = f"{api} {code.name}" if request in self.earlier else code.name
            if api == FAST_HEARTBEAT:
                text += " by the fast path"
            elif api == "JoinGroup" and answer is not None and answer.member_id:
                text += f", member id {answer.member_id}"
            yield client.name, text
        elif api == "SyncGroup":
            yield f"{client.name}={answer.assignment.decode() or '-'}", "synced"
        else:
            skips = ", skip assignment" if answer.skip_assignment else ""
            text = f"generation {answer.generation_id} {answer.protocol_name}"
            yield client.name, f"{text}, leader {answer.leader}{skips}"

    def _members(self, answer: Any) -> str:
        """The members in a leader's response, with what they subscribe to."""
        protocol, subscriptions = answer.protocol_name, self.subscriptions
        members = (
            f"{member.member_id}{subscriptions[protocol, member.metadata]}"
            for member in answer.members
        )
        return " ".join(members)

    def _group_changes(self) -> str:
        found = self.kit.shard.state.groups.get("g")
        now = {"state": "removed"} if self.group_shown else {}
        if isinstance(found, ClassicGroup):
            members, pending = (
                " ".join(member_ids) or "-" for member_ids in (found.members, found.pending)
            )
            now = {"state": found.current.value, "members": members, "pending": pending}
        before = self.group_shown or {"members": "-", "pending": "-"}
        self.group_shown = now
        changed = (change for change in now.items() if before.get(change[0]) != change[1])
        return ", ".join(text if name == "state" else f"{name} {text}" for name, text in changed)


def _stored(value: bytes) -> str:
    group = run_at_once(decode(value))
    assert group is not None
    text = f"+ generation {group.generation} {group.protocol_type}".rstrip()
    if not group.members:
        return text
    parts = [f"{member.member_id}={member.assignment.decode() or '-'}" for member in group.members]
    return f"{text} {group.protocol}, leader {group.leader}: {' '.join(parts)}"


def _duration(ms: int) -> str:
    for unit, factor in (("m", 60_000), ("s", 1_000)):
        if ms % factor == 0:
            return f"{ms // factor}{unit}"
    return f"{ms}ms"
