"""Seeds of the simulation: nothing is violated, and a seed is the same each time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sim.run import run

TESTS = Path(__file__).parents[1]


@pytest.mark.parametrize("first", range(1, 41, 10))
def test_no_seed_violates_anything(first: int) -> None:
    for seed in range(first, first + 10):
        outcome = run(seed)
        assert not outcome.violations, f"python -m sim --seed {seed} --shrink"


def digests(hash_seed: int, seeds: range) -> list[str]:
    """What `python -m sim` says of seeds, without the time that they took."""
    done = subprocess.run(
        [sys.executable, "-m", "sim", "--digests", "--first", str(seeds.start)]
        + ["--seeds", str(len(seeds))],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(sys.path),
            "PYTHONHASHSEED": str(hash_seed),
        },
        cwd=TESTS,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


def test_a_seed_has_one_trace() -> None:
    """In other processes, whatever their hash seeds are."""
    seeds = range(50, 60)
    one, other = digests(1, seeds), digests(2, seeds)
    assert len(one) == len(seeds)
    assert one == other
    assert one == [f"{seed} {run(seed).digest}" for seed in seeds]
