"""The addresses of brokers in responses, and other addresses in their place; no I/O.

Of Metadata, which may tell of many thousand partitions, only the brokers at its beginning are read:
the rest is passed on as it is. The others are decoded and encoded again if they hold addresses.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from kavka.tools.tap.capture import RequestInfo
from kavka.wire import client_frames, fields, header
from kavka.wire.api import Api
from kavka.wire.apis import describe_cluster, fetch, find_coordinator, metadata, produce
from kavka.wire.codec.frames import encode_response
from kavka.wire.known_apis import known_api

SHARE_FETCH: Final = 78
SHARE_ACKNOWLEDGE: Final = 79

_NODES: Final[Mapping[int, tuple[str, str, int]]] = {
    produce.API.key: ("node_endpoints", "node_id", 10),
    fetch.API.key: ("node_endpoints", "node_id", 16),
    find_coordinator.API.key: ("coordinators", "node_id", 0),
    describe_cluster.API.key: ("brokers", "broker_id", 0),
    SHARE_FETCH: ("node_endpoints", "node_id", 0),
    SHARE_ACKNOWLEDGE: ("node_endpoints", "node_id", 0),
}
"""By API: the field with the brokers, the field with their ids, the first version that has them."""

_RACKS_SINCE: Final = 1
_THROTTLE_SINCE: Final = 3
"""Versions of Metadata."""

_int32: Final = struct.Struct(">i")
_int16: Final = struct.Struct(">h")


class BrokerAddress(NamedTuple):
    """Where a broker can be reached."""

    node: int
    host: str
    port: int


Translate: TypeAlias = Callable[[BrokerAddress], tuple[str, int]]


def may_hold_addresses(request: RequestInfo) -> bool:
    """Whether a response may tell clients where to connect, in a way that is understood."""
    if request.key != metadata.API.key:
        nodes = _NODES.get(request.key)
        if nodes is None or request.version < nodes[2]:
            return False
    api = known_api(request.key)
    return api is not None and request.version <= api.highest


class Addressed:
    """A response with what it says of brokers. Malformed bytes raise one of `Unreadable`."""

    def __init__(self, request: RequestInfo, frame: bytes) -> None:
        self._request = request
        self._frame = memoryview(frame)
        self._message: Any = None
        self._head: _MetadataHead | None = None
        api = known_api(request.key)
        assert api is not None, "it may hold addresses"
        self._api: Api = api
        if request.key == metadata.API.key:
            self._head = _MetadataHead(api, request.version, self._frame)
        else:
            self._message = client_frames.decode_response(api, request.version, self._frame)

    def brokers(self) -> Sequence[BrokerAddress]:
        """Those of brokers that it names, each where it was found."""
        if self._head is not None:
            return [broker.address for broker in self._head.brokers]
        return [broker for _, broker in self._nodes()]

    def rewritten(self, translate: Translate) -> list[Any]:
        """The frame with its length, with other addresses."""
        if self._head is not None:
            return self._head.rewritten(self._frame, translate)
        for node, broker in list(self._nodes()):
            node.host, node.port = translate(broker)
        correlation_id = client_frames.correlation_id_of(self._frame)
        return encode_response(self._api, self._request.version, correlation_id, self._message)

    def _nodes(self) -> Iterator[tuple[Any, BrokerAddress]]:
        name, id_name, _ = _NODES[self._request.key]
        found = list(getattr(self._message, name) or ())
        if self._request.key == find_coordinator.API.key:
            if self._request.version < find_coordinator.BATCHED_SINCE:
                found = [self._message]
        for node in found:
            if node.host:  # empty where there is no coordinator
                yield node, BrokerAddress(getattr(node, id_name), node.host, node.port)


class _Broker(NamedTuple):
    address: BrokerAddress
    behind: bytes
    """Rack and tags, as they are."""


class _MetadataHead:
    """What comes before the topics."""

    def __init__(self, api: Api, version: int, frame: memoryview) -> None:
        self._is_flexible = api.is_flexible(version)
        self._has_racks = version >= _RACKS_SINCE
        position = header.skip_tags(frame, 4) if self._is_flexible else 4
        if version >= _THROTTLE_SINCE:
            position += 4
        self._start = position
        count, position = self._count(frame, position)
        self.brokers: list[_Broker] = []
        for _ in range(count):
            broker, position = self._broker(frame, position)
            self.brokers.append(broker)
        self._end = position
        if position > len(frame):
            raise ValueError("Metadata ends within its brokers")

    def rewritten(self, frame: memoryview, translate: Translate) -> list[Any]:
        out = bytearray(4)
        out += frame[: self._start]
        count = len(self.brokers)
        out += fields.uvarint(count + 1) if self._is_flexible else _int32.pack(count)
        for broker in self.brokers:
            host, port = translate(broker.address)
            out += _int32.pack(broker.address.node)
            name = host.encode()
            out += fields.data(name) if self._is_flexible else _int16.pack(len(name)) + name
            out += _int32.pack(port)
            out += broker.behind
        rest = frame[self._end :]
        _int32.pack_into(out, 0, len(out) - 4 + len(rest))
        return [out, rest]

    def _broker(self, frame: memoryview, position: int) -> tuple[_Broker, int]:
        (node,) = _int32.unpack_from(frame, position)
        host, position = self._string(frame, position + 4)
        (port,) = _int32.unpack_from(frame, position)
        behind = position = position + 4
        if self._has_racks:
            _, position = self._string(frame, position)
        if self._is_flexible:
            position = header.skip_tags(frame, position)
        return _Broker(BrokerAddress(node, host, port), bytes(frame[behind:position])), position

    def _count(self, frame: memoryview, position: int) -> tuple[int, int]:
        if self._is_flexible:
            count, position = _uvarint(frame, position)
            return count - 1, position
        return _int32.unpack_from(frame, position)[0], position + 4

    def _string(self, frame: memoryview, position: int) -> tuple[str, int]:
        if self._is_flexible:
            length, position = _uvarint(frame, position)
            length -= 1
        else:
            length, position = _int16.unpack_from(frame, position)[0], position + 2
        end = position + max(length, 0)
        return str(frame[position:end], "utf-8", "replace"), end


def _uvarint(frame: memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = frame[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7


Unreadable: Final = (client_frames.MalformedResponse, ValueError, IndexError, struct.error)
"""What `Addressed` raises."""
