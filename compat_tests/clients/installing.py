"""What clients need, installed once into a directory of the user's cache: whole or not at all."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from kavka.compat_tests.errors import Unavailable

INSTALL_WITHIN_S: Final = 900
SHOWN_CHARS: Final = 2000
DRIVERS: Final = Path(__file__).parent.parent / "drivers"


class Toolchain(NamedTuple):
    """A program that is not installed by the suite."""

    program: str
    requirement: str
    """What to install, for a message."""
    ask: Sequence[str]
    """Arguments that make it print its version."""
    oldest: tuple[int, ...]


NODE: Final = Toolchain("node", "Node.js 18 or newer", ("--version",), (18,))
NPM: Final = Toolchain("npm", "npm 9 or newer (it comes with Node.js)", ("--version",), (9,))
GO: Final = Toolchain("go", "Go 1.26 or newer", ("version",), (1, 26))
JAVA: Final = Toolchain("java", "Java 17 or newer", ("-version",), (17,))
KCAT: Final = Toolchain("kcat", "kcat 1.7 or newer (Debian's package kcat)", ("-V",), (1, 7))
MAVEN: Final = Toolchain("mvn", "Maven 3 or newer", ("--version",), (3,))
CARGO: Final = Toolchain("cargo", "Rust 1.80 or newer (cargo)", ("--version",), (1, 80))


def found(toolchain: Toolchain) -> str:
    """The path of a program that is new enough. Unavailable."""
    path = shutil.which(toolchain.program)
    if path is None:
        raise Unavailable(f"needs {toolchain.requirement}")
    ran = subprocess.run([path, *toolchain.ask], capture_output=True, text=True, check=False)
    said = ran.stdout + ran.stderr
    version = re.search(r"(\d+)\.(\d+)", said)
    if version is None or tuple(map(int, version.groups())) < toolchain.oldest:
        raise Unavailable(f"needs {toolchain.requirement}; found {said.strip().splitlines()[:1]}")
    return path


def cache_directory() -> Path:
    """Where clients are kept: KAVKA_COMPAT_CACHE, or kavka/compat in the user's cache."""
    named = os.environ.get("KAVKA_COMPAT_CACHE")
    if named:
        return Path(named).resolve()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "kavka" / "compat"


def once(
    kind: str,
    sources: Iterable[Path],
    install: Callable[[Path], None],
    cache: Callable[[], Path] = cache_directory,
) -> Path:
    """A directory for what `sources` say, which `install` fills if it is not there yet, while
    other processes wait. Unavailable."""
    digest = hashlib.sha256()
    for source in sources:
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    directory = cache() / kind / digest.hexdigest()[:12]
    if directory.exists():
        return directory
    directory.parent.mkdir(parents=True, exist_ok=True)
    with directory.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not directory.exists():
            partial = directory.with_suffix(".partial")
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            install(partial)
            partial.rename(directory)
    return directory


def run(command: Sequence[str], directory: Path, environment: Mapping[str, str]) -> None:
    """One step of an installation. Unavailable, with the last of what it printed."""
    try:
        done = subprocess.run(
            command,
            cwd=directory,
            capture_output=True,
            text=True,
            timeout=INSTALL_WITHIN_S,
            env=dict(environment),
            check=False,
        )
    except subprocess.TimeoutExpired as failure:
        raise Unavailable(f"{command[0]} did not end within {INSTALL_WITHIN_S} s") from failure
    if done.returncode:
        said = (done.stdout + done.stderr).strip()[-SHOWN_CHARS:]
        raise Unavailable(f"could not be installed: {' '.join(command)}: {said}")
