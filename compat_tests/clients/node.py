"""Clients for Node.js, with the packages that one lock file names."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

from kavka.compat_tests.clients.installing import DRIVERS, NODE, NPM, found, once, run
from kavka.compat_tests.driver import Program

SCRIPTS: Final = DRIVERS / "node"
LOCK_FILES: Final = (SCRIPTS / "package.json", SCRIPTS / "package-lock.json")


def script(name: str, native: str | None = None) -> Callable[[], Program]:
    """A driver's script; `native`: its package if that is built from C++, which takes minutes."""

    def install() -> Program:
        node = found(NODE)
        if native is None:
            packages = once("node", LOCK_FILES, _install)
        else:
            packages = once("node-native", LOCK_FILES, lambda into: _build(into, native))
        environment = {**os.environ, "NODE_PATH": str(packages / "node_modules")}
        return Program([node, str(SCRIPTS / name)], environment)

    return install


def _install(directory: Path) -> None:
    for file in LOCK_FILES:
        shutil.copy(file, directory)
    command = [found(NPM), "ci", "--no-audit", "--no-fund", "--ignore-scripts"]
    run(command, directory, os.environ)


def _build(directory: Path, package: str) -> None:
    _install(directory)
    # With this machine's libraries, else the build would download their sources.
    environment = {**os.environ, "CKJS_LINKING": "dynamic"}
    run([found(NPM), "rebuild", package, "--build-from-source"], directory, environment)
