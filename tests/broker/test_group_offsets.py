"""Groups that find new topics by a regular expression, and groups that are set back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.structs import OffsetAndMetadata

from support.broker import broker_kind, finish
from support.clients.kafka_python import create_topic
from support.groups.clients import BROKER_SETTINGS, KAFKAJS, GroupClient, clients_of
from support.groups.members import Host, Story, now_ms, processes
from support.groups.traffic import committed
from support.java_tools import Tools
from support.process import BrokerProcess
from support.wait import eventually

WITHIN_S = 120.0
RECORDS = 20
SESSION_MS = "30000"
POLL_MS = 5000
"""Long: where one of kafka-python ends while its group is joined, the assignment may be lost."""
STEP_MS = 60_000
"""Between the timestamps of two records."""
BASE_MS = now_ms() // STEP_MS * STEP_MS - 2 * RECORDS * STEP_MS
"""Of the first; not so long ago that it would be deleted for its age."""
CONSUMER_GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"

CLIENTS = clients_of(broker_kind())
FINDS_NEW_TOPICS = [client for client in CLIENTS if client is not KAFKAJS]
"""KafkaJS looks for the topics of a regular expression once, when it subscribes."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One for all tests here: each has topics and a group of its own."""
    settings = {
        **BROKER_SETTINGS,
        "group.consumer.regex.refresh.interval.ms": "10000",
        "group.consumer.session.timeout.ms": SESSION_MS,
    }
    shared = broker_kind()(tmp_path_factory.mktemp("groups"), settings)
    try:
        yield shared.start()
    finally:
        finish(shared)


def fill(bootstrap: str, topic: str, partitions: int = 1) -> dict[str, int]:
    """A new topic, with RECORDS a minute apart in each partition; the ends of these."""
    create_topic(bootstrap, topic, partitions)
    with closing(KafkaProducer(bootstrap_servers=bootstrap, acks="all")) as producer:
        for number in range(RECORDS):
            for partition in range(partitions):
                at_ms = BASE_MS + number * STEP_MS
                producer.send(topic, b"%d" % number, partition=partition, timestamp_ms=at_ms)
        producer.flush()
    return {f"{topic}/{partition}": RECORDS for partition in range(partitions)}


class Alone:
    """A process with one member in a group named after the topic."""

    def __init__(self, client: GroupClient, bootstrap: str, topic: str, home: Path) -> None:
        self.story = Story()
        self.group = topic.strip("^.")
        settings = dict(client.refresh) if topic.startswith("^") else {}
        if "session.timeout.ms" in client.settings:
            settings["session.timeout.ms"] = SESSION_MS  # none dies: it may wait for its turn
        errors = home / "members.err"
        self.host = Host(client, bootstrap, topic, self.story, errors, settings)
        self.host.join("alone", self.group)

    def processes(self, ends: dict[str, int]) -> None:
        """Wait until all in front of these is processed and committed."""
        self.wait(lambda: self.story.ask(self.group, processes(ends)), f"{ends} processed")
        self.wait(
            lambda: self.story.ask(
                self.group, lambda progress: ends.items() <= progress.committed.items()
            ),
            f"{ends} committed",
        )

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        eventually(condition, within_s=WITHIN_S, what=what, detail=self.host.tail)


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Callable[[GroupClient, str, str], Alone]]:
    """Start such processes."""
    started: list[Alone] = []

    def start(client: GroupClient, bootstrap: str, topic: str) -> Alone:
        started.append(Alone(client, bootstrap, topic, tmp_path))
        return started[-1]

    yield start
    for process in started:
        process.host.close()


@pytest.mark.parametrize("client", FINDS_NEW_TOPICS, ids=lambda client: client.name)
def test_a_regular_expression_finds_a_later_topic(
    broker: BrokerProcess,
    client: GroupClient,
    alone: Callable[[GroupClient, str, str], Alone],
) -> None:
    prefix = f"found.{client.name}."
    early = fill(broker.bootstrap, f"{prefix}early", 2)
    member = alone(client, broker.bootstrap, f"^{prefix}.*")
    member.processes(early)
    fill(broker.bootstrap, f"not.{prefix}early")
    later = fill(broker.bootstrap, f"{prefix}later", 2)
    member.processes({**early, **later})
    member.host.finish()
    assert set(member.story.groups[member.group].owners) == {*early, *later}
    assert member.story.of("left")


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_a_member_seeks_back(
    broker: BrokerProcess,
    client: GroupClient,
    alone: Callable[[GroupClient, str, str], Alone],
) -> None:
    topic = f"back.{client.name}"
    ends = fill(broker.bootstrap, topic)
    member = alone(client, broker.bootstrap, topic)
    member.processes(ends)

    def times_read(offset: int) -> int:
        ranges = [span for event in member.story.of("read") for span in event.ranges]
        return sum(first <= offset <= last for _, first, last in ranges)

    def commits_of_end() -> int:
        return sum(event.offsets == ends for event in member.story.of("committed"))

    for turn, offset in enumerate((5, 0), start=2):
        member.host.seek("alone", f"{topic}/0", offset)
        member.wait(lambda turn=turn: commits_of_end() == turn, f"read again from {offset}")  # type: ignore[misc]
    assert [times_read(offset) for offset in (0, 4, 5, RECORDS - 1)] == [2, 2, 3, 3]
    member.host.finish()
    assert committed(broker.bootstrap, topic, topic, 1) == ends


