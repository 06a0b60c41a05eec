"""Errors of responses that the part without clients must find, and the field that it must name.

Clients pay no heed to some of them, or only much later.
"""

from __future__ import annotations

from typing import NamedTuple

from compat.faults import mapped, setting, without_last
from compat.planting import Change, Values, inside

QUOTA_MS = 10_000
NOWHERE = {"leader_id": -1, "leader_epoch": -1}
NO_EPOCH = {"epoch": -1, "end_offset": -1}


class ProtocolFault(NamedTuple):
    name: str
    api: str
    change: Change
    field: str
    """A pattern of the path that is told."""
    versions_back: int = 0
    """How many versions too old the responses are."""


def without(name: str, key: str, value: str) -> Change:
    """In a list, what has this value is missing."""
    return mapped(name, lambda found: [item for item in found or () if item[key] != value])


def turned_round(values: Values, name: str) -> None:
    for part in inside(values, name):
        part[name] = part[name][::-1]


def _nothing(values: Values) -> None:
    pass


PROTOCOL_FAULTS = (
    ProtocolFault(
        "a throttle time below 0", "Produce", setting("throttle_time_ms", -5), "throttle_time_ms"
    ),
    ProtocolFault(
        "a throttle time without a quota",
        "Heartbeat",
        setting("throttle_time_ms", QUOTA_MS),
        "throttle_time_ms",
    ),
    ProtocolFault(
        "a throttle time without a quota",
        "OffsetFetch",
        setting("throttle_time_ms", QUOTA_MS),
        "throttle_time_ms",
    ),
    ProtocolFault(
        "topics that are not in the order of their names",
        "DescribeTopicPartitions",
        lambda values: turned_round(values, "topics"),
        "topics.?.name",
    ),
    ProtocolFault(
        "partitions that are not in the order of their numbers",
        "DescribeTopicPartitions",
        lambda values: turned_round(values, "partitions"),
        "topics.?.partitions.?.partition_index",
    ),
    ProtocolFault(
        "the leader's epoch before",
        "Metadata",
        mapped("leader_epoch", lambda epoch: epoch - 1),
        "topics.*.leader_epoch",
    ),
    ProtocolFault(
        "a leader that is gone",
        "Metadata",
        mapped("leader_id", lambda broker_id: broker_id + 1),
        "*.leader_id",
    ),
    ProtocolFault(
        "the tagged field of where a log diverges is lost",
        "Fetch",
        setting("diverging_epoch", NO_EPOCH),
        "responses.?.partitions.?.diverging_epoch.*",
    ),
    ProtocolFault(
        "the tagged field of the leader is lost",
        "Fetch",
        setting("current_leader", NOWHERE),
        "responses.?.partitions.?.current_leader.*",
    ),
    ProtocolFault(
        "a field of the last version is missing", "ListOffsets", _nothing, "unreadable", 1
    ),
    ProtocolFault("a field of the last version is missing", "Heartbeat", _nothing, "unreadable", 1),
    ProtocolFault(
        "a partition is missing",
        "ListOffsets",
        without_last("partitions"),
        "topics.?.partitions.?",
    ),
    ProtocolFault(
        "a config is missing",
        "DescribeConfigs",
        without("configs", "name", "retention.ms"),
        "results.?.configs.retention.ms",
    ),
)
