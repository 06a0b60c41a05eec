"""The world of one plan: its machine, its actors and how its run ends."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from functools import singledispatchmethod
from typing import Any
from uuid import UUID

from kavka.compat_tests.raw.codec.wire_client import new_topic
from kavka.wire.errors import ErrorCode as Code
from sim.actors import Actor
from sim.admins import Administrator, Lives
from sim.client import Client
from sim.ensemble import Ensemble
from sim.faults import Faults
from sim.files import judge_files
from sim.groups import (
    ClassicMember,
    ConsumerMember,
    Member,
    Membership,
    committed_offsets,
)
from sim.hangups import Leaver
from sim.history import History, Place, Reading
from sim.loop import Process, SimLoop
from sim.machine import DATA, Machine
from sim.network import SimNetwork
from sim.operators import Operator
from sim.plan import (
    BROKER,
    COMPACTED,
    TOPIC,
    ActorPlan,
    AdministratorPlan,
    LeaverPlan,
    MemberPlan,
    OperatorPlan,
    Plan,
    ProberPlan,
    ProducerPlan,
    ReaderPlan,
    TransactionalPlan,
)
from sim.probers import Prober
from sim.producers import Producer
from sim.readers import Reader
from sim.trace import Trace
from sim.transactions import TransactionalProducer

OFFSETS = "__consumer_offsets"

SETTLED_S = 40.0
"""So long after a client's end the broker has nothing of it left to do."""

HEALED_WITHIN_S = 120.0
"""So long after all faults have ended, and after anything was acknowledged since, everything must
have been written and read (I11)."""

ENDS_WITHIN_S = 4 * HEALED_WITHIN_S
"""So long after all faults have ended a run is given up."""


