"""Whether a seed has the same trace each time, in any process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

TESTS = Path(__file__).parents[1]
HASH_SEEDS = (1, 2)


def digests(seeds: range, *options: str) -> list[list[str]]:
    """A line for each seed, with its trace's digest, from two processes that run at the same time,
    with different hash seeds."""
    arguments = (*options, "--digests", "--first", str(seeds.start), "--seeds", str(len(seeds)))
    running = [simulator(*arguments, env={"PYTHONHASHSEED": str(seed)}) for seed in HASH_SEEDS]
    found = [process.communicate()[0].splitlines() for process in running]
    for process, lines in zip(running, found, strict=True):
        assert process.returncode == 0, f"exit code {process.returncode}"
        assert len(lines) == len(seeds), "a line for each seed"
    return found


def simulator(*arguments: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    """`python -m sim` with these arguments, begun; its output is a pipe."""
    return subprocess.Popen(
        [sys.executable, "-m", "sim", *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **(env or {})},
        cwd=TESTS,
        stdout=subprocess.PIPE,
        text=True,
    )
