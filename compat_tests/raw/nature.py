"""What differs between any two brokers by its nature, with a reason each.

It is made alike before answers are compared.

Paths are dotted, with the index of an array's item as a part: `topics.0.partitions.1.offset`.
Patterns are those of the shell: `*` is any text, dots included, and `?` an index.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from kavka.compat_tests.raw.case import Facts
from kavka.compat_tests.raw.codec import schemas
from kavka.compat_tests.raw.judges import FIRST_IN_NEW


@dataclass(frozen=True)
class Nature:
    """Values at `path` that `made_alike` turns into something comparable."""

    what: str
    path: str
    made_alike: Callable[[Any, Facts], Any]
    why: str
    api: str = "*"


GROUP_TOPIC: Final = "__consumer_offsets"
STATIC, DEFAULT = 4, 5
"""Sources of configs: the broker's file, and nobody."""

SOME: Final = "<some>"

MARKER_DIGITS: Final = 12

DAY_MS: Final = 24 * 3600 * 1000


def _port(value: Any, facts: Facts) -> Any:
    known = facts.port if facts.listed is None else facts.listed[1]
    return "<the broker's port>" if value == known else value


def _host(value: Any, facts: Facts) -> Any:
    known = facts.host if facts.listed is None else facts.listed[0]
    return "<the broker's host>" if value and value == known else value


def _broker_id(value: Any, facts: Facts) -> Any:
    own = isinstance(value, int) and value == facts.broker_id
    return "<the broker's id>" if own else value


def _broker_s_name(value: Any, facts: Facts) -> Any:
    own = str(facts.broker_id)
    if not isinstance(value, str) or value.lstrip("+0") != own.lstrip("0"):
        return value
    return f"{value.removesuffix(own)}<the broker's id>"


def _without_topics_of_others(value: Any, facts: Facts) -> Any:
    """Without topics that were there before, those of other APIs' cases, and the broker's own."""
    if not isinstance(value, list) or not facts.prefix:
        return value
    return [topic for topic in value if not _is_of_others(topic["name"] or "", facts)]


def _of_coordinators(value: Any, facts: Facts) -> Any:
    """Which partitions of the topic of offsets are meant depends on the names of groups."""
    if not isinstance(value, dict) or not facts.prefix:
        return value
    if value.get("topic", value.get("name")) != GROUP_TOPIC:
        return value
    partitions = [
        {**partition, "partition_index": SOME} if isinstance(partition, dict) else SOME
        for partition in value["partitions"]
    ]
    return {**value, "partitions": partitions[:1]}


def _is_of_others(name: str, facts: Facts) -> bool:
    if name.startswith(facts.prefix):
        return not name.startswith(f"{facts.prefix}Metadata")
    return name in facts.others


def _cluster_id(value: Any, facts: Facts) -> Any:
    return "<the cluster's id>" if value == facts.cluster_id else value


def _topic_id(value: Any, facts: Facts) -> Any:
    if not isinstance(value, UUID):
        return value
    name = facts.names.get(value)
    return value if name is None else f"<id of {name}>"


def _known_or_any_id(value: Any, facts: Facts) -> Any:
    """Of a topic that a case has made, or the one that a case asks for in vain."""
    if isinstance(value, UUID) and value.int < 1 << 64:
        return value
    return _any_id(_topic_id(value, facts), facts)


def _any_id(value: Any, facts: Facts) -> Any:
    return "<an id>" if isinstance(value, UUID) else value


def _now(value: Any, facts: Facts) -> Any:
    return "<now>" if isinstance(value, int) and abs(value - facts.now_ms) < DAY_MS else value


def _bounds(value: Any, facts: Facts) -> Any:
    return re.sub(r"within \[-?\d+, -?\d+\]", "within <bounds>", value) if value else value


def _coordinator_epoch(value: Any, facts: Facts) -> Any:
    return "<a coordinator's epoch>" if value in facts.coordinator_epochs else value


def _marker_s_epoch(value: Any, facts: Facts) -> Any:
    """In the value of a marker, in hex: its version (two bytes), then the coordinator's epoch."""
    if not isinstance(value, str) or len(value) != MARKER_DIGITS:
        return value
    epoch = int.from_bytes(bytes.fromhex(value)[2:], signed=True)
    return f"{value[:4]}{_coordinator_epoch(epoch, facts)}"


def _of_quotas(value: Any, facts: Facts) -> Any:
    """0, if what a broker with quotas asks a client to wait can be a time."""
    return 0 if facts.has_quotas and isinstance(value, int) and value > 0 else value


def _positive(value: Any, facts: Facts) -> Any:
    return "<drawn at random>" if isinstance(value, int) and value > 0 else value


def _handed_out(value: Any, facts: Facts) -> Any:
    return "<handed out>" if isinstance(value, int) and value >= 0 else value


