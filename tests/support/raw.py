"""One plain connection and hand-made requests, for what no stock client would send."""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

from kavka.compat_tests.raw.codec import wire_client
from support import logs
from support.wait import eventually

TIMEOUT_S = 30.0
LED_WITHIN_S = 60.0
LATEST = -1
ACKS_ALL = -1
BATCH_BYTES = 1_048_576
READ_BYTES = 10_000_000

COORDINATOR_LOAD_IN_PROGRESS = 14


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
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as clients do
        self._correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self._socket.close()

    def send(self, api: str, version: int, **values: Any) -> None:
        """Send plain values, as `wire_client.encode` takes them, and go on."""
        self._correlation_id += 1
        frame = wire_client.encode(api, version, self._correlation_id, **values)
        self._socket.sendall(wire_client.framed(frame))

    def request(self, api: str, version: int, **values: Any) -> dict[str, Any]:
        """Send plain values; the answer as plain values."""
        self.send(api, version, **values)
        correlation_id, found = self.receive(api, version)
        assert correlation_id == self._correlation_id
        return found

    def receive(self, api: str, version: int) -> tuple[int, dict[str, Any]]:
        """The next answer: correlation id, which is the number of the request, and plain values."""
        (length,) = struct.unpack(">i", self._read(4))
        correlation_id, message = wire_client.decode(api, version, self._read(length))
        return correlation_id, wire_client.plain(message)

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
        answer = self.request("ApiVersions", 2)
        assert answer["error_code"] == 0, answer
        return {api["api_key"] for api in answer["api_keys"]}

    def await_leader(self, topic: str, partition: int = 0) -> None:
        """Until a topic is led: Apache Kafka's broker hears of one that is new after its creation
        was acknowledged."""
        eventually(
            lambda: self.list_offset(topic, partition)["error_code"] == 0,
            within_s=LED_WITHIN_S,
            what=f"{topic}-{partition} has a leader",
        )

    def init_producer_id(self) -> Producer:
        """A new producer id, as idempotent producers ask for theirs: again while it is early."""
        return eventually(
            self._try_init_producer_id, within_s=TIMEOUT_S, what="the broker gives a producer id"
        )

    def _try_init_producer_id(self) -> Producer | None:
        no_producer = {"transactional_id": None, "producer_id": -1, "producer_epoch": -1}
        answer = self.request("InitProducerId", 4, transaction_timeout_ms=60_000, **no_producer)
        if answer["error_code"] == COORDINATOR_LOAD_IN_PROGRESS:
            return None
        assert answer["error_code"] == 0, answer
        return Producer(answer["producer_id"], answer["producer_epoch"])

    def produce(self, topic: str, partition: int, records: bytes) -> Outcome:
        """Write record bytes as they are; the answer, and the log's end offset after it."""
        found = self.write(topic, partition, records)
        return Outcome(found["error_code"], found["base_offset"], self.end_offset(topic, partition))

    def write(
        self,
        topic: str,
        partition: int,
        records: bytes | bytearray | memoryview,
        *,
        version: int = 9,
        transactional_id: str | None = None,
    ) -> dict[str, Any]:
        """Write record bytes as they are, with acks=all; the partition's answer."""
        data = [{"index": partition, "records": bytes(records)}]
        answer = self.request(
            "Produce",
            version,
            transactional_id=transactional_id,
            acks=ACKS_ALL,
            timeout_ms=int(TIMEOUT_S * 1000),
            topic_data=[{"name": topic, "partition_data": data}],
        )
        return partition_of(answer)

    def fetch(
        self,
        topic: str,
        partition: int,
        offset: int,
        *,
        version: int = 11,
        isolation: int = 0,
        bytes_max: int = READ_BYTES,
    ) -> dict[str, Any]:
        """What is there from an offset on, without waiting; the partition's answer."""
        fields = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": bytes_max}
        epochs = {"current_leader_epoch": -1, "last_fetched_epoch": -1, "log_start_offset": -1}
        answer = self.request(
            "Fetch",
            version,
            replica_id=-1,
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=READ_BYTES,
            isolation_level=isolation,
            session_epoch=-1,
            topics=[{"topic": topic, "partitions": [{**fields, **epochs}]}],
        )
        return partition_of(answer)

    def begin_fetch(self, topic: str, partition: int, max_wait_ms: int) -> None:
        """Ask for records from the beginning, to wait for the first; the answer isn't read."""
        fields = {"partition": partition, "fetch_offset": 0, "partition_max_bytes": BATCH_BYTES}
        self.send(
            "Fetch",
            4,
            replica_id=-1,
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=BATCH_BYTES,
            isolation_level=0,
            topics=[{"topic": topic, "partitions": [fields]}],
        )

    def list_offset(
        self,
        topic: str,
        partition: int = 0,
        timestamp: int = LATEST,
        *,
        version: int = 8,
        isolation: int = 0,
    ) -> dict[str, Any]:
        """The partition's answer to ListOffsets."""
        fields = {"partition_index": partition, "current_leader_epoch": -1, "timestamp": timestamp}
        answer = self.request(
            "ListOffsets",
            version,
            replica_id=-1,
            isolation_level=isolation,
            topics=[{"name": topic, "partitions": [fields]}],
        )
        return partition_of(answer)

    def end_offset(self, topic: str, partition: int) -> int:
        """The offset that the next record will get."""
        found = self.list_offset(topic, partition)
        assert found["error_code"] == 0, found
        return int(found["offset"])


def partition_of(answer: dict[str, Any]) -> dict[str, Any]:
    """The only partition of the only topic in an answer."""
    (topic,) = answer.get("responses") or answer["topics"]
    (found,) = topic.get("partition_responses") or topic["partitions"]
    partition: dict[str, Any] = found
    return partition


def batch(
    producer: Producer, base_sequence: int, values: Sequence[bytes], timestamp_ms: int
) -> bytes:
    """One record batch of an idempotent producer."""
    writer = logs.Producer(producer.id, producer.epoch, base_sequence)
    return bytes(logs.batch(values, timestamps=timestamp_ms, producer=writer))
