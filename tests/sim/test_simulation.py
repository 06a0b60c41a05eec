"""Seeds of the simulation: nothing is violated, and a seed is the same each time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sim.run import run

TESTS = Path(__file__).parents[1]


FRESH_SEEDS = 200
SEEDS_PER_TEST = 10
ONCE_FAILED = Path(__file__).with_name("seeds.txt")


def fresh_seed() -> int:
    """The first of the seeds that belong to this commit, so that each commit tries others."""
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=TESTS, capture_output=True, text=True, check=False
    )
    return int(head.stdout[:8] or "0", 16)


def check(seed: int) -> None:
    """Nothing is violated."""
    violations = run(seed).violations
    assert not violations, f"python -m sim --seed {seed} --shrink"


@pytest.mark.parametrize("number", range(FRESH_SEEDS // SEEDS_PER_TEST))
def test_fresh_seeds(number: int) -> None:
    first = fresh_seed() + number * SEEDS_PER_TEST
    for seed in range(first, first + SEEDS_PER_TEST):
        check(seed)


def test_seeds_that_failed_once() -> None:
    lines = ONCE_FAILED.read_text().splitlines()
    for line in lines:
        if line and not line.startswith("#"):
            check(int(line.split()[0]))


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
    seeds = range(50, 58)
    one, other = digests(1, seeds), digests(2, seeds)
    assert len(one) == len(seeds)
    assert one == other
    assert one == [f"{seed} {run(seed).digest}" for seed in seeds]
