"""`python -m sim`: simulate many seeds on all cores, or one seed to see what happened.

python -m sim --seeds 10000            # with progress; failing seeds go into --failures
python -m sim --seeds 200 --fresh      # those that belong to this commit
python -m sim --seeds 200 --same       # whether each has the same trace in two processes
python -m sim --seed 17                # one: its plan, its trace, what is violated
python -m sim --seed 17 --shrink       # the smallest plan that still shows it
python -m sim --cluster ...            # the same of clusters, whose seeds are others
python -m sim --planted                # the seed of each planted bug, or another that finds it
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

from sim.cluster_planted import CLUSTER_BUGS
from sim.digests import TESTS, digests
from sim.planted import BUGS, caught_by
from sim.run import Outcome, run, shrink

TRACE_LINES = 200
SHRINKING_RUNS = 100
PROGRESS_S = 5.0
BATCH = 10


def fresh_seed() -> int:
    """The first of the seeds that belong to this commit, so that each commit tries others."""
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=TESTS, capture_output=True, text=True, check=False
    )
    return int(head.stdout[:8] or "0", 16)


class Result(NamedTuple):
    """What is reported of a seed."""

    seed: int
    virtual_s: float
    digest: str
    violations: tuple[str, ...]


def simulate(seed: int, *, cluster: bool = False) -> Result:
    """One seed, in any process."""
    outcome = run(seed, cluster=cluster)
    return Result(seed, outcome.virtual_s, outcome.digest, tuple(outcome.violations))


def results(seeds: range, workers: int, *, cluster: bool) -> Iterator[Result]:
    """Those of all seeds, as they come, in order."""
    run_seed = partial(simulate, cluster=cluster)
    if workers == 1:
        yield from map(run_seed, seeds)
        return
    with ProcessPoolExecutor(workers) as pool:
        yield from pool.map(run_seed, seeds, chunksize=BATCH)


def many(seeds: range, workers: int, failures: Path | None, *, cluster: bool) -> int:
    """Simulate seeds; the number of failed ones."""
    option = "--cluster " if cluster else ""
    began_s = shown_s = time.monotonic()
    failed, virtual_s = 0, 0.0
    for done, result in enumerate(results(seeds, workers, cluster=cluster), 1):
        virtual_s += result.virtual_s
        if result.violations:
            failed += 1
            count, again = (
                len(result.violations),
                f"python -m sim {option}--seed {result.seed} --shrink",
            )
            print(f"seed {result.seed}: {count} violations; {again}", flush=True)
            for violation in result.violations[:3]:
                print(f"  {violation[:300]}", flush=True)
            if failures is not None:
                with failures.open("a") as file:
                    file.write(f"{result.seed}\n")
        now_s = time.monotonic()
        if now_s - shown_s >= PROGRESS_S or done == len(seeds):
            shown_s, minutes = now_s, (now_s - began_s) / 60
            print(
                f"simulate: {done} of {len(seeds)} seeds, {failed} failed; "
                f"{done / minutes:.0f} seeds and {virtual_s / 3600 / minutes:.2f} virtual hours "
                "a minute",
                flush=True,
            )
    return failed


def same(seeds: range, *, cluster: bool) -> int:
    """Whether each seed has one trace; the number of those that have not."""
    first, second = digests(seeds, *(["--cluster"] if cluster else []))
    wrong = [seed for seed, *lines in zip(seeds, first, second, strict=True) if len(set(lines)) > 1]
    print(f"simulate: {len(seeds) - len(wrong)} of {len(seeds)} seeds have the same trace twice")
    for seed in wrong:
        print(f"seed {seed} has two traces")
    return len(wrong)


def show(outcome: Outcome) -> None:
    """Print what happened in a run."""
    print(*outcome.plan.story(), sep="\n")
    print(*outcome.trace[-TRACE_LINES:], sep="\n")
    print(*outcome.stories, sep="\n")
    print(f"seed {outcome.seed}: {outcome.virtual_s:.1f} virtual s, {outcome.steps} steps")
    for violation in outcome.violations:
        print(f"  {violation[:300]}")


def show_seed(seed: int, *, smallest: bool, cluster: bool) -> int:
    """Show a seed; 1 if something is violated."""
    outcome = run(seed, cluster=cluster)
    if smallest and outcome.violations:
        shrunk = shrink(outcome, SHRINKING_RUNS, lambda: print(".", end="", flush=True))
        whole, left = outcome.plan, shrunk.plan
        print(
            f"\nleft of {len(whole.actors)} actors and {whole.faults_count} faults: "
            f"{len(left.actors)} and {left.faults_count}"
        )
        outcome = shrunk
    show(outcome)
    return int(bool(outcome.violations))


def planted(seeds: range, *, cluster: bool) -> int:
    """Print where planted bugs are found, as their rows say or in one of `seeds`, which they have
    to say then: a change of the broker gives seeds another course. The number of those that are
    not found where they should."""
    lost = 0
    for bug in CLUSTER_BUGS if cluster else BUGS:
        found = caught_by(bug, cluster=cluster)
        if found is not None:
            print(f"{bug.name}: found", flush=True)
            continue
        lost += 1
        print(f"{bug.name}: not found in {bug.seeds_max} from {bug.first} on", flush=True)
        found = caught_by(bug._replace(first=seeds[0], seeds_max=len(seeds)), cluster=cluster)
        where = "nor in any other" if found is None else f"but in seed {seeds[found[0] - 1]}"
        print(f"  {where}", flush=True)
    return lost


def main() -> int:
    parser = argparse.ArgumentParser(prog="sim")
    parser.add_argument("--seeds", type=int, default=100, help="how many")
    parser.add_argument("--first", type=int, default=1, help="the first of them")
    parser.add_argument("--fresh", action="store_true", help="from a first that the commit gives")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--failures", type=Path, help="a file that failing seeds are added to")
    parser.add_argument("--digests", action="store_true", help="print only the traces' digests")
    parser.add_argument("--same", action="store_true", help="compare the traces of two processes")
    parser.add_argument("--seed", type=int, help="show what happens in this one")
    parser.add_argument("--shrink", action="store_true", help="with the smallest plan")
    parser.add_argument("--cluster", action="store_true", help="seeds of clusters")
    parser.add_argument("--planted", action="store_true", help="look for all planted bugs")
    given = parser.parse_args()
    first = fresh_seed() if given.fresh else given.first
    seeds = range(first, first + given.seeds)
    if given.seed is not None:
        return show_seed(given.seed, smallest=given.shrink, cluster=given.cluster)
    if given.planted:
        return int(planted(seeds, cluster=given.cluster) > 0)
    if given.same:
        return int(same(seeds, cluster=given.cluster) > 0)
    if given.digests:
        for result in results(seeds, 1, cluster=given.cluster):
            print(result.seed, result.digest)
        return 0
    return int(many(seeds, given.workers, given.failures, cluster=given.cluster) > 0)


if __name__ == "__main__":
    sys.exit(main())
