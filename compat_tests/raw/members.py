"""What scripts of groups have in common: members of classic groups, their requests, and waiting.

A script runs in each version of its own API; requests of the others have the versions of USUAL.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from kavka.compat_tests.raw.case import FIRST_LINK, Ground, Script, Step, looking

Answer: TypeAlias = dict[str, Any]
Asking: TypeAlias = Generator[Step, Any, Any]
"""Part of a script that returns an answer."""

USUAL: Final[Mapping[str, int]] = {
    "JoinGroup": 9,
    "SyncGroup": 5,
    "Heartbeat": 4,
    "LeaveGroup": 5,
    "OffsetCommit": 9,
    "OffsetFetch": 9,
    "OffsetDelete": 0,
    "DescribeGroups": 5,
    "ListGroups": 5,
    "DeleteGroups": 2,
    "ConsumerGroupHeartbeat": 1,
    "ConsumerGroupDescribe": 1,
}

MEMBER_ID_REQUIRED: Final = 79
SESSION_MS: Final = 60_000
"""Longer than any script takes."""
SHORT_MS: Final = 500
"""The shortest session that the brokers of the test allow."""
SHORT_SESSIONS: Final = ("group.min.session.timeout.ms", str(SHORT_MS))
SMALL_GROUPS: Final = ("group.max.size", "4")
"""Settings that some scripts need."""

SOON_MS: Final = 5_000
"""Of members of which one does nothing in time: the others must do what they have to before that,
also where a broker or the test is held up for a moment."""

PREPARING: Final = "PreparingRebalance"
COMPLETING: Final = "CompletingRebalance"
STABLE: Final = "Stable"
EMPTY: Final = "Empty"


def ask(on: Ground, api: str, **fields: Any) -> Step:
    """A request of the script's own API in its version, or of another one in its usual one."""
    if api == on.case.api:
        return on.ask(**fields)
    return on.other(api, USUAL[api], **fields)


def version_of(on: Ground, api: str) -> int:
    """The version in which `ask` sends requests of an API."""
    return on.version if api == on.case.api else USUAL[api]


def text(value: str) -> bytes:
    """A string as Kafka's embedded consumer protocol has it."""
    return struct.pack(">h", len(value)) + value.encode()


def subscription(*topics: str) -> bytes:
    """A consumer's subscription, version 0 of the embedded protocol."""
    return struct.pack(">hi", 0, len(topics)) + b"".join(map(text, topics)) + b"\0\0\0\0"


def assignment(partitions: Mapping[str, Sequence[int]]) -> bytes:
    """A consumer's assignment, version 0 of the embedded protocol."""
    parts = (
        text(topic) + struct.pack(f">i{len(of)}i", len(of), *of) for topic, of in partitions.items()
    )
    return struct.pack(">hi", 0, len(partitions)) + b"".join(parts) + b"\0\0\0\0"


