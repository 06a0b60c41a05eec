"""The stock clients whose consumers can be put into groups, and how their programs are started."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from support import talking
from support.clients.of_old import kafka_python_2
from support.oracle import ApacheKafka
from support.paths import JAVA, ROOT
from support.process import BrokerProcess
from support.talking import Started

PROGRAMS = ROOT / "tests" / "support" / "groups" / "programs"
JAVA_PROGRAM = JAVA / "groups" / "GroupMembers.java"

SESSION = MappingProxyType({"session.timeout.ms": "5000", "heartbeat.interval.ms": "500"})
"""Far below what they are by default, as a killed member is waited for."""

BROKER_SETTINGS: Mapping[str, str] = MappingProxyType(
    {
        "group.consumer.heartbeat.interval.ms": "500",
        "group.consumer.min.heartbeat.interval.ms": "500",
        "group.consumer.min.session.timeout.ms": "5000",
        "group.consumer.session.timeout.ms": "5000",
        "group.initial.rebalance.delay.ms": "100",
        "group.min.session.timeout.ms": "5000",
        "offsets.topic.num.partitions": "4",
        "offsets.topic.replication.factor": "1",
    }
)
"""What a broker needs for such clients."""


@dataclass(frozen=True)
class GroupClient:
    """One of them."""

    name: str
    start: Callable[[], Started]
    """Installs what is needed; skips the test where the machine lacks something."""
    settings: Mapping[str, str] = field(default_factory=dict)
    refresh: Mapping[str, str] = field(default_factory=lambda: {"metadata.max.age.ms": "500"})
    """What makes it look for new topics often."""


def python(program: str, *paths: Path) -> Started:
    """A program of `programs`, with more to import from."""
    return talking.python(PROGRAMS / program, *paths)


def old_python() -> Started:
    """kafka-python's, with the old one."""
    return python("kafka_python_members.py", kafka_python_2())


def of_java(project: str) -> Started:
    """The program in Java, with the clients of a project."""
    return talking.of_java(JAVA_PROGRAM, project)


CONSUMER_PROTOCOL = MappingProxyType({"group.protocol": "consumer"})
COOPERATIVE = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
CONFLUENT_REFRESH = MappingProxyType({"topic.metadata.refresh.interval.ms": "500"})

KAFKA_PYTHON = GroupClient("kafka-python", lambda: python("kafka_python_members.py"), SESSION)
AIOKAFKA = GroupClient("aiokafka", lambda: python("aiokafka_members.py"), SESSION)
CONFLUENT = GroupClient(
    "confluent-classic",
    lambda: python("confluent_members.py"),
    {**SESSION, "partition.assignment.strategy": "cooperative-sticky"},
    CONFLUENT_REFRESH,
)
CONFLUENT_CONSUMER = GroupClient(
    "confluent-consumer",
    lambda: python("confluent_members.py"),
    CONSUMER_PROTOCOL,
    CONFLUENT_REFRESH,
)
JAVA_CLASSIC = GroupClient(
    "java-classic",
    lambda: of_java("kafka4"),
    {**SESSION, "partition.assignment.strategy": COOPERATIVE},
)
JAVA_CONSUMER = GroupClient("java-consumer", lambda: of_java("kafka4"), CONSUMER_PROTOCOL)
KAFKAJS = GroupClient("kafkajs", lambda: talking.javascript("kafkajs_members.js"), SESSION)
FRANZ_GO = GroupClient("franz-go", lambda: talking.of_go("members"), SESSION)
OLD_KAFKA_PYTHON = GroupClient(
    "kafka-python-2.0.2-as-0.9", old_python, {**SESSION, "api.version": "0.9"}
)
JAVA_0_9 = GroupClient("java-0.9.0.1", lambda: of_java("kafka09"), SESSION)

TODAYS = (
    KAFKA_PYTHON,
    AIOKAFKA,
    CONFLUENT,
    CONFLUENT_CONSUMER,
    JAVA_CLASSIC,
    JAVA_CONSUMER,
    KAFKAJS,
    FRANZ_GO,
)
OLD = (OLD_KAFKA_PYTHON, JAVA_0_9)
"""Of before 0.11."""


def clients_of(broker: type[BrokerProcess]) -> tuple[GroupClient, ...]:
    """Those that a broker serves: Apache Kafka 4 doesn't know the old ones any more."""
    return TODAYS if broker is ApacheKafka else TODAYS + OLD
