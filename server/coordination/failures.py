"""How a client learns that a request to the coordination service has failed."""

from __future__ import annotations

from kavka.wire.errors import ApiError, ErrorCode
from kavka.zktree.api import SESSION_ENDED, CoordinationError


def coordination_failed(error: CoordinationError) -> ApiError:
    """The error for a client whose request needed the service. If the session has ended, it may be
    repeated, as another one may begin; the request may have taken effect."""
    if isinstance(error, SESSION_ENDED):
        message = "The session with the coordination service ended."
        return ApiError(ErrorCode.REQUEST_TIMED_OUT, message)
    message = f"The coordination service failed: {type(error).__name__}"
    return ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, message)
