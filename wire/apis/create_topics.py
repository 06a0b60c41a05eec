"""CreateTopics (key 19): create topics with their partitions, placement and configs.

Versions 0 to 7; 1 adds validate-only and error messages, 4 takes the broker's defaults for
partitions and replication factor (-1, KIP-464), 5 is flexible and returns the topic's configs
(KIP-525), 6 may say THROTTLING_QUOTA_EXCEEDED (KIP-599), 7 returns the topic id (KIP-516).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from kavka.wire.api import Api
from kavka.wire.errors import ErrorCode
from kavka.wire.message import message


@message
class TopicConfig:
    """`config_source` as in DescribeConfigs; -1: unknown."""

    name: str
    value: str | None
    read_only: bool = False
    config_source: int = -1
    is_sensitive: bool = False


@message
class TopicResponse:
    """`configs` is null if `topic_config_error_code` is an error."""

    name: str
    topic_id: UUID | None = None
    error_code: int = 0
    error_message: str | None = None
    topic_config_error_code: int = 0
    num_partitions: int = -1
    replication_factor: int = -1
    configs: Sequence[TopicConfig] | None = ()


@message
class CreateTopicsResponse:
    topics: Sequence[TopicResponse]
    throttle_time_ms: int = 0


@message
class NewConfig:
    name: str
    value: str | None


@message
class Assignment:
    partition_index: int
    broker_ids: Sequence[int]


@message
class NewTopic:
    """With either counts (-1 each for the broker's defaults) or assignments."""

    name: str
    num_partitions: int
    replication_factor: int
    assignments: Sequence[Assignment] = ()
    configs: Sequence[NewConfig] = ()


@message
class CreateTopicsRequest:
    topics: Sequence[NewTopic]
    timeout_ms: int
    validate_only: bool = False


def error_response(request: Any, code: ErrorCode, version: int) -> CreateTopicsResponse:
    """`code` for every topic in the request."""
    return CreateTopicsResponse(
        [TopicResponse(topic.name, error_code=code) for topic in request.topics]
    )


API: Final = Api(
    19,
    "CreateTopics",
    versions=(0, 7),
    first_flexible=5,
    error_response=error_response,
)
