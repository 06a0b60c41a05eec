"""Keys and values of a consumer group's records, as Apache Kafka 4.3 writes them.

A key begins with the number of its kind, a value with its version, which is 0. Sources: Apache
Kafka's schemas `ConsumerGroup*Key` and `ConsumerGroup*Value`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeVar
from uuid import UUID

from kavka.groupcoord.consumer.member import (
    JOIN_EPOCH,
    NO_EPOCH,
    NOTHING,
    ClassicProtocols,
    ConsumerGroupMember,
    MemberState,
    Owned,
    Target,
)
from kavka.log.journal import JournalRecord
from kavka.wire import fields
from kavka.wire.fields import NO_TAGS, Malformed, Reader
from kavka.wire.steps import Steps, each

T = TypeVar("T")

GROUP: Final = 3
TOPICS: Final = 4
"""Topic metadata; not written since 4.1, which has the hash in GROUP's value."""
MEMBER: Final = 5
TARGET: Final = 6
TARGET_MEMBER: Final = 7
CURRENT_MEMBER: Final = 8
REGEX: Final = 16

KINDS: Final = frozenset({GROUP, TOPICS, MEMBER, TARGET, TARGET_MEMBER, CURRENT_MEMBER, REGEX})

_TWO_STRINGS: Final = frozenset({MEMBER, TARGET_MEMBER, CURRENT_MEMBER, REGEX})
_VERSION: Final = fields.int16(0)
TOPICS_PER_STEP: Final = 500
"""Topics of a member encoded between two pauses, at 2 us each."""

_ONE_TAG: Final = b"\1\0"
"""There is one tagged field, and its tag is 0."""


class Key(NamedTuple):
    """`second` is the member's id, or the regular expression; "" where there is none."""

    kind: int
    group_id: str
    second: str


class GroupValue(NamedTuple):
    epoch: int
    metadata_hash: int


class TargetValue(NamedTuple):
    """`timestamp_ms` is when the assignment was computed, 0 if unknown."""

    epoch: int
    timestamp_ms: int


class CurrentValue(NamedTuple):
    member_epoch: int
    previous_member_epoch: int
    state: MemberState
    assigned: Owned
    revoking: Owned


class Resolved(NamedTuple):
    """The topics that a regex matches, as of the topics' `version`."""

    topics: tuple[str, ...]
    version: int
    timestamp_ms: int


class DecodedRecord(JournalRecord):
    """A record that was created here, with its decoded value: that may have thousands of topics,
    and need not be decoded again."""

    decoded: Any
    """The result of the `read_` function for the value."""


# -- writing -----------------------------------------------------------------------------------


def group(group_id: str, epoch: int, metadata_hash: int) -> JournalRecord:
    tagged = {0: fields.int64(metadata_hash)} if metadata_hash else {}
    value = _VERSION + fields.int32(epoch) + fields.tags(tagged)
    return JournalRecord(fields.key(GROUP, group_id), value)


def _decoded_record(key: bytes, value: bytes, decoded: object) -> DecodedRecord:
    record = DecodedRecord(key, value)
    record.decoded = decoded
    return record


def _array(values: Collection[T], write: Callable[[T], bytes]) -> Steps[bytes]:
    written: list[bytes] = []
    yield from each(values, lambda value: written.append(write(value)), TOPICS_PER_STEP)
    return fields.uvarint(len(values) + 1) + b"".join(written)


def member_in_steps(group_id: str, of: ConsumerGroupMember) -> Steps[DecodedRecord]:
    """Without epochs and partitions."""
    topic_names = yield from _array(of.topic_names, fields.string)
    value = b"".join(
        (
            _VERSION,
            fields.string(of.instance_id),
            fields.string(of.rack_id),
            fields.string(of.client_id),
            fields.string(of.client_host),
            topic_names,
            fields.string(of.topic_regex),
            fields.int32(of.rebalance_timeout_ms),
            fields.string(of.server_assignor),
            fields.tags({0: _classic(of.classic)}),
        )
    )
    decoded = replace(
        of,
        member_epoch=JOIN_EPOCH,
        previous_member_epoch=NO_EPOCH,
        state=MemberState.STABLE,
        assigned=NOTHING,
        revoking=NOTHING,
    )
    return _decoded_record(fields.key(MEMBER, group_id, of.member_id), value, decoded)