def _of_this_api(value: Any, facts: Facts) -> Any:
    """The topics of DescribeLogDirs' own cases."""
    if not isinstance(value, list):
        return value
    return [topic for topic in value if topic["name"].startswith(f"{facts.prefix}DescribeLogDirs")]


def _text(value: Any, facts: Facts) -> Any:
    return "<a text>" if value else value


def _min_isr(value: Any, facts: Facts) -> Any:
    """A config of a broker or topic, as if it were not set for all brokers."""
    of_elr = {"name": "min.insync.replicas", "value": "1", "config_source": 3}
    if not isinstance(value, dict) or not of_elr.items() <= value.items():
        return value
    alike = {**value, "config_source": 5}
    if "synonyms" in value:
        alike["synonyms"] = [synonym for synonym in value["synonyms"] if synonym["source"] != 3]
    return alike


def _inherited(value: Any, facts: Facts) -> Any:
    """A config with the value that the broker has set, or that it has by default."""
    if not isinstance(value, dict) or not facts.prefix:
        return value
    alike = dict(value)
    if value.get("config_source") in (STATIC, DEFAULT):
        alike |= {"value": "<of the broker>", "config_source": DEFAULT}
    if "synonyms" in value:
        alike["synonyms"] = [
            synonym for synonym in value["synonyms"] or () if synonym["source"] < STATIC
        ]
    return alike


def _own_topics(value: Any, facts: Facts) -> Any:
    """Other kinds, and the topics of ListConfigResources' own cases."""
    prefix = f"{facts.prefix}ListConfigResources"
    return [
        resource
        for resource in value
        if resource["resource_type"] != 2 or prefix in resource["resource_name"]
    ]


def _without_others(value: Any, facts: Facts) -> Any:
    """What is answered about elections, without topics of other APIs' cases of which nothing is."""
    prefix = f"{facts.prefix}ElectLeaders"
    return [
        topic for topic in value if topic["partition_result"] or topic["topic"].startswith(prefix)
    ]


def _last_part(value: Any, facts: Facts) -> Any:
    return f"<directory>/{value.rpartition('/')[2]}" if value.startswith("/") else value


def _served_by_both(value: Any, facts: Facts) -> Any:
    """{API key: (lowest, highest)}, of the APIs that Kavka serves, from the first version that
    the newer judge serves on."""
    if not isinstance(value, list):
        return value
    served = {api.key: api.name for api in schemas.served_apis()}
    return {
        str(api["api_key"]): [
            max(api["min_version"], FIRST_IN_NEW.get(served[api["api_key"]], 0)),
            api["max_version"],
        ]
        for api in sorted(value, key=lambda api: api["api_key"])
        if api["api_key"] in served
    }


def _by_unique_name(value: Any, facts: Facts) -> Any:
    found = _by_name(value, facts)
    return found if isinstance(value, list) and len(found) == len(value) else value


def _by_name(value: Any, facts: Facts) -> Any:
    return {feature["name"]: feature for feature in value} if isinstance(value, list) else value


