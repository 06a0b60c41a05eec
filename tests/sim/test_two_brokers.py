"""Two brokers in one world ask each other through `connect`, under cuts, pauses and kills."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest

from kavka.client.broker_client import BrokerClient, ClientSettings, Seams
from kavka.server.runtime.tasks import LoopTasks
from kavka.wire.apis import describe_cluster
from kavka.wire.codec import private_copy
from kavka.wire.errors import ErrorCode as Code
from kavka.wire.frame import ArenaPool
from sim.loop import SimClock, SimLoop
from sim.machine import Machine
from sim.network import Quality, SimNetwork
from sim.run import complaints, same_each_time
from sim.trace import Trace
from support import strict_arenas

NAMES = ("broker1", "broker2")
EVERY_S = 0.05
SETTINGS = ClientSettings(client_id="other", software_version="1")


class Pair:
    """Two machines; the process of each asks the other one's broker."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.loop = SimLoop(random.Random(seed))  # type: ignore[abstract]
        self.trace = Trace(lambda: self.loop.now_s)
        self.network = SimNetwork(
            self.loop, random.Random(seed + 1), self.trace, Quality(pieces_share=0.3)
        )
        self.machines = [
            Machine(
                self.loop,
                self.network,
                random.Random(seed + number),
                self.trace,
                name=name,
                settings=(f"broker.id={number}",),
                offset_ms=self.chance.randrange(-5000, 5000),
                drift=self.chance.choice((-0.01, 0.0, 0.01)),
            )
            for number, name in enumerate(NAMES, 1)
        ]
        self.answers = Counter[str]()
        """How many answers each had."""
        self.lost = Counter[str]()

    async def start(self, machine: Machine) -> None:
        """Start it, and let it ask the other one."""
        machine.launch()
        await machine.started()
        assert machine.process is not None
        (other,) = (each for each in self.machines if each is not machine)
        seams = Seams(
            self.network.host(machine.process, machine.name),
            SimClock(machine.process),
            LoopTasks(self.loop),
            random.Random(self.chance.getrandbits(64)),
            ArenaPool(),
        )
        client = BrokerClient(*other.address, SETTINGS, seams)
        machine.process.spawn(self._ask(client, machine.name, int(other.name[-1])), name="ask")

    async def _ask(self, client: BrokerClient, name: str, other: int) -> None:
        api = describe_cluster.API
        request = private_copy.message_class(api.request_name)()
        while True:
            await asyncio.sleep(EVERY_S)
            try:
                answer = await client.ask(api, request)
            except ConnectionError:
                self.lost[name] += 1
                continue
            assert answer.error_code == Code.NONE
            assert [broker.broker_id for broker in answer.brokers] == [other]
            self.answers[name] += 1

    async def main(self) -> None:
        """Faults, and then both must hear of each other again."""
        for machine in self.machines:
            await self.start(machine)
        for _ in range(6):
            await asyncio.sleep(5 * self.chance.random())
            await self._fault(self.chance.choice(self.machines))
        self.network.heal()
        before = self.answers.copy()
        await asyncio.sleep(60)
        assert all(self.answers[name] > before[name] + 100 for name in NAMES), self.answers
        for machine in self.machines:
            await machine.stop()

    async def _fault(self, machine: Machine) -> None:
        kind = self.chance.choice(("cut", "pause", "kill", "reset"))
        if kind == "cut":
            self.network.cut(*self.chance.sample(NAMES, 2))
            await asyncio.sleep(self.chance.choice((1.0, 20.0, 40.0)))
            self.network.heal()
        elif kind == "pause":
            assert machine.process is not None
            machine.process.pause()
            await asyncio.sleep(self.chance.choice((1.0, 20.0, 40.0)))
            machine.process.resume()
        elif kind == "kill":
            machine.kill()
            await self.start(machine)
        else:
            self.network.reset_one()


def live(seed: int) -> Pair:
    pair = Pair(seed)
    with strict_arenas.enforce(), same_each_time(), complaints() as logged:
        pair.loop.run(pair.main())
    assert not logged
    assert not pair.loop.failures
    return pair


@pytest.mark.parametrize("seed", range(5))
def test_two_brokers_hear_of_each_other_after_all_that_happens(seed: int) -> None:
    pair = live(seed)
    assert pair.trace.digest() == live(seed).trace.digest()


def test_requests_are_lost_meanwhile() -> None:
    assert sum(sum(live(seed).lost.values()) for seed in range(3))
