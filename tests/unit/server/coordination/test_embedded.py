"""The embedded service: what is acknowledged is on disk, and one fsync serves all who wait."""

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
    ConnectionLost,
    Coordination,
    NodeExists,
    NoNode,
    Overloaded,
    SessionEvent,
    SessionExpired,
    WatchEvent,
)
from support.embedded_coordination import DIRECTORY, HeldJobs, new_fs, open_on
from support.virtual import VirtualClock, settle

Body = Callable[[EmbeddedCoordination, HeldJobs], Awaitable[None]]


def held(body: Body) -> None:
    """Run `body` on an open service whose disk does only what it is told to."""

    async def run() -> None:
        jobs = HeldJobs()
        opening = asyncio.ensure_future(open_on(new_fs(), jobs=jobs))
        await settle()
        while jobs.waiting:
            jobs.let_one_through()
            await settle()
        jobs.done = 0
        await body(await opening, jobs)

    asyncio.run(run())


def test_an_answer_waits_for_the_disk() -> None:
    async def body(session: EmbeddedCoordination, jobs: HeldJobs) -> None:
        answer = asyncio.ensure_future(session.create("/a"))
        await settle()
        assert not answer.done()
        jobs.let_one_through()
        await settle()
        assert answer.result().path == "/a"

    held(body)


def test_a_transaction_counts_when_it_is_on_disk() -> None:
    async def body(session: EmbeddedCoordination, jobs: HeldJobs) -> None:
        before = session.last_zxid
        session.create("/a")
        await settle()
        session.create("/b")
        assert session.last_zxid == before
        jobs.let_one_through()
        await settle()
        assert session.last_zxid == before + 1, "the second began when the first was on its way"
        jobs.let_one_through()
        await settle()
        assert session.last_zxid == before + 2

    held(body)


def test_writers_that_wait_share_one_sync() -> None:
    async def body(session: EmbeddedCoordination, jobs: HeldJobs) -> None:
        first = asyncio.ensure_future(session.create("/first"))
        await settle()
        others = [asyncio.ensure_future(session.create(f"/{number}")) for number in range(100)]
        await settle()
        jobs.let_one_through()
        await settle()
        assert first.done() and not any(other.done() for other in others)
        jobs.let_one_through()
        await settle()
        assert all(other.done() for other in others)
        assert jobs.done == 2 and not jobs.waiting

    held(body)


def test_a_read_waits_for_the_writes_it_has_seen() -> None:
    async def body(session: EmbeddedCoordination, jobs: HeldJobs) -> None:
        assert await session.exists("/a") is None, "nothing to wait for"
        session.create("/a", b"x")
        gathering = asyncio.ensure_future(session.get("/a"))
        await settle()
        syncing = asyncio.ensure_future(session.exists("/a"))
        refusal = asyncio.ensure_future(session.create("/a"))
        await settle()
        assert not (gathering.done() or syncing.done() or refusal.done())
        jobs.let_one_through()
        await settle()
        assert gathering.result().data == b"x"
        assert syncing.result() is not None
        assert isinstance(refusal.exception(), NodeExists)

    held(body)


def test_a_watch_waits_for_the_disk_too() -> None:
    async def body(session: EmbeddedCoordination, jobs: HeldJobs) -> None:
        story: list[object] = []
        await session.exists("/a", story.append)
        answer = asyncio.ensure_future(session.create("/a"))
        answer.add_done_callback(lambda _: story.append("answer"))
        await settle()
        assert story == []
        jobs.let_one_through()
        await settle()
        assert isinstance(story[0], WatchEvent) and story[1] == "answer"

    held(body)


def test_a_request_whose_caller_has_gone_harms_nobody() -> None:
    async def body(session: EmbeddedCoordination, jobs: HeldJobs) -> None:
        gone = asyncio.ensure_future(session.create("/a"))
        answer = asyncio.ensure_future(session.create("/b"))
        await settle()
        gone.cancel()
        jobs.let_one_through()
        await settle()
        assert answer.result().path == "/b"
        assert await session.children("/") == ["a", "b"]

    held(body)


def test_an_abandoned_session_has_not_ended_as_far_as_the_disk_knows() -> None:
    async def run() -> None:
        fs = new_fs()
        session = await open_on(fs)
        await session.create("/e", b"x", ephemeral=True)
        before = fs.read_bytes(f"{DIRECTORY}/{storage.LOG_NAME}")
        session.abandon()
        assert fs.read_bytes(f"{DIRECTORY}/{storage.LOG_NAME}") == before
        with pytest.raises(SessionExpired):
            await session.create("/late")
        again = await open_on(fs)  # which ends what the earlier process left
        assert await again.exists("/e") is None

    asyncio.run(run())


