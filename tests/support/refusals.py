"""Calls that must be refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kavka.wire.errors import ApiError, ErrorCode


def refusal(ask: Callable[..., Any], *args: Any, **more: Any) -> ErrorCode:
    """What a call is refused with."""
    try:
        answer = ask(*args, **more)
    except ApiError as failure:
        return failure.code
    raise AssertionError(f"it was not refused, but answered with {answer}")
