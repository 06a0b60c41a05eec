"""One run of a plan, its judgement, and the smallest plan with the same violation."""

from __future__ import annotations

import gzip
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest
from kafka.record import default_records

from sim.cluster_plan import ClusterPlan, draw_cluster
from sim.cluster_world import ClusterWorld
from sim.judge import judge
from sim.plan import Plan, draw
from sim.world import World
from support import strict_arenas


@dataclass
class Outcome:
    """What came of a plan."""

    plan: Plan
    virtual_s: float
    steps: int
    digest: str
    records: int
    violations: list[str] = field(default_factory=list)
    trace: list[str] = field(default_factory=list)
    stories: list[str] = field(default_factory=list)
    """Of the partitions."""

    @property
    def seed(self) -> int:
        return self.plan.seed


@contextmanager
def same_each_time() -> Iterator[None]:
    """Without what the clients' library takes from elsewhere: its gzip writes the time of day."""

    def gzip_encode(payload: bytes, compresslevel: int | None = None) -> bytes:
        return gzip.compress(payload, 6 if compresslevel is None else compresslevel, mtime=0)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(default_records, "gzip_encode", gzip_encode)
        yield


class Complaints(logging.Handler):
    """What brokers log with a traceback: failures that are not expected."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None:
            failure = record.exc_info[1]
            self.found.append(f"logged: {record.getMessage()}: {failure!r}")


@contextmanager
def complaints() -> Iterator[list[str]]:
    """Those of all brokers meanwhile, which log nothing else."""
    kavka, handler = logging.getLogger("kavka"), Complaints()
    before = kavka.level, kavka.propagate
    kavka.addHandler(handler)
    kavka.setLevel(logging.ERROR)
    kavka.propagate = False
    try:
        yield handler.found
    finally:
        kavka.removeHandler(handler)
        kavka.setLevel(before[0])
        kavka.propagate = before[1]


def run(seed: int, *, cluster: bool = False) -> Outcome:
    """Live through a seed, of one broker or of a cluster."""
    return run_plan(draw_cluster(seed) if cluster else draw(seed))


def run_plan(plan: Plan) -> Outcome:
    """Live through a plan."""
    strict_arenas.leave_out_all()  # of what is searched and collected, which may be in every run
    world = ClusterWorld(plan) if isinstance(plan, ClusterPlan) else World(plan)
    with strict_arenas.enforce(), same_each_time(), complaints() as logged:
        try:
            world.loop.run(world.main())
            violations = judge(
                world.history, world.final, world.committed, world.compacted, world.offsets
            )
        except Exception as failure:
            violations = [*world.history.violations, f"the world ends: {failure!r}"]
    violations += [f"unhandled: {error}" for error in world.loop.failures]
    violations += logged
    violations += strict_arenas.found
    strict_arenas.found.clear()
    return Outcome(
        plan,
        world.loop.now_s,
        world.loop.steps,
        world.trace.digest(),
        len(world.history.acknowledged),
        violations,
        list(world.trace.lines),
        world.stories or [line for machine in world.machines for line in machine.stories()],
    )


def shrink(failed: Outcome, tries: int, on_try: Callable[[], object]) -> Outcome:
    """Leave out actors and faults for as long as a violation of the same kind is left, in at most
    so many runs; `on_try` is called before each."""
    kind = _kind(failed.violations[0])
    smaller = True
    while smaller:
        smaller = False
        for plan in failed.plan.smaller():
            if tries == 0:
                return failed
            tries -= 1
            on_try()
            outcome = run_plan(plan)
            if any(_kind(violation) == kind for violation in outcome.violations):
                failed, smaller = outcome, True
                break
    return failed


def _kind(violation: str) -> str:
    """The invariant, or what it begins with."""
    words = violation.split(": ")
    return words[1] if words[0].endswith(" s") and len(words) > 1 else words[0]
