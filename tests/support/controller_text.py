"""The controller's requests to brokers as lines of a scenario."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kavka.server.cluster.control_messages import (
    LeaderAndIsrPartitionState,
    StopReplicaPartitionState,
    TopicPartition,
    UpdateMetadata,
    UpdateMetadataPartitionState,
)
from kavka.server.controller.events import Request


def partition(text: str) -> TopicPartition:
    """A partition by its name, such as t-0."""
    topic, _, index = text.rpartition("-")
    return TopicPartition(topic, int(index))


def ids(numbers: Iterable[int]) -> str:
    """Broker ids such as 1,2; - for none."""
    return ",".join(map(str, numbers)) or "-"


def sent(requests: Iterable[tuple[int, Request]]) -> Iterator[str]:
    """A line for each request; one that goes to several brokers in turn has one line."""
    receivers: list[int] = []
    before = ""
    for broker_id, request in requests:
        text = request_text(request)
        if receivers and text != before:
            yield f"{ids(receivers)} <- {before}"
            receivers = []
        receivers.append(broker_id)
        before = text
    if receivers:
        yield f"{ids(receivers)} <- {before}"


def request_text(request: Request) -> str:
    """The request's name and its partitions; of UpdateMetadata without any, the live brokers."""
    names: dict[str, str] = {}  # of partitions, by their state
    for topic in request.topic_states:
        for state in topic.partition_states:
            text = _state(state)
            names[text] = f"{names.get(text, '')} {topic.topic_name}-{state.partition_index}"
    parts = [f"{those[1:]} {text}" for text, those in names.items()]
    if not parts and isinstance(request, UpdateMetadata):
        parts = [f"live brokers {ids(broker.id for broker in request.live_brokers)}"]
    name = type(request).__name__
    if isinstance(request, UpdateMetadata) and request.is_part:
        name += " in part"
    return f"{name} {'; '.join(parts)}"


def _state(
    state: LeaderAndIsrPartitionState | UpdateMetadataPartitionState | StopReplicaPartitionState,
) -> str:
    if isinstance(state, StopReplicaPartitionState):
        return f"epoch {state.leader_epoch}" + " delete" * state.delete_partition
    if isinstance(state, LeaderAndIsrPartitionState):
        version = state.partition_epoch
        more = " new" * state.is_new + " recovering" * state.leader_recovery_state
    else:
        version = state.zk_version
        more = f" offline {ids(state.offline_replicas)}" if state.offline_replicas else ""
    return f"leader {state.leader} isr {ids(state.isr)} epoch {state.leader_epoch}/{version}{more}"
