"""Topics for programs: JSON and CSV; and which partitions a report has."""

from __future__ import annotations

import csv
import io
import json
from uuid import UUID

import pytest

from kavka.tools.admin.topic_descriptions import Partition, Topic
from kavka.tools.admin.topic_reports import Chosen, print_names, print_topics

ALL = Chosen(only_overrides=False, reports=frozenset())
TOPIC = Topic(
    "t",
    UUID(int=1),
    [
        Partition(0, 1, [1, 2], [1, 2], [], [], None, None),
        Partition(1, 2, [2, 1, 3], [2], None, None, [3], [1]),
        Partition(2, None, [3, 1], [3], [1], [], None, None),
    ],
    {"retention.ms": "5"},
    2,
)
PLAIN = Topic("u", UUID(int=0), [Partition(0, 1, [1], [1], [], [], None, None)], {}, 1)


def shown(capsys: pytest.CaptureFixture[str], chosen: Chosen, form: str | None) -> str:
    print_topics([TOPIC, PLAIN], chosen, {1, 2}, form)
    return capsys.readouterr().out


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    topics = json.loads(shown(capsys, ALL, "json"))["topics"]
    assert [topic["name"] for topic in topics] == ["t", "u"]
    assert topics[0]["topicId"] == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert topics[0]["configs"] == {"retention.ms": "5"}
    second = topics[0]["partitions"][1]
    assert second == {
        "partition": 1,
        "leader": 2,
        "replicas": [2, 1, 3],
        "isr": [2],
        "elr": None,
        "lastKnownElr": None,
        "addingReplicas": [3],
        "removingReplicas": [1],
    }
    assert topics[0]["partitions"][2]["leader"] is None


def test_csv(capsys: pytest.CaptureFixture[str]) -> None:
    rows = list(csv.DictReader(io.StringIO(shown(capsys, ALL, "csv"))))
    assert [(row["topic"], row["partition"], row["replicas"]) for row in rows] == [
        ("t", "0", "1 2"),
        ("t", "1", "2 1 3"),
        ("t", "2", "3 1"),
        ("u", "0", "1"),
    ]
    assert rows[2]["leader"] == ""


@pytest.mark.parametrize(
    ("report", "partitions"),
    [
        ("under-replicated-partitions", ["t 1", "t 2"]),
        ("unavailable-partitions", ["t 2"]),
        ("under-min-isr-partitions", ["t 1", "t 2"]),
        ("at-min-isr-partitions", ["t 0", "u 0"]),
    ],
)
def test_reports(report: str, partitions: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """What a reassignment adds does not make a partition under-replicated by itself."""
    rows = csv.DictReader(io.StringIO(shown(capsys, Chosen(False, frozenset({report})), "csv")))
    assert [f"{row['topic']} {row['partition']}" for row in rows] == partitions


def test_json_of_a_report_has_no_topic_without_such_a_partition(
    capsys: pytest.CaptureFixture[str],
) -> None:
    chosen = Chosen(False, frozenset({"unavailable-partitions"}))
    (topic,) = json.loads(shown(capsys, chosen, "json"))["topics"]
    assert (topic["name"], [partition["partition"] for partition in topic["partitions"]]) == (
        "t",
        [2],
    )


def test_text_of_a_reassignment(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys, ALL, None).splitlines()
    assert lines[0].endswith("PartitionCount: 3\tReplicationFactor: 2\tConfigs: retention.ms=5")
    assert (
        "\tIsr: 2\tAdding Replicas: 3\tRemoving Replicas: 1\tElr: N/A\tLastKnownElr: N/A"
        in (lines[2])
    )
    assert lines[3].startswith("\tTopic: t\tPartition: 2\tLeader: none\t")
    assert lines[4].startswith("Topic: u\tPartitionCount: 1\t"), "zeros are no id"


def test_only_topics_with_configs_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert [
        line.split("\t")[0] for line in shown(capsys, Chosen(True, frozenset()), None).splitlines()
    ] == ["Topic: t"]


def test_names(capsys: pytest.CaptureFixture[str]) -> None:
    for form, text in (
        (None, "a\nb\n"),
        ("json", '{"topics": ["a", "b"]}\n'),
        ("csv", "topic\na\nb\n"),
    ):
        print_names(["a", "b"], form)
        assert capsys.readouterr().out == text
