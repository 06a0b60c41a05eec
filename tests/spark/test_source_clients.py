"""The clients that Spark's Kafka source makes: their groups, and what they do when the broker does
not answer for a while."""

from __future__ import annotations

import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from kafka import KafkaAdminClient

from support.process import BrokerProcess
from support.spark import Stored, create_topic, numbered, place, produce, rows
from support.spark_queries import read, running, stream
from support.wait import eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GROUPS_WITHIN_S = 60.0


def groups(broker: BrokerProcess, prefix: str) -> dict[str, Any]:
    """The broker's groups whose ids begin so."""
    with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap)) as admin:
        ids = [each["group_id"] for each in admin.list_groups()]
        ids = [group_id for group_id in ids if group_id.startswith(prefix)]
        return admin.describe_groups(ids) if ids else {}


def sizes(found: dict[str, Any]) -> list[tuple[str, int]]:
    """State and number of members of each group."""
    return [(each["group_state"], len(each["members"])) for each in found.values()]


def test_no_group_by_default(
    spark: SparkSession, broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    create_topic(broker.bootstrap, topic, 2)
    stored = produce(broker.bootstrap, topic, numbered(20, partitions=2))
    options = {"subscribe": topic, "startingOffsets": "earliest", "groupIdPrefix": topic}
    with running(stream(spark, broker.bootstrap, options), tmp_path) as query:
        query.wait_for_records(stored)
        assert groups(broker, topic) == {}
    assert rows(read(spark, broker.bootstrap, options)) == sorted(stored, key=place)
    assert groups(broker, topic) == {}


@pytest.mark.usefixtures("deprecated_fetching")
def test_deprecated_offset_fetching_joins_a_group(
    spark: SparkSession, broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    """The driver's consumer is a group's only member as long as the query runs. Its partitions are
    those of the pattern, also of a topic that comes."""
    bootstrap = broker.bootstrap
    stored: list[Stored] = []

    def add(name: str) -> None:
        create_topic(bootstrap, name, 2)
        stored.extend(produce(bootstrap, name, numbered(20, partitions=2, start=len(stored))))

    add(f"{topic}-1")
    options = {
        "subscribePattern": f"{topic}-\\d",
        "startingOffsets": "earliest",
        "kafka.metadata.max.age.ms": "500",  # else it sees a new topic after five minutes
    }
    prefixed = {**options, "groupIdPrefix": f"{topic}-prefix"}
    with running(stream(spark, bootstrap, prefixed), tmp_path / "prefixed") as query:
        query.wait_for_records(stored)
        eventually(
            lambda: sizes(groups(broker, f"{topic}-prefix")) == [("Stable", 1)],
            within_s=GROUPS_WITHIN_S,
            what="one group has one member",
            detail=lambda: str(groups(broker, f"{topic}-prefix")),
        )
        add(f"{topic}-2")
        query.wait_for_records(stored)
    eventually(
        lambda: all(each["members"] == [] for each in groups(broker, f"{topic}-prefix").values()),
        within_s=GROUPS_WITHIN_S,
        what="the consumer has left its group",
    )
    named = {**options, "kafka.group.id": f"{topic}-named"}
    with running(stream(spark, bootstrap, named), tmp_path / "named") as query:
        query.wait_for_records(stored)
        assert list(groups(broker, f"{topic}-named")) == [f"{topic}-named"]
    assert rows(read(spark, bootstrap, named)) == sorted(stored, key=place)


def test_a_read_waits_for_a_broker_that_does_not_answer(
    spark: SparkSession, broker: BrokerProcess, topic: str
) -> None:
    """The broker is stopped (SIGSTOP) while two reads ask it for the topic. One of them is patient
    and still there when the broker goes on."""
    create_topic(broker.bootstrap, topic, 2)
    stored = produce(broker.bootstrap, topic, numbered(20, partitions=2))
    patient = {"subscribe": topic}
    hasty = {**patient, "kafka.request.timeout.ms": "500", "kafka.default.api.timeout.ms": "1000"}
    assert broker.process is not None
    with ThreadPoolExecutor(1) as pool:
        broker.process.send_signal(signal.SIGSTOP)
        try:
            found = pool.submit(lambda: rows(read(spark, broker.bootstrap, patient)))
            with pytest.raises(Exception, match="Timed out waiting"):
                rows(read(spark, broker.bootstrap, hasty))
            assert not found.done()
        finally:
            broker.process.send_signal(signal.SIGCONT)
        assert found.result() == sorted(stored, key=place)


def test_offsets_are_asked_for_as_often_as_the_options_say(
    spark: SparkSession, broker: BrokerProcess, topic: str
) -> None:
    create_topic(broker.bootstrap, topic)
    options = {
        "subscribe": topic,
        "startingTimestamp": "1",  # there is no record, so nothing is as late
        "fetchOffset.numRetries": "3",
        "fetchOffset.retryIntervalMs": "600",
    }
    began = time.monotonic()
    with pytest.raises(Exception, match="No offset matched"):
        rows(read(spark, broker.bootstrap, options))
    assert time.monotonic() - began >= 1.2
