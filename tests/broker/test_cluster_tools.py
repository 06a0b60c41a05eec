"""Apache Kafka's own tools on a cluster: topics, reassignments, elections of leaders."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
from kafka import KafkaProducer

from kavka.testing import Cluster
from support import java
from support.java_tools import Tools, says_completed
from support.raw import RawConnection
from support.wait import eventually

TOPICS = "org.apache.kafka.tools.TopicCommand"
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
ELECT = "org.apache.kafka.tools.LeaderElectionCommand"
CONFIGS = "kafka.admin.ConfigCommand"
WITHIN_S = 120
RECORDS = 300


class Described(NamedTuple):
    """A partition, as kafka-topics shows it."""

    leader: int
    replicas: list[int]
    isr: list[int]


class Stage:
    """A cluster of four brokers, and the tools."""

    def __init__(self, cluster: Cluster, tools: Tools, home: Path) -> None:
        self.cluster = cluster
        self._tools = tools
        self._home = home

    def run(self, tool: str, *arguments: str) -> str:
        """What a tool prints. It must succeed."""
        done = self._tools.run(
            tool, "--bootstrap-server", self.cluster.bootstrap_servers, *arguments
        )
        assert done.exit_code == 0, done
        return done.text

    def file(self, name: str, content: object) -> str:
        path = self._home / name
        path.write_text(json.dumps(content))
        return str(path)

    def create(self) -> None:
        """Create t, with leaders 1 and 2. Every broker knows it then."""
        self.run(TOPICS, "--create", "--topic", "t", "--replica-assignment", "1:2,2:1")
        for address in self.cluster.addresses.values():
            eventually(partial(knows_t, address), within_s=WITHIN_S, what=f"{address} knows t")

    def await_described(self, condition: Callable[[list[Described]], bool]) -> None:
        """Wait for it: another broker may be asked than the controller, which knows it first."""
        eventually(
            lambda: condition(self.described()),
            within_s=WITHIN_S,
            what="t is described so",
            detail=lambda: str(self.described()),
        )

    def described(self) -> list[Described]:
        """The partitions of t."""
        shown = self.run(TOPICS, "--describe", "--topic", "t")
        pattern = r"Partition: (\d+)\s+Leader: (\d+|none)\s+Replicas: (\S+)\s+Isr: (\S*)"
        return [
            Described(
                int(leader), [*map(int, replicas.split(","))], sorted(map(int, isr.split(",")))
            )
            for _, leader, replicas, isr in re.findall(pattern, shown)
        ]

    def plan(self, *targets: Sequence[int]) -> str:
        """A file for kafka-reassign-partitions."""
        partitions = [
            {"topic": "t", "partition": index, "replicas": list(target)}
            for index, target in enumerate(targets)
        ]
        return self.file("plan.json", {"version": 1, "partitions": partitions})

    def is_reassigned(self, plan: str) -> bool:
        return says_completed(self.run(REASSIGN, "--verify", "--reassignment-json-file", plan))

    def directories(self, number: int) -> set[str]:
        """The partitions of t that a broker has stored."""
        return {directory.name for directory in self.cluster.data_dir(number).glob("t-?")}

    def configs(self, kind: str, name: str) -> str:
        """The configs that a broker or a topic has of its own."""
        return self.run(CONFIGS, "--describe", "--entity-type", kind, "--entity-name", name)

    def await_configs(self, kind: str, name: str, *expected: str) -> None:
        """Wait until the broker that is asked has heard of them."""
        eventually(
            lambda: all(config in self.configs(kind, name) for config in expected),
            within_s=WITHIN_S,
            what=f"{kind} {name} has {expected}",
            detail=lambda: self.configs(kind, name),
        )

    def await_no_throttle(self, kind: str, name: str) -> None:
        """The same of what was taken away."""
        eventually(
            lambda: "throttled" not in self.configs(kind, name),
            within_s=WITHIN_S,
            what=f"{kind} {name} is not throttled",
            detail=lambda: self.configs(kind, name),
        )

    def write(self, first: int, padding: bytes = b"") -> None:
        """Some records, which may be bigger than their numbers."""
        producer = KafkaProducer(
            bootstrap_servers=self.cluster.bootstrap_servers, acks="all", retries=1000
        )
        try:
            sent = [
                producer.send("t", b"%d" % number, key=padding, partition=number % 2)
                for number in range(first, first + RECORDS)
            ]
            for future in sent:
                future.get(timeout=WITHIN_S)
        finally:
            producer.close()

    def values(self) -> list[int]:
        return sorted(int(record.value or b"") for record in self.cluster.read("t"))


def knows_t(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with RawConnection(host, int(port)) as connection:
        fields = {"topics": [{"name": "t"}], "allow_auto_topic_creation": False}
        answer = connection.request("Metadata", 4, **fields)
    (topic,) = answer["topics"]
    return {partition["error_code"] for partition in topic["partitions"]} == {0}


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    java.program("java")
    with Cluster(4, auto_leader_rebalance_enable=False) as cluster:
        with Tools(tmp_path / "tools.log") as tools:
            yield Stage(cluster, tools, tmp_path)


def has_replicas(targets: Sequence[Sequence[int]], described: list[Described]) -> bool:
    return [partition.replicas for partition in described] == [*targets]


def has_leaders(leaders: list[int], described: list[Described]) -> bool:
    return [partition.leader for partition in described] == leaders


def test_partitions_are_reassigned(stage: Stage) -> None:
    stage.create()
    assert stage.described() == [Described(1, [1, 2], [1, 2]), Described(2, [2, 1], [1, 2])]
    stage.write(0)
    for targets in ([3, 4], [4, 3]), ([3], [1, 2, 3]), ([1, 2, 3, 4], [2]):
        plan = stage.plan(*targets)
        shown = stage.run(REASSIGN, "--execute", "--reassignment-json-file", plan)
        assert "Successfully started partition reassignments for t-0,t-1" in shown
        eventually(partial(stage.is_reassigned, plan), within_s=WITHIN_S, what="reassigned")
        stage.await_described(partial(has_replicas, targets))
    eventually(
        lambda: "No partition reassignments found." in stage.run(REASSIGN, "--list"),
        within_s=WITHIN_S,
        what="no reassignment is listed",
    )
    stage.write(RECORDS)
    assert stage.values() == list(range(2 * RECORDS))
    for number in (1, 2, 3, 4):
        expected = {f"t-{index}" for index in (0, 1) if index == 0 or number == 2}
        eventually(
            lambda: stage.directories(number) == expected,  # noqa: B023 - called here
            within_s=WITHIN_S,
            what=f"broker {number} has {expected} and no more",
            detail=lambda: str(stage.directories(number)),  # noqa: B023
        )


def test_a_reassignment_is_throttled(stage: Stage) -> None:
    """The tool sets the throttle, another --execute changes it, and --verify takes it away."""
    stage.create()
    stage.write(0, bytes(10_000))
    plan = stage.plan([3, 4], [4, 3])
    arguments = ("--reassignment-json-file", plan)
    stage.run(REASSIGN, "--execute", *arguments, "--throttle", "10")
    assert not stage.is_reassigned(plan)
    for broker in (1, 2, 3, 4):
        stage.await_configs("brokers", str(broker), "replication.throttled.rate=10")
    stage.await_configs(
        "topics",
        "t",
        "leader.replication.throttled.replicas=0:1,0:2,1:1,1:2",
        "follower.replication.throttled.replicas=0:3,0:4,1:3,1:4",
    )
    stage.run(REASSIGN, "--execute", *arguments, "--additional", "--throttle", "100000000")
    eventually(partial(stage.is_reassigned, plan), within_s=WITHIN_S, what="reassigned")
    for broker in (1, 2, 3, 4):
        stage.await_no_throttle("brokers", str(broker))
    stage.await_no_throttle("topics", "t")
    assert stage.values() == list(range(RECORDS))


def test_a_reassignment_is_cancelled(stage: Stage) -> None:
    stage.create()
    stage.write(0)
    stage.cluster.partition(1, from_=[3])  # it can't follow
    plan = stage.plan([1, 3], [2, 1])
    stage.run(REASSIGN, "--execute", "--reassignment-json-file", plan)
    shown = stage.run(REASSIGN, "--list")
    assert "t-0: replicas: 1,3,2. adding: 3. removing: 2." in shown
    shown = stage.run(REASSIGN, "--cancel", "--reassignment-json-file", plan)
    assert "Successfully cancelled partition reassignment for: t-0" in shown
    stage.cluster.heal()
    stage.await_described(partial(has_replicas, [[1, 2], [2, 1]]))
    assert stage.values() == list(range(RECORDS))


def test_preferred_leaders_are_elected(stage: Stage) -> None:
    stage.create()
    stage.cluster.kill(1)
    eventually(
        lambda: stage.cluster.leader_of("t", 0) == 2, within_s=WITHIN_S, what="another leader"
    )
    stage.cluster.start(1)
    stage.cluster.wait_until_in_sync("t")
    stage.await_described(partial(has_leaders, [2, 2]))
    elections = stage.file("election.json", {"partitions": [{"topic": "t", "partition": 0}]})
    shown = stage.run(ELECT, "--election-type", "PREFERRED", "--path-to-json-file", elections)
    assert "Successfully completed leader election (PREFERRED) for partitions t-0" in shown
    stage.await_described(partial(has_leaders, [1, 2]))
