"""Clients in Python: those of this environment, and those of an environment of their own."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from kavka.compat_tests.clients.installing import DRIVERS, KCAT, found, once, run
from kavka.compat_tests.driver import Program
from kavka.compat_tests.errors import Unavailable

PYTHON: Final = DRIVERS / "python"


def here(driver: str, module: str) -> Callable[[], Program]:
    """A driver that runs in this Python, whose environment has the library."""

    def install() -> Program:
        if find_spec(module) is None:
            raise Unavailable(f"needs {module}: pip install 'kavka[compat]'")
        return program(Path(sys.executable), driver)

    return install


def apart(driver: str, requirements: str) -> Callable[[], Program]:
    """A driver in an environment of its own, as its library's release is another than this one's.

    `requirements`: the name of a file beside the drivers.
    """

    def install() -> Program:
        file = PYTHON / requirements

        def create(directory: Path) -> None:
            run([sys.executable, "-m", "venv", str(directory)], directory, os.environ)
            pip = [str(directory / "bin" / "python"), "-m", "pip", "install", "--quiet"]
            run([*pip, "--requirement", str(file)], directory, os.environ)

        directory = once(f"python-{file.stem}", [file], create)
        return program(directory / "bin" / "python", driver)

    return install


def kcat() -> Program:
    """The driver of kcat, a program in C, which is written in Python."""
    found(KCAT)
    return program(Path(sys.executable), "kcat_driver.py")


def program(python: Path, driver: str) -> Program:
    """A driver in a Python, without what this one's environment adds to its path."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return Program([str(python), str(PYTHON / driver)], environment)
