"""What a seed means for a cluster: how many brokers, their settings, actors and faults.

The rest is as in `sim.plan`, whose numbers of actors are those of one broker: here there are fewer,
as each record is written by several brokers.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from sim.history import Place
from sim.plan import (
    ActorDraw,
    ActorPlan,
    AdministratorPlan,
    Fault,
    OperatorPlan,
    Plan,
    ProberPlan,
    ReaderPlan,
    draw_clocks,
    draw_compaction,
    draw_quality,
    draw_settings,
    draw_speed,
)

KINDS: Final = (
    *("kill", "kill", "restart", "pause", "pause", "kill all"),
    *("cut brokers", "cut brokers", "isolate", "cut from zookeeper", "expire session"),
    *("zookeeper restarts", "reset from zookeeper", "reset", "cut path", "pause client"),
    "disk stuck",
)
DURABLE_KINDS: Final = ("cut power", "cut power of all")
"""With kavka.durability=fsync alone, as what was acknowledged may be lost otherwise."""

LATER_KINDS: Final = ("refuse",)
"""Those that came later, so that seeds that failed once stay much as they were."""

OVERRULED: Final = ("overrule", "overrule")
"""In seeds of their own: see `ClusterFaults`."""

RESTLESS: Final = ("replica.lag.time.max.ms=150", "replica.fetch.wait.max.ms=100")
"""In some seeds replicas leave the ISR and join it all the time, while an operator has leaders
elected and partitions moved: what is sent to a broker is often out of date when it arrives."""

ROLES: Final = ("leader", "leader", "controller", "", "")
"""To whom a fault happens: the leader of the first partition, the controller, or one that is
drawn beforehand."""

FAULTS_MAX: Final = 8


@dataclass(frozen=True)
class ClusterPlan(Plan):
    """All of a seed of a cluster. `session_timeout_s` is that of each broker."""

    brokers: int = 3
    replicas: int = 3
    """Of each partition."""
    min_insync: int = 2
    has_compacted: bool = False
    """Whether there is a compacted topic."""

    @property
    def names(self) -> list[str]:
        """Of the brokers, whose ids are counted from 1."""
        return [f"broker{number}" for number in range(1, self.brokers + 1)]

    @property
    def compacted(self) -> list[Place]:
        return super().compacted if self.has_compacted else []

    def story(self) -> list[str]:
        return [
            f"{self.brokers} brokers, {self.replicas} replicas, min.insync.replicas "
            f"{self.min_insync}, {self.partitions} partitions",
            *super().story(),
        ]


def draw_cluster(seed: int) -> ClusterPlan:
    """The plan of a seed."""
    chance = random.Random(f"cluster {seed}")
    brokers = chance.choice((3, 3, 3, 4, 5))
    replicas = chance.choice((3, 3, 3, 2))
    min_insync = min(chance.choice((1, 2, 2, 2)), replicas)
    partitions = 1 + chance.randrange(3)
    is_durable = chance.random() < 0.3
    has_compacted = chance.random() < 0.3
    actors = _Actors(chance, partitions, has_compacted=has_compacted).draw()
    names = [f"broker{number}" for number in range(1, brokers + 1)]
    settings = _settings(chance, replicas, min_insync, is_durable=is_durable)
    kinds = [kind for kind in KINDS if chance.random() < 0.4]
    if is_durable:
        kinds += DURABLE_KINDS
    if random.Random(f"later cluster {seed}").random() < 0.3:
        kinds += LATER_KINDS
    if random.Random(f"new cluster {seed}").random() < 0.25:
        kinds += OVERRULED
    restless = random.Random(f"elections of cluster {seed}")
    if restless.random() < 0.25:
        settings += RESTLESS
        actors.append(OperatorPlan("restless", restless.getrandbits(32), steps=30, pause_s=0.1))
    draw = _Faults(chance, brokers, kinds, [actor.name for actor in actors])
    return ClusterPlan(
        seed,
        draw_quality(chance),
        draw_speed(chance),
        is_durable,
        settings,
        partitions,
        chance.choice(("producer", "producer", "gzip", "zstd")),
        tuple(draw_compaction(chance).items()),
        tuple(actors),
        draw.some(chance.randrange(FAULTS_MAX)),
        draw.some(chance.choice((0, 0, 2, 4))),
        clocks=tuple(draw_clocks(actors, chance, names)),
        session_timeout_s=chance.choice((1.5, 4.0, 9.0)),
        brokers=brokers,
        replicas=replicas,
        min_insync=min_insync,
        has_compacted=has_compacted,
    )


def _settings(
    chance: random.Random, replicas: int, min_insync: int, *, is_durable: bool
) -> tuple[str, ...]:
    return (
        *draw_settings(chance, is_durable=is_durable),
        f"offsets.topic.replication.factor={replicas}",
        f"transaction.state.log.replication.factor={replicas}",
        f"transaction.state.log.min.isr={min_insync}",
        f"min.insync.replicas={min_insync}",
        f"replica.lag.time.max.ms={chance.choice((2500, 5000, 30_000))}",
        f"replica.fetch.wait.max.ms={chance.choice((1000, 2000))}",
        f"replica.fetch.max.bytes={chance.choice((1, 2000, 1 << 20))}",
        f"replica.fetch.backoff.ms={chance.choice((100, 1000))}",
        f"kavka.fast.failover.enable={chance.choice(('true', 'false'))}",
        f"leader.imbalance.check.interval.seconds={chance.choice((2, 300))}",
        f"controller.socket.timeout.ms={chance.choice((2000, 30_000))}",
        f"request.timeout.ms={chance.choice((2000, 30_000))}",
    )


class _Actors(ActorDraw):
    def __init__(self, chance: random.Random, partitions: int, *, has_compacted: bool) -> None:
        super().__init__(chance, partitions)
        self._has_compacted = has_compacted

    def draw(self) -> list[ActorPlan]:
        chance = self._chance
        return [
            *(self.producer(f"p{n}") for n in range(1 + chance.randrange(2))),
            *(
                ReaderPlan(f"r{n}", place, committed=chance.random() < 0.5)
                for n, place in enumerate(self._places)
            ),
            *(self._transactional(f"t{n}") for n in range(chance.choice((0, 1, 2)))),
            *(member for n in range(chance.choice((0, 0, 1))) for member in self.members(f"g{n}")),
            *(ProberPlan(f"q{n}", self._seed()) for n in range(chance.choice((0, 0, 1)))),
            *(self.slow_reader(f"s{n}") for n in range(int(self._has_compacted))),
            *(self._administrator(f"d{n}") for n in range(chance.choice((0, 0, 1)))),
            *(self._operator(f"o{n}") for n in range(chance.choice((0, 0, 1)))),
        ]

    def _administrator(self, name: str) -> ActorPlan:
        chance = self._chance
        steps, pause_s = chance.choice((10, 25)), chance.choice((0.01, 0.3))
        return AdministratorPlan(name, self._seed(), steps, pause_s)

    def _operator(self, name: str) -> ActorPlan:
        chance = self._chance
        steps, pause_s = chance.choice((4, 10)), chance.choice((0.1, 1.0))
        return OperatorPlan(name, self._seed(), steps, pause_s)

    def _transactional(self, name: str) -> ActorPlan:
        plan = self.transactional(name)
        return plan if self._has_compacted else replace(plan, keys=None)


class _Faults:
    def __init__(
        self, chance: random.Random, brokers: int, kinds: Sequence[str], clients: Sequence[str]
    ) -> None:
        self._chance = chance
        self._brokers = brokers
        self._kinds = kinds
        self._clients = clients
        self._mean_s = chance.choice((0.2, 1.0, 4.0))

    def some(self, count: int) -> tuple[Fault, ...]:
        """So many, if there are kinds."""
        return tuple(self._one() for _ in range(count if self._kinds else 0))

    def _one(self) -> Fault:
        chance = self._chance
        broker, other = chance.sample(range(1, self._brokers + 1), 2)
        return Fault(
            chance.choice(self._kinds),
            after_s=self._mean_s * 2 * chance.random(),
            lasts_s=chance.choice((0.3, 2.0, 5.0, 14.0)),
            down_s=chance.choice((0.0, 0.1, 2.0, 8.0)),
            client=chance.choice(self._clients),
            is_from_client=chance.random() < 0.5,
            is_both_ways=chance.random() < 0.5,
            broker=broker,
            other=other,
            role=chance.choice(ROLES),
        )
