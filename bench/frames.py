"""Requests as bytes, built once and sent many times, and where to look in the answers.

Old, fixed-layout versions that both brokers serve (field layouts: Kafka's protocol guide). Built
here and not with the broker's own codec, so that a mistake in it cannot hide itself.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from crc32c import crc32c

CLIENT_ID: Final = b"bench"

PRODUCE: Final = 0
FETCH: Final = 1
LIST_OFFSETS: Final = 2
METADATA: Final = 3
API_VERSIONS: Final = 18
CREATE_TOPICS: Final = 19
DELETE_TOPICS: Final = 20
INCREMENTAL_ALTER_CONFIGS: Final = 44

TOPIC: Final = 2
BROKER: Final = 4

TOPIC_ALREADY_EXISTS: Final = 36

TRANSACTIONAL: Final = 0x10
"""An attribute of a record batch."""

_BATCH_OVERHEAD_BYTES: Final = 61
_LENGTH_PREFIX_BYTES: Final = 12


def frame(api_key: int, version: int, body: bytes) -> bytes:
    """A whole request with header v1 and correlation id 1."""
    header = struct.pack(">hhih", api_key, version, 1, len(CLIENT_ID)) + CLIENT_ID
    return struct.pack(">i", len(header) + len(body)) + header + body


def string(text: str) -> bytes:
    """A protocol string with its 16-bit length."""
    encoded = text.encode()
    return struct.pack(">h", len(encoded)) + encoded


def cluster_metadata() -> bytes:
    """Metadata v1 for no topic: the brokers, and which is the controller."""
    return frame(METADATA, 1, struct.pack(">i", 0))


def controller_id(answer: memoryview) -> int:
    """Which broker is the controller, -1 for none, in an answer (without its size field) to
    `cluster_metadata`: behind the brokers, which each have an id, a host, a port and a rack."""
    (count,) = struct.unpack_from(">i", answer, 4)
    position = 8
    for _ in range(count):
        (host_length,) = struct.unpack_from(">h", answer, position + 4)
        position += 6 + host_length
        (rack_length,) = struct.unpack_from(">h", answer, position + 4)
        position += 6 + max(0, rack_length)
    return int(struct.unpack_from(">i", answer, position)[0])


def api_versions() -> bytes:
    """ApiVersions v0."""
    return frame(API_VERSIONS, 0, b"")


def create_topic(
    name: str,
    partitions: int,
    timeout_ms: int = 10_000,
    configs: Mapping[str, str] = MappingProxyType({}),
    replicas: int = 1,
) -> bytes:
    """CreateTopics v4 for one topic."""
    topic = string(name) + struct.pack(">ihii", partitions, replicas, 0, len(configs))
    topic += b"".join(string(key) + string(value) for key, value in configs.items())
    return frame(
        CREATE_TOPICS, 4, struct.pack(">i", 1) + topic + struct.pack(">i?", timeout_ms, False)
    )


def create_topics(names: Sequence[str], partitions: int, timeout_ms: int = 60_000) -> bytes:
    """CreateTopics v4 for many topics of one replica."""
    shape = struct.pack(">ihii", partitions, 1, 0, 0)
    topics = b"".join(string(name) + shape for name in names)
    return frame(
        CREATE_TOPICS,
        4,
        struct.pack(">i", len(names)) + topics + struct.pack(">i?", timeout_ms, False),
    )


def create_topics_errors(answer: memoryview) -> list[int]:
    """The error codes in an answer to `create_topics`."""
    (count,) = struct.unpack_from(">i", answer, 8)
    position, codes = 12, []
    for _ in range(count):
        (name_length,) = struct.unpack_from(">h", answer, position)
        position += 2 + name_length
        code, message_length = struct.unpack_from(">hh", answer, position)
        position += 4 + max(0, message_length)
        codes.append(int(code))
    return codes


def create_topic_error(answer: memoryview) -> int:
    """The error code in an answer to `create_topic` (correlation, throttle, count, name, code)."""
    (name_length,) = struct.unpack_from(">h", answer, 12)
    return int(struct.unpack_from(">h", answer, 14 + name_length)[0])


def delete_topic(name: str, timeout_ms: int = 10_000) -> bytes:
    """DeleteTopics v1 for one topic."""
    return frame(
        DELETE_TOPICS, 1, struct.pack(">i", 1) + string(name) + struct.pack(">i", timeout_ms)
    )


def delete_topic_error(answer: memoryview) -> int:
    """The error code in an answer to `delete_topic`: the same layout."""
    return create_topic_error(answer)


def alter_configs(kind: int, name: str, configs: Mapping[str, str]) -> bytes:
    """IncrementalAlterConfigs v0 that sets configs of a TOPIC, or of a BROKER ("": of all)."""
    entries = b"".join(
        string(key) + struct.pack(">b", 0) + string(value) for key, value in configs.items()
    )
    resource = struct.pack(">b", kind) + string(name) + struct.pack(">i", len(configs)) + entries
    body = struct.pack(">i", 1) + resource + struct.pack(">?", False)
    return frame(INCREMENTAL_ALTER_CONFIGS, 0, body)


def alter_configs_error(answer: memoryview) -> int:
    """The error code in an answer (without its size field) to `alter_configs`."""
    return int(struct.unpack_from(">h", answer, 12)[0])


def list_end_offset(topic: str, partition: int = 0) -> bytes:
    """ListOffsets v1 for the end of a partition."""
    partitions = struct.pack(">iiq", 1, partition, -1)
    return frame(LIST_OFFSETS, 1, struct.pack(">ii", -1, 1) + string(topic) + partitions)


def listed_error(answer: memoryview) -> int:
    """The error code in an answer to `list_end_offset`: before time and offset."""
    return int(struct.unpack_from(">h", answer, len(answer) - 18)[0])


def listed_offset(answer: memoryview) -> int:
    """The offset in an answer to `list_end_offset`: its last eight bytes."""
    return int(struct.unpack_from(">q", answer, len(answer) - 8)[0])


class Batch(NamedTuple):
    """How a record batch is filled: `records` values of `value_bytes` each, uncompressed."""

    value_bytes: int
    records: int

    @property
    def payload_bytes(self) -> int:
        """What a user wrote: the values alone. 'GB' in every produce row counts these."""
        return self.value_bytes * self.records

    def encode(self, transaction: tuple[int, int, int] | None = None) -> bytes:
        """A record batch of magic 2 from base offset 0, without keys or headers; of a producer's
        transaction, if it is given producer id, epoch and base sequence."""
        value = b"v" * self.value_bytes
        records = b"".join(_record(delta, value) for delta in range(self.records))
        now_ms = int(time.time() * 1000)
        checked = struct.pack(
            ">hiqqqhii",
            0 if transaction is None else TRANSACTIONAL,
            self.records - 1,
            now_ms,
            now_ms,
            *(transaction or (-1, -1, -1)),
            self.records,
        )
        length = _BATCH_OVERHEAD_BYTES - _LENGTH_PREFIX_BYTES + len(records)
        crc = crc32c(records, crc32c(checked))
        return struct.pack(">qiibI", 0, length, -1, 2, crc) + checked + records


def produce(
    topic: str, partition: int, batch: bytes, acks: int = 1, transactional_id: str | None = None
) -> bytes:
    """Produce v7 of one batch to one partition."""
    named = struct.pack(">h", -1) if transactional_id is None else string(transactional_id)
    return frame(
        PRODUCE,
        7,
        named
        + struct.pack(">hii", acks, 30_000, 1)
        + string(topic)
        + struct.pack(">iii", 1, partition, len(batch))
        + batch,
    )


def produce_each(topic: str, partitions: int, batch: bytes, acks: int = 1) -> bytes:
    """Produce v7 of the same batch to each of a topic's partitions."""
    parts = b"".join(
        struct.pack(">ii", partition, len(batch)) + batch for partition in range(partitions)
    )
    return frame(
        PRODUCE,
        7,
        struct.pack(">hhii", -1, acks, 30_000, 1)
        + string(topic)
        + struct.pack(">i", partitions)
        + parts,
    )


