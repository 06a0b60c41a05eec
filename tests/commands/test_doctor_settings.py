"""Clients of Apache Kafka refuse to start with those settings of which `kavka doctor` says so, and
with no others."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest
from kafka.protocol.broker_version_data import BROKER_API_VERSIONS

from commands.examining import config_file
from commands.players import JAVA_CLASSES
from kavka.testing import Broker
from kavka.tools.doctor.client_settings import Environment, judge_settings
from support import java
from support.java_tools import Tools

PLACE: Final = Environment({}, BROKER_API_VERSIONS[4, 3], frozenset())
REFUSES: Final = "refuses to start"
CONFIG: Final = re.compile("ConfigException|Heartbeat must be set lower than the session timeout")

PRODUCER: Final = "kafka-producer-perf-test"
CONSUMER: Final = "kafka-consumer-perf-test"
MORE: Final = {PRODUCER: ["--record-size", "1", "--throughput", "-1"], CONSUMER: []}

CASES: Final[tuple[tuple[str, Mapping[str, object]], ...]] = (
    (PRODUCER, {"delivery.timeout.ms": 10_004, "request.timeout.ms": 10_000, "linger.ms": 5}),
    (PRODUCER, {"delivery.timeout.ms": 10_005, "request.timeout.ms": 10_000, "linger.ms": 5}),
    (PRODUCER, {"delivery.timeout.ms": 30_004}),
    (PRODUCER, {"delivery.timeout.ms": 30_005}),
    (PRODUCER, {"request.timeout.ms": 200_000}),
    (PRODUCER, {"transactional.id": "t", "enable.idempotence": "false"}),
    (PRODUCER, {"transactional.id": "t", "acks": "1"}),
    (PRODUCER, {"transactional.id": "t"}),
    (PRODUCER, {"enable.idempotence": "true", "acks": "1"}),
    (PRODUCER, {"acks": "1"}),
    (PRODUCER, {"acks": "1", "max.in.flight.requests.per.connection": 6}),
    (PRODUCER, {"enable.idempotence": "FALSE", "max.in.flight.requests.per.connection": 6}),
    (PRODUCER, {"enable.idempotence": "true", "retries": 0}),
    (PRODUCER, {"retries": 0}),
    (PRODUCER, {"enable.idempotence": "true", "max.in.flight.requests.per.connection": 6}),
    (PRODUCER, {"enable.idempotence": "true", "max.in.flight.requests.per.connection": 5}),
    (PRODUCER, {"max.in.flight.requests.per.connection": 6}),
    (CONSUMER, {"heartbeat.interval.ms": 10_000, "session.timeout.ms": 10_000}),
    (CONSUMER, {"heartbeat.interval.ms": 9_999, "session.timeout.ms": 10_000}),
    (CONSUMER, {"max.poll.interval.ms": 9_000, "session.timeout.ms": 10_000}),
    (CONSUMER, {"fetch.max.wait.ms": 500, "request.timeout.ms": 500}),
    (CONSUMER, {"group.protocol": "consumer", "session.timeout.ms": 10_000}),
    (CONSUMER, {"group.protocol": "consumer", "heartbeat.interval.ms": 3_000}),
    (CONSUMER, {"group.protocol": "consumer", "max.poll.interval.ms": 10_000}),
)


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tools]:
    java.program("java")
    with Tools(tmp_path_factory.mktemp("tools") / "log") as tools:
        yield tools


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(settings={"group.initial.rebalance.delay.ms": 0}) as broker:
        broker.create_topic("t")
        for _ in range(10):
            broker.produce("t", b"for the consumers")
        yield broker


@pytest.mark.parametrize(("tool", "settings"), CASES, ids=str)
def test_a_client_refuses_what_the_doctor_says_it_does(
    tool: str, settings: Mapping[str, object], tools: Tools, broker: Broker, tmp_path: Path
) -> None:
    given = {name: str(value) for name, value in settings.items()}
    refused = [finding for finding in judge_settings(given, PLACE) if REFUSES in finding.found]
    words = ["--bootstrap-server", broker.bootstrap_servers, "--topic", "t", "--num-records", "1"]
    words += ["--command-config", config_file(tmp_path, settings)]
    done = tools.run(JAVA_CLASSES[tool], *words, *MORE[tool])
    assert (done.exit_code != 0) == bool(refused), (refused, done)
    assert not refused or CONFIG.search(done.stderr), done.stderr
