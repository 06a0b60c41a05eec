"""What passes, as a stream of records: from the proxy to the printer, and in a capture file.

The stream begins with `MAGIC`. A record is a kind (1 byte), a time (8 bytes, microseconds since the
epoch), a connection (4 bytes), a length (4 bytes) and that many bytes, all big-endian. What the
bytes are depends on the kind; frames are without their length.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import Final, NamedTuple

MAGIC: Final = b"kavka tap 1\n"

RECORD_BYTES_MAX: Final = 1 << 30

_HEAD: Final = struct.Struct(">BqiI")
_REQUEST: Final = struct.Struct(">hhq")


class Kind(IntEnum):
    """What a record tells."""

    OPENED = 1
    """JSON: `client` (its address), `broker` (HOST:PORT), `node` (the broker's id, or null)."""
    CLOSED = 2
    """UTF-8: why; empty if the client or the broker closed the connection."""
    REQUEST = 3
    """The frame."""
    RESPONSE = 4
    """`RequestInfo`, then the frame, as the broker sent it."""
    FOREIGN = 5
    """UTF-8: why the rest of the connection is passed on unread."""
    DROPPED = 6
    """UTF-8 digits: how many messages are not in the stream, as it was read too slowly."""
    NOTE = 7
    """UTF-8: something else that went wrong."""


_KINDS: Final = range(min(Kind), max(Kind) + 1)


class Record(NamedTuple):
    kind: Kind
    time_us: int
    connection: int
    data: bytes


class RequestInfo(NamedTuple):
    """The request that a response answers; key -1 for what no request is known of."""

    key: int
    version: int
    time_us: int


UNKNOWN_REQUEST: Final = RequestInfo(-1, -1, 0)
"""For a response to no known request."""

OPAQUE: Final = -2
"""The key of a token of SASL without a header of Kafka's, and of its answer."""


class Damaged(Exception):
    """The bytes are no capture, or end within a record; the message says which."""


def encode(record: Record) -> bytes:
    """A record's bytes."""
    head = _HEAD.pack(record.kind, record.time_us, record.connection, len(record.data))
    return head + record.data


def response_data(request: RequestInfo, frame: bytes) -> bytes:
    """The data of a RESPONSE."""
    return _REQUEST.pack(*request) + frame


def split_response(data: bytes) -> tuple[RequestInfo, memoryview]:
    """A RESPONSE's data apart."""
    return RequestInfo._make(_REQUEST.unpack_from(data)), memoryview(data)[_REQUEST.size :]


class Reader:
    """Cuts a stream into records."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._has_begun = False

    def feed(self, data: bytes) -> Iterator[Record]:
        """The records that are complete now. Damaged."""
        buffer = self._buffer
        buffer += data
        position = 0
        if not self._has_begun:
            if len(buffer) < len(MAGIC):
                return
            if not buffer.startswith(MAGIC):
                raise Damaged("it is no capture of kavka tap")
            self._has_begun = True
            position = len(MAGIC)
        while len(buffer) - position >= _HEAD.size:
            kind, time_us, connection, length = _HEAD.unpack_from(buffer, position)
            if kind not in _KINDS or length > RECORD_BYTES_MAX:
                raise Damaged("it has bytes that are no record")
            end = position + _HEAD.size + length
            if end > len(buffer):
                break
            data = bytes(memoryview(buffer)[position + _HEAD.size : end])
            position = end
            yield Record(Kind(kind), time_us, connection, data)
        del buffer[:position]

    def end(self) -> None:
        """The stream has ended. Damaged."""
        if not self._has_begun:
            raise Damaged("it is no capture of kavka tap")
        if self._buffer:
            raise Damaged("it ends within a message")