def _classic(of: ClassicProtocols | None) -> bytes:
    """A nullable struct begins with whether it is present."""
    if of is None:
        return fields.uvarint(0)
    protocols = fields.array(
        of.protocols,
        lambda protocol: fields.string(protocol[0]) + fields.data(protocol[1]) + NO_TAGS,
    )
    return fields.uvarint(1) + fields.int32(of.session_timeout_ms) + protocols + NO_TAGS


def target(group_id: str, epoch: int, timestamp_ms: int) -> JournalRecord:
    tagged = {0: fields.int64(timestamp_ms)} if timestamp_ms else {}
    value = _VERSION + fields.int32(epoch) + fields.tags(tagged)
    return JournalRecord(fields.key(TARGET, group_id), value)


def target_member_in_steps(
    group_id: str, member_id: str, partitions: Target
) -> Steps[DecodedRecord]:
    """`partitions` must not change afterwards."""
    topics = yield from _array(
        partitions.items(), lambda topic: topic[0].bytes + fields.int32s(topic[1]) + NO_TAGS
    )
    key = fields.key(TARGET_MEMBER, group_id, member_id)
    return _decoded_record(key, _VERSION + topics + NO_TAGS, partitions)


def current_member_in_steps(group_id: str, of: ConsumerGroupMember) -> Steps[DecodedRecord]:
    """`of` must not change afterwards."""
    assigned = yield from _owned(of.assigned)
    revoking = yield from _owned(of.revoking)
    value = b"".join(
        (
            _VERSION,
            fields.int32(of.member_epoch),
            fields.int32(of.previous_member_epoch),
            fields.int8(of.state),
            assigned,
            revoking,
            NO_TAGS,
        )
    )
    decoded = CurrentValue(
        of.member_epoch, of.previous_member_epoch, of.state, of.assigned, of.revoking
    )
    return _decoded_record(fields.key(CURRENT_MEMBER, group_id, of.member_id), value, decoded)


def _owned(owned: Owned) -> Steps[bytes]:
    def topic(owned_topic: tuple[UUID, Mapping[int, int]]) -> bytes:
        topic_id, epochs = owned_topic
        if len(epochs) > 1:
            epochs = dict(sorted(epochs.items()))
        at = fields.int32s(list(epochs.values()))
        partitions = fields.int32s(list(epochs))
        return topic_id.bytes + partitions + _ONE_TAG + fields.uvarint(len(at)) + at

    return (yield from _array(owned.items(), topic))


def regex(group_id: str, expression: str, of: Resolved) -> DecodedRecord:
    value = b"".join(
        (
            _VERSION,
            fields.array(of.topics, fields.string),
            fields.int64(of.version),
            fields.int64(of.timestamp_ms),
            NO_TAGS,
        )
    )
    return _decoded_record(fields.key(REGEX, group_id, expression), value, of)


def tombstone(kind: int, group_id: str, second: str | None = None) -> JournalRecord:
    strings = (group_id,) if second is None else (group_id, second)
    return JournalRecord(fields.key(kind, *strings), None)


def without_member(group_id: str, member_id: str) -> list[JournalRecord]:
    """Tombstones of all of a member's records; in this order, its MEMBER record last."""
    return [
        tombstone(kind, group_id, member_id) for kind in (CURRENT_MEMBER, TARGET_MEMBER, MEMBER)
    ]


def without_group(
    group_id: str, member_ids: Iterable[str], expressions: Iterable[str]
) -> list[JournalRecord]:
    """Tombstones of all of a group's records."""
    members = list(member_ids)
    return [
        *(tombstone(CURRENT_MEMBER, group_id, member_id) for member_id in members),
        *(tombstone(TARGET_MEMBER, group_id, member_id) for member_id in members),
        tombstone(TARGET, group_id),
        *(tombstone(MEMBER, group_id, member_id) for member_id in members),
        *(tombstone(REGEX, group_id, expression) for expression in expressions),
        tombstone(TOPICS, group_id),
        tombstone(GROUP, group_id),
    ]


