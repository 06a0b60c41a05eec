"""Requests and answers that are laid out by hand, beside kafka-python's codec."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from bench import frames

from kavka.compat_tests.raw.codec import schemas, stock_codec


def decoded(name: str, version: int, frame: bytes) -> Any:
    """A request, of which nothing may be left over."""
    header = struct.pack(">hh", stock_codec.message_class(f"{name}Request").API_KEY, version)
    assert frame[4:8] == header
    assert len(frame) == 4 + struct.unpack_from(">i", frame)[0]
    body = frame[4 + 10 + len(frames.CLIENT_ID) :]
    message, end = stock_codec.decode(f"{name}Request", version, body)
    assert end == len(body)
    return message


def answered(name: str, version: int, values: dict[str, Any]) -> memoryview:
    """An answer without its size field."""
    schema = schemas.schema(f"{name}Response")
    message = schemas.as_namespace(schema, values)
    body = stock_codec.encode(f"{name}Response", version, message)
    return memoryview(struct.pack(">i", 1) + body)


def test_a_topic_has_as_many_replicas_as_are_wanted() -> None:
    request = decoded("CreateTopics", 4, frames.create_topic("some", 3, replicas=2))
    (topic,) = request.topics
    assert (topic.name, topic.num_partitions, topic.replication_factor) == ("some", 3, 2)


@pytest.mark.parametrize("partition", [0, 5])
def test_the_end_of_a_partition_is_asked_for(partition: int) -> None:
    request = decoded("ListOffsets", 1, frames.list_end_offset("some", partition))
    (topic,) = request.topics
    (found,) = topic.partitions
    assert (topic.name, found.partition_index, found.timestamp) == ("some", partition, -1)


def test_metadata_is_asked_for_no_topic() -> None:
    assert decoded("Metadata", 1, frames.cluster_metadata()).topics == []


@pytest.mark.parametrize("controller", [3, -1])
def test_the_controller_is_found_behind_the_brokers(controller: int) -> None:
    brokers = [
        {"node_id": 1, "host": "localhost", "port": 9092, "rack": None},
        {"node_id": 2, "host": "h", "port": 9093, "rack": "somewhere"},
    ]
    values = {"brokers": brokers, "controller_id": controller, "topics": []}
    assert frames.controller_id(answered("Metadata", 1, values)) == controller
