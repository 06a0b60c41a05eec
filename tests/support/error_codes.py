"""Error codes of calls that must fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kavka.wire.errors import ApiError, ErrorCode


def error_code_of(ask: Callable[..., Any], *args: Any, **more: Any) -> ErrorCode:
    """The error code of a call that must fail with an ApiError."""
    try:
        answer = ask(*args, **more)
    except ApiError as failure:
        return failure.code
    raise AssertionError(f"no ApiError, but {answer}")