def opened(broker: BrokerProcess, topic: str) -> KafkaConsumer:
    """kafka-python's consumer in the group of a topic's name."""
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=broker.bootstrap,
        group_id=topic,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        session_timeout_ms=int(SESSION_MS),
    )
    consumer.topics()  # a leader that does not know the topic yet may assign nothing, for ever
    return consumer


def next_read(consumer: KafkaConsumer) -> int:
    """The offset of the next record."""

    def poll() -> list[Any]:
        found = consumer.poll(POLL_MS, max_records=1)
        return [message for records in found.values() for message in records]

    [record] = eventually(poll, within_s=WITHIN_S, what="a record")
    offset: int = record.offset
    return offset


def test_rewinding_from_a_client(broker: BrokerProcess, topic: str) -> None:
    fill(broker.bootstrap, topic)
    at = TopicPartition(topic, 0)
    with closing(opened(broker, topic)) as consumer:
        assert next_read(consumer) == 0
        consumer.seek_to_end(at)
        assert consumer.position(at) == RECORDS
        consumer.commit()
        consumer.seek_to_beginning(at)
        assert next_read(consumer) == 0
        consumer.seek(at, 7)
        assert next_read(consumer) == 7
        found = consumer.offsets_for_times({at: BASE_MS + 12 * STEP_MS - 1})[at]
        assert found.offset == 12
        assert consumer.committed(at) == RECORDS
        consumer.commit({at: OffsetAndMetadata(found.offset, "back by time", -1)})
    with closing(opened(broker, topic)) as consumer:
        assert next_read(consumer) == 12
        assert consumer.committed(at, metadata=True).metadata == "back by time"


def test_rewinding_a_group_without_members(broker: BrokerProcess, topic: str) -> None:
    fill(broker.bootstrap, topic)
    at = confluent_kafka.TopicPartition(topic, 0, 3)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})

    def alter() -> Any:
        requests = [ConsumerGroupTopicPartitions(topic, [at])]
        return admin.alter_consumer_group_offsets(requests)[topic].result(WITHIN_S)

    with closing(opened(broker, topic)) as consumer:
        assert next_read(consumer) == 0
        [refused] = alter().topic_partitions
        assert refused.error.name() == "UNKNOWN_MEMBER_ID"
        consumer.commit()
    assert committed(broker.bootstrap, topic, topic, 1) == {f"{topic}/0": 1}
    assert [partition.error for partition in alter().topic_partitions] == [None]
    with closing(opened(broker, topic)) as consumer:
        assert next_read(consumer) == 3


def time_of(number: int) -> str:
    """A record's time, as the tool takes it."""
    at = datetime.fromtimestamp((BASE_MS + number * STEP_MS) / 1000, UTC)
    return at.strftime("%Y-%m-%dT%H:%M:%S.000")


def test_rewinding_with_the_tool(broker: BrokerProcess, topic: str, tmp_path: Path) -> None:
    fill(broker.bootstrap, topic)
    steps = (
        (("--to-latest",), RECORDS),
        (("--shift-by", "-3"), RECORDS - 3),
        (("--to-offset", "7"), 7),
        (("--to-datetime", time_of(12)), 12),
        (("--to-earliest",), 0),
    )
    with Tools(tmp_path / "tools.log") as tools:

        def run(*arguments: str) -> tuple[int, str]:
            server = ("--bootstrap-server", broker.bootstrap, "--group", topic)
            done = tools.run(CONSUMER_GROUPS, *server, *arguments)
            return done.exit_code, done.text + done.stderr

        def reset(*to: str) -> str:
            code, said = run("--reset-offsets", "--topic", topic, "--execute", *to)
            assert code == 0, said
            return said

        with closing(opened(broker, topic)) as consumer:
            assert next_read(consumer) == 0
            consumer.commit()
            assert "inactive" in reset("--to-earliest")
            assert committed(broker.bootstrap, topic, topic, 1) == {f"{topic}/0": 1}
        for to, offset in steps:
            assert [topic, topic, "0", str(offset)] in map(str.split, reset(*to).splitlines()), to
            assert committed(broker.bootstrap, topic, topic, 1) == {f"{topic}/0": offset}
            code, said = run("--describe")
            assert code == 0, said
            lag = [topic, topic, "0", str(offset), str(RECORDS), str(RECORDS - offset)]
            assert lag in [line.split()[:6] for line in said.splitlines()], said
    with closing(opened(broker, topic)) as consumer:
        assert next_read(consumer) == 0