def produce_each_errors(answer: memoryview, topic: str) -> list[int]:
    """The error codes in an answer (without its size field) to `produce_each`."""
    first = produce_error_at(topic) - 8
    return [code for _, code, *_ in struct.iter_unpack(">ihqqq", answer[first:-4])]


def produce_error_at(topic: str) -> int:
    """Where the error code lies in an answer to `produce`, counted from its size field."""
    return 4 + 4 + 4 + 2 + len(topic.encode()) + 4 + 4


def produce_answer_bytes(topic: str) -> int:
    """Size of a whole answer to `produce`: code, base offset, two more longs, throttle time."""
    return produce_error_at(topic) + 2 + 8 + 8 + 8 + 4


class FetchRequest:
    """Fetch v4 of one partition; only the offset changes from one request to the next."""

    def __init__(
        self, topic: str, partition: int, *, max_wait_ms: int, partition_max_bytes: int
    ) -> None:
        body = (
            struct.pack(">iiiib", -1, max_wait_ms, 1, 50 << 20, 0)
            + struct.pack(">i", 1)
            + string(topic)
            + struct.pack(">iiqi", 1, partition, 0, partition_max_bytes)
        )
        self._buffer = bytearray(frame(FETCH, 4, body))
        self._offset_at = len(self._buffer) - 12

    def at(self, offset: int) -> bytearray:
        """The frame that asks for `offset`; the same buffer each time."""
        struct.pack_into(">q", self._buffer, self._offset_at, offset)
        return self._buffer


