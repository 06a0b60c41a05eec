"""Requests of groups as bytes, and where to look in their answers: see `bench.frames`."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from bench.frames import frame, string

OFFSET_COMMIT: Final = 8
OFFSET_FETCH: Final = 9
FIND_COORDINATOR: Final = 10
JOIN_GROUP: Final = 11
HEARTBEAT: Final = 12
SYNC_GROUP: Final = 14

SESSION_MS: Final = 300_000
REBALANCE_MS: Final = 60_000
SUBSCRIPTION: Final = struct.pack(">hi", 0, 1) + string("a-topic-of-the-bench") + b"\0\0\0\0"
ASSIGNMENT: Final = (
    struct.pack(">hi", 0, 1) + string("a-topic-of-the-bench") + struct.pack(">ii", 1, 0) + b"\0" * 4
)


def find_coordinator(group: str) -> bytes:
    """FindCoordinator v0."""
    return frame(FIND_COORDINATOR, 0, string(group))


def found_error(answer: memoryview) -> int:
    """The error code in an answer to `find_coordinator`: after the correlation id."""
    return int(struct.unpack_from(">h", answer, 4)[0])


def join_group(group: str, member_id: str = "") -> bytes:
    """JoinGroup v3, the last that needs no second round for a member's id."""
    protocol = string("range") + struct.pack(">i", len(SUBSCRIPTION)) + SUBSCRIPTION
    timeouts = struct.pack(">ii", SESSION_MS, REBALANCE_MS)
    rest = string(member_id) + string("consumer") + struct.pack(">i", 1) + protocol
    return frame(JOIN_GROUP, 3, string(group) + timeouts + rest)


class Joined(NamedTuple):
    """What a member learns; `members` is empty for all but the leader."""

    generation: int
    member_id: str
    members: Sequence[str]


def joined(answer: memoryview) -> Joined:
    """An answer to `join_group`. RuntimeError when it has an error code."""
    error, generation = struct.unpack_from(">hi", answer, 8)
    if error:
        raise RuntimeError(f"JoinGroup answered error {error}")
    _protocol, at = _read(answer, 14)
    _leader, at = _read(answer, at)
    own_id, at = _read(answer, at)
    (count,) = struct.unpack_from(">i", answer, at)
    at += 4
    members = []
    for _ in range(count):
        member_id, at = _read(answer, at)
        members.append(member_id)
        at += 4 + struct.unpack_from(">i", answer, at)[0]
    return Joined(generation, own_id, members)


def sync_group(group: str, member: Joined) -> bytes:
    """SyncGroup v1; the leader gives every member the same assignment."""
    data = struct.pack(">i", len(ASSIGNMENT)) + ASSIGNMENT
    assignments = b"".join(string(member_id) + data for member_id in member.members)
    return frame(
        SYNC_GROUP, 1, _member(group, member) + struct.pack(">i", len(member.members)) + assignments
    )


_REBALANCE_IN_PROGRESS: Final = 27


def heartbeat(group: str, member: Joined) -> bytes:
    """Heartbeat v1."""
    return frame(HEARTBEAT, 1, _member(group, member))


def is_rebalancing(answer: memoryview) -> bool:
    """Whether the answer to a Heartbeat says that the group is joined anew."""
    (error,) = struct.unpack_from(">h", answer, 8)
    return bool(error == _REBALANCE_IN_PROGRESS)


def check(answer: memoryview, api: str) -> None:
    """RuntimeError when an answer with throttle time and error code first has one."""
    (error,) = struct.unpack_from(">h", answer, 8)
    if error:
        raise RuntimeError(f"{api} answered error {error}")


def offset_commit(group: str, offsets: Mapping[str, Iterable[int]]) -> bytes:
    """OffsetCommit v5 of a simple consumer: {topic: offsets of partitions 0, 1, …}."""
    topics = []
    for topic, values in offsets.items():
        parts = [struct.pack(">iqh", *pair, 0) for pair in enumerate(values)]
        topics.append(string(topic) + struct.pack(">i", len(parts)) + b"".join(parts))
    body = string(group) + struct.pack(">i", -1) + string("") + struct.pack(">i", len(topics))
    return frame(OFFSET_COMMIT, 5, body + b"".join(topics))


def committed_errors(answer: memoryview) -> list[int]:
    """The error codes in an answer to `offset_commit`."""
    (count,) = struct.unpack_from(">i", answer, 8)
    at, codes = 12, []
    for _ in range(count):
        _topic, at = _read(answer, at)
        (partitions,) = struct.unpack_from(">i", answer, at)
        at += 4
        end = at + 6 * partitions
        codes += [code for _, code in struct.iter_unpack(">ih", answer[at:end])]
        at = end
    return codes


def offset_fetch(group: str, topic: str) -> bytes:
    """OffsetFetch v5 for partition 0 of a topic."""
    topics = struct.pack(">i", 1) + string(topic) + struct.pack(">ii", 1, 0)
    return frame(OFFSET_FETCH, 5, string(group) + topics)


def fetched_offset(answer: memoryview) -> tuple[int, int]:
    """(error code of the group, offset) in an answer to `offset_fetch`."""
    (error,) = struct.unpack_from(">h", answer, len(answer) - 2)
    (topics,) = struct.unpack_from(">i", answer, 8)
    if not topics:
        return int(error), -1
    _topic, at = _read(answer, 12)
    (offset,) = struct.unpack_from(">q", answer, at + 8)
    return int(error), int(offset)


def _member(group: str, member: Joined) -> bytes:
    return string(group) + struct.pack(">i", member.generation) + string(member.member_id)


def _read(answer: memoryview, at: int) -> tuple[str, int]:
    """(text, where it ends) of a nullable string."""
    (length,) = struct.unpack_from(">h", answer, at)
    end = at + 2 + max(0, length)
    return str(answer[at + 2 : end], "utf-8"), end
