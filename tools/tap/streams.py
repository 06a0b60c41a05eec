"""The two byte streams of a connection, cut into requests and responses; no I/O.

Bytes are passed on as they come. Only a response that may have to be rewritten is held back until
it is whole.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from kavka.tools.tap.capture import OPAQUE, UNKNOWN_REQUEST, RequestInfo
from kavka.wire import header
from kavka.wire.apis import produce
from kavka.wire.known_apis import KEYS, known_api

FRAME_BYTES_MAX: Final = 256 * 1024 * 1024
"""More than any message; the first bytes of TLS and HTTP read as a longer one."""

UNANSWERED_MAX: Final = 100_000
"""Requests of one connection that are remembered until they are answered."""

SASL_HANDSHAKE: Final = 17

_LENGTH_BYTES: Final = 4
_HEAD_BYTES: Final = 8
_unpack_int: Final = struct.Struct(">i").unpack_from
_unpack_short: Final = struct.Struct(">h").unpack_from


class Foreign(Exception):
    """The bytes are not Kafka's protocol; the message says what they look like."""

    def __init__(self, message: str, rest: bytes) -> None:
        super().__init__(message)
        self.rest = rest
        """The bytes from there on."""


class Chunk(NamedTuple):
    """Bytes to pass on, and the message that ends with them, if one does."""

    data: bytes
    frame: bytes | None = None
    """A whole message, without its length."""
    request: RequestInfo = UNKNOWN_REQUEST
    """Of a response: what it answers."""
    is_held: bool = False
    """Whether `data` is a whole response that may have to be rewritten."""


class Unanswered:
    """The requests of a connection whose responses are due, in their order."""

    def __init__(self) -> None:
        self._due: deque[tuple[int | None, RequestInfo]] = deque(maxlen=UNANSWERED_MAX)
        self._is_sasl_raw = False

    def add(self, frame: bytes, time_us: int) -> None:
        """Remember a request until its response comes."""
        view = memoryview(frame)
        try:
            key, version, correlation_id, _ = header.read_fixed(view)
        except struct.error:
            key, version, correlation_id = -1, -1, 0
        if self._is_sasl_raw and not _is_known(key, version):
            self._due.append((None, RequestInfo(OPAQUE, 0, time_us)))
        elif len(frame) >= _HEAD_BYTES and _expects_response(key, version, view):
            self._due.append((correlation_id, RequestInfo(key, version, time_us)))
        if key == SASL_HANDSHAKE and version == 0:  # tokens without headers follow (KIP-43)
            self._is_sasl_raw = True

    def find(self, correlation_id: int | None) -> RequestInfo:
        """The request that a response with this id answers; those before it get none."""
        due = self._due
        if due and (due[0][0] == correlation_id or due[0][0] is None):
            return due.popleft()[1]
        if any(due_id == correlation_id for due_id, _ in due):
            while (taken := due.popleft())[0] != correlation_id:
                pass
            return taken[1]
        return UNKNOWN_REQUEST


def _is_known(key: int, version: int) -> bool:
    api = known_api(key) if key in KEYS else None
    return api is not None and 0 <= version <= api.highest


def _expects_response(key: int, version: int, frame: memoryview) -> bool:
    """False for a Produce request with acks=0."""
    if key != produce.API.key:
        return True
    try:
        return _acks(version, frame) != 0
    except (IndexError, ValueError, struct.error):
        return True


def _acks(version: int, frame: memoryview) -> int:
    _, position = header.read_client_id(frame, header.read_fixed(frame)[3])
    if version >= produce.API.first_flexible:
        position = header.skip_tags(frame, position)
        length = frame[position]
        if length > 0x7F:  # a transactional id of more than 126 bytes
            length += (frame[position + 1] - 1) * 0x80
            position += 1
        position += max(length, 1)
    elif version >= produce.BATCHES_SINCE:
        position += 2 + max(_unpack_short(frame, position)[0], 0)
    return int(_unpack_short(frame, position)[0])


class Requests:
    """What a client sends."""

    def __init__(self) -> None:
        self._left = 0
        self._head = b""
        self._parts: list[bytes] = []

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The requests that are whole now, without their lengths. Foreign."""
        if self._head:
            data, self._head = self._head + data, b""
        position, end = 0, len(data)
        while position < end:
            if not self._left:
                if end - position < _LENGTH_BYTES:
                    self._head = data[position:]
                    return
                self._left = _length(data, position)
                position += _LENGTH_BYTES
            part = data[position : position + self._left]
            self._parts.append(part)
            self._left -= len(part)
            position += len(part)
            if not self._left:
                yield _joined(self._parts)
                self._parts = []


class Responses:
    """What a broker answers."""

    def __init__(self, unanswered: Unanswered, is_held: Callable[[RequestInfo], bool]) -> None:
        self._unanswered = unanswered
        self._holds = is_held
        self._is_held = False
        self._request = UNKNOWN_REQUEST
        self._left = 0
        self._head = b""
        self._parts: list[bytes] = []

    def feed(self, data: bytes) -> Iterator[Chunk]:
        """What can be passed on now. Foreign."""
        if self._head:
            data, self._head = self._head + data, b""
        position, end = 0, len(data)
        while position < end:
            if not self._left and not self._begin(data, position):
                self._head = data[position:]
                return
            part = data[position : position + self._left]
            self._parts.append(part)
            self._left -= len(part)
            position += len(part)
            if not self._left:
                whole = _joined(self._parts)
                self._parts = []
                frame = whole[_LENGTH_BYTES:]
                yield Chunk(whole if self._is_held else part, frame, self._request, self._is_held)
            elif not self._is_held:
                yield Chunk(part)

    def held(self) -> bytes:
        """What has come and was not passed on; it will not be."""
        held = b"".join(self._parts) if self._is_held and self._left else b""
        self._parts = []
        return held + self._head

    def _begin(self, data: bytes, position: int) -> bool:
        """Read the head of a response; False if it is not there yet."""
        at_hand = len(data) - position
        if at_hand < _LENGTH_BYTES:
            return False
        length = _length(data, position)
        correlation_id = None
        if length >= _HEAD_BYTES - _LENGTH_BYTES:
            if at_hand < _HEAD_BYTES:
                return False
            (correlation_id,) = _unpack_int(data, position + _LENGTH_BYTES)
        self._request = self._unanswered.find(correlation_id)
        self._is_held = self._holds(self._request)
        self._left = _LENGTH_BYTES + length
        return True


def _joined(parts: list[bytes]) -> bytes:
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _length(data: bytes, position: int) -> int:
    (length,) = _unpack_int(data, position)
    if not 0 <= length <= FRAME_BYTES_MAX:
        rest = data[position:]
        if rest.startswith(b"\x16\x03"):
            raise Foreign("it is TLS", rest)
        if rest.startswith((b"GET ", b"POST", b"PUT ", b"HEAD", b"HTTP")):
            raise Foreign("it is HTTP", rest)
        raise Foreign(f"it begins with a length of {length} bytes", rest)
    return int(length)
