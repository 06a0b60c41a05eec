"""Why a topic's regular expression is refused, in Apache Kafka's words (KIP-848)."""

from __future__ import annotations

from typing import Final

_REASONS: Final = {
    "duplicate capture group name": "duplicate capture group name",
    "invalid character class": "invalid character class range",
    "invalid named capture group": "invalid named capture",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid repetition size": "invalid repeat count",
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "bad repetition operator": "invalid nested repetition operator",
    "no argument for repetition operator": "missing argument to repetition operator",
    "unexpected )": "regexp/syntax: internal error",
    "trailing \\": "trailing backslash at end of expression",
}
"""RE2's error messages, and those of RE2/J, the Java library that Apache Kafka uses."""


def reason_of(failure: Exception) -> str:
    """An `re2.error`'s message without the part of the regex that it quotes, as in Apache Kafka."""
    said = failure.args[0] if failure.args else ""
    text = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
    text = text.partition(": ")[0]
    return _REASONS.get(text, text)
