"""The world of a cluster's plan."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Iterator, Sequence
from typing import Any

from kavka.server.broker import Broker
from kavka.server.cluster.metadata_cache import INTERNAL_TOPICS
from kavka.server.replica.replica import Replica
from kavka.zktree import paths
from sim.admins import Lives
from sim.client import BACKOFF_S, Client
from sim.cluster_client import ClusterClient
from sim.cluster_faults import ClusterFaults
from sim.cluster_plan import ClusterPlan
from sim.ensemble import Ensemble
from sim.faults import Faults
from sim.files import batches, leader_epochs
from sim.history import Place
from sim.loop import Process
from sim.machine import DATA, Machine
from sim.observer import Observer
from sim.plan import COMPACTED
from sim.world import World

IN_SYNC_WITHIN_S = 60.0
"""So long after all is healed and written, all replicas are in sync (I11)."""

QUIET_S = 3.0
"""So long after the last change everyone usually knows of it."""


CHECK_STEPS = 50
"""Callbacks between two looks at all brokers: what is wrong may be mended by the next answer."""


class Everyone:
    """`sim.admins.Lives` of all brokers: what is asked of them may wait until all is healed."""

    def __init__(self, machines: Sequence[Machine]) -> None:
        self._machines = machines
        self.held_up_until_s = math.inf

    @property
    def lives(self) -> int:
        """Of all."""
        return sum(machine.lives for machine in self._machines)

    @property
    def failures(self) -> int:
        """Of all."""
        return sum(machine.failures for machine in self._machines)


class ClusterWorld(World):
    """Everything of one run of a cluster."""

    plan: ClusterPlan

    def __init__(self, plan: ClusterPlan) -> None:
        super().__init__(plan)
        assert self.ensemble is not None
        self.loop.check_steps = CHECK_STEPS
        self.chance = random.Random(f"faults {plan.seed}")
        self.is_zookeeper_down = False
        self.observer = Observer(self.machines, self.service.tree)
        self.history.compacts_apart = True
        self._everyone = Everyone(self.machines)

    @property
    def service(self) -> Ensemble:
        """ZooKeeper."""
        assert self.ensemble is not None
        return self.ensemble

    @property
    def replicas(self) -> int:
        return self.plan.replicas

    def lives(self) -> Lives:
        return self._everyone

    def healed(self) -> None:
        self._everyone.held_up_until_s = self.loop.now_s

    def broker_names(self) -> Sequence[str]:
        return self.plan.names

    def settings(self, name: str) -> Sequence[str]:
        return (*self.plan.settings, f"broker.id={self.plan.names.index(name) + 1}")

    def faults(self) -> Faults:
        return ClusterFaults(self)

    def check_invariants(self) -> None:
        self.observer.check()

    def client(self, name: str) -> Client:
        process = self.clients[name] = Process(self.loop, name, **self._clock(name))
        return ClusterClient(
            process,
            self.network.host(process, name),
            {number: machine.address for number, machine in enumerate(self.machines, 1)},
            random.Random(f"client {self.plan.seed} {name}"),
        )

    def topics(self) -> list[dict[str, Any]]:
        found = super().topics()
        for topic in found:
            topic["replication_factor"] = self.plan.replicas
        return found[: 1 + self.plan.has_compacted]

    async def _create(self) -> None:
        client = self.client("admin")
        while len(await self._live(client)) < self.plan.brokers:
            await asyncio.sleep(BACKOFF_S)
        await super()._create()

    async def _live(self, client: Client) -> list[Any]:
        work = client.ask("Metadata", 12, topics=[])
        answer = await client.process.spawn(work, name="brokers")
        return list(answer.brokers)

    # -- the end --------------------------------------------------------------------------

    async def settle(self) -> None:
        """All replicas are in sync, and have the same."""
        deadline_s = self.loop.now_s + IN_SYNC_WITHIN_S
        while lacking := [*self._out_of_sync(), *self._left_behind()]:
            if self.loop.now_s > deadline_s:
                break
            await asyncio.sleep(1.0)
        self.history.violations += [f"I11: {lack}" for lack in lacking]
        await asyncio.sleep(QUIET_S)
        # A coordinator may have written since, as of a member that has gone; and the controller
        # repeats a request whose response was lost when its time is over, not before.
        while found := [*self._differences(), *self._unheard()]:
            if self.loop.now_s >= deadline_s:
                break
            await asyncio.sleep(QUIET_S)
        self.history.violations += found

    def _partitions_stored(self) -> Iterator[tuple[Place, Sequence[int]]]:
        """All partitions, and their replicas."""
        tree = self.service.tree
        for topic in sorted(tree.children(paths.TOPICS)):
            assigned = paths.decode_topic(tree.get(paths.topic(topic)).data)
            for index, replicas in sorted(assigned.replicas.items()):
                yield (topic, index), replicas

    def _out_of_sync(self) -> Iterator[str]:
        for place, replicas in self._partitions_stored():
            state = self.observer.stored(*place)
            if state is None or set(state.isr) != set(replicas) or state.leader < 0:
                yield f"{place}, replicas {replicas}, is {state}"

    def _differences(self) -> Iterator[str]:
        """I8: the replicas of a partition have the same records, of the same leader epochs, from
        where the last of their logs begins. Those of a compacted topic have the same end: each is
        compacted by itself, and an epoch begins there with the first record that is left."""
        for place, replicas in self._partitions_stored():
            held = {number: self._replica(number, place) for number in replicas}
            if None in held.values():
                yield (
                    f"I8: {place} is held by "
                    f"{[number for number, replica in held.items() if replica]} only"
                )
                continue
            found = [replica for replica in held.values() if replica is not None]
            ends = {(replica.log.end_offset, replica.high_watermark) for replica in found}
            if len(ends) > 1:
                yield f"I8: replicas of {place} end at {ends}"
            if place[0] in (COMPACTED, *INTERNAL_TOPICS):
                continue
            start = max(replica.log.start_offset for replica in found)
            if all(replica.log.end_offset == start for replica in found):
                continue  # an epoch without records is forgotten when a killed broker recovers
            records = {self._records(number, place, start) for number in replicas}
            if len(records) > 1:
                yield f"I8: the records of replicas of {place} differ from {start} on"
            epochs = {number: _epochs(self._epochs(number, place), start) for number in replicas}
            if len(set(epochs.values())) > 1:
                yield f"I8: the leader epochs of replicas of {place} are {epochs} from {start} on"

    def _replica(self, number: int, place: Place) -> Replica | None:
        broker = self._broker(number)
        return broker.replicas.find(*place)

    def _broker(self, number: int) -> Broker:
        instance = self.machines[number - 1].instance
        assert instance is not None and instance.broker is not None
        return instance.broker

    def _records(self, number: int, place: Place, start: int) -> bytes:
        """The batches of a replica that end at `start` or later."""
        fs, directory = self.machines[number - 1].fs, f"{DATA}/{place[0]}-{place[1]}"
        names = sorted(name for name in fs.list_dir(directory) if name.endswith(".log"))
        data = [fs.read_bytes(f"{directory}/{name}") for name in names]
        return b"".join(
            segment[batch.position : batch.end]
            for segment in data
            for batch in batches(segment)
            if batch.last_offset >= start
        )

    def _epochs(self, number: int, place: Place) -> list[tuple[int, int]]:
        return leader_epochs(self.machines[number - 1].fs, f"{DATA}/{place[0]}-{place[1]}")

    def _unheard(self) -> Iterator[str]:
        """Each broker knows of each partition what ZooKeeper has, and of each broker: no watch,
        and no request of the controller, was lost."""
        tree = self.service.tree
        controller = paths.decode_controller(tree.get(paths.CONTROLLER).data)
        for number in range(1, self.plan.brokers + 1):
            broker = self._broker(number)
            image = broker.metadata.image
            if sorted(image.brokers) != list(range(1, self.plan.brokers + 1)):
                yield f"broker {number} knows brokers {sorted(image.brokers)}"
            if broker.controller.controller_id != controller:
                yield f"broker {number} knows controller {broker.controller.controller_id}"
            for place, _ in self._partitions_stored():
                stored = self.observer.stored(*place)
                topic = image.topics.get(place[0])
                known = None if topic is None else topic.partition(place[1])
                if known is None or stored is None:
                    yield f"broker {number} does not know {place}"
                    continue
                found = (known.leader, known.leader_epoch, known.isr)
                if found != (stored.leader, stored.leader_epoch, stored.isr):
                    yield f"broker {number} knows {found} of {place}, ZooKeeper {stored}"
            yield from self._wrong_configs(number, broker)

    def _wrong_configs(self, number: int, broker: Broker) -> Iterator[str]:
        tree = self.service.tree
        for topic in sorted({replica.key[0] for replica in broker.replicas}):
            node = tree.get(paths.config(paths.TOPIC_CONFIGS, topic))
            stored, known = paths.decode_config(node.data), broker.topic_configs.get(topic)
            if dict(known) != stored:
                yield f"broker {number} knows configs {known} of {topic}, ZooKeeper {stored}"

    def _left_behind(self) -> Iterator[str]:
        """No broker has a log of a topic that was deleted. (One that was moved to other brokers may
        stay where a broker was away, if the controller has changed meanwhile; in Apache Kafka it
        stays in any case.)"""
        topics = self.service.tree.children(paths.TOPICS)
        for number, machine in enumerate(self.machines, 1):
            for name in machine.fs.list_dir(DATA):
                topic, _, index = name.rpartition("-")
                if topic and index.isdigit() and topic not in topics:
                    yield f"broker {number} has {name} of a deleted topic"


def _epochs(entries: Sequence[tuple[int, int]], start: int) -> tuple[tuple[int, int], ...]:
    """Leader epochs and where they begin, of a log from `start` on."""
    ends = [at for _, at in entries[1:]] + [1 << 62]
    spans = zip(entries, ends[: len(entries)], strict=True)
    return tuple((epoch, max(at, start)) for (epoch, at), end in spans if end > start)
