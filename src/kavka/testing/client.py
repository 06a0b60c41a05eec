"""A client of a broker in this process, without a socket.

Requests go directly to the broker's handlers, so they are validated and answered as any other
client's. All of it runs on the broker's event loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from inspect import isawaitable
from typing import Any, Final, NamedTuple

from kavka.server.broker import Broker
from kavka.server.connections.dispatch import HANDLERS
from kavka.server.request.context import Peer, RequestContext
from kavka.wire import record_batches
from kavka.wire.api import Api
from kavka.wire.apis import (
    create_topics,
    delete_topics,
    fetch,
    list_offsets,
    metadata,
    produce,
)
from kavka.wire.apis.list_offsets import EARLIEST, LATEST
from kavka.wire.building import NewRecord, build_batch
from kavka.wire.codec import private_copy
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.record_batches import BatchHeader

__all__ = ["Client", "Record"]

TIMEOUT_MS: Final = 30_000
"""How long creating or deleting a topic may take."""

BROKER_DEFAULT: Final = -1
"""As number of partitions or replicas: the broker's default."""

READ_WITHIN_S: Final = 10.0
"""How long `read` waits for records by default."""

FETCH_BYTES: Final = 1024 * 1024
"""Read from a partition at a time."""

INFLATED_BYTES_MAX: Final = 256 * 1024 * 1024
"""The largest batch that is unpacked."""

_CLIENT_ID: Final = "kavka.testing"
_ALL_REPLICAS: Final = -1
_VERSIONS: Final = {
    create_topics.API: 7,
    delete_topics.API: 5,
    fetch.API: 12,
    list_offsets.API: 9,
    metadata.API: 12,
    produce.API: 9,
}


