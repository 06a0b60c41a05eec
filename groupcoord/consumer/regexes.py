"""Regular expressions of topics: RE2's syntax, over whole names (KIP-848)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, Final

import re2

from kavka.groupcoord.consumer.records import Resolved
from kavka.groupcoord.state import Topics
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.steps import PauseCounter, Slices

STEPS_A_SLICE: Final = 5_000
"""How much is done in one go, in instructions of the compiled expressions times names: what is
plain takes about a microsecond a name, but there are expressions that cost RE2 each instruction
at each letter."""

NAMES_A_SLICE: Final = 250
"""The most names in one go: of those that match, topics are looked at, at about 10 us each."""

PROGRAM_BYTES_MAX: Final = 512 * 1024
"""What one compiled expression may take, and so the time to compile it, and that one name may
cost: some ms at worst."""

EXPRESSION_BYTES_MAX: Final = 2**15 - 1
"""The length of an expression, which becomes part of a record's key."""

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
    if len(expression.encode()) > EXPRESSION_BYTES_MAX:
        raise ApiError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex is longer than {EXPRESSION_BYTES_MAX} bytes.",
        )
    try:
        _compile(expression)
    except re2.error as failure:
        raise ApiError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{expression}` is not a valid regular expression: "
            f"{_reason(failure)}.",
        ) from None


def compiled(expression: str) -> Any | None:
    """None for one that is bad: it was good when it came, but a record may have been written by
    another."""
    try:
        return _compile(expression)
    except re2.error:
        return None


def names_a_slice(pattern: Any) -> int:
    """How many names are to be held against it in one go."""
    size: int = pattern.programsize
    return max(1, min(NAMES_A_SLICE, STEPS_A_SLICE // size))


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

    __slots__ = (
        "_at",
        "_found",
        "_may_see",
        "_names",
        "_seen",
        "_timestamp_ms",
        "_todo",
        "_version",
    )

    def __init__(
        self,
        expressions: Iterable[str],
        topics: Topics,
        may_see: Callable[[str], bool],
        *,
        version: int,
        now_ms: int,
        seen: Callable[[str], object] = len,
    ) -> None:
        """`seen` is told each topic that one of them stands for."""
        self._names = topics.names()
        self._may_see = may_see
        self._seen = seen
        self._version = version
        self._timestamp_ms = now_ms
        self._todo = list(expressions)
        self._found: dict[str, list[str]] = {one: [] for one in self._todo}
        self._at = 0

    def advance(self) -> bool:
        """Hold some names against one of the expressions; whether all was done."""
        if self._todo:
            expression, at = self._todo[-1], self._at
            pattern = compiled(expression)
            self._at = len(self._names)
            if pattern is not None:
                self._at = at + names_a_slice(pattern)
                self._match(expression, pattern, self._names[at : self._at])
            if self._at >= len(self._names):
                self._todo.pop()
                self._at = 0
        return not self._todo

    def _match(self, expression: str, pattern: Any, names: Iterable[str]) -> None:
        found = self._found[expression]
        for name in names:
            if pattern.fullmatch(name) is not None and self._may_see(name):
                self._seen(name)
                found.append(name)

    def result(self) -> Slices[dict[str, Resolved]]:
        found, pauses = {}, PauseCounter()
        for expression, names in self._found.items():
            topics = tuple(sorted(names))
            found[expression] = Resolved(topics, self._version, self._timestamp_ms)
            if pauses.is_due(1 + len(names)):
                yield
        return found
