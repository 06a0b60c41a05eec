"""AllocateProducerIds (key 67): a broker asks the controller for a block of producer ids (KIP-730).

Version 0, flexible.
"""

from __future__ import annotations

from typing import Any, Final

from kavka.wire.api import Api
from kavka.wire.errors import ErrorCode
from kavka.wire.message import message


@message
class AllocateProducerIdsResponse:
    """A block of `producer_id_len` ids."""

    error_code: int = 0
    producer_id_start: int = 0
    producer_id_len: int = 0
    throttle_time_ms: int = 0


def error_response(request: Any, code: ErrorCode, version: int) -> AllocateProducerIdsResponse:
    """`code` as the top-level error code."""
    return AllocateProducerIdsResponse(code)


API: Final = Api(
    67,
    "AllocateProducerIds",
    versions=(0, 0),
    first_flexible=0,
    error_response=error_response,
)
