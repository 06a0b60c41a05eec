"""Stock clients push their metrics to a broker that asks for them, and its page shows them; the
judge is prometheus-client's parser. The cases of Apache Kafka's ClientTelemetryTest are among them.
"""

from __future__ import annotations

import subprocess
from http.client import HTTPConnection

import pytest
from confluent_kafka import Producer

from support import java, java_compiler
from support.broker import Kavka, StartBroker
from support.metrics import Scrape
from support.paths import JAVA
from support.ports import HOST, free_port
from support.process import BrokerProcess
from support.wait import eventually

CLIENT_METRICS = "org.apache.kafka.tools.ClientMetricsCommand"
PERFORMANCE = "org.apache.kafka.tools.ProducerPerformance"
PROGRAM = JAVA / "telemetry" / "PrintInstances.java"
WITHIN_S = 120
RECORDS = 25
SENT = "kafka_client_producer_record_send_total"


@pytest.fixture
def http_port() -> int:
    return free_port()


@pytest.fixture
def asking(start_broker: StartBroker, http_port: int) -> BrokerProcess:
    """A broker that asks every client for all metrics, often."""
    settings = {
        "kavka.http.listener": f"{HOST}:{http_port}",
        "group.initial.rebalance.delay.ms": "0",
    }
    broker = start_broker(**settings)
    if not isinstance(broker, Kavka):
        pytest.skip("Kavka's own page")
    subscribed = java.run(
        CLIENT_METRICS,
        f"--bootstrap-server={broker.bootstrap}",
        *("--alter", "--name=everything", "--metrics=*", "--interval=100"),
    )
    assert subscribed.exit_code == 0, subscribed.stderr
    return broker


def scrape(port: int) -> Scrape:
    connection = HTTPConnection(HOST, port, timeout=30)
    try:
        connection.request("GET", "/metrics")
        return Scrape(connection.getresponse().read().decode())
    finally:
        connection.close()


def clients(port: int, name: str) -> dict[str, float]:
    """The value of a metric by client id, which is the first of its labels."""
    return {labels[0]: value for labels, value in scrape(port).all(name).items()}


def test_a_java_producer_pushes_what_it_has_sent(asking: BrokerProcess, http_port: int) -> None:
    ran = java.run(
        PERFORMANCE,
        *("--topic=t", f"--num-records={RECORDS}", "--throughput=20", "--record-size=10"),
        *("--producer-props", f"bootstrap.servers={asking.bootstrap}", "client.id=java-app"),
    )
    assert ran.exit_code == 0, ran.text + ran.stderr
    # what came since its last push but one may be lost, where it was closed while it pushed
    assert 0 < clients(http_port, SENT)["java-app"] <= RECORDS
    assert "WARN" not in asking.output()


def test_librdkafka_pushes(asking: BrokerProcess, http_port: int) -> None:
    producer = Producer(
        {"bootstrap.servers": asking.bootstrap, "client.id": "rdk", "enable.metrics.push": True}
    )

    def is_shown() -> bool:
        producer.produce("t", b"value")
        producer.poll(0.1)
        return "rdk" in clients(http_port, "kafka_client_producer_request_latency_avg")

    eventually(is_shown, within_s=WITHIN_S, what="its latency is shown")
    assert producer.flush(WITHIN_S) == 0
    assert "WARN" not in asking.output()


def test_java_clients_know_their_instances(asking: BrokerProcess, http_port: int) -> None:
    command = [*java_compiler.command_line(PROGRAM), asking.bootstrap, "t"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    before, *pushes = [line.split() for line in ran.stdout.splitlines()]
    assert before == ["none", "null", "null"]
    assert {client for client, _, _ in pushes} == {"an-admin", "a-producer", "a-consumer"}
    for _, instance, again in pushes:
        assert instance == again
    assert len({instance for _, instance, _ in pushes}) == len(pushes)
    shown = scrape(http_port).all("kafka_client_app_info_start_time_ms")
    assert shown.keys() >= {(client, instance) for client, instance, _ in pushes}
