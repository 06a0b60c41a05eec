"""A cluster of a simulated world: brokers on one ZooKeeper, and a producer that repeats what
fails."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

from kavka.wire.errors import ErrorCode as Code
from sim.client import Connection
from sim.cluster_client import ClusterClient
from sim.ensemble import Ensemble
from sim.loop import Process, SimLoop
from sim.machine import Machine
from sim.network import Quality, SimNetwork
from sim.run import complaints, same_each_time
from sim.trace import Trace
from support import logs, strict_arenas
from support.logs import parse
from support.memory_broker import fetching

TOPIC = "t"
SESSION_S = 6.0
NOT_YET = {
    Code.UNKNOWN_TOPIC_OR_PARTITION,
    Code.NOT_LEADER_OR_FOLLOWER,
    Code.FENCED_LEADER_EPOCH,
    Code.UNKNOWN_LEADER_EPOCH,
}
"""Of a leader that another broker names, and which has not heard of it itself."""

ATTEMPT_S = 0.2


class Cluster:
    """Brokers 1, 2, ... on one ZooKeeper, and a producer that repeats what fails."""

    def __init__(
        self, seed: int, brokers: int, *settings: str, session_timeout_s: float = SESSION_S
    ) -> None:
        self.chance = random.Random(seed)
        self.loop = SimLoop(random.Random(seed))  # type: ignore[abstract]
        self.trace = Trace(lambda: self.loop.now_s)
        self.network = SimNetwork(self.loop, random.Random(seed + 1), self.trace, Quality())
        self.ensemble = Ensemble(self.network)
        self.machines = [
            Machine(
                self.loop,
                self.network,
                random.Random(seed + number),
                self.trace,
                name=f"broker{number}",
                settings=(f"broker.id={number}", *settings),
                ensemble=self.ensemble,
                session_timeout_s=session_timeout_s,
                in_cluster=True,
            )
            for number in range(1, brokers + 1)
        ]
        self.process = Process(self.loop, "client")
        self.acknowledged: list[bytes] = []
        self.sent = 0
        self.partitions = 1

    def machine(self, broker_id: int) -> Machine:
        return self.machines[broker_id - 1]

    def client(self, name: str) -> ClusterClient:
        """A client in a process of its own, for actors."""
        process = Process(self.loop, name)
        return ClusterClient(
            process,
            self.network.host(process, name),
            {number: machine.address for number, machine in enumerate(self.machines, 1)},
            random.Random(self.chance.random()),
        )

    async def ask(self, machine: Machine, name: str, version: int, /, **values: Any) -> Any:
        """One attempt, over a connection of its own. OSError (`Lost` for one) if it fails."""
        host = self.network.host(self.process, "client")
        transport = await host.connect(*machine.address, Connection)
        connection: Any = transport.get_protocol()
        try:
            return await connection.ask(name, version, **values)
        finally:
            connection.close()

    async def start(self) -> None:
        for machine in self.machines:
            machine.launch()
        for machine in self.machines:
            await machine.started()

    # -- what a client sees -----------------------------------------------------------------

    async def metadata(self, but: Machine | None = None) -> Any:
        """As any broker that answers describes the topic; `but` is not asked."""
        candidates = [each for each in self.machines if each is not but]
        while True:
            machine = self.chance.choice(candidates)
            try:
                topics = [{"name": TOPIC, "topic_id": None}]
                return await self.ask(
                    machine, "Metadata", 12, topics=topics, allow_auto_topic_creation=False
                )
            except OSError:
                await asyncio.sleep(ATTEMPT_S)

    async def partition(self, index: int = 0) -> Any:
        """One of its partitions, when that has a leader."""
        while True:
            answer = await self.metadata()
            (topic,) = answer.topics
            for found in topic.partitions:
                if found.partition_index == index and found.leader_id > 0:
                    return found
            await asyncio.sleep(ATTEMPT_S)

    async def create(
        self, replicas: Sequence[int], min_isr: int = 1, *, partitions: int = 1
    ) -> None:
        """The topic; each partition has another preferred leader."""
        self.partitions = partitions
        configs = [{"name": "min.insync.replicas", "value": str(min_isr)}]
        topic = {
            "name": TOPIC,
            "num_partitions": -1,
            "replication_factor": -1,
            "assignments": [
                {"partition_index": index, "broker_ids": _rotated(replicas, index)}
                for index in range(partitions)
            ],
            "configs": configs,
        }
        while True:
            controller = (await self.metadata()).controller_id
            if controller > 0:
                answer = await self.ask(
                    self.machine(controller), "CreateTopics", 5, topics=[topic], timeout_ms=30_000
                )
                if answer.topics[0].error_code == Code.NONE:
                    return
            await asyncio.sleep(ATTEMPT_S)

    async def produce(self, until: asyncio.Event, index: int = 0) -> None:
        """One record after the other, each until it is acknowledged by all in-sync replicas."""
        while not until.is_set():
            self.sent += 1
            value = b"%d" % self.sent
            while not await self._attempt(value, index=index):
                await asyncio.sleep(ATTEMPT_S)
            self.acknowledged.append(value)
            await asyncio.sleep(0.02 * self.chance.random())

    async def write_carelessly(self, until: asyncio.Event) -> None:
        """Records that the leader alone has acknowledged: they may be lost with it."""
        while not until.is_set():
            await self._attempt(b"careless", acks=1)
            await asyncio.sleep(0.3 * self.chance.random())

    async def _attempt(self, value: bytes, acks: int = -1, index: int = 0) -> bool:
        leader = (await self.partition(index)).leader_id
        records = {"index": index, "records": logs.batch([value])}
        data = {"name": TOPIC, "partition_data": [records]}
        try:
            answer = await self.ask(
                self.machine(leader),
                "Produce",
                9,
                transactional_id=None,
                acks=acks,
                timeout_ms=5000,
                topic_data=[data],
            )
        except OSError:
            return False
        return bool(answer.responses[0].partition_responses[0].error_code == Code.NONE)

    async def in_sync(self, *broker_ids: int) -> None:
        """Wait until these are the ISR of each partition."""
        for index in range(self.partitions):
            while sorted((await self.partition(index)).isr_nodes) != sorted(broker_ids):
                await asyncio.sleep(ATTEMPT_S)

    async def values(self) -> list[bytes]:
        """All records, from the leaders."""
        found = [await self._values(index) for index in range(self.partitions)]
        return [value for values in found for value in values]

    async def _values(self, index: int) -> list[bytes]:
        leader = (await self.partition(index)).leader_id
        found: list[bytes] = []
        offset = 0
        while True:
            request = fetching({(TOPIC, index): offset})
            answer = await self.ask(self.machine(leader), "Fetch", 12, **request)
            part = answer.responses[0].partitions[0]
            if part.error_code in NOT_YET:
                await asyncio.sleep(ATTEMPT_S)
                leader = (await self.partition(index)).leader_id
                continue
            assert part.error_code == Code.NONE, Code(part.error_code)
            records = parse(bytes(part.records or b""))
            if not records:
                return found
            found += [record.value or b"" for record in records]
            offset = records[-1].offset + 1

    async def end(self) -> None:
        """All are in sync: the replicas have the same bytes. Then the brokers stop."""
        await asyncio.sleep(2)
        files = {each.name: self.stored(each) for each in self.machines}
        assert len(set(files.values())) == 1, {name: len(data) for name, data in files.items()}
        for machine in self.machines:
            machine.check_invariants()
            await machine.stop()

    def stored(self, machine: Machine) -> bytes:
        """The replicas' files, one after the other."""
        return b"".join(self.stored_of(machine, index) for index in range(self.partitions))

    def stored_of(self, machine: Machine, index: int) -> bytes:
        """The files of one replica."""
        directory = f"/data/{TOPIC}-{index}"
        names = [name for name in machine.fs.list_dir(directory) if name.endswith(".log")]
        return b"".join(machine.fs.read_bytes(f"{directory}/{name}") for name in sorted(names))


def _rotated(replicas: Sequence[int], by: int) -> list[int]:
    by %= len(replicas)
    return [*replicas[by:], *replicas[:by]]


def live(cluster: Cluster, main: Any) -> Cluster:
    with strict_arenas.enforce(), same_each_time(), complaints() as logged:
        cluster.loop.run(main(cluster))
    assert not cluster.loop.failures
    assert not logged, logged
    return cluster
