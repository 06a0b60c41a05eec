"""DescribeConfigs (key 32): the configs of topics and brokers, with where each comes from.

Versions 0 to 4; 1 adds sources and synonyms (KIP-226) in place of `is_default`, 3 types and
documentation (KIP-569), 4 is flexible.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kavka.wire.api import Api
from kavka.wire.errors import ErrorCode
from kavka.wire.message import message

if TYPE_CHECKING:
    from kafka.protocol.admin.configs import DescribeConfigsRequest


@message
class ConfigSynonym:
    """One place that a config is taken from; the first of a list is the one in force."""

    name: str
    value: str | None
    source: int


@message
class ConfigResponse:
    """One config. `config_source` and `config_type` are Kafka's numbers (`DescribeConfigs`);
    `is_default` is version 0's.
    """

    name: str
    value: str | None
    read_only: bool = False
    config_source: int = -1
    is_default: bool = False
    is_sensitive: bool = False
    synonyms: Sequence[ConfigSynonym] = ()
    config_type: int = 0
    documentation: str | None = None


@message
class ResourceResponse:
    resource_type: int
    resource_name: str
    error_code: int = 0
    error_message: str | None = None
    configs: Sequence[ConfigResponse] = ()


@message
class DescribeConfigsResponse:
    results: Sequence[ResourceResponse]
    throttle_time_ms: int = 0


_MESSAGES: Final = {
    ErrorCode.INVALID_REQUEST: "This most likely occurs because of a request being malformed by "
    "the client library or the message was sent to an incompatible broker. See the broker logs for "
    "more details.",
    ErrorCode.UNKNOWN_SERVER_ERROR: "The server experienced an unexpected error when processing "
    "the request.",
}
"""What Apache Kafka says where a whole request fails."""


def error_response(
    request: DescribeConfigsRequest, code: ErrorCode, version: int
) -> DescribeConfigsResponse:
    """`code` for every resource in the request."""
    message = _MESSAGES.get(code)
    return DescribeConfigsResponse(
        [
            ResourceResponse(r.resource_type, r.resource_name, code, message)
            for r in request.resources
        ]
    )


API: Final = Api(
    32,
    "DescribeConfigs",
    versions=(0, 4),
    first_flexible=4,
    error_response=error_response,
)
