"""Seeds of the simulation: nothing is violated, and a seed is the same each time."""

from __future__ import annotations

from pathlib import Path

import pytest

from sim.digests import digests, simulator
from sim.run import run

FRESH_SEEDS = 20
FRESH_CLUSTER_SEEDS = 12
"""CI simulates 200 of each: `make fresh-seeds`."""

TRACE_LINES = 100

ONCE_FAILED = Path(__file__).with_name("seeds.txt")


def check(seed: int, *, cluster: bool) -> None:
    """Nothing is violated. If something is, it says where the run ended, and what becomes of the
    seed the next time: where that is something else, the course depends on more than the seed."""
    outcome = run(seed, cluster=cluster)
    if outcome.violations:
        print(*outcome.trace[-TRACE_LINES:], *outcome.stories, sep="\n")
        again = run(seed, cluster=cluster)
        courses = [(each.steps, each.digest[:12], each.violations[:3]) for each in (outcome, again)]
        option = "--cluster " if cluster else ""
        raise AssertionError(f"python -m sim {option}--seed {seed} --shrink: {courses}")


@pytest.mark.timeout(1200)
def test_fresh_seeds() -> None:
    """On all cores."""
    check_fresh(FRESH_SEEDS)


@pytest.mark.timeout(1800)
def test_fresh_seeds_of_clusters() -> None:
    check_fresh(FRESH_CLUSTER_SEEDS, "--cluster")


def check_fresh(count: int, *options: str) -> None:
    """Nothing is violated in so many seeds of this commit's."""
    with simulator(*options, "--fresh", "--seeds", str(count)) as simulating:
        output = simulating.communicate()[0]
    print(output)
    assert f"simulate: {count} of {count} seeds, 0 failed;" in output
    assert simulating.returncode == 0


def test_seeds_that_failed_once() -> None:
    lines = ONCE_FAILED.read_text().splitlines()
    for line in lines:
        if line and not line.startswith("#"):
            words = line.removeprefix("cluster ").split()
            check(int(words[0]), cluster=line.startswith("cluster "))


def test_a_seed_has_one_trace() -> None:
    """In other processes, with any hash seeds (`make simulate`: 200 seeds)."""
    seeds = range(50, 53)
    first, second = digests(seeds)
    assert first == second
    assert first == [f"{seed} {run(seed).digest}" for seed in seeds]


def test_a_seed_of_a_cluster_has_one_trace() -> None:
    first, second = digests(range(2, 4), "--cluster")
    assert first == second


def test_a_seed_has_one_trace_regardless_of_earlier_runs() -> None:
    first = run(51)
    run(52)
    again = run(51)
    assert (first.digest, first.steps) == (again.digest, again.steps)