NATURE: Final = (
    Nature(
        "APIs and versions that only one of them serves",
        "api_keys",
        _served_by_both,
        "Kavka does not serve all APIs yet, and serves older versions than Kafka 4",
        api="ApiVersions",
    ),
    Nature(
        "features",
        "*_features",
        _by_name,
        "their order means nothing",
        api="ApiVersions",
    ),
    Nature(
        "the epoch of features",
        "finalized_features_epoch",
        _handed_out,
        "it grows when features change; in Kavka also at each start",
        api="ApiVersions",
    ),
    *(
        Nature(
            what,
            f"topics.*.{path}",
            made_alike,
            "how much a cluster has been through; Kavka counts transactions of its metadata, "
            "Apache Kafka records",
            api="DescribeQuorum",
        )
        for what, path, made_alike in (
            ("the quorum's epoch", "leader_epoch", _positive),
            ("the end of the metadata", "high_watermark", _positive),
            ("the end of the metadata", "log_end_offset", _positive),
            ("times of fetching", "last_*_timestamp", _now),
        )
    ),
    Nature("ports", "*port", _port, "each broker listens on a port of its own"),
    Nature("hosts", "*host", _host, "each broker has its own name"),
    *(
        Nature("ids of brokers", path, _broker_id, "each broker has its own")
        for path in (
            "*node_id",
            "*leader_id",
            "*controller_id",
            "*broker_id",
            "*replica_id",
            "*replica_nodes.?",
            "*isr_nodes.?",
            "*offline_replicas.?",
            "*replicas.?",
        )
    ),
    Nature("names of brokers", "*resource_name", _broker_s_name, "each broker has its own id"),
    Nature(
        "topics that other APIs' cases made",
        "topics",
        _without_topics_of_others,
        "some are kept and some are not",
        api="Metadata",
    ),
    Nature("cluster ids", "cluster_id", _cluster_id, "a cluster's id is drawn at random"),
    Nature(
        "ids of topics created by asking",
        "topics.*.topic_id",
        _known_or_any_id,
        "a topic's id is drawn at random (KIP-516)",
        api="Metadata",
    ),
    Nature("topic ids", "*topic_id", _topic_id, "a topic's id is drawn at random (KIP-516)"),
    Nature(
        "ids of new topics",
        "topics.*.topic_id",
        _any_id,
        "a topic's id is drawn at random (KIP-516)",
        api="CreateTopics",
    ),
    Nature(
        "waiting by quotas",
        "*throttle_time_ms",
        _of_quotas,
        "it is 0 only where no quota is violated, as the schemas of the responses say",
    ),
    Nature("times of appending", "*log_append_time_ms", _now, "the broker's clock"),
    Nature(
        "bounds of record times",
        "*.batch_index_error_message",
        _bounds,
        "they are those of the broker's clock",
        api="Produce",
    ),
    Nature("times in batches", "*records.*timestamp", _now, "the broker's clock"),
    Nature(
        "session ids",
        "session_id",
        _positive,
        "a fetch session's id is drawn at random (KIP-227)",
        api="Fetch",
    ),
    *(
        Nature(
            "partitions of the topic of offsets",
            path,
            _of_coordinators,
            "which one a group has depends on its name, and how many there are",
            api=api,
        )
        for api, path in (
            ("DescribeTransactions", "transaction_states.?.topics.?"),
            ("WriteTxnMarkers", "markers.?.topics.?"),
        )
    ),
    Nature(
        "producer ids",
        "producer_id",
        _handed_out,
        "which id comes next depends on who asked before",
        api="InitProducerId",
    ),
    Nature(
        "times of markers",
        "topics.*.timestamp",
        _now,
        "the broker's clock",
        api="ListOffsets",
    ),
    Nature(
        "starts of transactions",
        "transaction_states.*.transaction_start_time_ms",
        _now,
        "the broker's clock",
        api="DescribeTransactions",
    ),
    Nature(
        "coordinators' epochs",
        "topics.*.coordinator_epoch",
        _coordinator_epoch,
        "a coordinator has a higher one after each start of its broker",
        api="DescribeProducers",
    ),
    Nature(
        "coordinators' epochs",
        "*.records.?.control.?.?",
        _marker_s_epoch,
        "a coordinator has a higher one after each start of its broker",
        api="Fetch",
    ),
    Nature(
        "times of markers",
        "topics.*.last_timestamp",
        _now,
        "the broker's clock",
        api="DescribeProducers",
    ),
    Nature(
        "configs",
        "results.?.configs",
        _by_unique_name,
        "their order means nothing",
        api="DescribeConfigs",
    ),
    Nature(
        "documentation",
        "results.*.documentation",
        _text,
        "each broker explains its settings in its own words",
        api="DescribeConfigs",
    ),
    Nature(
        "min.insync.replicas for all brokers",
        "results.*.configs.*",
        _min_isr,
        "Apache Kafka sets it itself in a new cluster, for the elections of KRaft (KIP-966)",
        api="DescribeConfigs",
    ),
    Nature(
        "topics that other APIs' cases made",
        "replica_election_results",
        _without_others,
        "some are kept and some are not",
        api="ElectLeaders",
    ),
    Nature(
        "min.insync.replicas of new topics",
        "topics.*.configs.*",
        _min_isr,
        "Apache Kafka sets it itself in a new cluster, for the elections of KRaft (KIP-966)",
        api="CreateTopics",
    ),
    Nature(
        "topics that other APIs' cases made",
        "config_resources",
        _own_topics,
        "some are kept and some are not",
        api="ListConfigResources",
    ),
    Nature(
        "log directories",
        "results.*.log_dir",
        _last_part,
        "each broker has its own",
        api="DescribeLogDirs",
    ),
    Nature(
        "usable bytes",
        "results.*.usable_bytes",
        _positive,
        "others write to the same disk meanwhile",
        api="DescribeLogDirs",
    ),
    Nature(
        "logs that other APIs' cases made",
        "results.*.topics",
        _of_this_api,
        "sizes of what the broker compresses depend on the libraries that compress it",
        api="DescribeLogDirs",
    ),
    *(
        Nature(
            "what topics have from the broker",
            path,
            _inherited,
            "each broker is set as it is; compared between brokers that are set alike",
            api=api,
        )
        for api, path in (
            ("DescribeConfigs", "results.*.configs.*"),
            ("CreateTopics", "topics.?.configs.?"),
        )
    ),
)
