"""Several log directories on a real disk, one of which is gone for a while."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient

from support.broker import StartBroker
from support.clients.kafka_python import create_topic, offsets
from support.process import BrokerProcess
from support.wait import eventually

PARTITIONS = 6
RECORDS = 10
TIMEOUT_S = 60
KAFKA_STORAGE_ERROR = 56
NO_LEADER = -1


def write(broker: BrokerProcess, topic: str, partitions: set[int]) -> None:
    """RECORDS acknowledged records into each of `partitions`."""
    failed: list[KafkaError] = []

    def note(error: KafkaError | None, _: object) -> None:
        if error is not None:
            failed.append(error)

    producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all"})
    for partition in partitions:
        for number in range(RECORDS):
            producer.produce(topic, b"%d" % number, partition=partition, on_delivery=note)
    assert producer.flush(TIMEOUT_S) == 0
    assert not failed


def within(directory: Path, topic: str) -> set[int]:
    """The partitions whose logs lie in a directory."""
    return {int(path.name.rpartition("-")[2]) for path in directory.glob(f"{topic}-*")}


def leaderless(broker: BrokerProcess, topic: str) -> set[int] | None:
    """The partitions without a leader; None if the broker does not know all of them yet."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    found = admin.list_topics(topic, TIMEOUT_S).topics[topic].partitions
    if len(found) < PARTITIONS:
        return None
    return {index for index, partition in found.items() if partition.leader == NO_LEADER}


def error_codes(broker: BrokerProcess) -> dict[str, int]:
    """What DescribeLogDirs says of each directory."""
    with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap)) as admin:
        (answer,) = admin.describe_log_dirs()
        found = answer["log_dirs"] if isinstance(answer, dict) else answer.log_dirs
        return {entry["log_dir"]: entry["error_code"] for entry in found}


def ends(broker: BrokerProcess, topic: str) -> dict[int, int]:
    return offsets(broker.bootstrap, topic, PARTITIONS)[1]


def test_a_directory_that_is_gone_for_a_while(
    start_broker: StartBroker, tmp_path: Path, topic: str
) -> None:
    """What is there is served, what is not is not lost: it is back with the directory."""
    first, second = tmp_path / "one", tmp_path / "two"
    broker = start_broker(**{"log.dirs": f"{first},{second}"})
    create_topic(broker.bootstrap, topic, PARTITIONS)
    here, there = within(first, topic), within(second, topic)
    assert (len(here), len(there)) == (PARTITIONS // 2, PARTITIONS // 2)
    write(broker, topic, here | there)
    broker.stop()

    second.rename(tmp_path / "away")
    second.write_text("no directory")
    broker.start()
    eventually(
        lambda: leaderless(broker, topic) == there,
        within_s=TIMEOUT_S,
        what="what lies there has no leader",
        detail=broker.tail,
    )
    assert error_codes(broker) == {str(first): 0, str(second): KAFKA_STORAGE_ERROR}
    write(broker, topic, here)
    create_topic(broker.bootstrap, f"{topic}-new", PARTITIONS)
    assert within(first, f"{topic}-new") == set(range(PARTITIONS))
    broker.kill()

    second.unlink()
    (tmp_path / "away").rename(second)
    broker.start()
    eventually(
        lambda: leaderless(broker, topic) == set(),
        within_s=TIMEOUT_S,
        what="all has its leader again",
        detail=broker.tail,
    )
    assert error_codes(broker) == {str(first): 0, str(second): 0}
    expected = {index: 2 * RECORDS if index in here else RECORDS for index in range(PARTITIONS)}
    assert ends(broker, topic) == expected
    write(broker, topic, here | there)


def test_without_a_directory_that_can_be_used_it_does_not_start(
    start_broker: StartBroker, tmp_path: Path
) -> None:
    first, second = tmp_path / "one", tmp_path / "two"
    broker = start_broker(**{"log.dirs": f"{first},{second}"})
    broker.stop()
    for directory in (first, second):
        directory.rename(directory.with_suffix(".away"))
        directory.write_text("no directory")
    try:
        broker.start()
    except AssertionError as ended:
        assert "ended with 1" in str(ended)
    else:
        raise AssertionError("it serves")
    assert "none of the log directories can be used" in broker.output()
    broker.process = None
