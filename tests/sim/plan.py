"""What a seed means: settings, actors and faults, all drawn before anything runs.

So an actor or a fault can be left out, and all others stay as they were: that is how a failure is
shrunk. Which kinds of actors and faults there are at all is drawn too (swarm testing).
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from sim.history import Place
from sim.jobs import Speed
from sim.network import Quality
from sim.producers import Load

TOPIC: Final = "a"
COMPACTED: Final = "compacted"
FAULTS_MAX: Final = 12
LASTS_S: Final = (0.5, 0.5, 5.0, 5.0, 40.0)
"""Of a fault: a few seconds, or longer than a connection or a member's session without a response.
Few are as long, as what else goes on meanwhile costs processor time."""
RETENTION_MS: Final = 4 * 3_600_000
"""A time to keep what compaction removes that is longer than any run, with its jumps."""
BROKER: Final = "broker1"


@dataclass(frozen=True)
class ProducerPlan:
    """An idempotent or plain producer of one partition."""

    name: str
    seed: int
    place: Place
    load: Load
    idempotent: bool


@dataclass(frozen=True)
class TransactionalPlan:
    """A transactional producer to all partitions; see `sim.transactions`."""

    name: str
    seed: int
    transactions: int
    pause_s: float
    timeout_ms: int
    newer: bool
    keys: int | None
    """With keys it writes to the compacted topic."""


@dataclass(frozen=True)
class ReaderPlan:
    """A reader of one partition."""

    name: str
    place: Place
    committed: bool
    pause_s: float = 0.0
    max_bytes: int = 1 << 20


@dataclass(frozen=True)
class MemberPlan:
    """A member of a group; see `sim.groups.Membership`."""

    name: str
    seed: int
    group: str
    is_classic: bool
    instance: str | None
    session_timeout_ms: int
    commit_s: float
    stay_s: float


@dataclass(frozen=True)
class ProberPlan:
    """A client that pipelines questions."""

    name: str
    seed: int


@dataclass(frozen=True)
class AdministratorPlan:
    """An administrator of a topic of its own; see `sim.admins`."""

    name: str
    seed: int
    steps: int
    pause_s: float


@dataclass(frozen=True)
class OperatorPlan:
    """An operator of a cluster; see `sim.operators`."""

    name: str
    seed: int
    steps: int
    pause_s: float


@dataclass(frozen=True)
class LeaverPlan:
    """A client that hangs up on its requests; see `sim.hangups`."""

    name: str
    seed: int
    rounds: int


ActorPlan: TypeAlias = (
    ProducerPlan
    | TransactionalPlan
    | ReaderPlan
    | MemberPlan
    | ProberPlan
    | AdministratorPlan
    | OperatorPlan
    | LeaverPlan
)


@dataclass(frozen=True)
class Fault:
    """Something that happens `after_s` after the fault before has ended, for `lasts_s`; see
    `sim.faults`."""

    kind: str
    after_s: float
    lasts_s: float
    down_s: float = 0.0
    """How long a broker is down before it starts again."""
    client: str = ""
    """Whose path is cut, or who is paused."""
    is_from_client: bool = False
    """Which direction of the path is cut; the broker is ZooKeeper's client."""
    operation: str = ""
    """Which operation of the disk fails."""
    files: str = ""
    """Of files whose names end so."""
    by_ms: int = 0
    """How far a clock jumps."""
    rots: str = ""
    """While the broker is down a bit flips in a file whose name ends so."""
    is_both_ways: bool = False
    """Whether the path to ZooKeeper, or to another broker, is cut in both directions."""
    broker: int = 1
    """The id of the broker that it happens to, in a cluster."""
    other: int = 2
    """The id of another one."""
    role: str = ""
    """In the place of `broker`: who is that then; see `sim.cluster_faults.ROLES`."""

    def __str__(self) -> str:
        return f"{self.after_s:.3f} s later {self.kind}"


