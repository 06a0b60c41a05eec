"""Records and places as scenarios write them, and as drivers spell them in JSON."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from kavka.wire.errors import ErrorCode

Json: TypeAlias = dict[str, Any]
Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]


class Partition(NamedTuple):
    topic: str
    partition: int

    def as_json(self, **more: Any) -> Json:
        """With what else a request says of it."""
        return {"topic": self.topic, "partition": self.partition, **more}

    @classmethod
    def from_json(cls, found: Json) -> Partition:
        return cls(found["topic"], found["partition"])


class Record(NamedTuple):
    """One to be sent. `partition`: the client chooses if None; `timestamp`: in ms, now if None."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    timestamp: int | None = None
    partition: int | None = 0

    def as_json(self) -> Json:
        """Without what was left out."""
        given: Json = {"value": to_base64(self.value)}
        if self.key is not None:
            given["key"] = to_base64(self.key)
        if self.headers:
            given["headers"] = [[name, to_base64(value)] for name, value in self.headers]
        if self.timestamp is not None:
            given["timestamp"] = self.timestamp
        if self.partition is not None:
            given["partition"] = self.partition
        return given


class Refusal(NamedTuple):
    """An error of the broker or of the library: its name in the protocol if it has one."""

    name: str
    message: str


def is_of_protocol(refusal: Refusal) -> bool:
    """Whether its name is one of the protocol's, and not of the library's own errors."""
    return refusal.name in ErrorCode.__members__


class Placed(NamedTuple):
    """Where a record was appended; `timestamp` only if the library tells it."""

    partition: int
    offset: int
    timestamp: int | None


class Read(NamedTuple):
    """A record that was read. `timestamp_type`: create, append, or None if the library does not
    tell it."""

    topic: str
    partition: int
    offset: int
    timestamp: int | None
    timestamp_type: str | None
    key: bytes | None
    value: bytes | None
    headers: Headers

    @classmethod
    def from_json(cls, found: Json) -> Read:
        headers = tuple((name, from_base64(value)) for name, value in found.get("headers") or ())
        return cls(
            topic=found["topic"],
            partition=found["partition"],
            offset=found["offset"],
            timestamp=found.get("timestamp"),
            timestamp_type=found.get("timestamp_type"),
            key=from_base64(found.get("key")),
            value=from_base64(found.get("value")),
            headers=headers,
        )


def to_base64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def from_base64(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def partitions_from_json(found: Sequence[Mapping[str, Any]]) -> frozenset[Partition]:
    return frozenset(Partition(partition["topic"], partition["partition"]) for partition in found)
