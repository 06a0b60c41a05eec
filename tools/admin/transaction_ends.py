"""Ends transactions: one that hangs by its markers, an ongoing one by its coordinator (KIP-664)."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from kavka.tools.admin.cluster_client import ClusterClient
from kavka.tools.admin.coordinators import ask_coordinators
from kavka.tools.admin.java_errors import Refused
from kavka.tools.admin.leaders import TopicPartition, leaders
from kavka.tools.admin.open_transactions import WITHIN_S
from kavka.wire.apis import find_coordinator, init_producer_id, write_txn_markers
from kavka.wire.apis.write_txn_markers import (
    RequestedMarker,
    RequestedTopic,
    WriteTxnMarkersRequest,
)
from kavka.wire.errors import ErrorCode
from kavka.wire.message import message

ENDING: Final = frozenset({ErrorCode.CONCURRENT_TRANSACTIONS})


@message
class InitProducerIdRequest:
    """A producer without an id yet."""

    transactional_id: str
    transaction_timeout_ms: int
    producer_id: int = -1
    producer_epoch: int = -1


class Aborted(NamedTuple):
    """The transaction of a producer in a partition."""

    topic_partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    """0 where no coordinator has ever written to the partition for this producer."""

    def __str__(self) -> str:
        topic, partition = self.topic_partition
        return (
            f"AbortTransactionSpec(topicPartition={topic}-{partition}, "
            f"producerId={self.producer_id}, producerEpoch={self.producer_epoch}, "
            f"coordinatorEpoch={self.coordinator_epoch})"
        )


async def abort(cluster: ClusterClient, spec: Aborted) -> None:
    """Have the partition's leader write the marker. Refused, Failed."""
    topic, partition = spec.topic_partition
    found = await leaders(cluster, [spec.topic_partition])
    for code in found.refused.values():
        raise Refused(code)
    (leader,) = found.led
    marker = RequestedMarker(
        spec.producer_id,
        spec.producer_epoch,
        False,
        [RequestedTopic(topic, [partition])],
        spec.coordinator_epoch,
    )
    response = await cluster.ask_broker(
        leader, write_txn_markers.API, WriteTxnMarkersRequest([marker])
    )
    for result in response.markers:
        for topic_result in result.topics:
            for partition_result in topic_result.partitions:
                if partition_result.error_code:
                    raise Refused(
                        partition_result.error_code,
                        _why(spec, ErrorCode(partition_result.error_code)),
                    )


def _why(spec: Aborted, code: ErrorCode) -> str:
    """In the words of Java's admin client."""
    known = {
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "failed due to cluster authorization error",
        ErrorCode.INVALID_PRODUCER_EPOCH: "failed due an invalid producer epoch",
        ErrorCode.TRANSACTION_COORDINATOR_FENCED: "failed since the provided coordinator epoch "
        f"{spec.coordinator_epoch} has been fenced by the active coordinator",
    }
    usual = f"failed due to unexpected error: {Refused(code).message}"
    return f"WriteTxnMarkers request with {spec} {known.get(code, usual)}"


async def force_terminate(cluster: ClusterClient, transactional_id: str) -> None:
    """Abort the ongoing transaction, and fence its producer: by a new epoch. Refused, Failed."""

    def results(response: Any) -> list[tuple[str, int, str | None, Any]]:
        return [(transactional_id, response.error_code, None, response)]

    outcomes = await ask_coordinators(
        cluster,
        [transactional_id],
        init_producer_id.API,
        lambda ids: InitProducerIdRequest(ids[0], cluster.request_timeout_ms),  # as Java's
        results,
        within_s=WITHIN_S,
        kind=find_coordinator.TRANSACTION,
        retriable=ENDING,
    )
    outcome = outcomes[transactional_id]
    if outcome.code:
        raise Refused(outcome.code, outcome.message)
