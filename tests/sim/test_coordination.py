"""Sessions with the simulated ZooKeeper."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from kavka.log.memfs import MemFs
from kavka.server.runtime.tasks import LoopTasks
from kavka.zktree.api import (
    ConnectionLost,
    Coordination,
    NodeExists,
    NoNode,
    SessionEvent,
    SessionExpired,
    WatchEvent,
)
from sim.coordination import session_opener
from sim.ensemble import ZOOKEEPER, Ensemble
from sim.jobs import SimJobs, Speed
from sim.loop import Process, SimClock, SimLoop
from sim.network import Quality, SimNetwork
from sim.trace import Trace
from support.async_scenarios import scenario_with
from support.coordination_machine import CoordinationMachine
from support.scenarios import Command, Scenario, scenario_files
from support.virtual import VirtualClock

TIMEOUT_S = 6.0
LATENCY_S = 0.01
NOTICED_S = TIMEOUT_S
"""Within this time a client gives up a connection that is silent."""

RECONNECTED_S = 2.0


class World:
    """The service, and brokers with a session each."""

    def __init__(self, seed: int = 1, clock: VirtualClock | None = None) -> None:
        self.loop = SimLoop(random.Random(seed))  # type: ignore[abstract]
        trace = Trace(lambda: self.loop.now_s)
        quality = Quality(latency_s=LATENCY_S, slow_share=0.0)
        self.network = SimNetwork(self.loop, random.Random(seed), trace, quality)
        self.ensemble = Ensemble(self.network, clock)

    async def broker(self, name: str) -> Broker:
        """One with an open session."""
        process = Process(self.loop, name)
        opening = process.spawn(self.open(process, name), name="open")
        return Broker(process, await opening)

    async def open(self, process: Process, host: str) -> Coordination:
        """A session of a process."""
        opener = session_opener(self.ensemble, process, host, TIMEOUT_S)
        tasks, fs = LoopTasks(self.loop), MemFs()
        jobs = SimJobs(self.loop, process, fs, random.Random(1), Speed())
        return await opener(fs, "/", clock=SimClock(process), tasks=tasks, jobs=jobs)

    @property
    def nodes(self) -> list[str]:
        """What is below the root."""
        return self.ensemble.tree.children("/")


class Broker:
    """A process, and what came of its requests and watches, in order."""

    def __init__(self, process: Process, session: Coordination) -> None:
        self.process = process
        self.session = session
        self.out: list[str] = []
        session.on_session(self._heard)

    def _heard(self, event: SessionEvent) -> None:
        self.out.append(event.name)

    def watch(self, event: WatchEvent) -> None:
        self.out.append(f"{event.kind.name} {event.path}")

    def ask(self, name: str, request: Callable[[], Awaitable[object]]) -> None:
        """Ask as the process; what comes of it goes to `out`."""

        async def respond() -> None:
            try:
                await request()
            except Exception as failure:
                self.out.append(f"{name}: {type(failure).__name__}")
            else:
                self.out.append(name)

        self.process.spawn(respond(), name=name)


def in_world(test: Callable[[World], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Run a test in a world of its own."""

    def run() -> None:
        world = World()
        world.loop.run(test(world))
        assert not world.loop.failures
        world.ensemble.tree.check_invariants()

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


