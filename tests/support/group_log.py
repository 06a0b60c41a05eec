"""Records of `__consumer_offsets` in words, for scenarios."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from kavka.groupcoord.classic import group_records as classic_records
from kavka.groupcoord.consumer import consumer_group_records
from kavka.groupcoord.consumer.member import ConsumerGroupMember, MemberState
from kavka.groupcoord.offset_records import decode, split_topic_key
from kavka.log.journal import JournalRecord
from kavka.wire.steps import run_at_once

Names = Mapping[str, str]
"""The names in a scenario of member ids; the others are names themselves."""

STATES = {
    MemberState.UNREVOKED_PARTITIONS: " (unrevoked)",
    MemberState.UNRELEASED_PARTITIONS: " (unreleased)",
}

KINDS = {
    consumer_group_records.GROUP: "group",
    consumer_group_records.TOPICS: "topics",
    consumer_group_records.MEMBER: "member",
    consumer_group_records.TARGET: "target epoch",
    consumer_group_records.TARGET_MEMBER: "target",
    consumer_group_records.CURRENT_MEMBER: "current",
    consumer_group_records.REGEX: "regex",
}

Topics = Mapping[UUID, str]


def ranges(numbers: Iterable[int]) -> str:
    """Such as 0-2,5."""
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ",".join(f"{first}" if first == last else f"{first}-{last}" for first, last in found)


def partitions(owned: Mapping[UUID, Iterable[int]], topics: Topics) -> str:
    """Such as t:0-2,5 u:0."""
    named = sorted((topics[topic], ranges(own)) for topic, own in owned.items())
    return " ".join(f"{topic}:{own}" for topic, own in named) or "nothing"


def batch(written: Sequence[JournalRecord], names: Names, topics: Topics) -> str:
    """A batch, on one line; the three tombstones of a member as one."""
    lines: list[str] = []
    for record in written:
        line = _record(record, names, topics)
        lines.append(line)
        kind, _, member = line.partition(" ")
        if kind == "-member" and lines[-3:-1] == [f"-current {member}", f"-target {member}"]:
            lines[-3:] = [f"-{member}"]
    if "-group" in lines:
        _shorten_group(lines)
    return "; ".join(lines)


def _shorten_group(lines: list[str]) -> None:
    """All tombstones of a consumer group without regular expressions as one."""
    end = lines.index("-group") + 1
    members = [line.removeprefix("-member ") for line in lines if line.startswith("-member ")]
    all_of_it = [
        *(f"-current {member}" for member in members),
        *(f"-target {member}" for member in members),
        "-target epoch",
        *(f"-member {member}" for member in members),
        "-topics",
        "-group",
    ]
    if lines[max(0, end - len(all_of_it)) : end] == all_of_it:
        lines[end - len(all_of_it) : end] = [f"-consumer group [{' '.join(members)}]"]


def _record(record: JournalRecord, names: Names, topics: Topics) -> str:
    key, value = record
    version = int.from_bytes(key[:2], "big")
    if version < 2:
        return _offset(record)
    if version == 2:
        return _classic_group(record, names)
    kind, _, second = consumer_group_records.read_key(key)
    second = names.get(second, second)
    if value is None:
        return f"-{KINDS[kind]} {second}".rstrip()
    if kind == consumer_group_records.TOPICS:
        return "topics"
    if kind == consumer_group_records.GROUP:
        epoch, metadata_hash = consumer_group_records.read_group(value)
        return f"epoch {epoch}{'' if metadata_hash else ' (no topics)'}"
    if kind == consumer_group_records.MEMBER:
        return f"member {second} {_subscription(consumer_group_records.read_member(second, value))}"
    if kind == consumer_group_records.TARGET:
        return f"target epoch {consumer_group_records.read_target(value).epoch}"
    if kind == consumer_group_records.TARGET_MEMBER:
        target = consumer_group_records.read_target_member(value)
        return f"target {second} {partitions(target, topics)}"
    if kind == consumer_group_records.REGEX:
        topics_matched = consumer_group_records.read_regex(value).topics
        return f"regex {second} matches {','.join(topics_matched) or 'nothing'}"
    current = consumer_group_records.read_current_member(value)
    state = STATES.get(current.state, "")
    revoking = f" revoking {partitions(current.revoking, topics)}" if current.revoking else ""
    owned = partitions(current.assigned, topics)
    return f"{second}@{current.member_epoch} {owned}{revoking}{state}"


def _subscription(member: ConsumerGroupMember) -> str:
    fields = {
        "regex": member.regex,
        "instance": member.instance_id,
        "rack": member.rack_id,
        "assignor": member.server_assignor,
        "client": member.client_id if member.client_id != "c" else None,
        "host": member.client_host if member.client_host != "/127.0.0.1" else None,
        "rebalance": member.rebalance_timeout_ms if member.rebalance_timeout_ms != 60_000 else None,
        "classic": member.classic and ",".join(name for name, _ in member.classic.protocols),
    }
    more = "".join(f" {key}={value}" for key, value in fields.items() if value is not None)
    return f"[{','.join(member.topic_names)}]{more}"


def _classic_group(record: JournalRecord, names: Names) -> str:
    if record.value is None:
        group_id = classic_records.decode_key(record.key)
        return "-classic group" if group_id == "g" else f"-classic group {group_id}"
    group = run_at_once(classic_records.decode(record.value))
    assert group is not None
    members = " ".join(names.get(member.member_id, member.member_id) for member in group.members)
    return f"classic group generation {group.generation} [{members}]"


def _offset(record: JournalRecord) -> str:
    key, value = record
    found = split_topic_key(key[:-4])
    assert found is not None
    group_id, topic = found
    partition = f"{topic}-{int.from_bytes(key[-4:], 'big')}"
    if group_id != "g":
        partition = f"{group_id}/{partition}"
    if value is None:
        return f"-{partition}"
    committed = decode(value)
    assert committed is not None
    return f"{partition}={committed.offset}"
