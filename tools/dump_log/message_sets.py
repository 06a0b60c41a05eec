"""Messages of magic 0 and 1, from before Apache Kafka 0.11: each alone, or a set in a value."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple
from zlib import crc32

from kavka.tools.admin.errors import Failed
from kavka.tools.dump_log.java_values import wrap_long
from kavka.tools.dump_log.records import PAYLOAD_BYTES_MAX, CutShort, Part, Record
from kavka.wire.compression import Codec, decompress
from kavka.wire.errors import ApiError
from kavka.wire.message_set import (
    CODEC_MASK,
    CRC_START,
    HEAD,
    HEADS,
    LOG_APPEND_TIME,
    LOG_OVERHEAD_BYTES,
    MESSAGE_BYTES_MIN,
    NO_TIMESTAMP,
    unpack_length,
)
from kavka.wire.old_lz4 import with_valid_checksum

_TIMESTAMP: Final = struct.Struct(">q")


class Message(NamedTuple):
    """One message as it lies there, with its offset."""

    offset: int
    magic: int
    attributes: int
    timestamp: int
    crc: int
    data: bytes
    """All of it, the offset too."""

    @property
    def compression(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def is_valid(self) -> bool:
        """Whether the CRC fits."""
        return crc32(self.data[CRC_START:]) == self.crc

    @property
    def by_log(self) -> bool:
        """Whether the broker has set the timestamp."""
        return self.magic > 0 and bool(self.attributes & LOG_APPEND_TIME)

    def sizes(self) -> tuple[int, int]:
        """Of key and value as they are written: negative for null. CutShort if a key ends behind
        the message."""
        at = self._key_at
        key = self._number(at, Part.KEY_SIZE)
        return key, self._number(at + 4 + max(key, 0), Part.VALUE)

    def key(self) -> bytes | None:
        """CutShort if it ends behind the message."""
        return self._part(self._key_at, Part.KEY)

    def value(self) -> bytes | None:
        """CutShort if it ends behind the message."""
        return self._part(self._key_at + 4 + max(self.sizes()[0], 0), Part.VALUE)

    @property
    def _key_at(self) -> int:
        return HEADS[min(self.magic, 1)].size - 4

    def _part(self, at: int, part: Part) -> bytes | None:
        size = self._number(at, part)
        left = len(self.data) - at - 4
        if size > left:
            raise CutShort(self.offset, part, f"newLimit > capacity: ({size} > {left})")
        return None if size < 0 else self.data[at + 4 : at + 4 + size]

    def _number(self, at: int, part: Part) -> int:
        if at + 4 > len(self.data):
            raise CutShort(self.offset, part)
        return int(unpack_length(self.data, at)[0])


def read_message(data: bytes) -> Message:
    """A whole message. One of an unknown magic is read as of magic 1."""
    offset, _, crc, magic, attributes = HEAD.unpack_from(data)
    timestamp = _TIMESTAMP.unpack_from(data, HEAD.size)[0] if magic else NO_TIMESTAMP
    return Message(offset, magic, attributes, timestamp, crc, data)


def iter_records(message: Message) -> Iterator[Record]:
    """The message itself, or those in it if it is compressed. Failed if they are malformed."""
    if not message.compression:
        yield _record(message, message.offset, message.timestamp)
        return
    inner = list(_inner(message))
    if not inner:
        lack = "null value" if message.value() is None else "no inner records"
        raise Failed(f"Found invalid compressed record set with {lack} (magic={message.magic})")
    # with magic 1 offsets in a set are relative, unless an old broker has left them absolute, or
    # some librdkafka the set's at 0
    last, base = inner[-1].offset, 0
    if message.magic == 1 and message.offset != 0:
        if message.offset < last:
            raise Failed(
                f"Found invalid wrapper offset in compressed v1 message set, wrapper offset "
                f"'{message.offset}' is less than the last inner message offset '{last}' and it "
                "is not zero."
            )
        base = message.offset - last
    for inner_message in inner:
        if inner_message.compression:
            raise Failed("Inner messages must not be compressed")
        is_by_set = message.by_log and inner_message.magic == 1
        timestamp = message.timestamp if is_by_set else inner_message.timestamp
        yield _record(inner_message, wrap_long(base + inner_message.offset), timestamp)


def _inner(message: Message) -> Iterator[Message]:
    value = message.value()
    if value is None:
        return
    if message.compression == Codec.ZSTD:
        raise Failed(f"zstd in the message at offset {message.offset}, of magic {message.magic}")
    if message.magic == 0 and message.compression == Codec.LZ4:
        value = bytes(with_valid_checksum(value))
    try:
        payload = bytes(decompress(message.compression, value, PAYLOAD_BYTES_MAX))
    except ApiError as error:
        raise Failed(
            f"the message at offset {message.offset} is damaged: {error.message}"
        ) from error
    at = 0
    while at + LOG_OVERHEAD_BYTES <= len(payload):
        (size,) = unpack_length(payload, at + 8)
        end = at + LOG_OVERHEAD_BYTES + size
        if size < MESSAGE_BYTES_MIN:
            raise Failed(f"Found record size {size} in the message at offset {message.offset}")
        if end > len(payload):
            return  # Apache Kafka's reader takes it for the end
        yield read_message(payload[at:end])
        at = end


def _record(message: Message, offset: int, timestamp: int) -> Record:
    key: bytes | None = None
    value: bytes | None = None
    sizes: tuple[int, int] | None = None
    damage: CutShort | None = None
    try:
        sizes = message.sizes()
    except CutShort as error:
        damage = error
    try:
        key = message.key()
        value = message.value()
    except CutShort as error:
        damage = error
    return Record(
        offset,
        timestamp,
        key,
        value,
        crc=message.crc,
        is_valid=message.is_valid,
        sizes=sizes,
        damage=damage,
    )
