"""ControlledShutdown (key 7): a broker that stops asks the controller to move its leaders.

Versions 0 to 3; requests of version 0 have no client id in their header, 1 is otherwise the same,
2 adds the broker's epoch (KIP-380), 3 is flexible.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from kavka.wire.api import Api
from kavka.wire.errors import ErrorCode
from kavka.wire.message import message

BROKER_EPOCHS_SINCE: Final = 2
"""From this version on a request has the broker's epoch."""


@message
class ControlledShutdownRequest:
    broker_id: int
    broker_epoch: int


@message
class RemainingPartition:
    """A partition that the broker still leads."""

    topic_name: str
    partition_index: int


@message
class ControlledShutdownResponse:
    error_code: int = 0
    remaining_partitions: Sequence[RemainingPartition] = ()


def error_response(request: Any, code: ErrorCode, version: int) -> ControlledShutdownResponse:
    """`code` as the top-level error code."""
    return ControlledShutdownResponse(code)


API: Final = Api(
    7,
    "ControlledShutdown",
    versions=(0, 3),
    first_flexible=3,
    first_with_client_id=1,
    error_response=error_response,
)
