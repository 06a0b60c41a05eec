"""`kavka tap` between stock clients and brokers: they notice nothing, and it understands all."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kavka.testing import Cluster
from support import java
from support.broker import Kavka, kavka_environment
from support.clients import corpus
from support.clients.client import Client
from support.clients.compare import assert_same
from support.clients.every import CLIENTS, KAFKA_PYTHON
from support.oracle import ApacheKafka
from support.process import BrokerProcess, running
from support.tap import TAP, Tap

COUNT = 300


@pytest.fixture(scope="module", params=[Kavka, ApacheKafka], ids=lambda kind: kind.kind)
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BrokerProcess]:
    if request.param is ApacheKafka:
        java.program("java")
    started = request.param(tmp_path_factory.mktemp("broker"), {})
    with running([started]):
        yield started


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_a_stock_client_notices_nothing_and_all_it_says_is_decoded(
    client: Client, broker: BrokerProcess, tmp_path: Path
) -> None:
    topic = f"seen-{client.name}"
    records = corpus.make(client.shapes, time.time_ns() // 1_000_000, COUNT)
    with Tap(tmp_path, broker.bootstrap) as tap:
        client.create_topic(tap.bootstrap, topic, corpus.PARTITIONS)
        acks = client.write(tap.bootstrap, topic, records, "gzip")
        direct = KAFKA_PYTHON.read(broker.bootstrap, topic, _ends(broker.bootstrap, topic))
        ends = {partition: len(found) for partition, found in direct.items()}
        through = client.read(tap.bootstrap, topic, ends)
        tap.stop()
        assert sum(ends.values()) == COUNT and len(acks) in (0, COUNT)
        assert_same(client.read(broker.bootstrap, topic, ends), through)

        shown = tap.messages("--records", "--full")
        messages = [line for line in shown if "kind" in line]
        assert [line for line in shown if "unknown" in line or "passed on" in str(line)] == []
        requests = [message for message in messages if message["kind"] == "request"]
        assert {"ApiVersions", "Metadata", "Produce", "Fetch"} <= {
            request["api"] for request in requests
        }
        assert len(tap.lines()) == len(shown), "a line for each"
        # All of it came through here: what was written, and what was read.
        values = [
            record["value"]
            for request in requests
            if request["api"] == "Produce"
            for data in request["message"]["topic_data"]
            for partition in data["partition_data"]
            for batch in partition["records"]
            for record in batch["records"]
        ]
        assert len(values) == COUNT


def _ends(bootstrap: str, topic: str) -> dict[int, int]:
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=bootstrap)
    places = [TopicPartition(topic, number) for number in range(corpus.PARTITIONS)]
    ends = consumer.end_offsets(places)
    consumer.close()
    return {place.partition: end for place, end in ends.items()}


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_clients_of_several_brokers_stay_on_it(client: Client, tmp_path: Path) -> None:
    """It leads to each broker, to one that takes over from another as well."""
    with Cluster(brokers=3) as cluster, Tap(tmp_path, cluster.bootstrap_servers) as tap:
        cluster.create_topic("t", corpus.PARTITIONS, replication_factor=3)
        cluster.wait_until_in_sync()
        records = corpus.make(client.shapes, time.time_ns() // 1_000_000, COUNT)
        client.write(tap.bootstrap, "t", records, "gzip")
        cluster.stop(2)
        client.write(tap.bootstrap, "t", records, "gzip")
        direct = KAFKA_PYTHON.read(cluster.addresses[1], "t", _ends(cluster.addresses[1], "t"))
        ends = {partition: len(found) for partition, found in direct.items()}
        assert sum(ends.values()) == 2 * COUNT
        through = client.read(tap.bootstrap, "t", ends)
        assert_same(client.read(cluster.addresses[1], "t", ends), through)
        tap.stop()
        shown = tap.messages("--api", "Produce,Fetch")
        written = [
            message
            for message in shown
            if message["api"] == "Produce" and message["kind"] == "request"
        ]
        assert {request["node"] for request in written} == {1, 2, 3}
        seen = sum(
            batch["count"]
            for message in tap.messages("--api", "Fetch", "--full", "--records")
            if message["kind"] == "response"
            for topic in message["message"]["responses"]
            for partition in topic["partitions"]
            for batch in partition["records"] or ()
        )
        assert seen >= 2 * COUNT


def test_filters_show_what_they_name(broker: BrokerProcess, tmp_path: Path) -> None:
    from kafka import KafkaProducer

    with Tap(tmp_path, broker.bootstrap) as tap:
        for name, topic in (("one", "filtered-a"), ("two", "filtered-b")):
            producer = KafkaProducer(bootstrap_servers=tap.bootstrap, client_id=name)
            producer.send(topic, b"v-" + name.encode(), key=b"k").get(60)
            producer.close()
        tap.stop()
        produced = tap.messages("--api", "produce", "--client", "one")
        assert [(message["api"], message["clientId"], message["kind"]) for message in produced] == [
            ("Produce", "one", "request"),
            ("Produce", "one", "response"),
        ]
        assert produced[0]["partitions"][0]["topic"] == "filtered-a"
        assert produced[1]["ms"] > 0
        of_b = tap.messages("--topic", "filtered-b", "--api", "0,3")
        assert {message["clientId"] for message in of_b} == {"two"}
        failed = tap.messages("--error", "any", "--topic", "filtered-.*")
        assert {tuple(message["errors"]) for message in failed} <= {
            ("UNKNOWN_TOPIC_OR_PARTITION",),
            ("LEADER_NOT_AVAILABLE",),
        }
        shown = tap.read("--records", "--api", "Produce", "--client", "two")
        assert shown[1].strip().endswith("k: v-two"), shown


def test_what_is_not_kafkas_passes_through(broker: BrokerProcess, tmp_path: Path) -> None:
    with Tap(tmp_path, broker.bootstrap) as tap:
        host, port = tap.bootstrap.split(":")
        with socket.create_connection((host, int(port))) as raw:
            raw.sendall(b"GET / HTTP/1.1\r\n\r\n")
            raw.settimeout(30)
            assert raw.recv(100) == b"", "the broker closes, and so does the tap"
        tap.stop()
        assert any("passed on unread: it is HTTP" in line for line in tap.lines())


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("", 'Missing required argument "[listen]"'),
        ("--listen 9092 --bootstrap-server localhost:1", "--listen: '9092' is not HOST:PORT"),
        ("--listen localhost:0", 'Missing required argument "[bootstrap-server]"'),
        ("--listen localhost:0 --bootstrap-server 127.0.0.1:1", "no broker answers"),
        ("--listen localhost:0 --bootstrap-server nothing", "'nothing' is not HOST:PORT"),
        ("--read nowhere", "nowhere can't be read: No such file"),
        ("--read nowhere --api Nope", "--api: there is no API 'nope'"),
        ("--read nowhere --error NOPE", "--error: there is no error 'NOPE'"),
        ("--read nowhere --topic [", "--topic [ is no regular expression"),
        ("--read nowhere --output csv", "--output is one of text, json, not 'csv'"),
        ("--read nowhere --write else", '"[read]" can\'t be used with option "[write]"'),
        ("--read /dev/null", "it is no capture of kavka tap"),
        ("--tap", "tap is not a recognized option"),
    ],
)
def test_wrong_words_get_one_line(words: str, expected: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [*TAP, *words.split()],
        env=kavka_environment(),
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1), done.stderr
    assert expected in done.stderr
