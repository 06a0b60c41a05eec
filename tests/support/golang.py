"""The program in Go of `tests/go`, built with the modules that its go.sum names."""

from __future__ import annotations

import os
from pathlib import Path

from support import installed
from support.paths import CACHE, ROOT

GO = ROOT / "tests" / "go"
SOURCES = (GO / "go.mod", GO / "go.sum", GO / "main.go")
PROGRAM = "members"


def program() -> Path:
    """The program, built when it isn't there yet."""
    return installed.once("go", SOURCES, _build) / PROGRAM


def _build(into: Path) -> None:
    environment = {
        **os.environ,
        "GOMODCACHE": str(CACHE / "go" / "modules"),
        "GOFLAGS": "-mod=readonly -modcacherw -buildvcs=false",
    }
    installed.run(
        [installed.program("go"), "build", "-o", str(into / PROGRAM), "."], GO, environment
    )
