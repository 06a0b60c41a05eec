"""The programs in Go of `tests/go`, built with the modules that its go.sum names."""

from __future__ import annotations

import os
from pathlib import Path

from support import installed
from support.paths import CACHE, ROOT

GO = ROOT / "tests" / "go"
PROGRAMS = {"members": ".", "transformer": "./transformer", "writer": "./writer"}
"""The packages they are made of."""
SOURCES = (
    GO / "go.mod",
    GO / "go.sum",
    GO / "main.go",
    GO / "transformer" / "main.go",
    GO / "writer" / "main.go",
)


def program(name: str) -> Path:
    """One of them, built when it isn't there yet."""
    return installed.once("go", SOURCES, _build) / name


def _build(into: Path) -> None:
    environment = {
        **os.environ,
        "GOMODCACHE": str(CACHE / "go" / "modules"),
        "GOFLAGS": "-mod=readonly -modcacherw -buildvcs=false",
    }
    for name, package in PROGRAMS.items():
        installed.run(
            [installed.program("go"), "build", "-o", str(into / name), package], GO, environment
        )
