"""Warnings about settings of a single broker that are for clusters: some require more replicas than
it can have.

Apache Kafka accepts those silently, and clients later time out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from kavka.server.config import offset_topic_rows, transaction_rows
from kavka.server.config.cluster_rows import CLUSTER_ROWS
from kavka.server.config.sources import Given
from kavka.server.config.value_types import Value

_FACTORS: Final = {
    offset_topic_rows.REPLICATION_FACTOR: "consumer groups will not be served",
    transaction_rows.REPLICATION_FACTOR: "transactions will not be served",
    "default.replication.factor": "topics can't be created without saying how many replicas",
}
"""What fails with a replication factor above 1."""

_IN_SYNC: Final = {
    "min.insync.replicas": "topics",
    "transaction.state.log.min.isr": "__transaction_state",
}
"""Settings of min.insync.replicas, and the topics they apply to. As in Apache Kafka, writes do not
wait for more replicas than the partition has."""


def not_replicated(setting: str, factor: int) -> str:
    """Why a topic can't be created, with a remedy."""
    return (
        f"{setting}={factor}, but a lone broker can't hold more than one replica of a partition; "
        f"set {setting}=1"
    )


def replica_warnings(values: Mapping[str, Value], given: Mapping[str, Given]) -> Iterator[str]:
    """Warnings about the given settings, whose parsed values are `values`."""
    unused = [row.name for row in CLUSTER_ROWS if values.get(row.name, row.default) != row.default]
    if unused:
        yield f"no effect: {', '.join(unused)} (there is no zookeeper.connect)"
    for key, affected in _FACTORS.items():
        if (value := _above_one(values, key)) is not None:
            yield f"{affected}: {not_replicated(key, value)} ({given[key].origin})"
    for key, affected in _IN_SYNC.items():
        if (value := _above_one(values, key)) is not None:
            yield (
                f"no effect: {key}={value} ({given[key].origin}): a partition of {affected} has "
                "one replica on a lone broker, and a write with acks=all waits for no more than "
                f"there are; set {key}=1"
            )


def _above_one(values: Mapping[str, Value], key: str) -> int | None:
    value = values.get(key)
    return value if isinstance(value, int) and value > 1 else None
