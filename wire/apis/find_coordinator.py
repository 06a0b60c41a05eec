"""FindCoordinator (key 10): the coordinator of a group or transactional id.

Versions 0 to 6; 1 adds transactional ids (KIP-98), 3 is flexible, 4 has several keys
(KIP-699), 5 may say TRANSACTION_ABORTABLE (KIP-890), 6 adds share groups (KIP-932).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kavka.wire.api import Api
from kavka.wire.errors import ErrorCode
from kavka.wire.message import message

if TYPE_CHECKING:
    from kafka.protocol.consumer.metadata import FindCoordinatorRequest

BATCHED_SINCE: Final = 4
"""From this version on there are several keys, with a result for each."""

GROUP: Final = 0
TRANSACTION: Final = 1
SHARE: Final = 2

NO_COORDINATOR: Final = (-1, "", -1)
"""Broker, host and port where there is no coordinator."""


@message
class Coordinator:
    """The coordinator of one key."""

    key: str
    node_id: int
    host: str
    port: int
    error_code: int = 0
    error_message: str | None = ""


@message
class FindCoordinatorResponse:
    """`coordinators` since version 4, the others before."""

    error_code: int = 0
    error_message: str | None = None
    node_id: int = -1
    host: str = ""
    port: int = -1
    coordinators: Sequence[Coordinator] = ()
    throttle_time_ms: int = 0


_MESSAGES: Final = {
    ErrorCode.NONE: "NONE",
    ErrorCode.UNKNOWN_SERVER_ERROR: "The server experienced an unexpected error when processing "
    "the request.",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    ErrorCode.INVALID_REQUEST: "This most likely occurs because of a request being malformed by "
    "the client library or the message was sent to an incompatible broker. See the broker logs for "
    "more details.",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactional Id authorization failed.",
}
"""What Apache Kafka says of each, before version 4 and where a whole request fails."""


def message_of(code: int) -> str | None:
    """The default message of an error code."""
    return _MESSAGES.get(ErrorCode(code))


def error_response(
    request: FindCoordinatorRequest, code: ErrorCode, version: int
) -> FindCoordinatorResponse:
    """`code` for each key."""
    message = message_of(code)
    if version < BATCHED_SINCE:
        return FindCoordinatorResponse(code, message)
    keys = request.coordinator_keys or ()
    return FindCoordinatorResponse(
        coordinators=[Coordinator(key, *NO_COORDINATOR, code, message) for key in keys]
    )


API: Final = Api(
    10,
    "FindCoordinator",
    versions=(0, 6),
    first_flexible=3,
    error_response=error_response,
)