class World:
    """Everything of one run. After `main` the logs' contents are in `final`, `committed`,
    `compacted` and `offsets`, as the judges want them."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        chance = random.Random(f"world {plan.seed}")
        self.loop = SimLoop(_own(chance))  # type: ignore[abstract]
        self.trace = Trace(lambda: self.loop.now_s)
        self.history = History(lambda: self.loop.now_s)
        self.history.keeps_markers = plan.keeps_markers
        self.network = SimNetwork(self.loop, _own(chance), self.trace, plan.quality)
        timeout_s = plan.session_timeout_s
        self.ensemble = None if timeout_s is None else Ensemble(self.network)
        self.clients: dict[str, Process] = {}
        self.machines = [self._machine(name, _own(chance)) for name in self.broker_names()]
        self.loop.on_check = self.check_invariants
        self.final: dict[Place, Reading] = {}
        self.committed: dict[Place, Reading] = {}
        self.compacted: dict[Place, Reading] = {}
        self.offsets: list[Reading] = []
        self.stories: list[str] = []
        """Of the partitions, at the end."""
        self._writers: list[Actor] = []
        self._members: list[Member] = []
        self._memberships: list[asyncio.Task[None]] = []
        self._topic_id = UUID(int=0)

    def broker_names(self) -> Sequence[str]:
        """Those of the machines."""
        return (BROKER,)

    def settings(self, name: str) -> Sequence[str]:
        """Those of a broker."""
        return self.plan.settings

    def _machine(self, name: str, chance: random.Random) -> Machine:
        return Machine(
            self.loop,
            self.network,
            chance,
            self.trace,
            name=name,
            settings=self.settings(name),
            speed=self.plan.speed,
            ensemble=self.ensemble,
            session_timeout_s=self.plan.session_timeout_s or 0.0,
            in_cluster=len(self.broker_names()) > 1,
            **self._clock(name),
        )

    @property
    def replicas(self) -> int:
        """Of each partition."""
        return 1

    def healed(self) -> None:
        """All faults are over."""

    def lives(self) -> Lives:
        """What administrators have to know of the machines."""
        return self.machine

    @property
    def machine(self) -> Machine:
        """That of the only broker."""
        (machine,) = self.machines
        return machine

    def check_invariants(self) -> None:
        """AssertionError when what brokers know contradicts itself."""
        for machine in self.machines:
            machine.check_invariants()

    def faults(self) -> Faults:
        """What goes wrong."""
        return Faults(self)

    def _clock(self, name: str) -> dict[str, Any]:
        found = [clock for clock in self.plan.clocks if clock.name == name]
        return {"offset_ms": found[0].offset_ms, "drift": found[0].drift} if found else {}

    async def main(self) -> None:
        """From the broker's first start to its last stop."""
        await self.start()
        await self._create()
        for actor in self.plan.actors:
            self._begin(actor)
        await self.faults().run()
        self.healed()
        self.loop.deadline_s = self.loop.now_s + ENDS_WITHIN_S
        await self._all_written()
        await self._all_left()
        await self.settle()
        self.final = await self._read(self.plan.places, "final")
        self.committed = await self._read(self.plan.places, "committed", committed=True)
        for reading in self.history.readings:
            reading.judged_up_to = reading.position
        self.compacted = await self._read(
            self.plan.compacted, "compacted", committed=True, compacted=True
        )
        count = (await self._partitions()).get(OFFSETS, 0)
        places = [(OFFSETS, index) for index in range(count)]
        self.offsets = list((await self._read(places, "offsets", compacted=True)).values())
        await self._same_after_kill()
        self.stories = [line for machine in self.machines for line in machine.stories()]
        for machine in self.machines:
            await machine.stop()
            self.history.violations += judge_files(machine.fs, DATA, machine.rotten)

    async def start(self) -> None:
        """Start all brokers, and wait until they have."""
        for machine in self.machines:
            machine.launch()
        for machine in self.machines:
            await machine.started()

    async def settle(self) -> None:
        """Wait until the broker has nothing left to do for those that have gone."""
        await asyncio.sleep(SETTLED_S)

    async def _all_written(self) -> None:
        """A slow disk may take long for much; but something is acknowledged all the time."""
        progress, deadline_s = (-1, -1), 0.0
        while not all(writer.is_done for writer in self._writers):
            before, progress = progress, self._progress()
            if progress != before:
                deadline_s = self.loop.now_s + HEALED_WITHIN_S
            if self.loop.now_s > deadline_s:
                self.history.violation("I11: not all is written although all was healed")
                return
            await asyncio.sleep(1.0)

    def _progress(self) -> tuple[int, int]:
        """How much was acknowledged."""
        ended = sum(transaction.is_ended for transaction in self.history.transactions)
        return len(self.history.acknowledged), ended

    async def _all_left(self) -> None:
        """All members leave their groups."""
        for member in self._members:
            member.is_stopping = True
        deadline_s = self.loop.now_s + HEALED_WITHIN_S
        while not all(task.done() for task in self._memberships):
            if self.loop.now_s > deadline_s:
                self.history.violation("I11: a member does not get out of its group")
                return
            await asyncio.sleep(1.0)
        for member in self._members:  # and commits that are late
            member.client.process.kill()
            self.network.end_process(member.client.process, silently=False)

    async def _same_after_kill(self) -> None:
        """What the coordinator knows is what its log says: the same after SIGKILL."""
        before = await self._committed_offsets("before")
        for machine in self.machines:
            machine.kill()
        await self.start()
        after = await self._committed_offsets("after")
        if before != after:
            self.history.violation(f"committed offsets {before} are {after} after SIGKILL")

    async def _committed_offsets(self, name: str) -> dict[str, dict[int, int]]:
        groups = sorted(
            {member.membership.group: member.membership for member in self._members}.items()
        )
        client = self.client(f"offsets-{name}")
        found = {}
        for group, membership in groups:
            work = committed_offsets(client, membership)
            found[group] = await client.process.spawn(work, name="offsets")
        return found

    # -- actors ---------------------------------------------------------------------------

    def client(self, name: str) -> Client:
        """A client's process on a host of its own."""
        process = self.clients[name] = Process(self.loop, name, **self._clock(name))
        return Client(process, self.network.host(process, name), self.machine.address)

    @singledispatchmethod
    def _begin(self, actor: ActorPlan) -> None:
        raise NotImplementedError(actor)

    @_begin.register
    def _(self, actor: ProducerPlan) -> None:
        client, chance = self.client(actor.name), random.Random(actor.seed)
        producer = Producer(
            client,
            self.history,
            chance,
            actor.place,
            actor.load,
            idempotent=actor.idempotent,
        )
        self._writers.append(producer)
        client.process.spawn(producer.run(), name="produce")

    @_begin.register
    def _(self, actor: TransactionalPlan) -> None:
        client, chance = self.client(actor.name), random.Random(actor.seed)
        producer = TransactionalProducer(
            client,
            self.history,
            chance,
            self.plan.places if actor.keys is None else self.plan.compacted,
            keys=actor.keys,
            transactions=actor.transactions,
            pause_s=actor.pause_s,
            timeout_ms=actor.timeout_ms,
            newer=actor.newer,
        )
        self._writers.append(producer)
        client.process.spawn(producer.run(), name="transactions")

    @_begin.register
    def _(self, actor: AdministratorPlan) -> None:
        client, chance = self.client(actor.name), random.Random(actor.seed)
        administrator = Administrator(
            client,
            self.history,
            chance,
            self.lives(),
            steps=actor.steps,
            pause_s=actor.pause_s,
            replicas=self.replicas,
            in_cluster=len(self.machines) > 1,
        )
        self._writers.append(administrator)
        client.process.spawn(administrator.run(), name="administer")

    @_begin.register
    def _(self, actor: OperatorPlan) -> None:
        client, chance = self.client(actor.name), random.Random(actor.seed)
        operator = Operator(
            client,
            self.history,
            chance,
            self.plan.places,
            brokers=range(1, len(self.machines) + 1),
            replicas=self.replicas,
            steps=actor.steps,
            pause_s=actor.pause_s,
        )
        self._writers.append(operator)
        client.process.spawn(operator.run(), name="operate")

    @_begin.register
    def _(self, actor: LeaverPlan) -> None:
        client, chance = self.client(actor.name), random.Random(actor.seed)
        leaver = Leaver(client, self.history, chance, self.machine, rounds=actor.rounds)
        self._writers.append(leaver)
        client.process.spawn(leaver.run(), name="hang up")

    @_begin.register
    def _(self, actor: ReaderPlan) -> None:
        client = self.client(actor.name)
        reader = Reader(
            client,
            self.history,
            actor.place,
            committed=actor.committed,
            compacted=actor.place[0] == COMPACTED,
            pause_s=actor.pause_s,
            max_bytes=actor.max_bytes,
        )
        client.process.spawn(reader.run(), name="read")

    @_begin.register
    def _(self, actor: MemberPlan) -> None:
        client, chance = self.client(actor.name), random.Random(actor.seed)
        membership = Membership(
            actor.group,
            TOPIC,
            self._topic_id,
            self.plan.partitions,
            actor.session_timeout_ms,
            actor.commit_s,
            actor.stay_s,
        )
        kind = ClassicMember if actor.is_classic else ConsumerMember
        member = kind(client, self.history, chance, membership, actor.instance)
        self._members.append(member)
        self._memberships.append(client.process.spawn(member.run(), name="member"))

    @_begin.register
    def _(self, actor: ProberPlan) -> None:
        client, chance = self.client(actor.name), random.Random(actor.seed)
        brokers = self.lives() if len(self.machines) > 1 else None
        prober = Prober(client, self.history, chance, self.plan.places, brokers)
        client.process.spawn(prober.run(), name="probe")

    # -- administration -------------------------------------------------------------------

    def topics(self) -> list[dict[str, Any]]:
        """What is created first, for CreateTopics."""
        configs = {"compression.type": self.plan.compression_type}
        return [
            new_topic(TOPIC, self.plan.partitions, configs=configs),
            new_topic(COMPACTED, self.plan.partitions, configs=dict(self.plan.compaction)),
        ]

    async def _create(self) -> None:
        client = self.client("admin")
        done = {Code.NONE}
        while True:
            answer = await client.process.spawn(
                client.ask("CreateTopics", 7, topics=self.topics(), timeout_ms=10_000),
                name="create",
            )
            if answer.topics[0].error_code != Code.NOT_CONTROLLER:
                break
            done.add(Code.TOPIC_ALREADY_EXISTS)  # its term may have ended behind the write
        assert all(topic.error_code in done for topic in answer.topics), answer
        self._topic_id = answer.topics[0].topic_id or await self._id_of(TOPIC)

    async def _id_of(self, topic: str) -> UUID:
        client, requested = self.client("admin"), [{"name": topic, "topic_id": None}]
        work = client.ask("Metadata", 12, topics=requested, allow_auto_topic_creation=False)
        answer = await client.process.spawn(work, name="id")
        found: UUID = answer.topics[0].topic_id
        return found

    async def _partitions(self) -> dict[str, int]:
        """How many partitions each topic has."""
        client = self.client("lister")
        answer = await client.process.spawn(client.ask("Metadata", 9, topics=None), name="list")
        return {topic.name: len(topic.partitions) for topic in answer.topics}

    async def _read(
        self,
        places: list[Place],
        name: str,
        *,
        committed: bool = False,
        compacted: bool = False,
    ) -> dict[Place, Reading]:
        """All that is there."""
        found = {}
        for topic, index in places:
            client = self.client(f"{name}-{topic}-{index}")
            reader = Reader(
                client,
                self.history,
                (topic, index),
                committed=committed,
                compacted=compacted,
            )
            await client.process.spawn(reader.run(until_end=True), name="read")
            found[topic, index] = reader.reading
        return found


def _own(chance: random.Random) -> random.Random:
    return random.Random(chance.getrandbits(64))
