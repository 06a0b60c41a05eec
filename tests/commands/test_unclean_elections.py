"""`kavka leader-election`, and Apache Kafka's own tool, on three brokers of either kind: no replica
in sync is left, and one that has missed records may lead, until the preferred one is in sync
again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from commands.sessions import apache_kafka, difference, kavka
from kavka.tools.admin import leader_election, topics
from support import java, kavka_cluster, kraft_cluster
from support.java_tools import Tools
from support.ports import HOST
from support.process import BrokerProcess
from support.raw import RawConnection
from support.wait import eventually

LEADER_ELECTION = "org.apache.kafka.tools.LeaderElectionCommand"
WITHIN_S = 120.0
TOPICS = ("java", "kavka")
"""Each tool has a topic of its own."""

CREATE = (
    "--create --topic {} --replica-assignment 2:3 --config unclean.leader.election.enable=false"
)
PREFERRED = "--election-type preferred --topic TOPIC --partition 0"
UNCLEAN = "--election-type unclean --topic TOPIC --partition 0"
SETTINGS = {"auto.leader.rebalance.enable": "false", "zookeeper.session.timeout.ms": "6000"}
KEPT, LOST = b"both replicas have it", b"only the leader has it"


@contextmanager
def kavka_members(home: Path) -> Iterator[Sequence[BrokerProcess]]:
    with kavka_cluster.serving(home, SETTINGS) as cluster:
        yield cluster.members


@contextmanager
def apache_members(home: Path) -> Iterator[Sequence[BrokerProcess]]:
    with kraft_cluster.serving(home, lambda _: SETTINGS) as members:
        yield members


def write(broker: BrokerProcess, value: bytes, acks: str) -> None:
    """A record in each topic."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": acks})
    for topic in TOPICS:
        producer.produce(topic, value, partition=0)
    assert producer.flush(WITHIN_S) == 0


def read(broker: BrokerProcess, topic: str) -> list[bytes | None]:
    """All that can be read from a topic."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        found: list[bytes | None] = []
        while True:
            message = consumer.poll(WITHIN_S)
            assert message is not None, found
            if message.error():
                return found
            found.append(message.value())
    finally:
        consumer.close()


def await_kept(broker: BrokerProcess) -> None:
    """Wait until both topics have what both replicas have. A leader has a high watermark only when
    its follower has fetched, which metadata does not tell."""
    eventually(
        lambda: [read(broker, topic) for topic in TOPICS] == [[KEPT], [KEPT]],
        within_s=WITHIN_S,
        what="the kept record is read",
        detail=lambda: str([read(broker, topic) for topic in TOPICS]),
    )


def await_led(broker: BrokerProcess, alive: set[int], leader: int, isr: list[int] | None) -> None:
    """Wait until a broker knows who is there, and that both topics are led so."""

    def known() -> tuple[set[int], list[tuple[int, list[int]]]]:
        more = ("allow_auto_topic_creation", "include_cluster_authorized_operations")
        flags = dict.fromkeys((*more, "include_topic_authorized_operations"), False)
        with RawConnection(HOST, broker.port) as connection:
            requested = [{"name": topic} for topic in TOPICS]
            answer = connection.request("Metadata", 8, topics=requested, **flags)
        led = [
            (partition["leader_id"], sorted(partition["isr_nodes"]))
            for topic in answer["topics"]
            for partition in topic["partitions"]
        ]
        return {node["node_id"] for node in answer["brokers"]}, led

    def is_so() -> bool:
        brokers, led = known()
        return brokers == alive and [
            (found, in_sync if isr is not None else None) for found, in_sync in led
        ] == [(leader, isr)] * len(TOPICS)

    eventually(is_so, within_s=WITHIN_S, what=f"{leader} leads", detail=lambda: str(known()))


@pytest.mark.parametrize("serving", [kavka_members, apache_members], ids=["kavka", "apache"])
def test_a_replica_out_of_sync_is_elected(
    serving: Callable[[Path], AbstractContextManager[Sequence[BrokerProcess]]], tmp_path: Path
) -> None:
    java.program("java")
    with serving(tmp_path / "cluster") as members, Tools(tmp_path / "tools.log") as tools:
        bystander, leader, follower = members
        for topic in TOPICS:
            assert kavka(topics.TOOL, bystander, CREATE.format(topic)).exit_code == 0
        await_led(bystander, {1, 2, 3}, leader=2, isr=[2, 3])
        write(bystander, KEPT, "all")
        follower.stop()
        await_led(bystander, {1, 2}, leader=2, isr=[2])
        write(bystander, LOST, "1")
        leader.kill()
        await_led(bystander, {1}, leader=-1, isr=None)
        follower.start()
        await_led(bystander, {1, 3}, leader=-1, isr=None)

        def said(line: str) -> tuple[int, str]:
            """What both tools say."""
            theirs = apache_kafka(tools, LEADER_ELECTION, bystander, line.replace("TOPIC", "java"))
            ours = kavka(leader_election.TOOL, bystander, line.replace("TOPIC", "kavka"))
            expected = theirs._replace(stdout=theirs.stdout.replace("java-0", "kavka-0"))
            assert not [*difference(line, ours, expected)]
            return ours.exit_code, ours.stdout

        assert said(PREFERRED)[0] == 1
        assert said(UNCLEAN) == (
            0,
            "Successfully completed leader election (UNCLEAN) for partitions kavka-0\n",
        )
        assert said(UNCLEAN) == (0, "Valid replica already elected for partitions kavka-0\n")
        await_led(bystander, {1, 3}, leader=3, isr=[3])
        leader.start()
        await_led(bystander, {1, 2, 3}, leader=3, isr=[2, 3])
        await_kept(bystander)
        assert said(PREFERRED) == (
            0,
            "Successfully completed leader election (PREFERRED) for partitions kavka-0\n",
        )
        await_led(bystander, {1, 2, 3}, leader=2, isr=[2, 3])
        await_kept(bystander)
