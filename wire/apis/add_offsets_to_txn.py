"""AddOffsetsToTxn (key 25): a transaction is going to commit offsets of a group (KIP-98).

Versions 0 to 4; 2 may say PRODUCER_FENCED (KIP-588), 3 is flexible, 4 may say
TRANSACTION_ABORTABLE (KIP-890).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kavka.wire.api import Api
from kavka.wire.errors import ErrorCode
from kavka.wire.message import message

if TYPE_CHECKING:
    from kafka.protocol.producer.transaction import AddOffsetsToTxnRequest

FENCED_SINCE: Final = 2
"""From this version on the error may be PRODUCER_FENCED (KIP-588)."""


@message
class AddOffsetsToTxnResponse:
    error_code: int = 0
    throttle_time_ms: int = 0


def error_response(
    request: AddOffsetsToTxnRequest, code: ErrorCode, version: int
) -> AddOffsetsToTxnResponse:
    """`code` as the top-level error code."""
    return AddOffsetsToTxnResponse(code)


API: Final = Api(
    25,
    "AddOffsetsToTxn",
    versions=(0, 4),
    first_flexible=3,
    error_response=error_response,
)
