"""The clients, one row each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from kavka.compat_tests.clients import apicurio, go, java, node, python, rust
from kavka.compat_tests.driver import Program
from kavka.compat_tests.scenario import Scenario
from kavka.compat_tests.security import (
    AS_JAVA,
    AS_JAVA_0_10,
    AS_JAVA_1_1,
    BY_PASSWORD,
    NOTHING,
    ONLY_TLS,
    Access,
)


class Client(NamedTuple):
    """One line of the matrix."""

    name: str
    """As options spell it."""
    title: str
    language: str
    install: Callable[[], Program]
    """How to start its driver; what it needs is there when this returns. Unavailable."""
    quick: bool = False
    """Whether the quick subset has it: one a language."""
    is_application: bool = False
    """Whether it is a program on top of a client, with scenarios of its own."""
    access: Access = BY_PASSWORD
    """What it can do with a broker that wants TLS or a login."""

    def fits(self, scenario: Scenario) -> bool:
        """Whether a scenario is for it, whatever it can do."""
        return scenario.only == (self.name if self.is_application else "")


def _python(name: str, driver: str, module: str, *, quick: bool = False) -> Client:
    return Client(name, name, "Python", python.here(driver, module), quick=quick)


def _java(
    name: str, version: str, driver: str, access: Access = AS_JAVA, *, quick: bool = False
) -> Client:
    install = java.kafka_clients(version, driver)
    return Client(name, "Apache Kafka's client", "Java", install, quick=quick, access=access)


def _application(name: str, title: str, language: str, install: Callable[[], Program]) -> Client:
    return Client(name, title, language, install, is_application=True)


CONNECT: Final = java.kafka_clients("kafka_connect", "connect")
"""MirrorMaker 2 is built on Kafka Connect: one driver has both."""

CLIENTS: Final = (
    _python("kafka-python", "kafka_python_driver.py", "kafka", quick=True),
    _python("aiokafka", "aiokafka_driver.py", "aiokafka"),
    _python("confluent-kafka", "confluent_driver.py", "confluent_kafka"),
    Client(
        "confluent-kafka-asyncio",
        "confluent-kafka, asyncio",
        "Python",
        python.here("confluent_asyncio_driver.py", "confluent_kafka"),
    ),
    Client(
        "kafka-python-2",
        "kafka-python",
        "Python",
        python.apart("kafka_python_2_driver.py", "kafka_python_2.txt"),
    ),
    Client("kcat", "kcat", "C", python.kcat),
    _java("java-4", "kafka_4", "modern", quick=True),
    _java("java-3.9", "kafka_3_9", "modern"),
    _java("java-2.8", "kafka_2_8", "modern"),
    _java("java-1.1", "kafka_1_1", "old", AS_JAVA_1_1),
    _java("java-0.10", "kafka_0_10", "old", AS_JAVA_0_10),
    _java("java-0.9", "kafka_0_9", "old", ONLY_TLS),
    _java("java-0.8", "kafka_0_8", "old", NOTHING),
    Client("kafkajs", "KafkaJS", "Node.js", node.script("kafkajs.js"), quick=True),
    Client("platformatic", "@platformatic/kafka", "Node.js", node.script("platformatic.js")),
    Client(
        "confluent-js",
        "@confluentinc/kafka-javascript",
        "Node.js",
        node.script("confluent.js", native="@confluentinc/kafka-javascript"),
    ),
    Client("franz-go", "franz-go", "Go", go.program("franz_go"), quick=True),
    Client("sarama", "Sarama", "Go", go.program("sarama")),
    Client("kafka-go", "segmentio/kafka-go", "Go", go.program("kafka_go")),
    Client("rdkafka", "rdkafka", "Rust", rust.rdkafka),
    _application(
        "faststream",
        "FastStream",
        "Python",
        python.apart("faststream_driver.py", "faststream.txt"),
    ),
    _application(
        "kafka-streams", "Kafka Streams", "Java", java.kafka_clients("kafka_streams", "streams")
    ),
    _application("kafka-connect", "Kafka Connect", "Java", CONNECT),
    _application("mirror-maker-2", "MirrorMaker 2", "Java", CONNECT),
    _application("flink", "Flink", "Java", java.kafka_clients("flink_2", "flink")),
    _application("apicurio", "Apicurio Registry", "Java", apicurio.program),
)
