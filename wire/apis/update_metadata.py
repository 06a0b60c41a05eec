"""UpdateMetadata (key 6): live brokers and changed partitions; from the controller to all brokers.

Versions 0 to 8; 1 has several endpoints a broker, 2 racks (KIP-36), 3 the names of listeners
(KIP-103), 4 offline replicas (KIP-112), 5 the broker's epoch (KIP-380) and partitions by topic, 6
is flexible, 7 has topic ids (KIP-516), 8 tells controllers of KRaft (KIP-866).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from kavka.wire.api import Api
from kavka.wire.errors import ErrorCode
from kavka.wire.message import message

ENDPOINTS_SINCE: Final = 1
"""Before, a broker has one host and port, without a protocol."""

LISTENERS_SINCE: Final = 3
"""Before, endpoints are known by their protocols."""

TYPE_SINCE: Final = 8

INCREMENTAL: Final = 1
"""A type: the request has some of a cluster's partitions. Kavka's controllers send it with topics
that have other partitions, which follow."""


@message
class Endpoint:
    port: int
    host: str
    listener: str
    security_protocol: int


@message
class LiveBroker:
    id: int
    endpoints: Sequence[Endpoint]
    rack: str | None = None


@message
class UpdateMetadataRequest:
    """What a controller that is not of KRaft sends, in the newest version. States are any objects
    with the schema's fields."""

    controller_id: int
    controller_epoch: int
    broker_epoch: int
    topic_states: Sequence[Any]
    live_brokers: Sequence[LiveBroker]
    is_k_raft_controller: bool = False
    type: int = 0


@message
class UpdateMetadataResponse:
    error_code: int = 0


def error_response(request: Any, code: ErrorCode, version: int) -> UpdateMetadataResponse:
    """`code` as the top-level error code."""
    return UpdateMetadataResponse(code)


API: Final = Api(
    6,
    "UpdateMetadata",
    versions=(0, 8),
    first_flexible=6,
    error_response=error_response,
)
