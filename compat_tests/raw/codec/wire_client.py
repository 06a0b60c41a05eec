"""Frames of requests and answers, made and read by kafka-python's codec as it is published.

Requests are written as plain values, `encode("Fetch", 4, max_wait_ms=0, topics=[...])`, with the
schema's field names; what is left out has the schema's default.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

from kavka.compat_tests.raw.codec import schemas, stock_codec

CLIENT_ID = "tester"
API_VERSIONS = "ApiVersions"
WITHOUT_CLIENT_ID = (7, 0)
"""ControlledShutdown, version 0."""


def api_key(name: str) -> int:
    """The number of an API."""
    key: int = stock_codec.message_class(f"{name}Request").API_KEY
    return key


def encode(name: str, version: int, correlation_id: int = 0, /, **values: Any) -> bytes:
    """A request's frame without its length."""
    struct_ = schemas.schema(f"{name}Request")
    body = stock_codec.encode(f"{name}Request", version, schemas.as_namespace(struct_, values))
    return header(api_key(name), version, correlation_id, flexible=_flexible(name, version)) + body


def header(key: int, version: int, correlation_id: int = 0, *, flexible: bool) -> bytes:
    """A request's header, in version 2 if `flexible` and else in version 1, or 0 for the one
    request that has it."""
    if (key, version) == WITHOUT_CLIENT_ID:
        return struct.pack(">hhi", key, version, correlation_id)
    client = CLIENT_ID.encode()
    fixed = struct.pack(">hhih", key, version, correlation_id, len(client))
    return fixed + client + (b"\0" if flexible else b"")


def framed(data: bytes) -> bytes:
    """With its length in front."""
    return struct.pack(">i", len(data)) + data


def decode(name: str, version: int, frame: bytes) -> tuple[int, Any]:
    """(correlation id, message) of an answer, of which nothing may be left over."""
    (correlation_id,) = struct.unpack_from(">i", frame)
    body = frame[4:]
    if _flexible(name, version) and name != API_VERSIONS:
        assert body[0] == 0, "no tags are expected in the header"
        body = body[1:]
    message, end = stock_codec.decode(f"{name}Response", version, body)
    assert end == len(body), f"{len(body) - end} bytes left over"
    return correlation_id, message


def _flexible(name: str, version: int) -> bool:
    return stock_codec.is_flexible(f"{name}Request", version)


def plain(value: Any) -> Any:
    """A decoded message as dicts, lists and scalars, for comparison and for messages."""
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    fields = getattr(value, "_struct", None)
    if fields is None:
        return bytes(value) if isinstance(value, memoryview) else value
    return {field.name: plain(getattr(value, field.name)) for field in fields._fields}


# -- the requests that many tests make ------------------------------------------------------


def by_topic(partitions: Mapping[tuple[str, int], Any]) -> dict[str, dict[int, Any]]:
    """{topic: {partition: value}}, in the order given."""
    found: dict[str, dict[int, Any]] = {}
    for (topic, partition), value in partitions.items():
        found.setdefault(topic, {})[partition] = value
    return found


def new_topic(
    name: str,
    partitions: int = 1,
    replication_factor: int = 1,
    *,
    assignments: Mapping[int, Sequence[int]] | None = None,
    configs: Mapping[str, str | None] | None = None,
) -> dict[str, Any]:
    """One topic of a CreateTopics request."""
    return {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": replication_factor,
        "assignments": [
            {"partition_index": index, "broker_ids": list(brokers)}
            for index, brokers in (assignments or {}).items()
        ],
        "configs": [{"name": key, "value": value} for key, value in (configs or {}).items()],
    }
