"""The embedded service: what is acknowledged is on disk, and one fsync serves many requests."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Awaitable, Callable
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kavka.log.memfs import Fault, MemFs
from kavka.server.coordination import embedded
from kavka.server.coordination.embedded import EmbeddedCoordination
from kavka.zktree import storage
from kavka.zktree.api import (
    SESSION_ENDED,
    ConnectionLost,
    NoNode,
    Overloaded,
    SessionExpired,
)
from support.async_scenarios import scenario_on_loop
from support.coordination_machine import EmbeddedMachine
from support.embedded_coordination import DIRECTORY, all_nodes, new_fs, open_on
from support.memory_broker import HoldableJobs
from support.scenarios import Scenario, scenario_files
from support.virtual import run_until_idle


@scenario_files("coordination/embedded")
def test_scenarios(scenario: Scenario, rewrite: bool) -> None:
    scenario_on_loop(scenario, rewrite, EmbeddedMachine)


async def test_at_the_end_of_a_session_only_one_of_several_requests_need_be_awaited() -> None:
    """As where many nodes are read at once: the first failure ends that."""
    unretrieved: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, found: unretrieved.append(found))
    fs = new_fs()
    session = await open_on(fs)
    fs.faults.append(Fault("pwrite"))
    lost = [session.create("/a"), session.create("/b")]
    with pytest.raises(ConnectionLost):
        await lost[0]
    late = [session.exists("/a"), session.exists("/b")]
    with pytest.raises(SessionExpired):
        await late[0]
    del lost, late
    gc.collect()
    await asyncio.sleep(0)
    assert unretrieved == []


async def test_requests_are_refused_while_too_many_bytes_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(embedded, "PENDING_BYTES_MAX", 1000)
    session = await open_on(new_fs())
    first = session.create("/a", bytes(2000))
    with pytest.raises(Overloaded):
        await session.create("/b")
    await first
    assert await session.children("/") == ["a"]


@pytest.mark.parametrize("power_cut", [False, True])
async def test_a_long_log_is_replaced_by_a_snapshot(
    power_cut: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "LOG_BYTES_MAX", 2000)
    monkeypatch.setattr(embedded, "SLICE_NODES", 3)
    monkeypatch.setattr(storage, "SLICE_NODES", 3)
    fs = new_fs()
    session = await open_on(fs)
    replaced, size = 0, 0
    for number in range(60):
        await session.create(f"/{number}", bytes(100))
        await run_until_idle()
        before, size = size, fs.size(f"{DIRECTORY}/{storage.LOG_NAME}")
        replaced += size < before
    snapshot_size = fs.size(f"{DIRECTORY}/{storage.SNAPSHOT_NAME}")
    assert replaced == 2, "at 2,000 bytes and when it was as long as the snapshot"
    assert size < snapshot_size
    nodes = await all_nodes(session)
    assert len(nodes) == 61
    if power_cut:
        fs.crash()
    else:
        await session.close()
    assert await all_nodes(await open_on(fs)) == nodes


@pytest.mark.parametrize(
    "fault",
    [
        ("rename", f"{storage.LOG_NAME}.tmp"),
        ("rename", f"{storage.SNAPSHOT_NAME}.tmp"),
        ("sync", f"{storage.SNAPSHOT_NAME}.tmp"),
        None,
    ],
)
async def test_power_cut_at_any_step_of_a_snapshot(
    fault: tuple[str, str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also between the new snapshot and the new log, and with writers that wait meanwhile."""
    monkeypatch.setattr(storage, "LOG_BYTES_MAX", 500)
    fs = new_fs()
    session = await open_on(fs)
    if fault is not None:
        fs.faults.append(Fault(*fault))
    acknowledged = []
    for number in range(30):
        answers = [session.create(f"/{number}-{part}", bytes(30)) for part in "ab"]
        try:
            acknowledged += [(await answer).path for answer in answers]
        except SESSION_ENDED:
            break
    assert (len(acknowledged) == 60) == (fault is None)
    fs.crash()
    again = await open_on(fs)
    assert {f"/{name}" for name in await again.children("/")} >= set(acknowledged)


steps = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["create", "set", "delete"]), st.integers(0, 5)),
        st.tuples(st.sampled_from(["sync", "kill"]), st.just(0)),
        st.tuples(st.just("power cut"), st.integers(0, 1000)),
    ),
    max_size=40,
)


Nodes = dict[str, tuple[bytes | None, int]]
"""Data and version of each node."""


@settings(max_examples=150)
@given(steps)
def test_nothing_acknowledged_is_ever_lost(script: list[tuple[str, int]]) -> None:
    """After a crash the tree is what it was after some request, and none before an acknowledged
    one."""

    async def run() -> None:
        fs = new_fs()
        history: list[Nodes] = [{"/": (None, 0)}]
        acknowledged = 0
        session, jobs = await reopened(fs)
        for action, number in script:
            if action == "sync":
                while jobs.held:
                    jobs.release()
                    jobs.hold()
                    await run_until_idle()
                acknowledged = len(history) - 1
            elif action in ("kill", "power cut"):
                fs.kill() if action == "kill" else fs.crash(Random(number))
                session, jobs = await reopened(fs)
                nodes = await all_nodes(session)
                found = {path: (node.data, node.stat.version) for path, node in nodes.items()}
                assert found in history[acknowledged:]
                history, acknowledged = [found], 0
            else:
                after = await request(session, action, f"/{number}", history[-1])
                if after != history[-1]:
                    history.append(after)

    asyncio.run(run())


async def request(session: EmbeddedCoordination, action: str, path: str, nodes: Nodes) -> Nodes:
    """Send a request; the nodes that there are when it has taken effect."""
    answer: Awaitable[object]
    _, version = nodes.get(path, (None, -1))
    if action == "create":
        answer = session.create(path, b"c")
        after = nodes if path in nodes else nodes | {path: (b"c", 0)}
    elif action == "set":
        answer = session.set(path, b"s")
        after = nodes | {path: (b"s", version + 1)} if path in nodes else nodes
    else:
        answer = session.delete(path)
        after = {other: node for other, node in nodes.items() if other != path}
    asyncio.ensure_future(answer).add_done_callback(lambda done: done.exception())
    await run_until_idle()
    return after


async def reopened(fs: MemFs) -> tuple[EmbeddedCoordination, HoldableJobs]:
    """A session whose writes to the disk wait."""
    jobs = HoldableJobs()
    session = await open_on(fs, jobs=jobs)
    jobs.hold()
    return session, jobs


async def test_refused_requests_leave_no_reference_cycles() -> None:
    """Missing nodes are read all the time, and should cost the garbage collector nothing."""

    async def refused(request: Callable[[], Awaitable[object]]) -> weakref.ref[NoNode]:
        try:
            await request()
        except NoNode as error:
            return weakref.ref(error)
        raise AssertionError("the node is there")

    session = await open_on(new_fs())
    gc.disable()
    try:
        errors = [
            await refused(lambda: session.get("/a")),
            await refused(lambda: session.delete("/a")),
            await refused(lambda: session.set("/a", b"")),
        ]
        assert [error() for error in errors] == [None] * 3
    finally:
        gc.enable()