KINDS: Final = (
    *("kill", "restart", "cut power", "reset", "cut path", "pause", "pause client"),
    *("disk error", "disk full"),
)
ZOOKEEPER_KINDS: Final = ("cut from zookeeper", "cut from zookeeper", "reset from zookeeper")
MEANWHILE_KINDS: Final = ("reset", "cut path", "pause", "pause client", "disk stuck")
BROKER_JUMP_MS_MAX: Final = 250_000
CLIENT_JUMP_MS_MAX: Final = 3_000_000
"""How far a clock jumps at most. With two jumps of the broker and one of a client they stay within
log.message.timestamp.after.max.ms, an hour: no records are refused; and those of the broker within
the 15 minutes after which the last five batches of a producer are no longer looked for."""

CLOCK_OFFSET_MS_MAX: Final = 10_000
CLOCK_DRIFT_MAX: Final = 0.001
"""Seconds a second; of a real clock, 0.0001 is much."""

OPERATIONS: Final = ("pwrite", "sync", "sync_dir", "create", "rename", "truncate", "pread", "open")
ROTTEN: Final = (".index", ".timeindex", ".snapshot")
FILES: Final = ("", "", ".log", ".index", ".snapshot")


@dataclass(frozen=True)
class Clock:
    """Of the broker, or of an actor; see `sim.loop.Process`."""

    name: str
    offset_ms: int
    drift: float


@dataclass(frozen=True)
class Plan:
    """All of a seed."""

    seed: int
    quality: Quality
    speed: Speed
    is_durable: bool
    """Whether records are synced before they are acknowledged."""
    settings: tuple[str, ...]
    partitions: int
    compression_type: str
    compaction: tuple[tuple[str, str], ...]
    """Configs of the compacted topic."""
    actors: tuple[ActorPlan, ...]
    faults: tuple[Fault, ...]
    meanwhile: tuple[Fault, ...] = ()
    """More faults, one after the other, while those happen."""
    clocks: tuple[Clock, ...] = ()
    """Those that are not the world's."""
    session_timeout_s: float | None = None
    """Of the broker's session with ZooKeeper; None if its coordination service is embedded."""

    @property
    def places(self) -> list[Place]:
        """The partitions that keep all records."""
        return [(TOPIC, index) for index in range(self.partitions)]

    @property
    def keeps_markers(self) -> bool:
        """Whether no marker of the compacted topic may be removed."""
        return dict(self.compaction)["delete.retention.ms"] == str(RETENTION_MS)

    @property
    def compacted(self) -> list[Place]:
        """Those that are compacted."""
        return [(COMPACTED, index) for index in range(self.partitions)]

    @property
    def faults_count(self) -> int:
        """In both sequences."""
        return len(self.faults) + len(self.meanwhile)

    def smaller(self) -> Iterator[Plan]:
        """The same without one of the faults, one of the actors, or with the world's clocks."""
        for index in range(len(self.faults)):
            yield replace(self, faults=_without(self.faults, index))
        for index in range(len(self.meanwhile)):
            yield replace(self, meanwhile=_without(self.meanwhile, index))
        for actor in self.actors:
            yield replace(self, actors=tuple(other for other in self.actors if other is not actor))
        if self.clocks:
            yield replace(self, clocks=())

    def story(self) -> list[str]:
        """What it consists of, to be read."""
        return [
            f"settings: {', '.join(self.settings)}; compression.type={self.compression_type}",
            f"session with ZooKeeper: {self.session_timeout_s} s",
            *(str(actor) for actor in self.actors),
            *(str(fault) for fault in self.faults),
            *(f"meanwhile, {fault}" for fault in self.meanwhile),
            *(str(clock) for clock in self.clocks),
        ]


def _without(faults: Sequence[Fault], index: int) -> tuple[Fault, ...]:
    """All but one, the others at the same times."""
    rest = list(faults)
    left_out = rest.pop(index)
    if index < len(rest):
        waited_s = left_out.after_s + left_out.lasts_s + left_out.down_s
        rest[index] = replace(rest[index], after_s=rest[index].after_s + waited_s)
    return tuple(rest)


