"""Regular expressions of topics: RE2's syntax, over whole names (KIP-848)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, Final

import re2

from kavka.groupcoord.consumer.records import Resolved
from kavka.groupcoord.state import Topics
from kavka.wire.errors import ApiError, ErrorCode

MATCHES_A_SLICE: Final = 1000
"""Names that are held against an expression in one go; each takes about a microsecond."""

PROGRAM_BYTES_MAX: Final = 8 * 1024 * 1024
"""What one compiled expression may take."""


PROGRAMS_KEPT_MAX: Final = 100
"""Expressions that are kept compiled."""


@lru_cache(maxsize=PROGRAMS_KEPT_MAX)
def _compile(expression: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = PROGRAM_BYTES_MAX
    return re2.compile(expression, options)


def check(expression: str) -> None:
    """ApiError INVALID_REGULAR_EXPRESSION."""
    try:
        _compile(expression)
    except re2.error as failure:
        raise ApiError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{expression}` is not a valid regular expression: "
            f"{_reason(failure)}.",
        ) from None


def stands_for(expression: str, topic: str) -> bool:
    """Whether a topic of that name is one that the expression stands for."""
    try:
        return _compile(expression).fullmatch(topic) is not None
    except re2.error:
        return False


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
"""What is wrong with an expression, in RE2's words, and in those of the Java library of RE2's
syntax that Apache Kafka has."""


def _reason(failure: Exception) -> str:
    """Without the part of the expression that it is about, as Apache Kafka tells it."""
    said = failure.args[0] if failure.args else ""
    text = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
    text = text.partition(": ")[0]
    return _REASONS.get(text, text)


class Resolution:
    """Finding out which of the topics that there are now some expressions stand for, in slices.

    `may_see` says whether the member that made this happen may describe a topic. All expressions
    of a group are resolved together, so that its assignment changes once.
    """

    __slots__ = ("_found", "_may_see", "_names", "_patterns", "_timestamp_ms", "_version")

    def __init__(
        self,
        expressions: Iterable[str],
        topics: Topics,
        may_see: Callable[[str], bool],
        *,
        version: int,
        now_ms: int,
    ) -> None:
        self._names = topics.names()
        self._may_see = may_see
        self._version = version
        self._timestamp_ms = now_ms
        self._patterns: list[tuple[str, Any]] = []
        self._found: dict[str, list[str]] = {}
        for expression in expressions:
            self._found[expression] = []
            try:
                self._patterns.append((expression, _compile(expression)))
            except re2.error:
                continue  # it was valid when it came; a record may have been written by another

    def advance(self) -> bool:
        """Hold some names against the expressions; whether all of them were."""
        count = max(1, MATCHES_A_SLICE // max(1, len(self._patterns)))
        some = self._names[-count:]
        del self._names[-count:]
        for expression, pattern in self._patterns:
            matches = pattern.fullmatch
            self._found[expression] += [
                name for name in some if matches(name) is not None and self._may_see(name)
            ]
        return not self._names

    def result(self) -> dict[str, Resolved]:
        return {
            expression: Resolved(tuple(sorted(names)), self._version, self._timestamp_ms)
            for expression, names in self._found.items()
        }
