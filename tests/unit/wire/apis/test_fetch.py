"""Fetch: where an error stands, by version."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID

from kavka.wire.apis import fetch
from kavka.wire.errors import ErrorCode

TOPIC_ID = UUID(int=9)


def request() -> Any:
    partitions = [SimpleNamespace(partition=0), SimpleNamespace(partition=4)]
    topic = SimpleNamespace(topic="t", topic_id=TOPIC_ID, partitions=partitions)
    return SimpleNamespace(session_id=8, topics=[topic])


def test_older_versions_have_the_error_at_every_partition() -> None:
    answer = fetch.error_response(request(), ErrorCode.UNKNOWN_SERVER_ERROR, 12)
    assert (answer.error_code, answer.session_id) == (-1, 8)
    [topic] = answer.responses
    assert [
        (partition.partition_index, partition.error_code) for partition in topic.partitions
    ] == [(0, -1), (4, -1)]
    assert topic.partitions[0].records == b""
    assert topic.partitions[0].high_watermark == -1


def test_newer_versions_have_the_error_at_the_top_only() -> None:
    """As Apache Kafka's `FetchRequest.getErrorResponse`."""
    answer = fetch.error_response(request(), ErrorCode.UNKNOWN_SERVER_ERROR, 13)
    assert (answer.error_code, answer.session_id, answer.responses) == (-1, 8, ())
