"""Seeds of the simulation: nothing is violated, and a seed is the same each time."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from sim.digests import TESTS, digests, simulator
from sim.run import run

FRESH_SEEDS = 200
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


@pytest.mark.timeout(1200)
def test_fresh_seeds() -> None:
    """On all cores."""
    with simulator("--first", str(fresh_seed()), "--seeds", str(FRESH_SEEDS)) as simulating:
        output = simulating.communicate()[0]
    print(output)
    assert f"simulate: {FRESH_SEEDS} of {FRESH_SEEDS} seeds, 0 failed;" in output
    assert simulating.returncode == 0


def test_seeds_that_failed_once() -> None:
    lines = ONCE_FAILED.read_text().splitlines()
    for line in lines:
        if line and not line.startswith("#"):
            check(int(line.split()[0]))


def test_a_seed_has_one_trace() -> None:
    """In other processes, with any hash seeds (`make simulate`: 200 seeds)."""
    seeds = range(50, 53)
    one, other = digests(seeds)
    assert one == other
    assert one == [f"{seed} {run(seed).digest}" for seed in seeds]


def test_a_seed_has_one_trace_regardless_of_earlier_runs() -> None:
    first = run(51)
    run(52)
    again = run(51)
    assert (first.digest, first.steps) == (again.digest, again.steps)
