"""Clients in Go: all drivers are built at once, from the modules that go.sum names."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from kavka.compat_tests.clients.installing import DRIVERS, GO, found, once, run
from kavka.compat_tests.driver import Program

SOURCES: Final = DRIVERS / "go"
PACKAGES: Final = ("franz_go", "sarama", "kafka_go")
FLAGS: Final = "-mod=readonly -modcacherw -buildvcs=false"


def program(name: str) -> Callable[[], Program]:
    """A driver, by its package."""

    def install() -> Program:
        sources = [SOURCES / "go.mod", SOURCES / "go.sum", *sorted(SOURCES.glob("*/*.go"))]
        return Program([str(once("go", sources, _build) / name)], os.environ)

    return install


def _build(directory: Path) -> None:
    environment = {**os.environ, "GOFLAGS": FLAGS}
    packages = [f"./{name}" for name in PACKAGES]
    run([found(GO), "build", "-o", f"{directory}/", *packages], SOURCES, environment)
