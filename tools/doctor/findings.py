"""What a check found, and how grave it is."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Final, NamedTuple


class Level(IntEnum):
    """From what is as it should be to what keeps clients from working, or loses data."""

    OK = 0
    NOTE = 1
    WARNING = 2
    ERROR = 3


class Finding(NamedTuple):
    """One thing that was looked at."""

    level: Level
    step: str
    """The check, by a name that stays."""
    subject: str
    """What it is about: an address, a broker, a topic."""
    found: str
    """A sentence without its full stop."""
    problem: str = ""
    """What is wrong, by a name that stays; "" for what is right."""
    advice: str = ""
    """What to do; "" where there is nothing to do."""


def ok(step: str, subject: str, found: str) -> Finding:
    """Something is as it should be."""
    return Finding(Level.OK, step, subject, found)


def note(step: str, problem: str, subject: str, found: str, advice: str = "") -> Finding:
    """Something to know: nothing is wrong with it."""
    return Finding(Level.NOTE, step, subject, found, problem, advice)


def warning(step: str, problem: str, subject: str, found: str, advice: str) -> Finding:
    """Something needs attention, though clients work."""
    return Finding(Level.WARNING, step, subject, found, problem, advice)


def error(step: str, problem: str, subject: str, found: str, advice: str) -> Finding:
    """Clients can't work, or data are lost."""
    return Finding(Level.ERROR, step, subject, found, problem, advice)


EXIT_CODES: Final = {Level.OK: 0, Level.NOTE: 0, Level.WARNING: 2, Level.ERROR: 3}
"""1 is for a doctor that could not do its work."""


def worst(findings: Iterable[Finding]) -> Level:
    """The gravest level."""
    return max((finding.level for finding in findings), default=Level.OK)


def wrong(findings: Iterable[Finding]) -> list[Finding]:
    """Those that need attention."""
    return [finding for finding in findings if finding.level >= Level.WARNING]
