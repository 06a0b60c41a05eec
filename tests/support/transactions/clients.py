"""The stock clients that consume, transform and produce, and how their programs are started."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from support import talking
from support.groups import clients as groups
from support.paths import JAVA, ROOT
from support.talking import Started

PROGRAMS = ROOT / "tests" / "support" / "transactions" / "programs"
JAVA_PROGRAM = JAVA / "transactions" / "Transformer.java"
TRANSACTION_TIMEOUT_MS = 60_000
"""Far longer than a broker needs to come back: no transaction of a living instance times out."""

BROKER_SETTINGS: Mapping[str, str] = MappingProxyType(
    {
        **groups.BROKER_SETTINGS,
        "transaction.state.log.num.partitions": "4",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    }
)
"""What a broker needs for them."""


@dataclass(frozen=True)
class TransactionClient:
    """One of them."""

    name: str
    start: Callable[[], Started]
    """Installs what is needed; skips the test where the machine lacks something."""
    consumer: Mapping[str, str] = field(default_factory=lambda: groups.SESSION)
    producer: Mapping[str, str] = field(
        default_factory=lambda: {"transaction.timeout.ms": str(TRANSACTION_TIMEOUT_MS)}
    )
    revives: bool = False
    """Of the second transaction protocol: when its transaction has timed out it aborts it, for
    which it gets a new epoch, and goes on (KIP-890). Others are fenced for good."""

    def settings(self, more: Mapping[str, str]) -> list[str]:
        """The program's last arguments."""
        given = {
            **{f"consumer.{name}": value for name, value in self.consumer.items()},
            **{f"producer.{name}": value for name, value in self.producer.items()},
            **more,
        }
        return [f"{name}={value}" for name, value in given.items()]


def python(program: str) -> Started:
    """A program of `programs`."""
    return talking.python(PROGRAMS / program)


def of_java() -> Started:
    """The program in Java."""
    return talking.of_java(JAVA_PROGRAM, "kafka4")


CONFLUENT = TransactionClient("confluent", lambda: python("confluent_transformer.py"))
CONFLUENT_CONSUMER = TransactionClient(
    "confluent-consumer",
    lambda: python("confluent_transformer.py"),
    groups.CONSUMER_PROTOCOL,
)
KAFKA_PYTHON = TransactionClient("kafka-python", lambda: python("kafka_python_transformer.py"))
JAVA_CLASSIC = TransactionClient("java-classic", of_java, revives=True)
JAVA_CONSUMER = TransactionClient("java-consumer", of_java, groups.CONSUMER_PROTOCOL, revives=True)
FRANZ_GO = TransactionClient("franz-go", lambda: talking.of_go("transformer"), revives=True)

CLIENTS = (CONFLUENT, CONFLUENT_CONSUMER, KAFKA_PYTHON, JAVA_CLASSIC, JAVA_CONSUMER, FRANZ_GO)