class SimulatedMachine(CoordinationMachine):
    """The simulated service for scenario files: nodes have their times from a clock that stands."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    async def start(self) -> None:
        self.session = await self._world.open(self._world.loop.world, "broker1")
        await self.begin()

    async def settle(self) -> None:
        await asyncio.sleep(1)

    async def finish(self) -> None:
        await self.session.close()

    async def do_close(self, command: Command) -> None:
        await self.request("close", self.session.close())


@scenario_files("coordination/tree")
def test_scenarios(scenario: Scenario, rewrite: bool) -> None:
    world = World(clock=VirtualClock())
    scenario_with(scenario, rewrite, SimulatedMachine(world), world.loop)


@in_world
async def test_a_session_lives_for_as_long_as_its_process(world: World) -> None:
    broker = await world.broker("one")
    await broker.session.create("/e", ephemeral=True)
    await asyncio.sleep(20 * TIMEOUT_S)
    assert world.nodes == ["e"]
    broker.process.kill()
    await asyncio.sleep(0.6 * TIMEOUT_S)
    assert world.nodes == ["e"]
    await asyncio.sleep(0.5 * TIMEOUT_S)
    assert world.nodes == []


@in_world
async def test_another_process_of_a_broker_has_another_session(world: World) -> None:
    """Until the first one has expired, its ephemeral nodes are there."""
    broker = await world.broker("one")
    await broker.session.create("/e", ephemeral=True)
    broker.process.kill()
    again = await world.broker("one")
    assert again.session.session_id != broker.session.session_id
    with pytest.raises(NodeExists):
        await again.session.create("/e", ephemeral=True)
    await asyncio.sleep(TIMEOUT_S)
    await again.session.create("/e", ephemeral=True)
    assert again.out == []


@in_world
async def test_a_paused_process_hears_of_its_end_when_it_goes_on(world: World) -> None:
    broker = await world.broker("one")
    await broker.session.create("/e", ephemeral=True)
    broker.process.pause()
    broker.ask("get", lambda: broker.session.get("/"))
    await asyncio.sleep(2 * TIMEOUT_S)
    assert world.nodes == []
    broker.process.resume()
    await asyncio.sleep(RECONNECTED_S)
    assert broker.out == ["SUSPENDED", "get: ConnectionLost", "EXPIRED"]
    with pytest.raises(SessionExpired):
        await broker.session.get("/")


@in_world
async def test_close_deletes_ephemeral_nodes_after_the_requests_before_it(world: World) -> None:
    broker, other = await world.broker("one"), await world.broker("other")
    await other.session.exists("/e", other.watch)
    creating = broker.session.create("/e", ephemeral=True)
    await broker.session.close()
    await creating
    assert world.nodes == []
    with pytest.raises(SessionExpired):
        await broker.session.get("/")
    await asyncio.sleep(TIMEOUT_S)
    assert other.out == ["CREATED /e"]
    assert list(world.ensemble.sessions) == [other.session.session_id]
    assert broker.out == []


@in_world
async def test_close_without_a_connection_does_not_wait_forever(world: World) -> None:
    broker = await world.broker("one")
    await broker.session.create("/e", ephemeral=True)
    world.network.cut("one", ZOOKEEPER)
    await broker.session.close()
    assert world.nodes == []


@in_world
async def test_an_abandoned_session_expires(world: World) -> None:
    broker = await world.broker("one")
    await broker.session.create("/e", ephemeral=True)
    broker.session.abandon()
    with pytest.raises(SessionExpired):
        await broker.session.get("/")
    await asyncio.sleep(0.5 * TIMEOUT_S)
    assert world.nodes == ["e"]
    await asyncio.sleep(TIMEOUT_S)
    assert world.nodes == []


@in_world
async def test_a_watch_event_comes_before_the_response_to_what_was_asked_after_it(
    world: World,
) -> None:
    broker, other = await world.broker("one"), await world.broker("other")
    for number in range(20):
        path = f"/{number}"
        await broker.session.exists(path, broker.watch)
        broker.out.clear()
        writing = other.session.create(path)
        broker.ask("before or after", lambda path=path: broker.session.exists(path))  # type: ignore[misc]
        await writing
        broker.ask("after", lambda path=path: broker.session.exists(path))  # type: ignore[misc]
        await asyncio.sleep(1)
        assert broker.out.index(f"CREATED {path}") < broker.out.index("after")


@in_world
async def test_what_fired_without_a_connection_is_heard_with_the_next_one(world: World) -> None:
    broker, other = await world.broker("one"), await world.broker("other")
    await broker.session.exists("/a", broker.watch)
    await broker.session.children("/", broker.watch)
    world.network.cut(ZOOKEEPER, "one")
    await other.session.create("/a")
    await asyncio.sleep(NOTICED_S)
    assert broker.out == ["SUSPENDED"]
    broker.ask("get", lambda: broker.session.get("/a"))
    world.network.heal()
    await asyncio.sleep(RECONNECTED_S)
    assert broker.out == ["SUSPENDED", "CONNECTED", "CREATED /a", "CHILDREN_CHANGED /", "get"]


@in_world
async def test_a_short_cut_only_delays(world: World) -> None:
    broker = await world.broker("one")
    world.network.cut("one", ZOOKEEPER)
    broker.ask("create", lambda: broker.session.create("/a"))
    await asyncio.sleep(0.1 * TIMEOUT_S)
    assert world.nodes == []
    world.network.heal()
    await asyncio.sleep(1)
    assert (world.nodes, broker.out) == (["a"], ["create"])


@in_world
async def test_a_request_that_was_lost_is_sent_again(world: World) -> None:
    broker = await world.broker("one")
    broker.ask("first", lambda: broker.session.create("/n-", sequential=True))
    broker.ask("second", lambda: broker.session.create("/n-", sequential=True))
    await asyncio.sleep(0.1 * LATENCY_S)
    world.ensemble.reset_all()
    await asyncio.sleep(RECONNECTED_S)
    assert broker.out == ["SUSPENDED", "CONNECTED", "first", "second"]
    assert world.nodes == ["n-0000000000", "n-0000000001"]


@in_world
async def test_a_request_whose_response_was_lost_is_not_done_twice(world: World) -> None:
    broker = await world.broker("one")
    world.network.cut(ZOOKEEPER, "one")
    broker.ask("create", lambda: broker.session.create("/n-", sequential=True))
    broker.ask("delete", lambda: broker.session.delete("/missing"))
    await asyncio.sleep(10 * LATENCY_S)
    assert world.nodes == ["n-0000000000"]
    await asyncio.sleep(NOTICED_S)
    broker.ask("later", lambda: broker.session.create("/n-", sequential=True))
    world.network.heal()
    await asyncio.sleep(RECONNECTED_S)
    assert broker.out == ["SUSPENDED", "CONNECTED", "create", "delete: NoNode", "later"]
    assert world.nodes == ["n-0000000000", "n-0000000001"]


@in_world
async def test_at_the_end_of_a_session_what_was_sent_is_unknown(world: World) -> None:
    broker = await world.broker("one")
    world.network.cut(ZOOKEEPER, "one")
    broker.ask("sent", lambda: broker.session.create("/a"))
    await asyncio.sleep(NOTICED_S)
    broker.ask("waiting", lambda: broker.session.create("/b"))
    await asyncio.sleep(3 * TIMEOUT_S)
    assert broker.out == ["SUSPENDED"], "the end is heard from the service only"
    assert not world.ensemble.sessions
    world.network.heal()
    await asyncio.sleep(RECONNECTED_S)
    assert broker.out == ["SUSPENDED", "sent: ConnectionLost", "waiting: SessionExpired", "EXPIRED"]
    assert world.nodes == ["a"]


@in_world
async def test_a_session_that_can_not_be_opened_yet_waits(world: World) -> None:
    world.network.cut("one", ZOOKEEPER)
    process = Process(world.loop, "one")
    opening = process.spawn(world.open(process, "one"), name="open")
    await asyncio.sleep(100)
    assert not opening.done()
    world.network.heal()
    session = await opening
    with pytest.raises(NoNode):
        await session.get("/missing")


@in_world
async def test_one_request_of_several_need_be_awaited_at_the_end(world: World) -> None:
    broker = await world.broker("one")
    world.network.cut("one", ZOOKEEPER)
    lost = [broker.session.get("/"), broker.session.get("/")]
    await asyncio.sleep(3 * TIMEOUT_S)
    world.network.heal()
    with pytest.raises(ConnectionLost):
        await lost[0]