def test_close_waits_for_what_is_under_way() -> None:
    async def body(session: EmbeddedCoordination, jobs: HeldJobs) -> None:
        answer = asyncio.ensure_future(session.create("/a"))
        closing = asyncio.ensure_future(session.close())
        await settle()
        assert not closing.done()
        while jobs.waiting:
            jobs.let_one_through()
            await settle()
        assert answer.result().path == "/a"
        await closing
        with pytest.raises(SessionExpired):
            await session.exists("/a")

    held(body)


def test_too_much_that_waits_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "PENDING_BYTES_MAX", 1000)

    async def body(session: EmbeddedCoordination, jobs: HeldJobs) -> None:
        session.create("/a", bytes(2000))
        refused = asyncio.ensure_future(session.create("/b"))
        await settle()
        jobs.let_one_through()
        await settle()
        assert isinstance(refused.exception(), Overloaded)
        assert await session.children("/") == ["a"]

    held(body)


@pytest.mark.parametrize("op", ["pwrite", "sync"])
def test_a_disk_that_fails_ends_the_session(op: str) -> None:
    async def run() -> None:
        fs = new_fs()
        session = await open_on(fs)
        events: list[SessionEvent] = []
        session.on_session(events.append)
        await session.create("/kept")
        fs.faults.append(Fault(op, storage.LOG_NAME))
        with pytest.raises(ConnectionLost, match=f"{DIRECTORY}: .*Input/output error"):
            await session.create("/unknown")
        with pytest.raises(SessionExpired):
            await session.create("/never")
        with pytest.raises(SessionExpired):
            await session.exists("/kept")
        await settle()
        assert events == [SessionEvent.EXPIRED]
        await session.close()
        fs.kill()
        again = await open_on(fs)
        assert set(await again.children("/")) in ({"kept"}, {"kept", "unknown"})

    asyncio.run(run())


def test_a_disk_that_fails_at_the_end_does_not_hold_up_the_end() -> None:
    async def run() -> None:
        fs = new_fs()
        session = await open_on(fs)
        await session.create("/e", ephemeral=True)
        fs.faults.append(Fault("sync", storage.LOG_NAME))
        await session.close()
        fs.kill()
        assert await (await open_on(fs)).children("/") == []

    asyncio.run(run())


def test_ephemerals_die_with_the_process() -> None:
    async def run() -> None:
        fs = new_fs()
        first = await open_on(fs)
        _, before = await first.create("/e", ephemeral=True)
        await first.create("/p", b"x")
        fs.kill()
        second = await open_on(fs)
        assert await second.children("/") == ["p"]
        assert second.session_id != first.session_id
        _, after = await second.create("/e", ephemeral=True)
        assert after.czxid > before.czxid
        assert after.ephemeral_owner == second.session_id

    asyncio.run(run())


def test_ephemerals_go_when_the_session_is_closed() -> None:
    async def run() -> None:
        fs = new_fs()
        session = await open_on(fs)
        await session.create("/e", ephemeral=True)
        await session.close()
        again = await open_on(fs)
        assert await again.children("/") == []

    asyncio.run(run())


def test_stats_survive() -> None:
    async def run() -> None:
        fs, clock = new_fs(), VirtualClock()
        session = await open_on(fs, clock=clock)
        await session.create("/a")
        clock.elapsed_ms = 5000
        await session.set("/a", b"x")
        await session.create("/a/n-", sequential=True)
        await session.delete("/a/n-0000000000")
        before = await session.get("/a")
        fs.crash()
        again = await open_on(fs)
        assert await again.get("/a") == before
        assert (await again.create("/a/n-", sequential=True)).path == "/a/n-0000000001"

    asyncio.run(run())


async def everything(session: Coordination, path: str = "/") -> dict[str, object]:
    """All nodes with data and Stat."""
    found: dict[str, object] = {path: await session.get(path)}
    for name in await session.children(path):
        found |= await everything(session, f"{path.rstrip('/')}/{name}")
    return found


