"""One plain connection and hand-made requests, for what no stock client would send."""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

from support import logs, wire_client
from support.wait import eventually

TIMEOUT_S = 30.0
LATEST = -1
ACKS_ALL = -1
BATCH_BYTES = 1_048_576

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
        (length,) = struct.unpack(">i", self._read(4))
        correlation_id, message = wire_client.decode(api, version, self._read(length))
        assert correlation_id == self._correlation_id
        found: dict[str, Any] = wire_client.plain(message)
        return found

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

    def init_producer_id(self) -> Producer:
        """A new producer id, as idempotent producers ask for theirs: again while it is early."""
        return eventually(
            self._try_init_producer_id, within_s=TIMEOUT_S, what="the broker gives a producer id"
        )

    def _try_init_producer_id(self) -> Producer | None:
        nobody = {"transactional_id": None, "producer_id": -1, "producer_epoch": -1}
        answer = self.request("InitProducerId", 4, transaction_timeout_ms=60_000, **nobody)
        if answer["error_code"] == COORDINATOR_LOAD_IN_PROGRESS:
            return None
        assert answer["error_code"] == 0, answer
        return Producer(answer["producer_id"], answer["producer_epoch"])

    def produce(
        self, topic: str, partition: int, records: bytes, transactional_id: str | None = None
    ) -> Outcome:
        """Write record bytes as they are, with acks=all."""
        data = [{"index": partition, "records": records}]
        answer = self.request(
            "Produce",
            9,
            transactional_id=transactional_id,
            acks=ACKS_ALL,
            timeout_ms=int(TIMEOUT_S * 1000),
            topic_data=[{"name": topic, "partition_data": data}],
        )
        found = answer["responses"][0]["partition_responses"][0]
        return Outcome(found["error_code"], found["base_offset"], self.end_offset(topic, partition))

    def begin_fetch(self, topic: str, partition: int, max_wait_ms: int) -> None:
        """Ask for records from the beginning, to wait for the first; the answer isn't read."""
        place = {"partition": partition, "fetch_offset": 0, "partition_max_bytes": BATCH_BYTES}
        self.send(
            "Fetch",
            4,
            replica_id=-1,
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=BATCH_BYTES,
            isolation_level=0,
            topics=[{"topic": topic, "partitions": [place]}],
        )

    def end_offset(self, topic: str, partition: int) -> int:
        """The offset that the next record will get."""
        place = {"partition_index": partition, "current_leader_epoch": -1, "timestamp": LATEST}
        asked = [{"name": topic, "partitions": [place]}]
        answer = self.request("ListOffsets", 7, replica_id=-1, isolation_level=0, topics=asked)
        found = answer["topics"][0]["partitions"][0]
        assert found["error_code"] == 0, found
        offset: int = found["offset"]
        return offset


def batch(
    producer: Producer, base_sequence: int, values: Sequence[bytes], timestamp_ms: int
) -> bytes:
    """One record batch of an idempotent producer."""
    writer = logs.Producer(producer.id, producer.epoch, base_sequence)
    return bytes(logs.batch(values, timestamps=timestamp_ms, producer=writer))
