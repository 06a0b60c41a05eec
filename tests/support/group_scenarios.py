"""What scenarios of groups have in common: what comes out, classic members, time and the cluster.

Below a command there is a line for each response and each batch that was appended, or one for both,
with the new state of a group if that has changed:

    m: generation 2, range + member m [t] classic=range; m@2 t:0-1 => Stable

After each command a replay of the log must give the same state. The members are those of the group
"g" and have the names that the scenario gives them. There is a topic "t" with four partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any
from uuid import UUID

from kavka.groupcoord.classic.group_requests import LeavingMember
from kavka.groupcoord.classic.members import OfferedProtocol
from kavka.groupcoord.consumer import embedded_protocol
from kavka.log.journal import ReplyFuture
from kavka.wire.errors import ApiError, ErrorCode
from support import group_log
from support.classic_groups import REBALANCE_MS, SESSION_MS, reading
from support.consumer_groups import assert_sound
from support.offset_groups import Marker, OffsetKit
from support.scenarios import Command, duration_ms

FLAGS = {"classic", "full", "minimal", "temporarily", "unnoticed", "without_id"}


@dataclass
class ClassicClient:
    """A member that uses the classic protocol."""

    member_id: str
    instance_id: str | None
    protocol: str
    generation: int = 0


def shown(
    do: Callable[[Any, Command], Iterator[str] | None],
) -> Callable[[Any, Command], Iterator[str]]:
    """A command: what it yields, if anything, and all that it has changed."""

    @wraps(do)
    def run(machine: GroupScenarios, command: Command) -> Iterator[str]:
        yield from do(machine, command) or ()
        yield from machine.changes()
        machine.assert_sound()

    return run


class GroupScenarios(OffsetKit):
    """The machine, and the clients of its members."""

    def __init__(self) -> None:
        super().__init__()
        self.classic: dict[str, ClassicClient] = {}
        self.names: dict[str, str] = {}
        """By member id."""
        self.waiting: list[tuple[str, ReplyFuture, Callable[[Any], str]]] = []
        self.seen_batches = 0
        self.seen_states: dict[str, str] = {}

    # -- what comes out

    def name(self, member_id: str) -> str:
        return self.names.get(member_id, member_id)

    def text(self, owned: Mapping[UUID, Any]) -> str:
        return group_log.partitions(owned, self.known.labels)

    def changes(self) -> Iterator[str]:
        """Responses, batches, and states of groups since the last time."""
        settled = [entry for entry in self.waiting if entry[1].is_complete]
        self.waiting = [entry for entry in self.waiting if not entry[1].is_complete]
        responses = [
            f"{name}: {future.failure.code.name if future.failure else show(future.response)}"
            for name, future, show in settled
        ]
        batches = self.port.batches[self.seen_batches :]
        self.seen_batches += len(batches)
        lines = [self._batch(*batch) for batch in batches]
        states = self._new_states()
        if states:
            lines[-1:] = [f"{lines[-1] if lines else ' '} => {states}"]
        if len(responses) == len(lines) == 1:
            yield f"{responses[0]} {lines[0].strip()}"
        else:
            yield from (*responses, *lines)

    def _batch(self, records: Sequence[Any], producer: Any) -> str:
        if isinstance(producer, Marker):
            return f"  marker {'commit' if producer.committed else 'abort'} {producer.producer_id}"
        of = "" if producer is None else f"({producer.id}) "
        return f"  + {of}{group_log.batch(records, self.names, self.known.labels)}"

    def _new_states(self) -> str:
        before = self.seen_states
        self.seen_states = {
            group_id: f"{'classic ' if group.kind == 'classic' else ''}{group.state(self.now_ms)}"
            for group_id, group in self.shard.state.groups.items()
        }
        changed = {
            **{group_id: "gone" for group_id in before if group_id not in self.seen_states},
            **{
                group_id: new
                for group_id, new in self.seen_states.items()
                if before.get(group_id) != new
            },
        }
        return ", ".join(
            new if group_id == "g" else f"{group_id} {new}" for group_id, new in changed.items()
        )

    def assert_sound(self) -> None:
        group = self.find_consumer_group()
        if group is not None:
            assert_sound(self, group)
        self.assert_replayed_alike()

    def request(
        self, name: str, ask: Callable[[], ReplyFuture], show: Callable[[Any], str]
    ) -> Iterator[str]:
        """Send a request; its response is shown when it comes."""
        try:
            future = ask()
        except ApiError as error:
            yield f"{name}: {error.code.name}"
            return
        self.waiting.append((name, future, show))
        if future.is_complete:
            yield from self.changes()
        else:
            yield f"{name}: no response yet"

    # -- members with the classic protocol

    @shown
    def do_classic_join(self, command: Command) -> Iterator[str]:
        """JoinGroup; a new member without a static id joins again with the id that it gets."""
        (name,) = names_of(command)
        known = self.classic.get(name)
        instance_id = command.get("instance") or (known.instance_id if known else None)
        protocols = _protocols(command, known)
        more: dict[str, Any] = {
            "instance_id": instance_id,
            "session_ms": command.ms("session", SESSION_MS),
            "rebalance_ms": command.ms("rebalance", REBALANCE_MS),
            "kind": command.text("type", "consumer"),
            "protocols": protocols,
            "version": command.number("version", 9),
        }

        def ask() -> ReplyFuture:
            if known is None and instance_id is None and more["version"] >= 4:
                first = self.join(**more).response
                assert ErrorCode(first.error_code) is ErrorCode.MEMBER_ID_REQUIRED
                self.names[first.member_id] = name
                return self.join(first.member_id, **more)
            return self.join(known.member_id if known else "", **more)

        def show(answer: Any) -> str:
            if answer.error_code:
                return ErrorCode(answer.error_code).name
            self.names[answer.member_id] = name
            protocol = answer.protocol_name
            self.classic[name] = ClassicClient(
                answer.member_id, instance_id, protocol, answer.generation_id
            )
            return f"generation {answer.generation_id}, {protocol}"

        yield from self.request(name, ask, show)

    @shown
    def do_sync(self, command: Command) -> Iterator[str]:
        """SyncGroup."""
        for name in names_of(command):
            known = self.classic.get(name) or ClassicClient(name, None, "range")
            more: dict[str, Any] = {
                "instance_id": known.instance_id,
                "kind": command.text("type", "consumer") or None,
                "protocol": command.text("protocol", known.protocol) or None,
            }
            generation = command.number("generation", known.generation)
            ask = lambda: self.sync(known.member_id, generation, **more)  # noqa: B023, E731
            yield from self.request(name, ask, _synced)

    def _classic_heartbeat(self, name: str, command: Command) -> Iterator[str]:
        known = self.classic.get(name) or ClassicClient(name, None, "range")
        generation = command.number("generation", known.generation)
        instance_id = command.get("instance") or known.instance_id
        try:
            code = self.beat(known.member_id, generation, instance_id)
        except ApiError as error:
            code = error.code
        yield f"{name}: {code.name}"

    @shown
    def do_leave_group(self, command: Command) -> Iterator[str]:
        """LeaveGroup of members, as `name` or `name/instance id`."""
        leaving_members = []
        for word in command.words:
            name, _, instance_id = word.partition("/")
            member_id = self.classic[name].member_id if name in self.classic else name
            leaving_members.append(LeavingMember(member_id, instance_id or None))

        def show(answer: Any) -> str:
            names = (
                self.name(member.member_id) or member.group_instance_id for member in answer.members
            )
            codes = (ErrorCode(member.error_code).name for member in answer.members)
            return " ".join(map("{}={}".format, names, codes))

        yield from self.request("LeaveGroup", lambda: self.leave(*leaving_members), show)

    @shown
    def do_classic_group(self, command: Command) -> Iterator[str]:
        """A stable classic group, whose leader divides the topic "t" among the members, unless an
        `assignment` (in hexadecimal digits) is given for all."""
        names = names_of(command)
        for name in names:
            list(self.do_classic_join(Command("", [name], {})))
        self.advance(len(names) * self.settings.group_initial_rebalance_delay_ms)
        list(self.changes())
        ids = [self.classic[name].member_id for name in names]
        share = 4 // len(names)
        assignments = {
            member_id: bytes.fromhex(command.text("assignment"))
            or embedded_protocol.assignment({"t": range(at * share, (at + 1) * share)}, 1)
            for at, member_id in enumerate(ids)
        }
        self.sync_all(ids, assignments)
        list(self.changes())
        group = self.group
        yield f"{' '.join(names)}: {group.current.value} in generation {group.generation}"

    # -- time and the cluster

    @shown
    def do_advance(self, command: Command) -> None:
        """Time passes."""
        self.advance(duration_ms(command.words[0]))

    @shown
    def do_topic(self, command: Command) -> None:
        """Topics as `name=partitions`, 0 for a deleted one; the coordinator is notified, unless
        `unnoticed`."""
        for name in command.options:
            count = command.number(name)
            if not count:
                if name in self.known.counts:
                    self.known.delete(name)
            elif name in self.known.counts:
                self.known.counts[name] = count
            else:
                self.known.create(name, count)
        if "unnoticed" not in command.words:
            self.change_topics(*command.options)

    @shown
    def do_config(self, command: Command) -> None:
        """Settings of the broker."""
        for name in command.options:
            field = name.replace(".", "_")
            before = getattr(self.settings, field)
            setattr(self.settings, field, type(before)(command.text(name)))

    @shown
    def do_fail_appends(self, command: Command) -> None:
        """The next appends fail, or so many."""
        count = int(command.words[0]) if command.words else 1
        self.port.failures = [ErrorCode[command.text("error", "NOT_ENOUGH_REPLICAS")]] * count

    @shown
    def do_hold_commits(self, command: Command) -> None:
        """The high watermark stays where it is."""
        self.holds = True

    @shown
    def do_commit_all(self, command: Command) -> None:
        """The high watermark advances to the end again."""
        self.holds = False
        self.commit()

    @shown
    def do_reload(self, command: Command) -> None:
        """Another broker becomes the coordinator."""
        self.move()


def names_of(command: Command) -> list[str]:
    return [word for word in command.words if word not in FLAGS]


def _protocols(command: Command, known: ClassicClient | None) -> list[OfferedProtocol]:
    """Of a JoinGroup: `owned` partitions make it that of a cooperative consumer; the metadata of
    some may be `malformed`."""
    names = command.list("protocol", known.protocol if known is not None else "range")
    metadata = reading(*command.list("topics", "t"))
    if "owned" in command:
        owned = [int(index) for index in command.list("owned")]
        own = b"\0\0\0\1\0\1t" + len(owned).to_bytes(4, "big")
        own += b"".join(index.to_bytes(4, "big") for index in owned)
        metadata = b"\0\1" + metadata[2:-4] + b"\xff\xff\xff\xff" + own
    malformed = command.list("malformed")
    return [OfferedProtocol(name, b"" if name in malformed else metadata) for name in names]


def _synced(answer: Any) -> str:
    if answer.error_code:
        return ErrorCode(answer.error_code).name
    found = embedded_protocol.read_assignment(answer.assignment).partitions
    own = (f"{topic}:{group_log.ranges(indexes)}" for topic, indexes in sorted(found.items()))
    return f"assignment {' '.join(own) or 'nothing'}"
