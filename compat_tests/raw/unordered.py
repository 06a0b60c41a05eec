"""Arrays of answers whose order means nothing; paths are described in `nature.py`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Unordered:
    """An array whose order means nothing: it is sorted by these fields before comparing; plain
    values, which have none, by themselves."""

    api: str
    path: str
    by: tuple[str, ...]
    why: str


UNORDERED: Final = (
    Unordered(
        "DeleteTopics",
        "responses",
        ("name", "error_code", "topic_id"),
        "Apache Kafka shuffles them, so that places reveal nothing about hidden topics",
    ),
    Unordered("CreatePartitions", "results", ("name",), "Apache Kafka keeps them in a hash map"),
    Unordered(
        "ElectLeaders",
        "replica_election_results",
        ("topic", "partition_result"),
        "asked about all topics, Apache Kafka takes them from a hash map",
    ),
    Unordered(
        "Produce", "responses", ("name", "topic_id"), "Apache Kafka keeps them in a hash map"
    ),
    Unordered(
        "Produce",
        "responses.*.partition_responses",
        ("index",),
        "Apache Kafka keeps them in a hash map",
    ),
    Unordered(
        "DeleteRecords",
        "topics.?.partitions",
        ("partition_index",),
        "Apache Kafka keeps them in a hash map",
    ),
    Unordered("ListOffsets", "topics", ("name",), "Apache Kafka keeps topics in hash maps"),
    Unordered(
        "ListOffsets",
        "topics.*.partitions",
        ("partition_index",),
        "Apache Kafka answers what it can't find before the rest",
    ),
    Unordered("Metadata", "topics", ("name", "topic_id"), "Apache Kafka keeps topics in hash maps"),
    Unordered(
        "Metadata",
        "topics.*.partitions",
        ("partition_index",),
        "Apache Kafka 3.9 keeps partitions in hash maps",
    ),
    Unordered(
        "DescribeConfigs",
        "results.*.configs",
        ("name",),
        "Apache Kafka keeps configs in hash maps",
    ),
    Unordered(
        "ListConfigResources",
        "config_resources",
        ("resource_type", "resource_name"),
        "Apache Kafka keeps kinds and topics in hash sets",
    ),
    Unordered(
        "AlterReplicaLogDirs", "results", ("topic_name",), "Apache Kafka keeps topics in a hash map"
    ),
    Unordered(
        "AlterReplicaLogDirs",
        "results.?.partitions",
        ("partition_index",),
        "Apache Kafka keeps partitions in a hash map",
    ),
    Unordered(
        "DescribeLogDirs", "results.?.topics", ("name",), "Apache Kafka keeps logs in hash maps"
    ),
    Unordered(
        "DescribeLogDirs",
        "results.?.topics.*.partitions",
        ("partition_index",),
        "Apache Kafka keeps logs in hash maps",
    ),
    Unordered(
        "DescribeProducers",
        "topics.*.active_producers",
        ("producer_id",),
        "Apache Kafka keeps producers in hash maps",
    ),
    Unordered("JoinGroup", "members", ("member_id",), "Apache Kafka keeps members in a hash map"),
    Unordered(
        "DescribeGroups",
        "groups.?.members",
        ("member_id",),
        "Apache Kafka keeps members in a hash map",
    ),
    Unordered(
        "DescribeGroups", "groups", ("group_id",), "Apache Kafka asks partition by partition"
    ),
    Unordered("ListGroups", "groups", ("group_id",), "Apache Kafka keeps groups in a hash map"),
    Unordered(
        "DeleteGroups", "results", ("group_id",), "Apache Kafka deletes partition by partition"
    ),
    Unordered("OffsetCommit", "topics", ("name",), "Apache Kafka answers what it refuses first"),
    Unordered(
        "OffsetCommit",
        "topics.*.partitions",
        ("partition_index", "error_code"),
        "Apache Kafka 3.9 keeps them in a hash map",
    ),
    Unordered("OffsetFetch", "topics", ("name",), "Apache Kafka keeps offsets in hash maps"),
    Unordered(
        "OffsetFetch",
        "topics.*.partitions",
        ("partition_index",),
        "Apache Kafka keeps offsets in hash maps",
    ),
    Unordered(
        "OffsetFetch",
        "groups.?.topics",
        ("name", "topic_id"),
        "Apache Kafka keeps offsets in hash maps",
    ),
    Unordered(
        "OffsetFetch",
        "groups.?.topics.*.partitions",
        ("partition_index",),
        "Apache Kafka keeps offsets in hash maps",
    ),
    Unordered("OffsetFetch", "groups", ("group_id",), "Apache Kafka asks group by group"),
    Unordered("OffsetDelete", "topics", ("name",), "Apache Kafka keeps topics in a hash map"),
    *(
        Unordered("AddPartitionsToTxn", path, by, "Apache Kafka keeps them in hash maps")
        for path, by in (
            ("results_by_topic_v3_and_below", ("name",)),
            ("results_by_topic_v3_and_below.?.results_by_partition", ("partition_index",)),
            ("results_by_transaction", ("transactional_id",)),
            ("results_by_transaction.?.topic_results", ("name",)),
            ("results_by_transaction.?.topic_results.?.results_by_partition", ("partition_index",)),
        )
    ),
    *(
        Unordered("WriteTxnMarkers", path, by, "Apache Kafka keeps them in hash maps")
        for path, by in (
            ("markers", ("producer_id",)),
            ("markers.?.topics", ("name",)),
            ("markers.?.topics.?.partitions", ("partition_index",)),
        )
    ),
    Unordered("TxnOffsetCommit", "topics", ("name",), "Apache Kafka answers what it refuses first"),
    Unordered(
        "TxnOffsetCommit",
        "topics.?.partitions",
        ("partition_index", "error_code"),
        "Apache Kafka answers what it refuses first",
    ),
    Unordered(
        "DescribeTransactions",
        "transaction_states.?.topics",
        ("topic",),
        "Apache Kafka keeps partitions in a hash set",
    ),
    Unordered(
        "DescribeTransactions",
        "transaction_states.?.topics.?.partitions",
        (),
        "Apache Kafka keeps partitions in a hash set",
    ),
    Unordered(
        "ListTransactions",
        "transaction_states",
        ("transactional_id",),
        "Apache Kafka keeps transactional ids in hash maps",
    ),
    Unordered(
        "ListTransactions", "unknown_state_filters", (), "Apache Kafka keeps them in a hash set"
    ),
    Unordered(
        "ConsumerGroupDescribe",
        "groups.?.members",
        ("member_id",),
        "Apache Kafka keeps members in a hash map",
    ),
    Unordered(
        "ConsumerGroupDescribe",
        "groups.?.members.?.subscribed_topic_names",
        (),
        "Apache Kafka keeps them in a hash set",
    ),
    Unordered(
        "ConsumerGroupDescribe", "groups", ("group_id",), "Apache Kafka asks partition by partition"
    ),
    *(
        Unordered(
            api,
            f"{path}.topic_partitions",
            ("topic_id",),
            "Apache Kafka keeps assignments in hash maps by topic id",
        )
        for api, path in (
            ("ConsumerGroupHeartbeat", "assignment"),
            ("ConsumerGroupDescribe", "groups.?.members.*assignment"),
        )
    ),
)
