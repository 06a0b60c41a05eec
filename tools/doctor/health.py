"""Judges partitions, leaders, log directories and the topics of the coordinators."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from kavka.tools.doctor.findings import Finding, error, ok, warning
from kavka.wire.apis.metadata import MetadataResponse, PartitionResponse
from kavka.wire.errors import ErrorCode

PARTITIONS: Final = "partitions"
LEADERS: Final = "leaders"
LOG_DIRS: Final = "log-dirs"
COORDINATORS: Final = "coordinators"

SHOWN_MAX: Final = 5
IMBALANCE_MAX: Final = 0.10
"""Share of a broker's preferred partitions that others lead: the controller mends more than this
(leader.imbalance.per.broker.percentage)."""

FULL_SHARE: Final = 0.01
FULL_BYTES: Final = 64 << 20
NEARLY_FULL_SHARE: Final = 0.05

Configs: TypeAlias = Mapping[str, str | None]
PartitionOfTopic: TypeAlias = tuple[str, PartitionResponse]

INTERNAL: Final = (
    (
        "__consumer_offsets",
        "offsets.topic.replication.factor",
        "no consumer group works",
    ),
    (
        "__transaction_state",
        "transaction.state.log.replication.factor",
        "no transactional producer works",
    ),
)


def named(names: Iterable[object]) -> str:
    """Some of them, and how many more there are."""
    every = [str(name) for name in names]
    more = len(every) - SHOWN_MAX
    return ", ".join(every[:SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")


def judge_partitions(found: MetadataResponse, configs: Mapping[str, Configs]) -> list[Finding]:
    """Which have no leader, too few replicas in sync for writes, or fewer than they should."""
    partitions = [
        (topic.name or "", partition) for topic in found.topics for partition in topic.partitions
    ]
    offline = [
        topic_partition for topic_partition in partitions if topic_partition[1].leader_id < 0
    ]
    blocked = [
        topic_partition
        for topic_partition in partitions
        if topic_partition[1].leader_id >= 0
        and len(topic_partition[1].isr_nodes) < _least(configs, topic_partition)
    ]
    behind = [
        topic_partition
        for topic_partition in partitions
        if topic_partition[1].leader_id >= 0
        and len(topic_partition[1].isr_nodes) < len(topic_partition[1].replica_nodes)
        and topic_partition not in blocked
    ]
    findings = []
    if offline:
        findings.append(
            error(
                PARTITIONS,
                "offline",
                _names(offline),
                "have no leader: nothing can be written to them or read",
                f"start their replicas: {_missing(offline, found)}; if those are lost for good, "
                "kavka leader-election --election-type unclean takes another, and loses records",
            )
        )
    if blocked:
        findings.append(
            error(
                PARTITIONS,
                "under-min-isr",
                _names(blocked),
                "have fewer replicas in sync than min.insync.replicas: writes with acks=all fail",
                _mend(blocked, found),
            )
        )
    if behind:
        findings.append(
            warning(
                PARTITIONS,
                "under-replicated",
                _names(behind),
                "have replicas that are not in sync",
                _mend(behind, found),
            )
        )
    if findings:
        return findings
    return [ok(PARTITIONS, "all", f"{len(partitions)} have a leader and their replicas in sync")]


def _least(configs: Mapping[str, Configs], topic_partition: PartitionOfTopic) -> int:
    """How many replicas must be in sync for writes; brokers ask for no more than there are."""
    topic, partition = topic_partition
    least = int(configs.get(topic, {}).get("min.insync.replicas") or 1)
    return min(least, len(partition.replica_nodes))


def _mend(partitions: Sequence[PartitionOfTopic], found: MetadataResponse) -> str:
    gone = _missing(partitions, found)
    if gone == "none":
        return (
            "all brokers of these replicas are up: look at their logs, their disks and "
            "replica.lag.time.max.ms, or add replicas by kavka reassign-partitions"
        )
    return f"start the brokers that are down: {gone}"


def _missing(partitions: Sequence[PartitionOfTopic], found: MetadataResponse) -> str:
    live = {broker.node_id for broker in found.brokers}
    gone = sorted(
        {broker_id for _, partition in partitions for broker_id in partition.replica_nodes} - live
    )
    return ", ".join(f"broker {broker_id}" for broker_id in gone) or "none"


def _names(partitions: Sequence[PartitionOfTopic]) -> str:
    return named(f"{topic}-{partition.partition_index}" for topic, partition in partitions)


def judge_leaders(found: MetadataResponse) -> list[Finding]:
    """Whether there is a controller, and whether leaders are where they were meant to be."""
    findings = []
    if found.controller_id < 0:
        findings.append(
            error(
                LEADERS,
                "no-controller",
                "the cluster",
                "has no controller: leaders are not replaced and topics not created",
                "look at the logs of the controllers, and whether a majority of them (or ZooKeeper)"
                " runs",
            )
        )
    preferred: Counter[int] = Counter()
    led_elsewhere: defaultdict[int, list[PartitionOfTopic]] = defaultdict(list)
    for topic in found.topics:
        for partition in topic.partitions:
            if len(partition.replica_nodes) < 2:
                continue
            first = partition.replica_nodes[0]
            preferred[first] += 1
            if (
                partition.leader_id != first
                and partition.leader_id >= 0
                and first in partition.isr_nodes
            ):
                led_elsewhere[first].append((topic.name or "", partition))
    for broker, partitions in sorted(led_elsewhere.items()):
        if len(partitions) > preferred[broker] * IMBALANCE_MAX:
            findings.append(
                warning(
                    LEADERS,
                    "imbalance",
                    f"broker {broker}",
                    f"leads {preferred[broker] - len(partitions)} of the {preferred[broker]} "
                    "partitions that it is the preferred leader of; others lead "
                    f"{_names(partitions)}",
                    "kavka leader-election --election-type preferred --all-topic-partitions; "
                    "auto.leader.rebalance.enable=true does it every "
                    "leader.imbalance.check.interval.seconds",
                )
            )
    return findings or [ok(LEADERS, "all", "are where they are meant to be")]


def judge_log_dirs(by_broker: Mapping[int, Any]) -> list[Finding]:
    """Which directories failed, and which are full. The answers to DescribeLogDirs, by broker."""
    findings = []
    count = 0
    for broker, response in by_broker.items():
        for directory in response.results:
            count += 1
            findings += _directory(f"broker {broker}, {directory.log_dir}", directory)
    return findings or [ok(LOG_DIRS, "all", f"{count} work, and have room")]


def _directory(subject: str, directory: Any) -> list[Finding]:
    if directory.error_code:
        return [
            error(
                LOG_DIRS,
                "dead",
                subject,
                f"failed ({ErrorCode(directory.error_code).name}): its partitions are offline "
                "there",
                "look at the broker's log and the disk (dmesg); mend or replace it, and restart "
                "the broker: the replicas are copied again",
            )
        ]
    total, usable = directory.total_bytes, directory.usable_bytes
    if total <= 0 or usable < 0:
        return []
    left = f"has {_size(usable)} of {_size(total)} left"
    advice = (
        "delete what is not needed, lower retention.ms or retention.bytes of the largest topics "
        "(kavka log-dirs shows them), or add disk space"
    )
    if usable < max(total * FULL_SHARE, min(FULL_BYTES, total / 10)):
        return [
            error(LOG_DIRS, "full", subject, f"{left}: the broker stops when it is full", advice)
        ]
    if usable < total * NEARLY_FULL_SHARE:
        return [warning(LOG_DIRS, "nearly-full", subject, left, advice)]
    return []


def _size(number: int) -> str:
    size, units = float(number), iter(("bytes", "KiB", "MiB", "GiB", "TiB", "PiB"))
    unit = next(units)
    while size >= 1024 and unit != "PiB":
        size, unit = size / 1024, next(units)
    return f"{size:.3g} {unit}"


def judge_internal_topics(found: MetadataResponse, configs: Configs) -> list[Finding]:
    """Whether the topics of the coordinators can be created, where they are not there yet."""
    there = {topic.name for topic in found.topics if topic.partitions}
    findings = []
    for topic, key, consequence in INTERNAL:
        factor = configs.get(key)
        if topic in there or factor is None or int(factor) <= len(found.brokers):
            continue
        findings.append(
            error(
                COORDINATORS,
                "too-few-brokers",
                topic,
                f"can't be created: {key}={factor}, and brokers that run: {len(found.brokers)}; "
                f"until then {consequence}",
                f"start more brokers, or set {key}={len(found.brokers)} and restart the brokers",
            )
        )
    return findings or [ok(COORDINATORS, "topics", "are there, or can be created")]
