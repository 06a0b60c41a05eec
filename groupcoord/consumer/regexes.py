"""Topic regexes: RE2's syntax, matching whole names (KIP-848)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, Final

import re2

from kavka.groupcoord.consumer.consumer_group_records import Resolved
from kavka.groupcoord.state import Topics
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.regex_errors import reason_of
from kavka.wire.steps import PauseCounter, Steps

INSTRUCTIONS_PER_STEP: Final = 5_000
"""Work between two pauses, in names times instructions of the compiled regex: simple ones take
about a microsecond a name, but some make RE2 execute each instruction at each character."""

NAMES_PER_STEP: Final = 250
"""Limit of names between two pauses: each match also costs about 10 us for its topic."""

PROGRAM_BYTES_MAX: Final = 512 * 1024
"""Memory limit of a compiled regex; it also limits the time to compile it and to match one name to
some ms."""

EXPRESSION_BYTES_MAX: Final = 2**15 - 1
"""The length limit of a regex, which becomes part of a record's key."""

PROGRAMS_KEPT_MAX: Final = 100
"""Cached compiled regexes."""


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
            f"{reason_of(failure)}.",
        ) from None


def compiled(expression: str) -> Any | None:
    """None for an invalid regex: requests are checked, but another broker may have written the
    record."""
    try:
        return _compile(expression)
    except re2.error:
        return None


def names_a_slice(pattern: Any) -> int:
    """How many names to match between two pauses."""
    size: int = pattern.programsize
    return max(1, min(NAMES_PER_STEP, INSTRUCTIONS_PER_STEP // size))


class Resolution:
    """Resolves which of the existing topics match some regexes, in slices.

    `may_see` says whether the member that triggered this is authorized to describe a topic. All
    regexes of a group are resolved together, so that its assignment changes once.
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
        """`seen` is called with each matching topic."""
        self._names = topics.names()
        self._may_see = may_see
        self._seen = seen
        self._version = version
        self._timestamp_ms = now_ms
        self._todo = list(expressions)
        self._found: dict[str, list[str]] = {expression: [] for expression in self._todo}
        self._at = 0

    def advance(self) -> bool:
        """Match some names against one of the regexes; whether all is done."""
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

    def result(self) -> Steps[dict[str, Resolved]]:
        found, pauses = {}, PauseCounter()
        for expression, names in self._found.items():
            topics = tuple(sorted(names))
            found[expression] = Resolved(topics, self._version, self._timestamp_ms)
            if pauses.is_due(1 + len(names)):
                yield None
        return found
