"""What tests install once into `.cache`: whole or not at all, by whichever process comes first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

import pytest

from kavka.compat_tests.clients import installing
from kavka.compat_tests.errors import Unavailable
from support.java import missing
from support.paths import CACHE

PROGRAMS: Mapping[str, installing.Toolchain] = {
    toolchain.program: toolchain for toolchain in (installing.NODE, installing.NPM, installing.GO)
}


@cache
def program(name: str) -> str:
    """Path of one of PROGRAMS, new enough; without it the test is skipped, on CI it fails."""
    try:
        return installing.found(PROGRAMS[name])
    except Unavailable as reason:
        missing(str(reason).removeprefix("needs "))


def once(kind: str, sources: Iterable[Path], install: Callable[[Path], None]) -> Path:
    """A directory of `.cache/<kind>`, named after what `sources` contain; `install` fills it."""
    return installing.once(kind, sources, install, lambda: CACHE)


def run(command: Sequence[str], cwd: Path, environment: Mapping[str, str]) -> None:
    """Run one step of an installation; the test fails with what it said."""
    try:
        installing.run(command, cwd, environment)
    except Unavailable as reason:
        pytest.fail(str(reason))
