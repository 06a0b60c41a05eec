"""What tests install once into `.cache`: whole or not at all, by whichever process comes first."""

from __future__ import annotations

import fcntl
import hashlib
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

import pytest

from support.java import missing
from support.paths import CACHE

INSTALL_TIMEOUT_S = 600

PROGRAMS: Mapping[str, tuple[str, Sequence[str], tuple[int, ...]]] = {
    "node": ("Node.js 18 or newer (nodejs.org, or Debian's nodejs)", ("--version",), (18,)),
    "npm": ("npm 9 or newer (it comes with Node.js; Debian: npm)", ("--version",), (9,)),
    "go": ("Go 1.26 or newer (go.dev)", ("version",), (1, 26)),
}
"""What to install, how to ask for the version, and the oldest that will do."""


@cache
def program(name: str) -> str:
    """Path of one of PROGRAMS, new enough; without it the test is skipped, on CI it fails."""
    what, ask, oldest = PROGRAMS[name]
    path = shutil.which(name) or missing(what)
    said = subprocess.run([path, *ask], capture_output=True, text=True).stdout
    version = re.search(r"(\d+)\.(\d+)", said)
    if version is None or tuple(map(int, version.groups())) < oldest:
        missing(f"{what}; found {said.strip()!r}")
    return path


def once(kind: str, sources: Iterable[Path], install: Callable[[Path], None]) -> Path:
    """A directory of `.cache/<kind>`, named after what `sources` contain; `install` fills it."""
    digest = hashlib.sha256()
    for source in sources:
        digest.update(source.read_bytes())
    found = CACHE / kind / digest.hexdigest()[:12]
    if found.exists():
        return found
    found.parent.mkdir(parents=True, exist_ok=True)
    with found.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one of several test processes installs
        if not found.exists():
            partial = found.with_suffix(".partial")
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            install(partial)
            partial.rename(found)
    return found


def run(command: Sequence[str], cwd: Path, environment: Mapping[str, str]) -> None:
    """Run one step of an installation; the test fails with what it said."""
    done = subprocess.run(
        command,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=INSTALL_TIMEOUT_S,
        env=dict(environment),
    )
    if done.returncode != 0:
        pytest.fail(f"{' '.join(command)}:\n{done.stdout}{done.stderr}")
