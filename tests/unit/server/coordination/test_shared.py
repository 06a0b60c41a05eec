"""The service in memory that brokers of one event loop share: as ZooKeeper, with its sessions."""

from __future__ import annotations

import pytest

from kavka.server.coordination.shared import SharedSession
from kavka.zktree.api import (
    NodeExists,
    SessionEvent,
    SessionExpired,
    WatchEvent,
    WatchKind,
)
from support.async_scenarios import scenario_on_loop
from support.coordination_machine import SharedMachine
from support.scenarios import Scenario, scenario_files
from support.virtual import run_until_idle


@scenario_files("coordination/tree")
def test_scenarios(scenario: Scenario, rewrite: bool) -> None:
    scenario_on_loop(scenario, rewrite, SharedMachine)


async def test_sessions_see_each_other() -> None:
    machine = SharedMachine()
    await machine.start()
    other = await machine.open()
    seen: list[WatchEvent] = []
    assert await other.exists("/t/a", seen.append) is None
    await machine.session.create("/t/a", ephemeral=True)
    with pytest.raises(NodeExists):
        await other.create("/t/a")
    await run_until_idle()
    assert [event.kind for event in seen] == [WatchKind.CREATED]
    stat = await other.exists("/t/a")
    assert stat is not None and stat.ephemeral_owner == machine.session.session_id
    await machine.session.close()
    assert await other.exists("/t/a") is None
    await other.close()


async def test_an_abandoned_session_expires_after_its_time() -> None:
    machine = SharedMachine()
    await machine.start()
    other = await machine.open(timeout_s=3)
    await other.create("/t/a", ephemeral=True)
    fired: list[WatchEvent] = []
    await other.children("/t", fired.append)
    gone: list[WatchEvent] = []
    await machine.session.exists("/t/a", gone.append)
    other.abandon()
    await machine.session.create("/t/b")
    await machine.tasks.advance(2999)
    assert await machine.session.exists("/t/a") is not None
    assert fired == [], "nobody is there any more"
    await machine.tasks.advance(1)
    assert await machine.session.exists("/t/a") is None
    await run_until_idle()
    assert [event.kind for event in gone] == [WatchKind.DELETED]
    with pytest.raises(SessionExpired):
        await other.get("/t")


async def test_one_that_is_ended_hears_of_it() -> None:
    machine = SharedMachine()
    await machine.start()
    other = await machine.open()
    assert isinstance(other, SharedSession)
    heard: list[SessionEvent] = []
    other.on_session(heard.append)
    await other.create("/t/a", ephemeral=True)
    other.expire()
    await run_until_idle()
    assert heard == [SessionEvent.EXPIRED]
    assert await machine.session.children("/t") == []
    with pytest.raises(SessionExpired):
        await other.create("/t/b")
    await other.close()


async def test_the_service_is_closed_with_abandoned_sessions() -> None:
    machine = SharedMachine()
    await machine.start()
    machine.session.abandon()
    machine.service.close()
    await machine.tasks.advance(60_000)
    assert machine.service.tree.exists("/t") is not None
