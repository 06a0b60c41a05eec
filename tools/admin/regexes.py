"""Regular expressions that consumers subscribe by (KIP-848): RE2's."""

from __future__ import annotations

from kavka.wire.regex_errors import reason_of


def reason_against(expression: str) -> str | None:
    """Why it is no such expression; None if it is one."""
    import re2  # lazy import: one action of one tool needs it

    options = re2.Options()
    options.log_errors = False
    try:
        re2.compile(expression, options)
    except re2.error as failure:
        return reason_of(failure)
    return None
