"""The faults of a run, drawn from its seed before anything begins. Pure.

One seed gives one sequence without end, of which a run uses as much as it has time for. Each kind
comes once before any comes again. Whom a fault strikes is drawn as a role; who has it when its
time has come depends on the run.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

T = TypeVar("T")

LEADER, FOLLOWER, CONTROLLER, COORDINATOR = "leader", "follower", "controller", "coordinator"
ROLES: Final = (LEADER, FOLLOWER, CONTROLLER, COORDINATOR)

SESSION_SHARES: Final = (0.5, 2.0)
"""How long what may end a session lasts, least and most, as a share of its timeout."""

QUIET_S: Final = (0.0, 3.0)
"""How long all is well between two faults, least and most."""

SHORT_SESSION_SHARES: Final = (0.3, 1.3)
SHORT_QUIET_S: Final = (0.0, 0.5)
"""The same in a short run."""

DRAWS: Final = 1 << 32


@dataclass(frozen=True)
class Fault:
    """One of them; see `cluster_faults.faults` for what each kind does."""

    number: int
    kind: str
    victim: str
    """The role of the broker that it strikes."""
    partition: int
    """Of which partition the victim is leader or follower."""
    lasts: float
    """As a share of the session's timeout."""
    quiet_s: float
    """Time before it."""
    late: bool
    """Whether what a cut network has held back arrives late, rather than never."""
    draw: int
    """What else is to be drawn for it."""

    @property
    def chance(self) -> random.Random:
        """Draws what is peculiar to its kind, the same each time."""
        return random.Random(self.draw)

    def __str__(self) -> str:
        late = ", late" if self.late else ""
        return (
            f"{self.number}: {self.kind}, {self.victim} of {self.partition}, "
            f"{self.lasts:.2f} sessions{late}, after {self.quiet_s:.1f} s"
        )


KINDS: Final = (
    "kill",
    "pause",
    "kill all",
    "kill zookeeper",
    "zookeeper unreachable",
    "expire session",
    "cut",
    "cut one way",
    "cut clients",
    "cut clients one way",
    "slow clients",
    "tear clients",
    "half-open clients",
    "stray requests",
    "stale producer",
    "member that never syncs",
    "fill disk",
    "disk error",
    "slow disk",
    "damage",
    "cut power",
    "cut power of all",
    "clock",
    "wipe",
    "slow follower",
    "reassign",
    "delete topic",
)

DURABLE_ONLY: Final = frozenset({"cut power of all"})
"""Those that may take what is acknowledged, unless that means that it is synced."""

SHORT: Final = (
    ("kill", LEADER),
    ("pause", CONTROLLER),
    ("cut one way", LEADER),
    ("expire session", CONTROLLER),
    ("kill zookeeper", FOLLOWER),
    ("wipe", FOLLOWER),
)
"""What `make test` has: one of each sort. The order is drawn."""


def is_durable(seed: int) -> bool:
    """Whether what is acknowledged in the run of a seed is synced on all replicas in sync."""
    return random.Random(seed).random() < 0.5


def draw(seed: int, partitions: int) -> Iterator[Fault]:
    """The faults of a seed, without end; `partitions` are those that are led and followed. Of
    those that only some runs may have the others have to leave out theirs."""
    chance = random.Random(seed)
    numbers = iter(range(1 << 30))
    roles: list[str] = []
    while True:
        for kind in _shuffled(chance, KINDS):
            if not roles:
                roles = _shuffled(chance, ROLES)
            yield _fault(chance, next(numbers), kind, roles.pop(), partitions)


def draw_short(seed: int, partitions: int) -> list[Fault]:
    """The six faults of a short run."""
    chance = random.Random(seed)
    return [
        replace(
            _fault(chance, number, kind, victim, partitions),
            lasts=chance.uniform(*SHORT_SESSION_SHARES),
            quiet_s=chance.uniform(*SHORT_QUIET_S),
        )
        for number, (kind, victim) in enumerate(_shuffled(chance, SHORT))
    ]


def _fault(chance: random.Random, number: int, kind: str, victim: str, partitions: int) -> Fault:
    return Fault(
        number,
        kind,
        victim,
        chance.randrange(partitions),
        chance.uniform(*SESSION_SHARES),
        chance.uniform(*QUIET_S),
        chance.random() < 0.5,
        chance.randrange(DRAWS),
    )


def _shuffled(chance: random.Random, items: Sequence[T]) -> list[T]:
    return chance.sample(items, len(items))
