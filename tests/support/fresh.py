"""Programs in an interpreter of their own, which has imported nothing yet."""

from __future__ import annotations

import subprocess
import sys

from support.paths import SOURCE

ENDS_WITHIN_S = 120


def printed(program: str) -> str:
    """What a program prints that knows Kavka's modules; it must end well."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(SOURCE)},
        timeout=ENDS_WITHIN_S,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
