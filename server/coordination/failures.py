"""How a client learns that a request to the coordination service has failed."""

from __future__ import annotations

from kavka.wire.errors import ApiError, ErrorCode
from kavka.zktree.api import CoordinationError


def coordination_failed(error: CoordinationError) -> ApiError:
    """The error for a client whose request needed the service; mostly, the session has ended."""
    message = f"The coordination service failed: {type(error).__name__}"
    return ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, message)
