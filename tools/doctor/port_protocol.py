"""Tells from the first bytes that come from a port what is spoken there."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple

CORRELATION_ID: Final = 0x6B61766B
CLIENT_ID: Final = b"kavka-doctor"
_HEAD: Final = struct.Struct(">hhih")
_RESPONSE: Final = struct.Struct(">iihi")
"""Length, correlation id, error code, number of APIs: version 0, which all brokers know."""
_RANGE: Final = struct.Struct(">hhh")

API_VERSIONS_KEY: Final = 18
SASL_HANDSHAKE_KEY: Final = 17
METADATA_KEY: Final = 3
HTTP_REQUEST: Final = b"GET / HTTP/1.0\r\n\r\n"
ZOOKEEPER_REQUEST: Final = b"srvr"
"""A four letter word that ZooKeeper answers by default."""

_HTTP: Final = (b"HTTP/", b"<!DOCTYPE", b"<html", b"<HTML")
_ZOOKEEPER: Final = (b"Zookeeper version", b"This ZooKeeper", b"srvr is not executed")
_TLS_ALERT, _TLS_HANDSHAKE = 0x15, 0x16
_SHOWN_BYTES: Final = 40


class PortProtocol(Enum):
    """What a port speaks."""

    KAFKA = "Kafka's protocol"
    TLS = "TLS"
    HTTP = "HTTP"
    ZOOKEEPER = "ZooKeeper's protocol"
    SSH = "SSH"
    OTHER = "something else"
    CLOSES = "nothing: it closes the connection"
    SILENT = "nothing"


class Heard(NamedTuple):
    """Bytes that came before the connection ended, or the time was over."""

    data: bytes
    is_closed: bool = False


class Reply(NamedTuple):
    """What a port speaks, and the bytes that show it."""

    protocol: PortProtocol
    data: bytes


def request(key: int, version: int, body: bytes = b"") -> bytes:
    """A request whose header is not flexible."""
    head = _HEAD.pack(key, version, CORRELATION_ID, len(CLIENT_ID)) + CLIENT_ID
    return struct.pack(">i", len(head) + len(body)) + head + body


def protocol_of(heard: Heard) -> PortProtocol:
    """What bytes that answer a request of any of these protocols tell."""
    data = heard.data
    if not data:
        return PortProtocol.CLOSES if heard.is_closed else PortProtocol.SILENT
    if len(data) >= 8 and struct.unpack_from(">i", data, 4) == (CORRELATION_ID,):
        return PortProtocol.KAFKA
    if data[0] in (_TLS_ALERT, _TLS_HANDSHAKE) and data[1:2] == b"\x03":
        return PortProtocol.TLS
    for beginnings, protocol in ((_HTTP, PortProtocol.HTTP), (_ZOOKEEPER, PortProtocol.ZOOKEEPER)):
        if data.startswith(beginnings):
            return protocol
    return PortProtocol.SSH if data.startswith(b"SSH-") else PortProtocol.OTHER


def served(data: bytes) -> Mapping[int, tuple[int, int]]:
    """The versions of each API that a response to ApiVersions, version 0, names: (lowest, highest)
    by key. ValueError if it is none."""
    try:
        length, _, error_code, count = _RESPONSE.unpack_from(data)
        ranges = [
            _RANGE.unpack_from(data, _RESPONSE.size + number * _RANGE.size)
            for number in range(count)
        ]
    except struct.error as cut:
        raise ValueError(f"no response to ApiVersions: {cut}") from cut
    if error_code or length + 4 < _RESPONSE.size + count * _RANGE.size:
        raise ValueError(f"a response to ApiVersions with error code {error_code}")
    return {key: (lowest, highest) for key, lowest, highest in ranges}


def handshake_request(mechanism: str) -> bytes:
    """SaslHandshake, version 1."""
    name = mechanism.encode()
    return request(SASL_HANDSHAKE_KEY, 1, struct.pack(">h", len(name)) + name)


class Mechanisms(NamedTuple):
    """What a broker answers to SaslHandshake."""

    error_code: int
    names: tuple[str, ...]


def mechanisms(data: bytes) -> Mechanisms | None:
    """Those that a response to SaslHandshake names; None if it is no such response."""
    try:
        _, correlation_id, error_code, count = _RESPONSE.unpack_from(data)
        position, names = _RESPONSE.size, []
        for _ in range(count):
            (length,) = struct.unpack_from(">h", data, position)
            names.append(data[position + 2 : position + 2 + length].decode())
            position += 2 + length
    except (struct.error, UnicodeDecodeError):
        return None
    if correlation_id != CORRELATION_ID:
        return None
    return Mechanisms(error_code, tuple(names))


def shown(data: bytes) -> str:
    """The beginning of what came, for people."""
    cut = data[:_SHOWN_BYTES].split(b"\n")[0]
    return ascii(cut.decode("latin-1"))
