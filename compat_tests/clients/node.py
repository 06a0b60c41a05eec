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


def script(name: str) -> Callable[[], Program]:
    """A driver's script."""

    def install() -> Program:
        node, packages = found(NODE), once("node", LOCK_FILES, _install)
        environment = {**os.environ, "NODE_PATH": str(packages / "node_modules")}
        return Program([node, str(SCRIPTS / name)], environment)

    return install


def _install(directory: Path) -> None:
    for file in LOCK_FILES:
        shutil.copy(file, directory)
    command = [found(NPM), "ci", "--no-audit", "--no-fund", "--ignore-scripts"]
    run(command, directory, os.environ)