class Record(NamedTuple):
    """A record as it was read; time in ms since the epoch, null as None."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


class Client:
    """A client of one broker."""

    def __init__(self, broker: Broker, listener: str) -> None:
        self._broker = broker
        self._peer = Peer(listener, "this process")

    async def create_topic(
        self,
        name: str,
        partitions: int,
        configs: Mapping[str, str | None],
        *,
        replication_factor: int = BROKER_DEFAULT,
    ) -> None:
        make = private_copy.message_class(create_topics.API.request_name)
        response = await self._ask(
            create_topics.API,
            topics=[
                make.CreatableTopic(
                    name=name,
                    num_partitions=partitions,
                    replication_factor=replication_factor,
                    configs=[
                        make.CreatableTopic.CreatableTopicConfig(name=key, value=value)
                        for key, value in configs.items()
                    ],
                )
            ],
            timeout_ms=TIMEOUT_MS,
        )
        (topic,) = response.topics
        _check(topic.error_code, f"topic {name}", topic.error_message)

    async def delete_topic(self, name: str) -> None:
        response = await self._ask(delete_topics.API, topic_names=[name], timeout_ms=TIMEOUT_MS)
        (topic,) = response.responses
        _check(topic.error_code, f"topic {name}", topic.error_message)

    async def topics(self) -> list[str]:
        response = await self._ask(metadata.API, topics=None)
        return sorted(topic.name for topic in response.topics if not topic.is_internal)

    async def partitions(self, topic: str) -> list[int]:
        make = private_copy.message_class(metadata.API.request_name)
        asked = make.MetadataRequestTopic(name=topic)
        response = await self._ask(metadata.API, topics=[asked], allow_auto_topic_creation=False)
        (found,) = response.topics
        _check(found.error_code, f"topic {topic}")
        return sorted(partition.partition_index for partition in found.partitions)

    async def offsets(
        self, topic: str, timestamp: int, partition: int | None = None
    ) -> dict[int, int]:
        """The offset for a timestamp, which may be a special one, by partition; of all partitions,
        or of one."""
        make = private_copy.message_class(list_offsets.API.request_name).ListOffsetsTopic
        asked = [
            make.ListOffsetsPartition(
                partition_index=index, current_leader_epoch=-1, timestamp=timestamp
            )
            for index in await self.partitions(topic)
            if partition in (None, index)
        ]
        if partition is not None and not asked:
            _check(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic}-{partition}")
        response = await self._ask(
            list_offsets.API,
            replica_id=-1,
            topics=[make(name=topic, partitions=asked)],
        )
        for found in response.topics[0].partitions:
            _check(found.error_code, f"{topic}-{found.partition_index}")
        return {found.partition_index: found.offset for found in response.topics[0].partitions}

    async def produce(
        self,
        topic: str,
        partition: int,
        value: bytes | None,
        key: bytes | None,
        headers: Sequence[tuple[str, bytes | None]],
        timestamp_ms: int | None,
    ) -> int:
        _check_bytes("value", value)
        _check_bytes("key", key)
        for name, header in headers:
            _check_bytes(f"header {name!r}", header)
        now_ms = self._broker.clock.now_ms()
        record = NewRecord(now_ms if timestamp_ms is None else timestamp_ms, key, value, headers)
        make = private_copy.message_class(produce.API.request_name).TopicProduceData
        written = make.PartitionProduceData(
            index=partition, records=memoryview(build_batch([record]))
        )
        response = await self._ask(
            produce.API,
            acks=_ALL_REPLICAS,
            timeout_ms=TIMEOUT_MS,
            topic_data=[make(name=topic, partition_data=[written])],
        )
        (found,) = response.responses[0].partition_responses
        _check(found.error_code, f"{topic}-{partition}", found.error_message)
        offset: int = found.base_offset
        return offset

    async def read(
        self, topic: str, partition: int | None, *, at_least: int, within_s: float
    ) -> list[Record]:
        positions = await self.offsets(topic, EARLIEST, partition)
        ends = await self.offsets(topic, LATEST, partition)
        found: list[Record] = []
        deadline_s = self._broker.clock.monotonic_s() + within_s
        while any(positions[one] < end for one, end in ends.items()) or len(found) < at_least:
            left_ms = int((deadline_s - self._broker.clock.monotonic_s()) * 1000)
            if left_ms <= 0:
                raise TimeoutError(
                    f"{len(found)} of {at_least} records in {topic} after {within_s} s"
                )
            found += await self._fetch(topic, positions, left_ms)
        return sorted(found, key=lambda record: (record.partition, record.offset))

    async def _fetch(self, topic: str, positions: dict[int, int], max_wait_ms: int) -> list[Record]:
        """Fetch from `positions` (offset by partition), waiting up to `max_wait_ms` for the first
        record; advances `positions`."""
        make = private_copy.message_class(fetch.API.request_name).FetchTopic
        asked = [
            make.FetchPartition(
                partition=partition, fetch_offset=offset, partition_max_bytes=FETCH_BYTES
            )
            for partition, offset in positions.items()
        ]
        context = self._context(fetch.API)
        response = await self._ask(
            fetch.API,
            context,
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            topics=[make(topic=topic, partitions=asked)],
        )
        found = []
        for partition in response.responses[0].partitions if response.responses else ():
            index = partition.partition_index
            _check(partition.error_code, f"{topic}-{index}")
            for header, batch in _batches(bytes(partition.records or b"")):
                if not header.is_control:
                    start = positions[index]  # may lie within the batch
                    read = _records(topic, index, header, batch)
                    found += [record for record in read if record.offset >= start]
                positions[index] = header.last_offset + 1
        for arena in context.lent or ():
            self._broker.arenas.release(arena)
        return found

    def _context(self, api: Api) -> RequestContext:
        return RequestContext(self._peer, _VERSIONS[api], 0, _CLIENT_ID)

    async def _ask(self, api: Api, context: RequestContext | None = None, **fields: Any) -> Any:
        context = context or self._context(api)
        request = private_copy.message_class(api.request_name)(version=context.version, **fields)
        _, handler = HANDLERS[api.key]
        result: Any = handler(self._broker, context, request)
        return await result if isawaitable(result) else result


def _check(code: int, where: str, message: str | None = None) -> None:
    if code != ErrorCode.NONE:
        raise ApiError(ErrorCode(code), f"{where}: {message}" if message else where)


def _check_bytes(what: str, value: object) -> None:
    """TypeError for a value that a record can't hold; the message names the argument."""
    if value is None or isinstance(value, bytes | bytearray | memoryview):
        return
    hint = ": encode it, as in 'text'.encode()" if isinstance(value, str) else ""
    raise TypeError(f"{what} must be bytes or None, not {type(value).__name__}{hint}")


def _batches(data: bytes) -> Iterator[tuple[BatchHeader, bytes]]:
    """The complete batches; a response may end with a partial one."""
    position = 0
    while len(data) - position >= record_batches.HEADER_BYTES:
        header = record_batches.read_header(data, position)
        batch = data[position : position + header.size]
        position += header.size
        if len(batch) == header.size:
            yield header, batch


def _records(topic: str, partition: int, header: BatchHeader, batch: bytes) -> Iterator[Record]:
    payload = record_batches.payload_of(header, batch, INFLATED_BYTES_MAX)
    appended = header.attributes & record_batches.LOG_APPEND_TIME
    for one in record_batches.iter_records(header, payload):
        timestamp_ms = header.base_timestamp + one.timestamp_delta
        yield Record(
            topic,
            partition,
            header.base_offset + one.offset_delta,
            header.max_timestamp if appended else timestamp_ms,
            _bytes(one.key),
            _bytes(one.value),
            [(bytes(name).decode(), _bytes(value)) for name, value in one.headers],
        )


def _bytes(value: Any) -> bytes | None:
    return None if value is None else bytes(value)