def draw(seed: int) -> Plan:
    """The plan of a seed."""
    chance = random.Random(seed)
    later = random.Random(f"later {seed}")
    """For what came later, so that seeds that failed once stay much as they were."""
    latest = random.Random(f"latest {seed}")
    is_durable = chance.random() < 0.5
    partitions = 1 + chance.randrange(3)
    actors = ActorDraw(chance, partitions).draw()
    quality = draw_quality(chance)
    plan = Plan(
        seed,
        replace(quality, bytes_per_s=latest.choice((1e9, 1e9, 1e7, 1e6))),
        replace(draw_speed(chance), dies_share=later.choice((0.0, 0.0, 0.3))),
        is_durable,
        tuple(draw_settings(chance, is_durable=is_durable)),
        partitions,
        chance.choice(("producer", "producer", "uncompressed", "gzip", "snappy", "lz4", "zstd")),
        tuple(draw_compaction(chance).items()),
        (*actors, *_administrators(later), *_leavers(random.Random(f"leavers {seed}"))),
        tuple(
            _with_stuck_disks(
                _with_rot(_with_jumps(_faults(chance, actors), actors, later), later), latest
            )
        ),
        clocks=tuple(draw_clocks(actors, latest)),
    )
    plan = _with_zookeeper(plan, random.Random(f"coordination {seed}"))
    return replace(plan, meanwhile=tuple(_meanwhile(plan, random.Random(f"meanwhile {seed}"))))


def draw_quality(chance: random.Random) -> Quality:
    """What the network is like."""
    return Quality(
        latency_s=chance.choice((0.00005, 0.0005, 0.002)),
        slow_share=chance.choice((0.0, 0.01, 0.1)),
        window_bytes=chance.choice((4096, 65536, 262144)),
        pieces_share=chance.choice((0.0, 0.1, 0.5)),
    )


def draw_speed(chance: random.Random) -> Speed:
    """How fast disks and processors are."""
    return Speed(
        disk_s=chance.choice((0.0001, 0.001, 0.01)), slow_share=chance.choice((0.0, 0.02, 0.1))
    )


def draw_settings(chance: random.Random, *, is_durable: bool) -> list[str]:
    """The broker's settings."""
    return [
        f"log.roll.ms={chance.choice((50, 1000, 1 << 40))}",
        f"log.index.interval.bytes={chance.choice((100, 4096))}",
        "log.retention.ms=-1",
        "log.retention.check.interval.ms=1000",
        f"log.flush.offset.checkpoint.interval.ms={chance.choice((200, 60_000))}",
        f"offsets.topic.num.partitions={chance.choice((1, 3))}",
        f"transaction.state.log.num.partitions={chance.choice((1, 3))}",
        f"offsets.retention.check.interval.ms={chance.choice((1000, 600_000))}",
        "log.cleaner.backoff.ms=250",
        "group.min.session.timeout.ms=1000",
        f"group.initial.rebalance.delay.ms={chance.choice((0, 500))}",
        f"group.consumer.session.timeout.ms={chance.choice((1000, 6000))}",
        "group.consumer.min.session.timeout.ms=1000",
        "group.consumer.min.heartbeat.interval.ms=100",
        f"group.consumer.heartbeat.interval.ms={chance.choice((200, 300))}",
        f"kavka.durability={'fsync' if is_durable else 'system'}",
    ]


def draw_compaction(chance: random.Random) -> dict[str, str]:
    """Configs of the compacted topic."""
    return {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.01",
        "delete.retention.ms": str(chance.choice((0, 500, RETENTION_MS))),
        "segment.ms": str(chance.choice((50, 500))),
    }


