"""What a check found, API by API and version by version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from kavka.compat_tests.raw.case import Outcome

SHOWN_CHARS: Final = 200


class Verdict(StrEnum):
    """What is said of one version of an API."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_OFFERED = "not offered"
    """The broker's ApiVersions does not list it."""
    LEFT_OUT = "left out"
    """None of its cases could be played here; the reasons are given."""
    NO_CASES = "no cases"
    """The broker offers it, and there are no cases for it."""


@dataclass(frozen=True)
class Failure:
    """An answer, or a part of one, that is not what Apache Kafka gives.

    `step`: which of the case's compared requests it was, from 1 on, and `asked` its API. `path`:
    where in the answer, with the index of an array's item as a part; empty for the whole of it.
    `why`: the reason for it that is known, where Kavka answers so on purpose."""

    case: str
    step: int
    asked: str
    path: str
    answered: Any
    expected: Any
    why: str | None = None

    def __str__(self) -> str:
        where = f"step {self.step} ({self.asked}), {self.path or 'the whole answer'}"
        found, expected = _short(self.answered), _short(self.expected)
        return f"'{self.case}', {where}: {found}, Apache Kafka: {expected}"

    @property
    def field(self) -> str:
        """The name of what is another one."""
        names = [part for part in self.path.split(".") if part and not part.isdecimal()]
        return names[-1] if names else "the whole answer"


def _short(value: Any) -> str:
    text = value.value if isinstance(value, Outcome) else repr(value)
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}..."


@dataclass(frozen=True)
class ApiOutcome:
    """One version of an API. `played`: how many cases were; `left_out`: how many were not, by
    reason."""

    api: str
    version: int
    verdict: Verdict
    played: int = 0
    failures: Sequence[Failure] = ()
    left_out: Mapping[str, int] = field(default_factory=dict)

    @property
    def failed(self) -> int:
        """How many cases failed."""
        return len({failure.case for failure in self.failures})