# -- reading -----------------------------------------------------------------------------------


def read_key(key: bytes) -> Key:
    """Malformed if it is not a consumer group's key."""
    reader = Reader(key)
    kind = reader.int16()
    if kind not in KINDS:
        raise Malformed(f"key of kind {kind}")
    return Key(kind, reader.key_string(), reader.key_string() if kind in _TWO_STRINGS else "")


def _value(value: bytes) -> Reader:
    reader = Reader(value)
    version = reader.int16()
    if version != 0:
        raise Malformed(f"version {version} of a value")
    return reader


def read_group(value: bytes) -> GroupValue:
    reader = _value(value)
    epoch, tagged = reader.int32(), reader.tags()
    return GroupValue(epoch, tagged[0].int64() if 0 in tagged else 0)


def read_member(member_id: str, value: bytes) -> ConsumerGroupMember:
    """The member as it joined, without epochs and partitions."""
    reader = _value(value)
    instance_id, rack_id = reader.nullable_string(), reader.nullable_string()
    client_id, client_host = reader.string(), reader.string()
    topic_names = tuple(sorted(set(reader.array(reader.string))))
    topic_regex, rebalance_timeout_ms = reader.nullable_string(), reader.int32()
    server_assignor, tagged = reader.nullable_string(), reader.tags()
    return ConsumerGroupMember(
        member_id,
        instance_id=instance_id,
        rack_id=rack_id,
        rebalance_timeout_ms=rebalance_timeout_ms,
        client_id=client_id,
        client_host=client_host,
        topic_names=topic_names,
        topic_regex=topic_regex,
        server_assignor=server_assignor,
        classic=_read_classic(tagged[0]) if 0 in tagged else None,
    )


def _read_classic(reader: Reader) -> ClassicProtocols | None:
    if not reader.uvarint():
        return None

    def protocol() -> tuple[str, bytes]:
        found = reader.string(), reader.data()
        reader.tags()
        return found

    found = ClassicProtocols(reader.int32(), tuple(reader.array(protocol)))
    reader.tags()
    return found


def read_target(value: bytes) -> TargetValue:
    reader = _value(value)
    epoch, tagged = reader.int32(), reader.tags()
    return TargetValue(epoch, tagged[0].int64() if 0 in tagged else 0)


def read_target_member(value: bytes) -> dict[UUID, tuple[int, ...]]:
    reader = _value(value)

    def topic() -> tuple[UUID, tuple[int, ...]]:
        found = reader.uuid(), tuple(sorted(reader.int32s()))
        reader.tags()
        return found

    found = dict(reader.array(topic))
    reader.tags()
    return found


def read_current_member(value: bytes) -> CurrentValue:
    reader = _value(value)
    epoch, previous, state = reader.int32(), reader.int32(), reader.int8()
    default_epoch = max(epoch, 0)
    assigned, revoking = _read_owned(reader, default_epoch), _read_owned(reader, default_epoch)
    reader.tags()
    return CurrentValue(epoch, previous, MemberState.of(state), assigned, revoking)


def _read_owned(reader: Reader, default_epoch: int) -> dict[UUID, dict[int, int]]:
    """Before 4.3 there were no epochs; then the member's epoch is used."""

    def topic() -> tuple[UUID, dict[int, int]]:
        topic_id, partitions = reader.uuid(), reader.int32s()
        tagged = reader.tags()
        epochs = tagged[0].int32s() if 0 in tagged else ()
        if len(epochs) != len(partitions):
            epochs = [default_epoch] * len(partitions)
        return topic_id, dict(sorted(zip(partitions, epochs, strict=True)))

    return dict(reader.array(topic))


def read_regex(value: bytes) -> Resolved:
    reader = _value(value)
    topics = tuple(sorted(reader.array(reader.string)))
    found = Resolved(topics, reader.int64(), reader.int64())
    reader.tags()
    return found