class ActorDraw:
    """Draws actors of topics with so many partitions."""

    def __init__(self, chance: random.Random, partitions: int) -> None:
        self._chance = chance
        self._places = [(TOPIC, index) for index in range(partitions)]

    def draw(self) -> list[ActorPlan]:
        """Producers and readers always, the others perhaps."""
        chance = self._chance
        return [
            *(self.producer(f"p{n}") for n in range(1 + chance.randrange(4))),
            *(
                ReaderPlan(f"r{n}", place, committed=chance.random() < 0.5)
                for n, place in enumerate(self._places)
            ),
            *(self.transactional(f"t{n}") for n in range(chance.randrange(4))),
            *(member for n in range(chance.randrange(3)) for member in self.members(f"g{n}")),
            *(ProberPlan(f"q{n}", self._seed()) for n in range(chance.randrange(2))),
            *(self.slow_reader(f"s{n}") for n in range(chance.randrange(3))),
        ]

    def _seed(self) -> int:
        return self._chance.getrandbits(64)

    def producer(self, name: str) -> ProducerPlan:
        """Idempotent in most cases."""
        chance = self._chance
        load = Load(
            records=chance.choice((20, 200)),
            pause_s=chance.choice((0.001, 0.05, 0.5)),
            value_bytes_max=chance.choice((20, 2000, 20_000)),
            compression=chance.choice((0, 0, 1, 2, 3, 4)),
        )
        place = chance.choice(self._places)
        return ProducerPlan(name, self._seed(), place, load, idempotent=chance.random() < 0.7)

    def slow_reader(self, name: str) -> ReaderPlan:
        """Of the compacted topic: what it reads may be compacted meanwhile."""
        chance = self._chance
        return ReaderPlan(
            name,
            (COMPACTED, chance.choice(self._places)[1]),
            committed=True,
            pause_s=chance.choice((0.0, 0.1, 1.0)),
            max_bytes=chance.choice((1, 1000)),
        )

    def transactional(self, name: str) -> TransactionalPlan:
        """To either topic."""
        chance = self._chance
        return TransactionalPlan(
            name,
            self._seed(),
            transactions=chance.choice((5, 30)),
            pause_s=chance.choice((0.001, 0.05, 0.5)),
            timeout_ms=chance.choice((1000, 10_000, 60_000)),
            newer=chance.random() < 0.5,
            keys=chance.choice((None, None, 1, 5)),
        )

    def members(self, group: str) -> Sequence[MemberPlan]:
        """Some of one group."""
        chance = self._chance
        common = MemberPlan(
            "",
            0,
            group,
            is_classic=chance.random() < 0.5,
            instance=None,
            session_timeout_ms=chance.choice((1000, 6000, 30_000)),
            commit_s=chance.choice((0.2, 0.5, 3.0)),
            stay_s=chance.choice((1.0, 10.0, 100.0)),
        )
        return [
            replace(
                common,
                name=f"{group}m{n}",
                seed=self._seed(),
                instance=f"i{n}" if chance.random() < 0.2 else None,
            )
            for n in range(1 + chance.randrange(4))
        ]


def _administrators(chance: random.Random) -> list[AdministratorPlan]:
    return [
        AdministratorPlan(
            f"d{n}",
            chance.getrandbits(64),
            steps=chance.choice((10, 40)),
            pause_s=chance.choice((0.001, 0.1, 0.5)),
        )
        for n in range(chance.choice((0, 0, 1, 1, 2)))
    ]


def _leavers(chance: random.Random) -> list[LeaverPlan]:
    if chance.random() < 0.85:
        return []
    return [LeaverPlan("h0", chance.getrandbits(64), rounds=2 + chance.randrange(3))]


def _with_jumps(
    faults: list[Fault], actors: Sequence[ActorPlan], chance: random.Random
) -> Sequence[Fault]:
    """With jumps of clocks between them."""
    if chance.random() < 0.7:
        return faults
    names = [BROKER, BROKER, *(actor.name for actor in actors)]
    for name in chance.sample(names, min(1 + chance.randrange(3), len(names))):
        farthest_ms = BROKER_JUMP_MS_MAX if name == BROKER else CLIENT_JUMP_MS_MAX
        jump = Fault(
            "clock jump",
            after_s=chance.choice((0.1, 2.0)) * chance.random(),
            lasts_s=0.0,
            client=name,
            by_ms=chance.choice((-1, 1)) * chance.choice((1000, 60_000, farthest_ms)),
        )
        faults.insert(chance.randrange(len(faults) + 1), jump)
    return faults