class Member:
    """One member of a classic group; it has a connection, `link`, for itself."""

    def __init__(
        self,
        on: Ground,
        link: str = FIRST_LINK,
        *,
        instance: str | None = None,
        protocols: Sequence[str] = ("range",),
        metadata: bytes | None = None,
        kind: str = "consumer",
        session_ms: int = SESSION_MS,
        rebalance_ms: int = SESSION_MS,
    ) -> None:
        if session_ms < SESSION_MS:
            on.needs(*SHORT_SESSIONS)
        self.on = on
        self.link = link
        self.instance = instance
        self.protocols = protocols
        self.metadata = subscription("a-topic") if metadata is None else metadata
        self.kind = kind
        self.timeouts = (session_ms, rebalance_ms)
        self.id = ""
        self.generation = -1

    def joining(self, **more: Any) -> Step:
        """One JoinGroup request."""
        session_ms, rebalance_ms = self.timeouts
        protocols = [{"name": name, "metadata": self.metadata} for name in self.protocols]
        values = {
            "group_id": self.on.group,
            "session_timeout_ms": session_ms,
            "rebalance_timeout_ms": rebalance_ms,
            "member_id": self.id,
            "group_instance_id": self.instance,
            "protocol_type": self.kind,
            "protocols": protocols,
        }
        return ask(self.on, "JoinGroup", link=self.link, **{**values, **more})

    def join(self, **more: Any) -> Asking:
        """Join, in two rounds where the broker wants that (KIP-394); the answer."""
        answer = yield self.joining(**more)
        if answer["error_code"] == MEMBER_ID_REQUIRED:
            self.id = answer["member_id"]
            answer = yield self.joining(**more)
        return self._taken(answer)

    def begin(self, members: int, **more: Any) -> Asking:
        """Join, and don't wait for the answer, but until the group has so many members."""
        if not self.id and self.instance is None and version_of(self.on, "JoinGroup") >= 4:
            answer = yield self.joining(**more)
            self.id = answer["member_id"]
        yield self.joining(**more, later=True)
        yield from until(self.on, PREPARING, members)

    def end(self) -> Asking:
        """The answer to what `begin` has sent."""
        answer = yield self.on.answered(self.link)
        return self._taken(answer)

    def _taken(self, answer: Answer) -> Answer:
        if not answer["error_code"]:
            self.id, self.generation = answer["member_id"], answer["generation_id"]
        return answer

    def syncing(self, assignments: Mapping[str, bytes] | None = None, **more: Any) -> Step:
        """One SyncGroup request; a leader gives {member id: assignment}."""
        given = [
            {"member_id": member, "assignment": data}
            for member, data in (assignments or {}).items()
        ]
        values = {
            **self._fields(),
            "protocol_type": self.kind,
            "protocol_name": self.protocols[0],
            "assignments": given,
        }
        return ask(self.on, "SyncGroup", link=self.link, **{**values, **more})

    def heartbeat(self, **more: Any) -> Step:
        """One Heartbeat request."""
        return ask(self.on, "Heartbeat", link=self.link, **{**self._fields(), **more})

    def leaving(self, **more: Any) -> Step:
        """One LeaveGroup request of this member alone."""
        member = {"member_id": self.id, "group_instance_id": self.instance, "reason": None}
        values = {"group_id": self.on.group, "member_id": self.id, "members": [member]}
        return ask(self.on, "LeaveGroup", link=self.link, **{**values, **more})

    def committing(self, topic: str, offset: int = 5, **more: Any) -> Step:
        """One OffsetCommit request for partition 0 of a topic."""
        values = {
            "group_id": self.on.group,
            "generation_id_or_member_epoch": self.generation,
            "member_id": self.id,
            "group_instance_id": self.instance,
            "topics": [committed(self.on, topic, offset)],
        }
        return ask(self.on, "OffsetCommit", link=self.link, **{**values, **more})

    def _fields(self) -> Mapping[str, Any]:
        return {
            "group_id": self.on.group,
            "generation_id": self.generation,
            "member_id": self.id,
            "group_instance_id": self.instance,
        }


def committed(on: Ground, topic: str, *offsets: int, metadata: str | None = "") -> Answer:
    """One topic of an OffsetCommit request, with offsets for partitions 0, 1, …"""
    partitions = [
        {
            "partition_index": index,
            "committed_offset": offset,
            "committed_leader_epoch": -1,
            "committed_metadata": metadata,
        }
        for index, offset in enumerate(offsets)
    ]
    return {"name": topic, "topic_id": on.facts.ids.get(topic), "partitions": partitions}


def simple_commit(on: Ground, topic: str, *offsets: int, **more: Any) -> Step:
    """An OffsetCommit of a consumer that is in no group."""
    values = {
        "group_id": on.group,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "group_instance_id": None,
        "topics": [committed(on, topic, *offsets)],
    }
    return ask(on, "OffsetCommit", **{**values, **more})


def offsets_of(on: Ground, *topics: str) -> Step:
    """An OffsetFetch of version 5: partitions 0 and 1 of topics, or all if none is named."""
    requested = [{"name": topic, "partition_indexes": [0, 1]} for topic in topics] or None
    return on.other("OffsetFetch", 5, group_id=on.group, topics=requested)


def describing(on: Ground, *, compared: bool = True) -> Step:
    """A DescribeGroups request for the script's group."""
    return ask(on, "DescribeGroups", compared=compared, groups=[on.group])


def until(on: Ground, state: str, members: int) -> Script:
    """Ask until the group is in a state and has so many members."""

    def is_so(group: Answer) -> bool:
        return group["group_state"] == state and len(group["members"]) == members

    yield from until_described(on, is_so)


def until_described(on: Ground, is_so: Callable[[Answer], bool]) -> Script:
    """Ask until the group's description is so."""
    for _ in looking():
        answer = yield on.other(
            "DescribeGroups", 5, groups=[on.group], compared=False, link="watching"
        )
        if is_so(answer["groups"][0]):
            return


def group_of(on: Ground, count: int, *, synced: bool = True, **more: Any) -> Asking:
    """A classic group of so many members, the first of them its leader; none of them waits."""
    members = [Member(on, str(number + 1), **more) for number in range(count)]
    for number, newest in enumerate(members):
        if number == 0:
            yield from newest.join()
            continue
        yield from newest.begin(number + 1)
        for older in members[:number]:
            if number > 1 and older is not members[0]:
                yield older.joining(later=True)
        yield members[0].joining(later=True)
        for member in (*members[:number], newest):
            yield from member.end()
    if synced:
        yield from sync_all(members)
    return members


def sync_all(members: Sequence[Member]) -> Script:
    """The leader's SyncGroup first, then the others'."""
    leader = members[0]
    yield leader.syncing({member.id: f"of {member.link}".encode() for member in members})
    for member in members[1:]:
        yield member.syncing()
