"""How topics are printed: in Apache Kafka's form, as JSON, as CSV."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence, Set
from typing import Any, NamedTuple

from kavka.tools.admin.printing import joined, print_csv
from kavka.tools.admin.topic_descriptions import NO_ID, Partition, Topic, id_text

COLUMNS = ("topic", "topicId", "partition", "leader", "replicas", "isr", "elr", "lastKnownElr")


class Chosen(NamedTuple):
    """What of the topics is to be printed."""

    only_overrides: bool
    reports: frozenset[str]
    """Partitions in one of these states only; all if empty."""

    def takes(self, topic: Topic, partition: Partition, live: Set[int]) -> bool:
        """Whether a partition is in one of the states."""
        in_sync, leader = len(partition.isr), partition.leader
        states = {
            "under-replicated-partitions": Topic.factor_of(partition) > in_sync,
            "unavailable-partitions": leader is None or leader not in live,
            "under-min-isr-partitions": leader is None or in_sync < topic.least_isr,
            "at-min-isr-partitions": in_sync == topic.least_isr,
        }
        return not self.reports or any(states[report] for report in self.reports)


def print_names(names: Sequence[str], form: str | None) -> None:
    """Topics' names: a line each; {"topics": [names]}; a column."""
    if form == "json":
        print(json.dumps({"topics": list(names)}))
    elif form == "csv":
        print_csv(["topic"], ([name] for name in names))
    else:
        print("\n".join(names))


def print_topics(topics: Sequence[Topic], chosen: Chosen, live: Set[int], form: str | None) -> None:
    """Topics with their partitions. `live`: the ids of live brokers."""
    if form == "json":
        found = [_document(topic, chosen, live) for topic in topics if _is_shown(topic, chosen)]
        shown = [document for document in found if document["partitions"] or not chosen.reports]
        print(json.dumps({"topics": shown}))
    elif form == "csv":
        print_csv(COLUMNS, _rows(topics, chosen, live))
    else:
        for topic in topics:
            for line in _lines(topic, chosen, live):
                print(line)


def _is_shown(topic: Topic, chosen: Chosen) -> bool:
    return bool(topic.configs) or not chosen.only_overrides


def _lines(topic: Topic, chosen: Chosen, live: Set[int]) -> Iterator[str]:
    if not chosen.reports and _is_shown(topic, chosen):
        configs = ",".join(f"{key}={value}" for key, value in topic.configs.items())
        parts = [
            f"Topic: {topic.name}",
            *([] if topic.topic_id == NO_ID else [f"TopicId: {id_text(topic.topic_id)}"]),
            f"PartitionCount: {len(topic.partitions)}",
            f"ReplicationFactor: {topic.replication_factor}",
            f"Configs: {configs}",
        ]
        yield "\t".join(parts)
    if chosen.only_overrides:
        return
    for partition in topic.partitions:
        if not chosen.takes(topic, partition, live):
            continue
        parts = [
            f"\tTopic: {topic.name}",
            f"Partition: {partition.number}",
            f"Leader: {'none' if partition.leader is None else partition.leader}",
            f"Replicas: {joined(partition.replicas)}",
            f"Isr: {joined(partition.isr)}",
        ]
        if partition.adding is not None:
            parts += [
                f"Adding Replicas: {joined(partition.adding)}",
                f"Removing Replicas: {joined(partition.removing or ())}",
            ]
        parts += [
            f"Elr: {_known(partition.elr)}",
            f"LastKnownElr: {_known(partition.last_known_elr)}",
        ]
        yield "\t".join(parts)


def _document(topic: Topic, chosen: Chosen, live: Set[int]) -> dict[str, Any]:
    return {
        "name": topic.name,
        "topicId": id_text(topic.topic_id),
        "replicationFactor": topic.replication_factor,
        "configs": dict(topic.configs),
        "partitions": [
            {
                "partition": partition.number,
                "leader": partition.leader,
                "replicas": list(partition.replicas),
                "isr": list(partition.isr),
                "elr": _listed(partition.elr),
                "lastKnownElr": _listed(partition.last_known_elr),
                "addingReplicas": list(partition.adding or ()),
                "removingReplicas": list(partition.removing or ()),
            }
            for partition in topic.partitions
            if chosen.takes(topic, partition, live)
        ],
    }


def _rows(topics: Sequence[Topic], chosen: Chosen, live: Set[int]) -> Iterator[list[Any]]:
    for topic in topics:
        for partition in topic.partitions if _is_shown(topic, chosen) else ():
            if chosen.takes(topic, partition, live):
                numbers = (
                    partition.replicas,
                    partition.isr,
                    partition.elr or (),
                    partition.last_known_elr or (),
                )
                yield [
                    topic.name,
                    id_text(topic.topic_id),
                    partition.number,
                    "" if partition.leader is None else partition.leader,
                    *(" ".join(map(str, some)) for some in numbers),
                ]


def _known(numbers: Sequence[int] | None) -> str:
    return "N/A" if numbers is None else joined(numbers)


def _listed(numbers: Sequence[int] | None) -> list[int] | None:
    return None if numbers is None else list(numbers)
