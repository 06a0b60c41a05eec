"""Messages of magic 0 and 1, from before Apache Kafka 0.11: each alone, or a set in a value."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple
from zlib import crc32

from kavka.tools.admin.errors import Failed
from kavka.tools.dump_log.java_values import wrap_long
from kavka.tools.dump_log.records import PAYLOAD_BYTES_MAX, Record
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

NULL: Final = -1
CRC_AT: Final = 12


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
        """Of key and value as they are written: negative for null. Failed if a key ends behind
        the message."""
        at = self._key_at
        key = self._number(at)
        return key, self._number(at + 4 + max(key, 0))

    def key_and_value(self) -> tuple[bytes | None, bytes | None]:
        """Failed if they end behind the message."""
        key, value = self.sizes()
        key_at = self._key_at + 4
        value_at = key_at + max(key, 0) + 4
        if value_at + max(value, 0) > len(self.data):
            raise self._cut_short()
        return (
            None if key < 0 else self.data[key_at : key_at + key],
            None if value < 0 else self.data[value_at : value_at + value],
        )

    @property
    def _key_at(self) -> int:
        return HEADS[self.magic].size - 4

    def _number(self, at: int) -> int:
        if at + 4 > len(self.data):
            raise self._cut_short()
        return int(unpack_length(self.data, at)[0])

    def _cut_short(self) -> Failed:
        return Failed(f"the message at offset {self.offset} is cut short")


def read_message(data: bytes) -> Message:
    """A whole message. Failed if it is too short for its magic."""
    offset, _, crc, magic, attributes = HEAD.unpack_from(data)
    if magic >= len(HEADS):
        raise Failed(f"Invalid magic found in record: {magic}")
    timestamp = NO_TIMESTAMP
    if magic:
        if len(data) < HEADS[magic].size - 4:
            raise Failed(f"the message at offset {offset} is cut short")
        timestamp = HEADS[magic].unpack_from(data + b"\0\0\0\0")[5]
    return Message(offset, magic, attributes, timestamp, crc, data)


def iter_records(message: Message) -> Iterator[Record]:
    """The message itself, or those in it if it is compressed. Failed if they are malformed."""
    if not message.compression:
        yield _record(message, message.offset, message.timestamp)
        return
    inner = list(_inner(message))
    if not inner:
        lack = "null value" if message.key_and_value()[1] is None else "no inner records"
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
    for one in inner:
        timestamp = message.timestamp if message.by_log else one.timestamp
        yield _record(one, wrap_long(base + one.offset), timestamp)


def _inner(message: Message) -> Iterator[Message]:
    _, value = message.key_and_value()
    if value is None:
        return
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
        one = read_message(payload[at:end])
        if one.magic != message.magic or one.compression:
            raise Failed(
                f"Compressed message magic {message.magic} does not match wrapper magic {one.magic}"
            )
        yield one
        at = end


def _record(message: Message, offset: int, timestamp: int) -> Record:
    sizes, damage = message.sizes(), None
    key: bytes | None = None
    value: bytes | None = None
    try:
        key, value = message.key_and_value()
    except Failed as error:
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
