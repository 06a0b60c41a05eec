"""EndTxn (key 26): commit or abort a transaction (KIP-98).

Versions 0 to 5; 2 may say PRODUCER_FENCED (KIP-588), 3 is flexible, 4 may say
TRANSACTION_ABORTABLE, 5 gives the producer the epoch of its next transaction (KIP-890).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kavka.wire.api import Api
from kavka.wire.errors import ErrorCode
from kavka.wire.message import message

if TYPE_CHECKING:
    from kafka.protocol.producer.transaction import EndTxnRequest

EPOCHS_SINCE: Final = 5
"""From this version on the response has the producer epoch of the next transaction (KIP-890)."""

FENCED_SINCE: Final = 2
"""From this version on the error may be PRODUCER_FENCED (KIP-588)."""


@message
class EndTxnResponse:
    """`producer_id` and `producer_epoch` are -1 if absent."""

    error_code: int = 0
    producer_id: int = -1
    producer_epoch: int = -1
    throttle_time_ms: int = 0


def error_response(request: EndTxnRequest, code: ErrorCode, version: int) -> EndTxnResponse:
    """`code` as the top-level error code."""
    return EndTxnResponse(code)


API: Final = Api(
    26,
    "EndTxn",
    versions=(0, 5),
    first_flexible=3,
    error_response=error_response,
)
