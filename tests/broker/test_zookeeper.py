"""`kavka.server.coordination.zookeeper` on a real ZooKeeper."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from kavka.client.errors import ConnectFailed
from kavka.zktree.api import (
    Check,
    ConnectionLost,
    Coordination,
    Op,
    SessionEvent,
    SessionExpired,
    SetData,
    WatchEvent,
    WatchKind,
)
from support.async_scenarios import scenario_with
from support.broker import finish
from support.oracle39 import ZooKeeper
from support.real_zookeeper import WITHIN_S, RealMachine, open_at
from support.scenarios import Scenario, scenario_files
from support.zookeeper_proxy import ZooKeeperProxy

ROOTS = (f"/root{number}" for number in itertools.count())
"""Each test has nodes of its own."""

IDLE_FOR_S = 15.0
"""Longer than the timeout of its session, which is longer than a busy machine pauses."""


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a ZooKeeper."""
    service = ZooKeeper(tmp_path_factory.mktemp("zookeeper"))
    try:
        service.start()
        address = f"127.0.0.1:{service.port}"
        asyncio.run(until_it_serves(address))
        yield address
    finally:
        finish(service)


async def until_it_serves(address: str) -> None:
    """It closes connections for a while after it has said that it is ready."""
    session = await open_at(address)
    await session.close()


@scenario_files("coordination/tree")
def test_scenarios(scenario: Scenario, rewrite: bool, zookeeper: str) -> None:
    with asyncio.Runner() as runner:
        scenario_with(scenario, rewrite, RealMachine(zookeeper + next(ROOTS)), runner)


class Counters:
    """Nodes that a session writes through a proxy; each write names the version before it."""

    def __init__(self, session: Coordination, chance: random.Random) -> None:
        self.session = session
        self.chance = chance
        self.versions: dict[str, int] = {}
        self.created: list[str] = []
        self.removed: set[str] = set()

    async def write(self, count: int) -> None:
        """Pipelined writes of every kind. No other session writes, so each one succeeds, once."""
        outcomes = [self._write() for _ in range(count)]
        for check, outcome in outcomes:
            check(await asyncio.wait_for(outcome, WITHIN_S))

    def _write(self) -> tuple[Callable[[Any], None], Awaitable[Any]]:
        kind = self.chance.choice(("create", "set", "set", "set", "delete", "sequential", "multi"))
        names = list(self.versions)
        if kind == "create" or not names:
            return self._create()
        name = self.chance.choice(names)
        if kind == "sequential":
            return self._create_in_sequence()
        if kind == "delete":
            version = self.versions.pop(name)
            self.removed.add(name)
            return self._is_none, self.session.delete(name, version)
        version = self.versions[name]
        self.versions[name] += 1
        data = b"%s %d" % (name.encode(), version + 1)

        def check(stat: Any) -> None:
            assert stat.version == version + 1, f"{name}: a set had no effect, or two"

        if kind == "set":
            return check, self.session.set(name, data, version)
        ops: list[Op] = [Check("/"), SetData(name, data, version)]
        return lambda results: check(results[1]), self.session.multi(ops)

    def _create(self) -> tuple[Callable[[Any], None], Awaitable[Any]]:
        name = f"/n{len(self.versions) + len(self.removed)}"
        self.versions[name] = 0

        def check(created: Any) -> None:
            assert created.path == name

        return check, self.session.create(name, name.encode())

    def _create_in_sequence(self) -> tuple[Callable[[Any], None], Awaitable[Any]]:
        number = len(self.created)
        self.created.append("")

        def check(created: Any) -> None:
            self.created[number] = created.path

        data = b"sequence %d" % number
        return check, self.session.create("/s-", data, sequential=True)

    def _is_none(self, result: Any) -> None:
        assert result is None

    async def check(self, session: Coordination) -> None:
        """Another session sees what the responses said."""
        names = {f"/{name}" for name in await session.children("/")}
        assert names == {*self.versions, *self.created}
        assert len(set(self.created)) == len(self.created)
        assert self.created == sorted(self.created), "they took effect in their order"
        for name, version in self.versions.items():
            node = await session.get(name)
            assert node.stat.version == version
        for number, name in enumerate(self.created):
            assert (await session.get(name)).data == b"sequence %d" % number


