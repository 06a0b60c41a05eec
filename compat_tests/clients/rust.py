"""The client in Rust: its driver is built from the crates that Cargo.lock names."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

from kavka.compat_tests.clients.installing import CARGO, DRIVERS, found, once, run
from kavka.compat_tests.driver import Program

SOURCES: Final = DRIVERS / "rust"
BINARY: Final = "rdkafka_driver"


def rdkafka() -> Program:
    """The driver of rdkafka."""
    manifest = [SOURCES / "Cargo.toml", SOURCES / "Cargo.lock"]
    sources = [*manifest, *sorted(SOURCES.glob("src/*.rs"))]
    return Program([str(once("rust", sources, _build) / BINARY)], os.environ)


def _build(directory: Path) -> None:
    target = directory / "target"
    environment = {**os.environ, "CARGO_TARGET_DIR": str(target)}
    run([found(CARGO), "build", "--release", "--locked"], SOURCES, environment)
    shutil.move(target / "release" / BINARY, directory)
    shutil.rmtree(target)
