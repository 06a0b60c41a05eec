"""Programs for Node.js, with the packages that `tests/node/package-lock.json` names."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from support import installed
from support.paths import ROOT

NODE = ROOT / "tests" / "node"
LOCK_FILES = (NODE / "package.json", NODE / "package-lock.json")


def command_line(script: Path, *arguments: str) -> list[str]:
    """How to run a script."""
    return [installed.program("node"), str(script), *arguments]


def environment() -> dict[str, str]:
    """With the packages, installed where they aren't yet."""
    packages = installed.once("node", LOCK_FILES, _install)
    return {**os.environ, "NODE_PATH": str(packages / "node_modules")}


def _install(into: Path) -> None:
    for file in LOCK_FILES:
        shutil.copy(file, into)
    command: Sequence[str] = [installed.program("npm"), "ci", "--no-audit", "--no-fund"]
    installed.run([*command, "--ignore-scripts"], into, os.environ)