@pytest.mark.parametrize("seed", range(6))
def test_every_write_takes_effect_once_though_connections_are_lost(
    zookeeper: str, seed: int
) -> None:
    """Connections are lost before requests have come through, and before responses have."""

    async def run() -> None:
        root, chance = next(ROOTS), random.Random(seed)
        proxy = ZooKeeperProxy(int(zookeeper.rpartition(":")[2]), chance)
        address = f"127.0.0.1:{await proxy.start()}"
        session = await open_at(address + root, seed=seed)
        counters = Counters(session, chance)
        proxy.cut_share = 0.02
        while proxy.cuts < 6:
            await counters.write(20)
        proxy.cut_share = 0.0
        observer = await open_at(zookeeper + root)
        await counters.check(observer)
        for client in (session, observer):
            await client.close()
        await proxy.stop()

    asyncio.run(run())


def test_a_watch_fires_for_what_happened_while_there_was_no_connection(zookeeper: str) -> None:
    async def run() -> None:
        root = next(ROOTS)
        proxy = ZooKeeperProxy(int(zookeeper.rpartition(":")[2]), random.Random(1))
        session = await open_at(f"127.0.0.1:{await proxy.start()}{root}")
        other = await open_at(zookeeper + root)
        for name in ("/set", "/removed", "/parent", "/same"):
            await other.create(name, b"1")
        events: list[WatchEvent] = []
        for name in ("/set", "/removed", "/same"):
            await session.get(name, events.append)
        for name in ("/missing", "/still-missing"):
            assert await session.exists(name, events.append) is None
        for name in ("/parent", "/same"):
            await session.children(name, events.append)
        proxy.is_dark = True
        proxy.cut()
        await other.set("/set", b"2")
        await other.delete("/removed")
        await other.create("/missing")
        await other.create("/parent/child")
        assert events == []
        proxy.is_dark = False
        assert (await session.get("/set")).data == b"2"
        await asyncio.sleep(0)
        assert {(event.kind, event.path) for event in events} == {
            (WatchKind.DATA_CHANGED, "/set"),
            (WatchKind.DELETED, "/removed"),
            (WatchKind.CREATED, "/missing"),
            (WatchKind.CHILDREN_CHANGED, "/parent"),
        }
        await other.delete("/same")
        await session.exists("/same")
        assert [event.kind for event in events if event.path == "/same"] == [WatchKind.DELETED]
        for client in (session, other):
            await client.close()
        await proxy.stop()

    asyncio.run(run())


def test_a_session_that_expires_says_so(zookeeper: str) -> None:
    """Its ephemeral nodes are gone; what was sent may have taken effect, the rest has not."""

    async def run() -> None:
        root = next(ROOTS)
        proxy = ZooKeeperProxy(int(zookeeper.rpartition(":")[2]), random.Random(1))
        session = await open_at(f"127.0.0.1:{await proxy.start()}{root}", timeout_s=10.0)
        events: list[SessionEvent] = []
        session.on_session(events.append)
        await session.create("/e", ephemeral=True)
        other = await open_at(zookeeper + root)
        gone = asyncio.get_running_loop().create_future()
        await other.exists("/e", gone.set_result)
        proxy.is_dark = True
        sent = session.create("/sent")
        proxy.cut()
        while not events:
            await asyncio.sleep(0.01)
        unsent = session.create("/unsent")
        assert (await asyncio.wait_for(gone, WITHIN_S)).kind is WatchKind.DELETED
        proxy.is_dark = False
        with pytest.raises(ConnectionLost):
            await asyncio.wait_for(sent, WITHIN_S)
        for refused in (unsent, session.get("/")):
            with pytest.raises(SessionExpired):
                await refused
        assert events == [SessionEvent.SUSPENDED, SessionEvent.EXPIRED]
        await session.close()
        await other.close()
        await proxy.stop()

    asyncio.run(run())


def test_an_ephemeral_node_lives_while_its_session_is_idle(zookeeper: str) -> None:
    async def run() -> None:
        root = next(ROOTS)
        session = await open_at(zookeeper + root, timeout_s=IDLE_FOR_S - 3.0)
        other = await open_at(zookeeper + root)
        await session.create("/e", ephemeral=True)
        events: list[WatchEvent] = []
        await other.exists("/e", events.append)
        await asyncio.sleep(IDLE_FOR_S)
        assert events == []
        await session.close()
        assert await other.exists("/e") is None
        await other.close()

    asyncio.run(run())


def test_without_a_server_the_start_says_where_it_was_sought() -> None:
    with pytest.raises(ConnectFailed, match=r"no ZooKeeper answers at 127.0.0.1:1 within 0.5 s"):
        asyncio.run(open_at("127.0.0.1:1", within_s=0.5))
