"""Errors of brokers, each planted into the responses of one API, and the scenario that finds it."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, NamedTuple

from compat.planting import Change, Values, inside
from kavka.wire.errors import ErrorCode

_base_offset = struct.Struct(">q")
_batch = struct.Struct(">qi")


class Fault(NamedTuple):
    name: str
    api: str
    change: Change
    scenario: str
    """One that must fail, in a step that is about the API."""


def setting(name: str, value: Any) -> Change:
    """A field has a value of its own."""

    def change(values: Values) -> None:
        for part in inside(values, name):
            part[name] = value

    return change


def mapped(name: str, made: Callable[[Any], Any]) -> Change:
    """A field has another value than it should have."""

    def change(values: Values) -> None:
        for part in inside(values, name):
            part[name] = made(part[name])

    return change


def instead(code: ErrorCode, other: ErrorCode = ErrorCode.NONE) -> Change:
    """One error code in the place of another."""
    return mapped("error_code", lambda found: other if found == code else found)


def never(*codes: ErrorCode) -> Change:
    """No error where there should be one."""
    return mapped("error_code", lambda found: ErrorCode.NONE if found in codes else found)


def without_last(name: str) -> Change:
    """The last of a list is missing."""
    return mapped(name, lambda found: found[:-1] if found else found)


def shifted(records: bytes | None) -> bytes | None:
    """Batches with base offsets that are one too high, which no checksum covers."""
    if not records:
        return records
    data, position = bytearray(records), 0
    while position + _batch.size <= len(data):
        offset, length = _batch.unpack_from(data, position)
        _base_offset.pack_into(data, position, offset + 1)
        position += _batch.size + length
    return bytes(data)


def reversed_batches(records: bytes | None) -> bytes | None:
    """The last batch first, each as it is."""
    found, position, data = list[bytes](), 0, records or b""
    while position + _batch.size <= len(data):
        _, length = _batch.unpack_from(data, position)
        end = position + _batch.size + length
        found.append(data[position:end])
        position = end
    return b"".join(found[::-1]) if found else records


def stale_topics() -> Change:
    """Each topic stays as it was when it was first told."""
    first: dict[str, Values] = {}

    def change(values: Values) -> None:
        values["topics"] = [
            first.setdefault(topic["name"], topic) if topic["partitions"] else topic
            for topic in values["topics"]
        ]

    return change


def _plus_one(offset: int) -> int:
    return offset + 1 if offset >= 0 else offset


def _as_default(values: Values) -> None:
    for part in inside(values, "config_source"):
        if part["name"] == "retention.ms":
            part["value"] = "604800000"


FAULTS = (
    Fault("offsets that are one too high", "Produce", mapped("base_offset", _plus_one), "plain"),
    Fault(
        "another error for a record that is too large",
        "Produce",
        instead(ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        "large-records",
    ),
    Fault(
        "a fenced producer is not told",
        "Produce",
        instead(ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.UNKNOWN_SERVER_ERROR),
        "fencing",
    ),
    Fault("batches one offset too high", "Fetch", mapped("records", shifted), "seek"),
    Fault("no records", "Fetch", mapped("records", lambda found: b"" if found else found), "nulls"),
    Fault(
        "aborted transactions left out", "Fetch", setting("aborted_transactions", None), "aborts"
    ),
    Fault(
        "an offset out of range is no error",
        "Fetch",
        never(ErrorCode.OFFSET_OUT_OF_RANGE),
        "no-reset",
    ),
    Fault(
        "a deleted offset is no error",
        "Fetch",
        never(ErrorCode.OFFSET_OUT_OF_RANGE),
        "retention",
    ),
    Fault(
        "aborted transactions left out before an open one",
        "Fetch",
        setting("aborted_transactions", None),
        "isolation",
    ),
    Fault("offsets that are one too high", "ListOffsets", mapped("offset", _plus_one), "ends"),
    Fault("no timestamps", "ListOffsets", setting("timestamp", 0), "times"),
    Fault(
        "an offset where no record is so late",
        "ListOffsets",
        mapped("offset", lambda found: 3 if found < 0 else found),
        "times",
    ),
    Fault("batches in reverse order", "Fetch", mapped("records", reversed_batches), "idempotence"),
    Fault("topics as they were first told", "Metadata", stale_topics(), "new-partitions"),
    Fault("a partition is missing", "OffsetFetch", without_last("partitions"), "commits"),
    Fault("a partition is missing", "Metadata", without_last("partitions"), "keys"),
    Fault(
        "a broker is missing in the list",
        "DescribeCluster",
        setting("brokers", []),
        "describe-cluster",
    ),
    Fault("another cluster id", "DescribeCluster", setting("cluster_id", "?"), "describe-cluster"),
    Fault("no assignment", "SyncGroup", setting("assignment", b""), "commits"),
    Fault(
        "a rebalance is not told",
        "Heartbeat",
        never(ErrorCode.REBALANCE_IN_PROGRESS),
        "range",
    ),
    Fault(
        "the leader hears of no member but itself",
        "JoinGroup",
        mapped("members", lambda found: found[:1]),
        "roundrobin",
    ),
    Fault(
        "offsets that are one too high",
        "OffsetFetch",
        mapped("committed_offset", _plus_one),
        "commits",
    ),
    Fault("no metadata", "OffsetFetch", setting("metadata", ""), "commit-metadata"),
    Fault("no offset", "OffsetFetch", setting("committed_offset", -1), "group-offsets"),
    Fault(
        "a commit is refused",
        "OffsetCommit",
        setting("error_code", ErrorCode.UNKNOWN_MEMBER_ID),
        "commits",
    ),
    Fault(
        "an error for a new producer",
        "InitProducerId",
        setting("error_code", ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        "transactions",
    ),
    Fault(
        "an end of a transaction is refused",
        "EndTxn",
        setting("error_code", ErrorCode.INVALID_TXN_STATE),
        "transactions",
    ),
    Fault(
        "offsets of a transaction are refused",
        "TxnOffsetCommit",
        setting("error_code", ErrorCode.INVALID_PRODUCER_EPOCH),
        "copy",
    ),
    Fault(
        "a partition of a transaction is refused",
        "AddPartitionsToTxn",
        setting("partition_error_code", ErrorCode.INVALID_TXN_STATE),
        "transactions",
    ),
    Fault(
        "a topic that is there is created",
        "CreateTopics",
        never(ErrorCode.TOPIC_ALREADY_EXISTS),
        "topic-admin",
    ),
    Fault(
        "another error for too many replicas",
        "CreateTopics",
        instead(ErrorCode.INVALID_REPLICATION_FACTOR, ErrorCode.INVALID_REQUEST),
        "topic-admin",
    ),
    Fault(
        "a topic that is not there is deleted",
        "DeleteTopics",
        never(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        "topic-admin",
    ),
    Fault(
        "fewer partitions are no error",
        "CreatePartitions",
        never(ErrorCode.INVALID_PARTITIONS),
        "create-partitions",
    ),
    Fault("the default of a config that is set", "DescribeConfigs", _as_default, "config-admin"),
    Fault(
        "a bad value is no error",
        "IncrementalAlterConfigs",
        never(ErrorCode.INVALID_CONFIG),
        "config-admin",
    ),
    Fault("another low watermark", "DeleteRecords", setting("low_watermark", -1), "delete-records"),
    Fault(
        "an offset behind the end is no error",
        "DeleteRecords",
        never(ErrorCode.OFFSET_OUT_OF_RANGE),
        "delete-records",
    ),
    Fault("a group is not listed", "ListGroups", setting("groups", []), "group-admin"),
    Fault("no members", "DescribeGroups", setting("members", []), "group-admin"),
    Fault("another state", "DescribeGroups", setting("group_state", "Dead"), "group-admin"),
    Fault(
        "a group with members is deleted",
        "DeleteGroups",
        never(ErrorCode.NON_EMPTY_GROUP),
        "group-admin",
    ),
)