def _with_zookeeper(plan: Plan, chance: random.Random) -> Plan:
    """With a session with ZooKeeper in a third of the plans, and faults on the way to it."""
    if chance.random() < 0.67:
        return plan
    faults = list(plan.faults)
    for _ in range(chance.choice((0, 1, 2, 4))):
        fault = Fault(
            chance.choice(ZOOKEEPER_KINDS),
            after_s=chance.choice((0.1, 2.0, 10.0)) * chance.random(),
            lasts_s=chance.choice((0.05, *LASTS_S)),
            is_from_client=chance.random() < 0.5,
            is_both_ways=chance.random() < 0.4,
        )
        faults.insert(chance.randrange(len(faults) + 1), fault)
    timeout_s = chance.choice((1.0, 6.0, 18.0))
    return replace(plan, faults=tuple(faults), session_timeout_s=timeout_s)


def _meanwhile(plan: Plan, chance: random.Random) -> Sequence[Fault]:
    """In a third of the plans that have faults, those that may come at the same time."""
    if not plan.faults or chance.random() < 0.67:
        return ()
    kinds = MEANWHILE_KINDS if plan.session_timeout_s is None else MEANWHILE_KINDS + ZOOKEEPER_KINDS
    mean_s = chance.choice((0.05, 1.0, 10.0))
    names = [actor.name for actor in plan.actors]
    return [
        Fault(
            chance.choice(kinds),
            after_s=mean_s * 2 * chance.random(),
            lasts_s=chance.choice(LASTS_S),
            client=chance.choice(names),
            is_from_client=chance.random() < 0.5,
            is_both_ways=chance.random() < 0.4,
        )
        for _ in range(1 + chance.randrange(4))
    ]


def _with_rot(faults: Sequence[Fault], chance: random.Random) -> Sequence[Fault]:
    """With bits that flip in files which are made again from the records."""
    if chance.random() < 0.7:
        return faults
    return [
        replace(fault, rots=chance.choice(ROTTEN)) if chance.random() < 0.5 else fault
        for fault in faults
    ]


def _with_stuck_disks(faults: Sequence[Fault], chance: random.Random) -> Sequence[Fault]:
    """With times in which no thread comes back from the disk."""
    if chance.random() < 0.8:
        return faults
    faults = list(faults)
    for _ in range(1 + chance.randrange(2)):
        stuck = Fault(
            "disk stuck",
            after_s=chance.choice((0.1, 2.0)) * chance.random(),
            lasts_s=chance.choice(LASTS_S),
        )
        faults.insert(chance.randrange(len(faults) + 1), stuck)
    return faults


def draw_clocks(
    actors: Sequence[ActorPlan], chance: random.Random, brokers: Sequence[str] = (BROKER,)
) -> Sequence[Clock]:
    """Clocks that are not the world's, in half of the plans."""
    if chance.random() < 0.5:
        return ()
    return [
        Clock(
            name,
            chance.randrange(-CLOCK_OFFSET_MS_MAX, CLOCK_OFFSET_MS_MAX),
            chance.choice((-1, 1)) * chance.choice((0.0, CLOCK_DRIFT_MAX / 10, CLOCK_DRIFT_MAX)),
        )
        for name in (*brokers, *(actor.name for actor in actors))
        if chance.random() < 0.5
    ]


def _faults(chance: random.Random, actors: Sequence[ActorPlan]) -> list[Fault]:
    mean_s = chance.choice((0.05, 1.0, 10.0))
    kinds = [kind for kind in KINDS if chance.random() < 0.5]
    members = [actor.name for actor in actors if isinstance(actor, MemberPlan)]
    faults = []
    for _ in range(chance.randrange(FAULTS_MAX) if kinds else 0):
        # above all members of groups, whom others replace meanwhile
        clients = members if members and chance.random() < 0.7 else [actor.name for actor in actors]
        faults.append(
            Fault(
                chance.choice(kinds),
                after_s=mean_s * 2 * chance.random(),
                lasts_s=chance.choice(LASTS_S),
                down_s=chance.choice((0.0, 0.1, 5.0)),
                client=chance.choice(clients),
                is_from_client=chance.random() < 0.5,
                operation=chance.choice(OPERATIONS),
                files=chance.choice(FILES),
            )
        )
    return faults
