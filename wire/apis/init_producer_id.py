"""InitProducerId (key 22): a producer id and epoch, for idempotent and transactional producers.

Versions 0 to 5; 2 is flexible, 3 lets a producer keep its id with a higher epoch (KIP-360),
4 may say PRODUCER_FENCED (KIP-588), 5 TRANSACTION_ABORTABLE (KIP-890). Version 6 (two-phase
commit, KIP-939) is not stable in Apache Kafka 4.3 and not served.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kavka.wire.api import Api
from kavka.wire.errors import ErrorCode
from kavka.wire.message import message

if TYPE_CHECKING:
    from kafka.protocol.producer.transaction import InitProducerIdRequest

FENCED_SINCE: Final = 4
"""From this version on the error may be PRODUCER_FENCED (KIP-588)."""


@message
class InitProducerIdResponse:
    """Id and epoch are -1 on an error."""

    error_code: int = 0
    producer_id: int = -1
    producer_epoch: int = -1
    throttle_time_ms: int = 0


def error_response(
    request: InitProducerIdRequest, code: ErrorCode, version: int
) -> InitProducerIdResponse:
    """`code` as the top-level error code."""
    return InitProducerIdResponse(code)


API: Final = Api(
    22,
    "InitProducerId",
    versions=(0, 5),
    first_flexible=2,
    error_response=error_response,
)
