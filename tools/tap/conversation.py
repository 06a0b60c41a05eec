"""Turns the records of a capture into what is shown: decoded messages, each with what is known of
its connection and, of a response, its request. No I/O.
"""

from __future__ import annotations

import json
import struct
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple
from uuid import UUID

from kavka.tools.tap.capture import OPAQUE, Kind, Record, split_response
from kavka.tools.tap.messages import Content, content_of
from kavka.wire import client_frames, header
from kavka.wire.api import Api
from kavka.wire.apis import api_versions
from kavka.wire.errors import ErrorCode
from kavka.wire.known_apis import known_api

REQUESTS_MAX: Final = 10_000
"""Requests of one connection that are remembered for their responses."""

TOPIC_NAMES_MAX: Final = 100_000

_CORRELATION_ID: Final = struct.Struct(">i")
_ID_FIELD: Final = "topic_id"


@dataclass
class Peers:
    """The two ends of a connection."""

    number: int
    client: str = "?"
    broker: str = "?"
    node: int | None = None


@dataclass
class Message:
    """A request or a response."""

    is_request: bool
    time_us: int
    peers: Peers
    size: int
    key: int = -1
    version: int = -1
    api: Api | None = None
    """None if no API has this key."""
    client_id: str | None = None
    correlation_id: int = -1
    elapsed_us: int | None = None
    """Of a response."""
    requested_topics: Sequence[str] = ()
    """Of a response: the topics of its request, if that was seen."""
    body: Any = None
    """The decoded message; None if `unknown` says why not."""
    unknown: str = ""
    content: Content = field(default_factory=Content)

    @property
    def name(self) -> str:
        """The API's name, and the version."""
        if self.api is None:
            return "SASL token" if self.key == OPAQUE else f"API {self.key} v{self.version}"
        return f"{self.api.name} v{self.version}"

    @property
    def class_name(self) -> str:
        """The name of the message's class."""
        assert self.api is not None
        return self.api.request_name if self.is_request else self.api.response_name

    @property
    def schema_version(self) -> int:
        """That of `body`; a broker that does not know the version of ApiVersions answers in 0."""
        if self.key == api_versions.KEY and not self.is_request and self.body is not None:
            if self.body.error_code == ErrorCode.UNSUPPORTED_VERSION:
                return api_versions.FALLBACK_VERSION
        return self.version


@dataclass
class Event:
    """Something that is no message: a connection that begins or ends, messages left out."""

    time_us: int
    peers: Peers | None
    text: str


class _Asker(NamedTuple):
    """What is remembered of a request."""

    client_id: str | None
    topics: Sequence[str]


