"""DescribeCluster (key 60): cluster id, controller and brokers, for admin clients (KIP-700).

Versions 0 to 2, all flexible; 1 asks for brokers or controllers (KIP-919), 2 for fenced brokers
as well (KIP-1073).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kavka.wire.api import Api
from kavka.wire.apis.metadata import OPERATIONS_NOT_REQUESTED
from kavka.wire.errors import ErrorCode
from kavka.wire.message import message

if TYPE_CHECKING:
    from kafka.protocol.admin.cluster import DescribeClusterRequest

ENDPOINT_BROKERS: Final = 1
ENDPOINT_CONTROLLERS: Final = 2


@message
class BrokerResponse:
    broker_id: int
    host: str
    port: int
    rack: str | None = None
    is_fenced: bool = False


@message
class DescribeClusterResponse:
    error_code: int = 0
    error_message: str | None = None
    endpoint_type: int = ENDPOINT_BROKERS
    cluster_id: str = ""
    controller_id: int = -1
    brokers: Sequence[BrokerResponse] = ()
    cluster_authorized_operations: int = OPERATIONS_NOT_REQUESTED
    throttle_time_ms: int = 0


def error_response(
    request: DescribeClusterRequest, code: ErrorCode, version: int
) -> DescribeClusterResponse:
    """`code` as the top-level error code."""
    return DescribeClusterResponse(code)


API: Final = Api(
    60,
    "DescribeCluster",
    versions=(0, 2),
    first_flexible=0,
    error_response=error_response,
)
