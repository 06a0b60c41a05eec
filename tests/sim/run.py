"""One seed: a world, its actors, its faults and its judges."""

from __future__ import annotations

import asyncio
import gzip
import logging
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from uuid import UUID

import pytest
from kafka.record import default_records

from kavka.wire.errors import ErrorCode as Code
from sim.client import Client
from sim.faults import Faults
from sim.groups import ClassicMember, ConsumerMember, Member, Membership
from sim.history import History, Place, Reading
from sim.jobs import Speed
from sim.judge import judge
from sim.loop import Process, SimLoop
from sim.machine import Machine
from sim.network import Quality, SimNetwork
from sim.probers import Prober
from sim.producers import Load, Producer
from sim.readers import Reader
from sim.trace import Trace
from sim.transactions import TransactionalProducer
from support import strict_arenas
from support.wire_client import new_topic

OFFSETS = "__consumer_offsets"

HEALED_WITHIN_S = 120.0
"""So long after all faults have ended, everything must have been written and read (I11)."""


@dataclass
class Outcome:
    """What came of a seed."""

    seed: int
    virtual_s: float
    steps: int
    digest: str
    records: int
    violations: list[str] = field(default_factory=list)
    trace: list[str] = field(default_factory=list)


class World:
    """Everything of one seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        self.loop = SimLoop(random.Random(self.chance.getrandbits(64)))  # type: ignore[abstract]
        self.trace = Trace(lambda: self.loop.now_s)
        self.history = History(lambda: self.loop.now_s)
        self.network = SimNetwork(
            self.loop, random.Random(self.chance.getrandbits(64)), self.trace, self._quality()
        )
        self.topic_ids: dict[str, UUID] = {}
        self.clients: list[Process] = []
        self.is_durable = self.chance.random() < 0.5
        """Whether records are synced before they are acknowledged."""
        self.machine = Machine(
            self.loop,
            self.network,
            random.Random(self.chance.getrandbits(64)),
            self.trace,
            name="broker1",
            settings=self._settings(),
            speed=self._speed(),
        )

    def _quality(self) -> Quality:
        chance = self.chance
        return Quality(
            latency_s=chance.choice((0.00005, 0.0005, 0.002)),
            slow_share=chance.choice((0.0, 0.01, 0.1)),
            window_bytes=chance.choice((4096, 65536, 262144)),
            pieces_share=chance.choice((0.0, 0.1, 0.5)),
        )

    def _speed(self) -> Speed:
        chance = self.chance
        return Speed(
            disk_s=chance.choice((0.0001, 0.001, 0.01)), slow_share=chance.choice((0.0, 0.02, 0.1))
        )

    def _settings(self) -> list[str]:
        chance = self.chance
        return [
            f"log.roll.ms={chance.choice((50, 1000, 1 << 40))}",
            f"log.index.interval.bytes={chance.choice((100, 4096))}",
            "log.retention.ms=-1",
            f"offsets.topic.num.partitions={chance.choice((1, 3))}",
            f"transaction.state.log.num.partitions={chance.choice((1, 3))}",
            f"offsets.retention.check.interval.ms={chance.choice((1000, 600_000))}",
            "group.min.session.timeout.ms=1000",
            f"group.initial.rebalance.delay.ms={chance.choice((0, 500))}",
            f"group.consumer.session.timeout.ms={chance.choice((1000, 6000))}",
            "group.consumer.min.session.timeout.ms=1000",
            "group.consumer.min.heartbeat.interval.ms=100",
            f"group.consumer.heartbeat.interval.ms={chance.choice((100, 300))}",
            f"kavka.durability={'fsync' if self.is_durable else 'system'}",
        ]

    def client(self, name: str) -> Client:
        """A client's process on a host of its own."""
        process = Process(self.loop, name)
        self.clients.append(process)
        return Client(process, self.network.host(process, name), self.machine.address)

    async def create(self, topic: str, partitions: int) -> None:
        """Create a topic, when there is a broker."""
        types = ("producer", "producer", "uncompressed", "gzip", "snappy", "lz4", "zstd")
        configs = {"compression.type": self.chance.choice(types)}
        new = new_topic(topic, partitions, configs=configs)
        client = self.client("admin")

        async def ask() -> None:
            answer = await client.ask("CreateTopics", 7, topics=[new], timeout_ms=10_000)
            assert answer.topics[0].error_code == Code.NONE, answer
            self.topic_ids[topic] = answer.topics[0].topic_id

        await client.process.spawn(ask(), name="create")

    async def main(self) -> None:
        """The story of this seed."""
        chance = self.chance
        self.machine.launch()
        await self.machine.started()
        topics = {"a": 1 + chance.randrange(3)}
        for topic, partitions in topics.items():
            await self.create(topic, partitions)
        places = [(topic, index) for topic, count in topics.items() for index in range(count)]
        producers: list[Producer | TransactionalProducer] = [
            self._producer(f"p{n}", chance.choice(places)) for n in range(1 + chance.randrange(4))
        ]
        for n, place in enumerate(places):
            client = self.client(f"r{n}")
            reader = Reader(client, self.history, f"r{n}", place, committed=chance.random() < 0.5)
            client.process.spawn(reader.run(), name="read")
        producers += [self._transactional(f"t{n}", places) for n in range(chance.randrange(4))]
        members = [
            member for n in range(chance.randrange(3)) for member in self._group(f"g{n}", topics)
        ]
        for n in range(chance.randrange(2)):
            client = self.client(f"q{n}")
            seeded = random.Random(chance.getrandbits(64))
            client.process.spawn(Prober(client, self.history, seeded, places).run(), name="probe")
        faults = Faults(self, self.clients, [one.client.process for one in members])
        await faults.run()
        await faults.heal()
        self.loop.deadline_s = self.loop.now_s + 2 * HEALED_WITHIN_S
        deadline_s = self.loop.now_s + HEALED_WITHIN_S
        while not all(one.is_done for one in producers):
            if self.loop.now_s > deadline_s:
                self.history.violation("I11: not all is written although all was healed")
                break
            await asyncio.sleep(1.0)
        for member in members:
            member.is_stopping = True
        self.final = await self._read_all(places, committed=False)
        self.committed = await self._read_all(places, committed=True)
        topics = await self.partitions()
        places = [(OFFSETS, index) for index in range(topics.get(OFFSETS, 0))]
        self.offsets = list((await self._read_all(places, committed=False)).values())
        await self.machine.stop()

    async def partitions(self) -> dict[str, int]:
        """How many partitions each topic has."""
        client = self.client("admin2")
        answer = await client.process.spawn(client.ask("Metadata", 9, topics=None), name="list")
        return {one.name: len(one.partitions) for one in answer.topics}

    def _producer(self, name: str, place: Place) -> Producer:
        chance = self.chance
        load = Load(
            records=chance.choice((20, 200)),
            pause_s=chance.choice((0.001, 0.05, 0.5)),
            value_bytes_max=chance.choice((20, 2000, 20_000)),
            compression=chance.choice((0, 0, 1, 2, 3, 4)),
        )
        client = self.client(name)
        seeded = random.Random(chance.getrandbits(64))
        idempotent = chance.random() < 0.7
        producer = Producer(client, self.history, seeded, name, place, load, idempotent=idempotent)
        client.process.spawn(producer.run(), name="produce")
        return producer

    def _transactional(self, name: str, places: list[Place]) -> TransactionalProducer:
        chance = self.chance
        client = self.client(name)
        producer = TransactionalProducer(
            client,
            self.history,
            random.Random(chance.getrandbits(64)),
            name,
            places,
            transactions=chance.choice((5, 30)),
            pause_s=chance.choice((0.001, 0.05, 0.5)),
            timeout_ms=chance.choice((1000, 10_000, 60_000)),
            newer=chance.random() < 0.5,
        )
        client.process.spawn(producer.run(), name="transactions")
        return producer

    def _group(self, name: str, topics: Mapping[str, int]) -> list[Member]:
        chance = self.chance
        topic, partitions = chance.choice(list(topics.items()))
        membership = Membership(
            name,
            topic,
            self.topic_ids[topic],
            partitions,
            session_timeout_ms=chance.choice((1000, 6000, 30_000)),
            commit_s=chance.choice((0.05, 0.5, 3.0)),
            stay_s=chance.choice((1.0, 10.0, 100.0)),
        )
        kind = chance.choice((ClassicMember, ConsumerMember))
        members: list[Member] = []
        for n in range(1 + chance.randrange(4)):
            client = self.client(f"{name}m{n}")
            seeded = random.Random(chance.getrandbits(64))
            instance = f"i{n}" if chance.random() < 0.2 else None
            member = kind(client, self.history, seeded, client.process.name, membership, instance)
            client.process.spawn(member.run(), name="member")
            members.append(member)
        return members

    async def _read_all(self, places: list[Place], *, committed: bool) -> dict[Place, Reading]:
        final = {}
        for topic, index in places:
            client = self.client(f"final-{topic}-{index}-{committed}")
            reader = Reader(
                client,
                self.history,
                f"final {topic}-{index}",
                (topic, index),
                committed=committed,
                compacted=topic == OFFSETS,
            )
            await client.process.spawn(reader.run(until_end=True), name="read")
            final[topic, index] = reader.reading
        return final


@contextmanager
def same_each_time() -> Iterator[None]:
    """Without what the clients' library takes from elsewhere: its gzip writes the time of day."""

    def gzip_encode(payload: bytes, compresslevel: int | None = None) -> bytes:
        return gzip.compress(payload, 6 if compresslevel is None else compresslevel, mtime=0)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(default_records, "gzip_encode", gzip_encode)
        yield


class Complaints(logging.Handler):
    """What brokers log with a traceback: something has failed that nobody has thought of."""

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


def run(seed: int) -> Outcome:
    """Live through a seed."""
    world = World(seed)
    with strict_arenas.enforce(), same_each_time(), complaints() as logged:
        try:
            world.loop.run(world.main())
            violations = judge(world.history, world.final, world.committed, world.offsets)
        except Exception as failure:
            violations = [*world.history.violations, f"the world ends: {failure!r}"]
    violations += [f"unhandled: {one}" for one in world.loop.failures]
    violations += logged
    violations += strict_arenas.found
    strict_arenas.found.clear()
    return Outcome(
        seed,
        world.loop.now_s,
        world.loop.steps,
        world.trace.digest(),
        len(world.history.acknowledged),
        violations,
        list(world.trace.lines),
    )