class Conversation:
    """Takes records in their order."""

    def __init__(self) -> None:
        self._peers: dict[int, Peers] = {}
        self._requests: dict[int, OrderedDict[int, _Asker]] = {}
        self._topics: OrderedDict[UUID, str] = OrderedDict()

    def take(self, record: Record) -> Message | Event:
        """What a record tells."""
        peers = self._peers.get(record.connection) or Peers(record.connection)
        if record.kind is Kind.REQUEST:
            return self._request(record, peers)
        if record.kind is Kind.RESPONSE:
            return self._response(record, peers)
        return self._event(record, peers)

    def topic_name(self, topic_id: UUID) -> str | None:
        """The name of a topic, if a message had it."""
        return self._topics.get(topic_id)

    def _event(self, record: Record, peers: Peers) -> Event:
        text = record.data.decode("utf-8", "replace")
        if record.kind is Kind.OPENED:
            known = json.loads(text)
            peers.client, peers.broker, peers.node = (
                known[name] for name in ("client", "broker", "node")
            )
            self._peers[record.connection] = peers
            return Event(record.time_us, peers, f"opened from {peers.client} to {peers.broker}")
        if record.kind is Kind.CLOSED:
            self._peers.pop(record.connection, None)
            self._requests.pop(record.connection, None)
            return Event(record.time_us, peers, f"closed{': ' if text else ''}{text}")
        if record.kind is Kind.FOREIGN:
            return Event(record.time_us, peers, f"not Kafka's protocol, passed on unread: {text}")
        if record.kind is Kind.NOTE:
            return Event(record.time_us, peers, text)
        return Event(record.time_us, None, f"{text} messages not shown: they came too fast")

    def _request(self, record: Record, peers: Peers) -> Message:
        frame = memoryview(record.data)
        found = Message(True, record.time_us, peers, len(frame) + 4)
        try:
            found.key, found.version, found.correlation_id, length = header.read_fixed(frame)
            found.api = known_api(found.key)
            position = header.BYTES_WITHOUT_CLIENT_ID
            if found.api is None or found.version >= found.api.first_with_client_id:
                found.client_id, position = header.read_client_id(frame, length)
        except (struct.error, ValueError):
            found.unknown = "no header of Kafka's"
            return found
        if self._is_decodable(found):
            self._decode_request(found, frame, position)
        topics = tuple(dict.fromkeys(part.topic for part in found.content.parts))
        requests = self._requests.setdefault(peers.number, OrderedDict())
        requests[found.correlation_id] = _Asker(found.client_id, topics)
        if len(requests) > REQUESTS_MAX:
            requests.popitem(last=False)
        return found

    def _decode_request(self, found: Message, frame: memoryview, position: int) -> None:
        api, version = found.api, found.version
        assert api is not None
        try:
            if api.is_flexible(version):
                position = header.skip_tags(frame, position)
            found.body, end = api.decoder(version)(frame, position)
            if end != len(frame):
                raise ValueError(f"{len(frame) - end} bytes behind its end")
        except Exception as failure:  # whatever a decoder raises on malformed bytes
            found.body = None
            found.unknown = f"malformed: {failure!r}"
        else:
            self._read(found)

    def _response(self, record: Record, peers: Peers) -> Message:
        request, frame = split_response(record.data)
        found = Message(False, record.time_us, peers, len(frame) + 4, request.key, request.version)
        if request.time_us:
            found.elapsed_us = record.time_us - request.time_us
        found.api = known_api(request.key)
        if len(frame) >= _CORRELATION_ID.size and request.key != OPAQUE:
            (found.correlation_id,) = _CORRELATION_ID.unpack_from(frame)
            requests = self._requests.get(peers.number) or OrderedDict()
            asker = requests.pop(found.correlation_id, None)
            if asker is not None:
                found.client_id, found.requested_topics = asker
        if request.key == -1:
            found.unknown = "it answers no request that was seen"
        elif self._is_decodable(found):
            assert found.api is not None
            try:
                found.body = client_frames.decode_response(found.api, request.version, frame)
            except client_frames.MalformedResponse as failure:
                found.unknown = f"malformed: {failure}"
            else:
                self._read(found)
        return found

    def _is_decodable(self, found: Message) -> bool:
        if found.key == OPAQUE:
            return False
        if found.api is None:
            found.unknown = "unknown API"
        elif not 0 <= found.version <= found.api.highest:
            found.unknown = f"unknown version; known are 0 to {found.api.highest}"
        return not found.unknown

    def _read(self, found: Message) -> None:
        for topic_id, name in _named_topics(found.body):
            self._topics[topic_id] = name
            if len(self._topics) > TOPIC_NAMES_MAX:
                self._topics.popitem(last=False)
        found.content = content_of(
            found.body, found.class_name, found.schema_version, self.topic_name
        )


def _named_topics(body: Any) -> Iterator[tuple[UUID, str]]:
    """The topics that a message (of Metadata, CreateTopics, ...) tells with name and id."""
    for topic in getattr(body, "topics", None) or ():
        topic_id, name = getattr(topic, _ID_FIELD, None), getattr(topic, "name", None)
        if isinstance(topic_id, UUID) and topic_id.int and isinstance(name, str) and name:
            yield topic_id, name
