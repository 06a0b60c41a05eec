"""A broker inside a process whose program uses kafka-python itself: neither disturbs the other."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support import embedded
from support.broker import kavka_environment

TIMEOUT_S = 120


def run(order: str, directory: Path) -> dict[str, Any]:
    """Run `support.embedded` in a fresh interpreter."""
    environment = kavka_environment()
    environment["PYTHONUNBUFFERED"] = ""  # unbuffered, what a pipe does not take at once is lost
    done = subprocess.run(
        [sys.executable, "-m", "support.embedded", order, str(directory)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        env=environment,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


@pytest.mark.parametrize("order", ["library-first", "broker-first"])
def test_the_programs_kafka_python_is_untouched(tmp_path: Path, order: str) -> None:
    alone = run("no-broker", tmp_path / "unused")
    beside = run(order, tmp_path / "data")
    assert len(alone["classes"]) > 1_000
    assert beside["classes"] == alone["classes"]
    assert beside["read"] == [value.decode() for value in embedded.VALUES]