def fetched_records(answer: memoryview) -> memoryview:
    """The record bytes in an answer (without its size field) to a `FetchRequest`.

    RuntimeError when the broker answered with an error code.
    """
    (name_length,) = struct.unpack_from(">h", answer, 12)
    position = 14 + name_length + 4 + 4  # name, partition count, index
    error, _high_watermark, _last_stable, aborted = struct.unpack_from(">hqqi", answer, position)
    if error:
        raise RuntimeError(f"Fetch answered error {error}")
    position += 22 + 16 * max(0, aborted)
    (length,) = struct.unpack_from(">i", answer, position)
    return answer[position + 4 : position + 4 + max(0, length)]


def base_offset(batch: memoryview) -> int:
    """The base offset of the batch that starts here."""
    return int(struct.unpack_from(">q", batch)[0])


def offsets_of(records: memoryview) -> Iterator[range]:
    """The offsets of each whole batch in fetched record bytes; a cut last batch is left out."""
    position = 0
    while position + _BATCH_OVERHEAD_BYTES <= len(records):
        first, length = struct.unpack_from(">qi", records, position)
        if position + _LENGTH_PREFIX_BYTES + length > len(records):
            return
        (last_delta,) = struct.unpack_from(">i", records, position + 23)
        yield range(first, first + last_delta + 1)
        position += _LENGTH_PREFIX_BYTES + length


def _record(offset_delta: int, value: bytes) -> bytes:
    fields: Sequence[bytes] = (
        b"\0",  # attributes
        varint(0),  # timestamp delta
        varint(offset_delta),
        varint(-1),  # no key
        varint(len(value)),
        value,
        varint(0),  # no headers
    )
    record = b"".join(fields)
    return varint(len(record)) + record


def varint(number: int) -> bytes:
    """A zigzag varint, as records have them."""
    zigzag = (number << 1) ^ (number >> 63)
    encoded = bytearray()
    while zigzag > 0x7F:
        encoded.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    encoded.append(zigzag)
    return bytes(encoded)
