"""WriteTxnMarkers: writes transaction markers to partitions that this broker leads (KIP-98).

For coordinators on other brokers, and for operators who abort a hanging transaction. Promises: the
response is sent when a marker is as durable as the transaction's records, or after
`request.timeout.ms` at most.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator
from typing import Any, Final

from kavka.server.auth.authorizer import CLUSTER_NAME, Operation, ResourceType
from kavka.server.broker import Broker
from kavka.server.coordinators.marker_writer import (
    AppendedMarker,
    PartitionKey,
    as_api_error,
    write_marker,
)
from kavka.server.request.context import RequestContext, Response
from kavka.server.runtime import cooperative
from kavka.wire.apis.write_txn_markers import (
    TRANSACTION_VERSIONS_SINCE,
    MarkerResult,
    PartitionResult,
    TopicResult,
    WriteTxnMarkersResponse,
)
from kavka.wire.control_records import Marker
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.steps import Steps

MARKERS_PER_STEP: Final = 50
"""Markers written in one slice, at 40 us each."""


def handle(broker: Broker, context: RequestContext, request: Any) -> Any:
    if not any(
        broker.authorizer.allows(context, operation, ResourceType.CLUSTER, CLUSTER_NAME)
        for operation in (Operation.ALTER, Operation.CLUSTER_ACTION)
    ):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    work = _Work(broker, context, request)
    begun = cooperative.run(broker.tasks, work.steps(), context)
    if begun is None and work.is_settled():
        return work.response()
    return work.finish(begun)


class _Work:
    """The markers of one request."""

    def __init__(self, broker: Broker, context: RequestContext, request: Any) -> None:
        self._broker: Final = broker
        self._request: Final = request
        self._with_versions: Final = context.version >= TRANSACTION_VERSIONS_SINCE
        self._results: Final[dict[int, dict[str, dict[int, PartitionResult]]]] = {}
        """By producer id and topic, in which order Apache Kafka responds."""

        self._waiting: Final[list[tuple[AppendedMarker, PartitionResult]]] = []

    def steps(self) -> Steps[None]:
        """Write the markers."""
        for number, (marker, topic, index) in enumerate(self._each(), 1):
            self._write(marker, (topic, index))
            if number % MARKERS_PER_STEP == 0:
                yield None

    def _each(self) -> Iterator[tuple[Any, str, int]]:
        for marker in self._request.markers:
            for topic in marker.topics:
                for index in topic.partition_indexes:
                    yield marker, topic.name, index

    def _write(self, marker: Any, topic_partition: PartitionKey) -> None:
        topic, index = topic_partition
        of_topic = self._results.setdefault(marker.producer_id, {}).setdefault(topic, {})
        result = of_topic[index] = PartitionResult(index)
        replicas = self._broker.replicas
        replica = replicas.find(topic, index)
        if replica is None or replica.offline:
            result.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return
        if marker.producer_id < 0 or marker.producer_epoch < 0:  # no producer has these
            result.error_code = ErrorCode.INVALID_REQUEST
            return
        said = Marker(
            marker.transaction_result, marker.coordinator_epoch, self._broker.clock.now_ms()
        )
        producer = marker.producer_id, marker.producer_epoch
        version = marker.transaction_version if self._with_versions else 0
        try:
            written = write_marker(
                replicas, self._broker.groups, topic_partition, producer, said, version
            )
        except Exception as failure:
            result.error_code = as_api_error(failure, topic_partition).code
        else:
            if not written.is_committed:
                self._waiting.append((written, result))

    def is_settled(self) -> bool:
        """Whether there is nothing left to wait for."""
        return all(written.is_committed or written.is_lost for written, _ in self._waiting)

    async def finish(self, begun: Awaitable[None] | None) -> Response:
        """The response, when all markers are durable or the timeout has passed."""
        if begun is not None:
            await begun
        broker = self._broker
        if not self.is_settled():
            keys = [written.replica.key for written, _ in self._waiting]
            timeout_s = broker.settings.request_timeout_ms / 1000
            await broker.purgatory.wait(keys, self.is_settled, timeout_s, "Produce")
        for written, result in self._waiting:
            if written.is_committed:
                continue
            result.error_code = (
                ErrorCode.NOT_LEADER_OR_FOLLOWER if written.is_lost else ErrorCode.REQUEST_TIMED_OUT
            )
        return self.response()

    def response(self) -> Response:
        """The response for all markers."""
        return WriteTxnMarkersResponse(
            [
                MarkerResult(
                    producer_id,
                    [TopicResult(topic, list(found.values())) for topic, found in topics.items()],
                )
                for producer_id, topics in self._results.items()
            ]
        )
