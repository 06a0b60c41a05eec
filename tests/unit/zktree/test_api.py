"""The semantics of `Coordination`, over its implementation."""

from __future__ import annotations

import pytest

from kavka.zktree.api import BadArguments
from support.async_scenarios import scenario_on_loop
from support.coordination_machine import EmbeddedMachine
from support.embedded_coordination import new_fs, open_on
from support.scenarios import Scenario, scenario_files


@scenario_files("coordination/tree")
def test_scenarios(scenario: Scenario, rewrite: bool) -> None:
    scenario_on_loop(scenario, rewrite, EmbeddedMachine)


@pytest.mark.parametrize(
    "path",
    [
        *("", "t", "/t/", "//t", "/t//a", "/t/.", "/t/..", "/./t"),
        *("/t/\x00", "/t/\x1f", "/t/\x7f", "/t/a\x80", "/t/\ue000", "/t/\ufff1"),
    ],
)
async def test_paths_that_zookeeper_does_not_accept(path: str) -> None:
    session = await open_on(new_fs())
    await session.create("/t")
    with pytest.raises(BadArguments):
        await session.create(path)


@pytest.mark.parametrize(
    "name", ["...", ".a", "a.", "-", "<default>", "a b", "\xe4", "a:b", "\ud7ff", "\uf900"]
)
async def test_unusual_paths_that_zookeeper_accepts(name: str) -> None:
    session = await open_on(new_fs())
    assert (await session.create(f"/{name}")).path == f"/{name}"
    assert await session.exists(f"/{name}") is not None


async def test_requests_take_effect_in_the_order_of_the_calls() -> None:
    session = await open_on(new_fs())
    session.create("/a", b"0")
    session.set("/a", b"1")
    first = session.get("/a")
    session.delete("/a")
    none = session.exists("/a")
    session.create("/a", b"2")
    second = session.get("/a")
    assert ((await first).data, await none, (await second).data) == (b"1", None, b"2")
