"""The list of stock clients."""

from __future__ import annotations

from support.clients.aiokafka_client import AioKafka
from support.clients.client import Client
from support.clients.confluent import Confluent
from support.clients.console import Console
from support.clients.kafka_python import KafkaPython

KAFKA_PYTHON = KafkaPython()
AIOKAFKA = AioKafka()
CONFLUENT = Confluent()
CONSOLE = Console()

CLIENTS: tuple[Client, ...] = (KAFKA_PYTHON, AIOKAFKA, CONFLUENT, CONSOLE)

READ_BY: dict[str, Client] = {
    KAFKA_PYTHON.name: CONFLUENT,
    CONFLUENT.name: AIOKAFKA,
    AIOKAFKA.name: CONSOLE,
    CONSOLE.name: KAFKA_PYTHON,
}
"""Who else reads what a client wrote: a ring, so that each client's reader meets foreign data."""
