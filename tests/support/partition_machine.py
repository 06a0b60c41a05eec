"""The controller's machine with a topic `t`, and events for it in short."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from kavka.server.cluster.control_messages import TopicPartition
from kavka.server.controller.events import (
    BrokersChanged,
    Command,
    FoundPartition,
    PartitionsFound,
    Send,
    StoredState,
    TopicsFound,
)
from kavka.server.controller.partition_machine import PartitionMachine
from kavka.server.controller.state import LiveBroker
from kavka.zktree.paths import BrokerInfo, Endpoint, PartitionState

TOPIC_ID = uuid.UUID(int=77)
EPOCH = 3


def info(broker_id: int) -> BrokerInfo:
    """What a broker registers with."""
    return BrokerInfo((Endpoint("IN", "PLAINTEXT", f"host{broker_id}", 9092),))


def brokers(*ids: int, epochs: Mapping[int, int] | None = None) -> BrokersChanged:
    """These brokers are there, with epoch 10 unless said otherwise."""
    epochs = epochs or {}
    return BrokersChanged({id_: LiveBroker(id_, epochs.get(id_, 10), info(id_)) for id_ in ids})


def machine(*live: int) -> PartitionMachine:
    """The controller is broker 1."""
    made = PartitionMachine(1, EPOCH, listener="IN")
    made.handle(brokers(*live))
    made.handle(TopicsFound({"t": TOPIC_ID}))
    return made


def tp(index: int = 0, topic: str = "t") -> TopicPartition:
    """A partition, by default the first."""
    return TopicPartition(topic, index)


def found(
    *replicas: int, index: int = 0, stored: StoredState | None = None, topic: str = "t"
) -> FoundPartition:
    """A partition in the tree."""
    return FoundPartition(tp(index, topic), replicas, (), (), stored)


def stored(
    leader: int, *isr: int, leader_epoch: int = 0, version: int = 0, mzxid: int = 100
) -> StoredState:
    """A state in the tree."""
    return StoredState(PartitionState(leader, leader_epoch, isr, 1), version, mzxid)


def told(commands: list[Command]) -> list[tuple[str, int]]:
    """Kinds and receivers of the requests among `commands`."""
    return [
        (type(command.request).__name__, command.broker_id)
        for command in commands
        if isinstance(command, Send)
    ]


def with_partition(
    made: PartitionMachine, *replicas: int, state: StoredState, index: int = 0
) -> None:
    """Let the machine find a partition."""
    made.handle(PartitionsFound((found(*replicas, index=index, stored=state),)))