@pytest.mark.parametrize("power_cut", [False, True])
def test_a_long_log_becomes_a_snapshot(power_cut: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "LOG_BYTES_MAX", 2000)
    monkeypatch.setattr(embedded, "SLICE_NODES", 3)
    monkeypatch.setattr(storage, "SLICE_NODES", 3)

    async def run() -> None:
        fs = new_fs()
        session = await open_on(fs)
        begun_anew, size = 0, 0
        for number in range(60):
            await session.create(f"/{number}", bytes(100))
            await settle()
            before, size = size, fs.size(f"/data/{storage.LOG_NAME}")
            begun_anew += size < before
        snapshot_size = fs.size(f"/data/{storage.SNAPSHOT_NAME}")
        assert begun_anew == 2, "at 2,000 bytes and when it was as long as the snapshot"
        assert size < snapshot_size
        nodes = await everything(session)
        assert len(nodes) == 61
        if power_cut:
            fs.crash()
        else:
            await session.close()
        assert await everything(await open_on(fs)) == nodes

    asyncio.run(run())


@pytest.mark.parametrize(
    "fault",
    [
        ("rename", f"{storage.LOG_NAME}.tmp"),
        ("rename", f"{storage.SNAPSHOT_NAME}.tmp"),
        ("sync", f"{storage.SNAPSHOT_NAME}.tmp"),
        None,
    ],
)
def test_power_may_go_at_any_step_of_a_snapshot(
    fault: tuple[str, str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also between the new snapshot and the new log, and with writers that wait meanwhile."""
    monkeypatch.setattr(storage, "LOG_BYTES_MAX", 500)

    async def run() -> None:
        fs = new_fs()
        session = await open_on(fs)
        if fault is not None:
            fs.faults.append(Fault(*fault))
        acknowledged = []
        for number in range(30):
            answers = [session.create(f"/{number}-{part}", bytes(30)) for part in "ab"]
            try:
                acknowledged += [(await answer).path for answer in answers]
            except (ConnectionLost, SessionExpired):
                break
        assert (len(acknowledged) == 60) == (fault is None)
        fs.crash()
        again = await open_on(fs)
        assert {f"/{name}" for name in await again.children("/")} >= set(acknowledged)

    asyncio.run(run())


steps = st.lists(
    st.one_of(
        st.tuples(st.just("create"), st.integers(0, 5)),
        st.tuples(st.just("set"), st.integers(0, 5)),
        st.tuples(st.just("delete"), st.integers(0, 5)),
        st.tuples(st.just("sync"), st.just(0)),
        st.tuples(st.just("kill"), st.just(0)),
        st.tuples(st.just("power cut"), st.integers(0, 1000)),
    ),
    max_size=40,
)


@settings(max_examples=150, deadline=None)
@given(steps)
def test_nothing_acknowledged_is_ever_lost(script: list[tuple[str, int]]) -> None:
    """After a crash the tree is what it was after some request, and none before an answered one."""

    async def run() -> None:
        fs = new_fs()
        history: list[dict[str, tuple[bytes | None, int]]] = [{"/": (None, 0)}]
        acknowledged = 0
        session, jobs = await reopened(fs)
        for what, number in script:
            if what == "sync":
                while jobs.waiting:
                    jobs.let_one_through()
                    await settle()
                acknowledged = len(history) - 1
            elif what in ("kill", "power cut"):
                fs.kill() if what == "kill" else fs.crash(Random(number))
                session, jobs = await reopened(fs)
                found = brief(session)
                assert found in history[acknowledged:]
                history, acknowledged = [found], 0
            else:
                request(session, what, f"/{number}")
                await settle()
                if brief(session) != history[-1]:
                    history.append(brief(session))

    asyncio.run(run())


def brief(session: EmbeddedCoordination) -> dict[str, tuple[bytes | None, int]]:
    """Data and version of each node in memory, be it on disk or not."""
    nodes = session._tree.copy_nodes()
    return {path: (node.data, node.version) for path, node in nodes.items()}


def request(session: EmbeddedCoordination, what: str, path: str) -> None:
    answer: Awaitable[object]
    if what == "create":
        answer = session.create(path, b"c")
    elif what == "set":
        answer = session.set(path, b"s")
    else:
        answer = session.delete(path)
    asyncio.ensure_future(answer).add_done_callback(lambda done: done.exception())


async def reopened(fs: MemFs) -> tuple[EmbeddedCoordination, HeldJobs]:
    jobs = HeldJobs()
    opening = asyncio.ensure_future(open_on(fs, jobs=jobs))
    await settle()
    while jobs.waiting:
        jobs.let_one_through()
        await settle()
    return await opening, jobs


def test_nothing_is_left_of_a_refused_request() -> None:
    """Nodes that are not there are asked for all day: the garbage collector has no part in it."""

    async def refused(request: Callable[[], Awaitable[object]]) -> weakref.ref[NoNode]:
        try:
            await request()
        except NoNode as error:
            return weakref.ref(error)
        raise AssertionError("the node is there")

    async def body(session: EmbeddedCoordination, jobs: HeldJobs) -> None:
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

    held(body)
