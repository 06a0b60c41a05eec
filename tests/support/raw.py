"""One plain connection and hand-made requests, for what no stock client would send."""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest, ListOffsetsResponse
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse
from kafka.protocol.producer import (
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProduceRequest,
    ProduceResponse,
)
from kafka.record.default_records import DefaultRecordBatchBuilder

from support import wire_client
from support.wait import eventually

TIMEOUT_S = 30.0
LATEST = -1
ACKS_ALL = -1
BATCH_BYTES = 1_048_576

COORDINATOR_LOAD_IN_PROGRESS = 14

INIT_PRODUCER_ID_VERSION = 4
PRODUCE_VERSION = 9
LIST_OFFSETS_VERSION = 7
API_VERSIONS_VERSION = 2
FETCH_VERSION = 4


class Producer(NamedTuple):
    """Who writes: as InitProducerId hands it out."""

    id: int
    epoch: int


class Outcome(NamedTuple):
    """What a broker made of one batch: its answer, and where the log ends afterwards."""

    error_code: int
    base_offset: int
    end_offset: int


class RawConnection:
    """A connection on which requests are written and answers awaited one by one."""

    def __init__(self, host: str, port: int) -> None:
        self._socket = socket.create_connection((host, port), timeout=TIMEOUT_S)
        self._correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self._socket.close()

    def ask(self, request: Any, response: Any) -> Any:
        """Send `request`, whose version is set, and decode the answer as `response`."""
        self.send(request)
        (length,) = struct.unpack(">i", self._read(4))
        answer = response.decode(self._read(length), version=request.API_VERSION, header=True)
        assert answer.header.correlation_id == self._correlation_id
        return answer

    def request(self, api: str, version: int, **values: Any) -> dict[str, Any]:
        """Send plain values, as `wire_client.encode` takes them; the answer as plain values."""
        self._correlation_id += 1
        frame = wire_client.encode(api, version, self._correlation_id, **values)
        self._socket.sendall(wire_client.framed(frame))
        (length,) = struct.unpack(">i", self._read(4))
        correlation_id, message = wire_client.decode(api, version, self._read(length))
        assert correlation_id == self._correlation_id
        found: dict[str, Any] = wire_client.plain(message)
        return found

    def send(self, request: Any) -> None:
        """Send `request`, whose version is set, and go on."""
        self._correlation_id += 1
        request.with_header(correlation_id=self._correlation_id, client_id="raw")
        self._socket.sendall(request.encode(header=True, framed=True))

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            chunk = self._socket.recv(size - len(data))
            if not chunk:
                raise ConnectionError("the broker closed the connection")
            data += chunk
        return bytes(data)

    def api_keys(self) -> set[int]:
        """The APIs that the broker lists."""
        request = ApiVersionsRequest(version=API_VERSIONS_VERSION)
        answer = self.ask(request, ApiVersionsResponse)
        assert answer.error_code == 0, answer
        return {api.api_key for api in answer.api_keys}

    def init_producer_id(self) -> Producer:
        """A new producer id, as idempotent producers ask for theirs: again while it is early."""
        return eventually(
            self._try_init_producer_id, within_s=TIMEOUT_S, what="the broker gives a producer id"
        )

    def _try_init_producer_id(self) -> Producer | None:
        request = InitProducerIdRequest(
            version=INIT_PRODUCER_ID_VERSION,
            transactional_id=None,
            transaction_timeout_ms=60_000,
            producer_id=-1,
            producer_epoch=-1,
        )
        answer = self.ask(request, InitProducerIdResponse)
        if answer.error_code == COORDINATOR_LOAD_IN_PROGRESS:
            return None
        assert answer.error_code == 0, answer
        return Producer(answer.producer_id, answer.producer_epoch)

    def produce(self, topic: str, partition: int, records: bytes) -> Outcome:
        """Write record bytes as they are, with acks=all."""
        topic_data = ProduceRequest.TopicProduceData
        request = ProduceRequest(
            version=PRODUCE_VERSION,
            transactional_id=None,
            acks=ACKS_ALL,
            timeout_ms=int(TIMEOUT_S * 1000),
            topic_data=[
                topic_data(
                    version=PRODUCE_VERSION,
                    name=topic,
                    partition_data=[
                        topic_data.PartitionProduceData(
                            version=PRODUCE_VERSION, index=partition, records=records
                        )
                    ],
                )
            ],
        )
        (of_topic,) = self.ask(request, ProduceResponse).responses
        (of_partition,) = of_topic.partition_responses
        return Outcome(
            of_partition.error_code,
            of_partition.base_offset,
            self.end_offset(topic, partition),
        )

    def begin_fetch(self, topic: str, partition: int, max_wait_ms: int) -> None:
        """Ask for records from the beginning, to wait for the first; the answer isn't read."""
        of_topic = FetchRequest.FetchTopic
        self.send(
            FetchRequest(
                version=FETCH_VERSION,
                replica_id=-1,
                max_wait_ms=max_wait_ms,
                min_bytes=1,
                max_bytes=BATCH_BYTES,
                isolation_level=0,
                topics=[
                    of_topic(
                        version=FETCH_VERSION,
                        topic=topic,
                        partitions=[
                            of_topic.FetchPartition(
                                version=FETCH_VERSION,
                                partition=partition,
                                fetch_offset=0,
                                partition_max_bytes=BATCH_BYTES,
                            )
                        ],
                    )
                ],
            )
        )

    def end_offset(self, topic: str, partition: int) -> int:
        """The offset that the next record will get."""
        of_topic = ListOffsetsRequest.ListOffsetsTopic
        request = ListOffsetsRequest(
            version=LIST_OFFSETS_VERSION,
            replica_id=-1,
            isolation_level=0,
            topics=[
                of_topic(
                    version=LIST_OFFSETS_VERSION,
                    name=topic,
                    partitions=[
                        of_topic.ListOffsetsPartition(
                            version=LIST_OFFSETS_VERSION,
                            partition_index=partition,
                            current_leader_epoch=-1,
                            timestamp=LATEST,
                        )
                    ],
                )
            ],
        )
        answer = self.ask(request, ListOffsetsResponse)
        found = answer.topics[0].partitions[0]
        assert found.error_code == 0, found
        offset: int = found.offset
        return offset


def batch(
    producer: Producer, base_sequence: int, values: Sequence[bytes], timestamp_ms: int
) -> bytes:
    """One record batch of an idempotent producer."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=False,
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        base_sequence=base_sequence,
        batch_size=BATCH_BYTES,
    )
    for delta, value in enumerate(values):
        builder.append(delta, timestamp_ms, None, value, [])
    return bytes(builder.build())
