"""What every implementation of `Coordination` does: ZooKeeper's semantics, one fact a scenario.

A scenario takes one session whose tree has the empty node `/t` and nothing else of interest.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import pytest

from kavka.zktree.api import (
    BadArguments,
    BadVersion,
    Check,
    Coordination,
    CoordinationError,
    Create,
    Created,
    Delete,
    MultiFailed,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    Op,
    SetData,
    Stat,
    WatchEvent,
    WatchKind,
)

Scenario = Callable[[Coordination], Awaitable[None]]
SCENARIOS: Final[dict[str, Scenario]] = {}

BAD_PATHS: Final = (
    *("", "t", "/t/", "//t", "/t//a", "/t/.", "/t/..", "/./t"),
    *("/t/\x00", "/t/\x1f", "/t/\x7f", "/t/a\x80", "/t/\ue000", "/t/\ufff1"),
)


def scenario(function: Scenario) -> Scenario:
    SCENARIOS[function.__name__] = function
    return function


class Seen:
    """Watch events, in the order in which they came."""

    def __init__(self) -> None:
        self.events: list[tuple[WatchKind, str]] = []

    def __call__(self, event: WatchEvent) -> None:
        self.events.append((event.kind, event.path))


async def all_events(session: Coordination) -> None:
    """Return when the events of all changes so far have reached their watches."""
    await session.exists("/t")


async def failed_multi(session: Coordination, *ops: Op) -> MultiFailed:
    with pytest.raises(MultiFailed) as failure:
        await session.multi(ops)
    return failure.value


@scenario
async def a_new_node_has_a_new_stat(session: Coordination) -> None:
    path, stat = await session.create("/t/a", b"data")
    assert path == "/t/a"
    assert stat.czxid == stat.mzxid == stat.pzxid > 0
    assert stat.ctime == stat.mtime > 0
    assert (stat.version, stat.cversion, stat.ephemeral_owner) == (0, 0, 0)
    assert (stat.data_length, stat.num_children) == (4, 0)
    assert await session.get("/t/a") == (b"data", stat)
    assert await session.exists("/t/a") == stat


@scenario
async def the_newest_transaction_is_known(session: Coordination) -> None:
    _, made = await session.create("/t/a")
    assert session.last_zxid == made.czxid
    changed = await session.set("/t/a", b"x")
    assert session.last_zxid == changed.mzxid > made.czxid
    await session.delete("/t/a")
    parent = await session.exists("/t")
    assert parent is not None and session.last_zxid == parent.pzxid > changed.mzxid


@scenario
async def no_data_is_not_empty_data(session: Coordination) -> None:
    await session.create("/t/none")
    await session.create("/t/empty", b"")
    assert (await session.get("/t/none")).data is None
    assert (await session.get("/t/empty")).data == b""
    assert (await session.get("/t/none")).stat.data_length == 0


@scenario
async def create_refuses(session: Coordination) -> None:
    await session.create("/t/a")
    with pytest.raises(NodeExists):
        await session.create("/t/a")
    with pytest.raises(NoNode):
        await session.create("/t/missing/a")
    with pytest.raises(NodeExists):
        await session.create("/")


@scenario
async def create_refuses_bad_paths(session: Coordination) -> None:
    for path in BAD_PATHS:
        with pytest.raises(BadArguments):
            await session.create(path)


@scenario
async def odd_but_good_paths_are_taken(session: Coordination) -> None:
    for name in ("...", ".a", "a.", "-", "<default>", "a b", "\xe4", "a:b", "\ud7ff", "\uf900"):
        assert (await session.create(f"/t/{name}")).path == f"/t/{name}"
        assert await session.exists(f"/t/{name}") is not None


@scenario
async def set_counts_versions(session: Coordination) -> None:
    _, created = await session.create("/t/a", b"0")
    first = await session.set("/t/a", b"one")
    assert (first.version, first.data_length) == (1, 3)
    assert first.czxid == first.pzxid == created.czxid < first.mzxid
    second = await session.set("/t/a", None, version=1)
    assert second.version == 2
    assert await session.get("/t/a") == (None, second)


@scenario
async def set_refuses(session: Coordination) -> None:
    await session.create("/t/a", b"0")
    with pytest.raises(BadVersion):
        await session.set("/t/a", b"1", version=1)
    with pytest.raises(NoNode):
        await session.set("/t/missing", b"1")
    assert (await session.get("/t/a")).data == b"0"


@scenario
async def delete_removes(session: Coordination) -> None:
    await session.create("/t/a")
    await session.delete("/t/a")
    assert await session.exists("/t/a") is None
    with pytest.raises(NoNode):
        await session.get("/t/a")
    with pytest.raises(NoNode):
        await session.children("/t/a")
    with pytest.raises(NoNode):
        await session.delete("/t/a")


@scenario
async def delete_refuses(session: Coordination) -> None:
    await session.create("/t/a")
    await session.create("/t/a/b")
    with pytest.raises(BadVersion):
        await session.delete("/t/a", version=7)
    with pytest.raises(NotEmpty):
        await session.delete("/t/a", version=0)
    with pytest.raises(BadArguments):
        await session.delete("/")


@scenario
async def a_node_made_anew_begins_anew(session: Coordination) -> None:
    _, before = await session.create("/t/a", b"1")
    await session.set("/t/a", b"2")
    await session.delete("/t/a")
    _, after = await session.create("/t/a")
    assert (after.version, after.data_length) == (0, 0)
    assert after.czxid > before.czxid


@scenario
async def children_are_counted(session: Coordination) -> None:
    for name in ("b", "a", "c"):
        await session.create(f"/t/{name}")
    await session.delete("/t/b")
    await session.create("/t/a/below")
    assert await session.children("/t") == ["a", "c"]
    _, stat = await session.get("/t")
    assert (stat.num_children, stat.cversion, stat.version) == (2, 4, 0)
    assert stat.mzxid < stat.pzxid


@scenario
async def sequential_names_count_creations(session: Coordination) -> None:
    paths = [(await session.create("/t/n-", sequential=True)).path for _ in range(2)]
    assert paths == ["/t/n-0000000000", "/t/n-0000000001"]
    await session.create("/t/plain")
    await session.delete("/t/n-0000000001")
    assert (await session.create("/t/m-", sequential=True)).path == "/t/m-0000000003"
    assert (await session.create("/t/", sequential=True)).path == "/t/0000000004"


@scenario
async def ephemerals_belong_to_the_session(session: Coordination) -> None:
    _, stat = await session.create("/t/e", b"x", ephemeral=True)
    assert stat.ephemeral_owner == session.session_id
    path, stat = await session.create("/t/s-", ephemeral=True, sequential=True)
    assert path == "/t/s-0000000001"
    assert stat.ephemeral_owner == session.session_id


@scenario
async def ephemerals_have_no_children(session: Coordination) -> None:
    await session.create("/t/e", ephemeral=True)
    with pytest.raises(NoChildrenForEphemerals):
        await session.create("/t/e/a")


@scenario
async def a_multi_is_one_transaction(session: Coordination) -> None:
    await session.create("/t/old", b"x")
    created, numbered, changed, checked, deleted = await session.multi(
        [
            Create("/t/a", b"1"),
            Create("/t/a/n-", sequential=True),
            SetData("/t/a", b"2", version=0),
            Check("/t/a", version=1),
            Delete("/t/old"),
        ]
    )
    assert isinstance(created, Created) and isinstance(numbered, Created)
    assert isinstance(changed, Stat)
    assert (created.path, numbered.path) == ("/t/a", "/t/a/n-0000000000")
    assert checked is None and deleted is None
    data, stat = await session.get("/t/a")
    assert (data, stat.version) == (b"2", 1)
    assert stat.czxid == stat.mzxid == stat.pzxid == created.stat.czxid == changed.mzxid
    assert await session.children("/t") == ["a"]


@scenario
async def a_multi_that_fails_does_nothing(session: Coordination) -> None:
    await session.create("/t/a", b"0")
    before = await session.get("/t"), await session.get("/t/a")
    failure = await failed_multi(
        session,
        SetData("/t/a", b"1"),
        Create("/t/b", ephemeral=True),
        Delete("/t/a"),
        Create("/t/b"),
    )
    assert (failure.index, type(failure.cause), failure.cause.path) == (3, NodeExists, "/t/b")
    assert (await session.get("/t"), await session.get("/t/a")) == before
    assert (await session.create("/t/n-", sequential=True)).path == "/t/n-0000000001"


@scenario
async def a_multi_names_what_failed(session: Coordination) -> None:
    await session.create("/t/a")
    await session.create("/t/a/b")
    cases: list[tuple[Op, type[CoordinationError]]] = [
        (Check("/t/missing"), NoNode),
        (Check("/t", version=5), BadVersion),
        (SetData("/t", b"", version=5), BadVersion),
        (SetData("/t/missing", b""), NoNode),
        (Delete("/t/missing"), NoNode),
        (Delete("/t/a"), NotEmpty),
        (Create("/t/a"), NodeExists),
        (Create("/t/missing/a"), NoNode),
    ]
    for op, error in cases:
        failure = await failed_multi(session, Check("/t"), op)
        assert (failure.index, type(failure.cause), failure.cause.path) == (1, error, op.path)


@scenario
async def an_empty_multi_is_fine(session: Coordination) -> None:
    assert await session.multi([]) == []


@scenario
async def requests_take_effect_in_the_order_of_the_calls(session: Coordination) -> None:
    session.create("/t/a", b"0")
    session.set("/t/a", b"1")
    first = session.get("/t/a")
    session.delete("/t/a")
    none = session.exists("/t/a")
    session.create("/t/a", b"2")
    second = session.get("/t/a")
    assert ((await first).data, await none, (await second).data) == (b"1", None, b"2")


@scenario
async def a_data_watch_sees_one_set(session: Coordination) -> None:
    seen = Seen()
    await session.create("/t/a")
    await session.get("/t/a", seen)
    await session.create("/t/a/child")
    await session.set("/t/a", b"1")
    await session.set("/t/a", b"2")
    await all_events(session)
    assert seen.events == [(WatchKind.DATA_CHANGED, "/t/a")]


@scenario
async def a_data_watch_sees_the_deletion(session: Coordination) -> None:
    seen = Seen()
    await session.create("/t/a")
    await session.exists("/t/a", seen)
    await session.delete("/t/a")
    await session.create("/t/a")
    await all_events(session)
    assert seen.events == [(WatchKind.DELETED, "/t/a")]


@scenario
async def a_watch_on_nothing_sees_the_creation(session: Coordination) -> None:
    seen = Seen()
    assert await session.exists("/t/a", seen) is None
    await session.create("/t/a")
    await session.set("/t/a", b"1")
    await all_events(session)
    assert seen.events == [(WatchKind.CREATED, "/t/a")]


@scenario
async def reads_of_nothing_leave_no_watch(session: Coordination) -> None:
    seen = Seen()
    with pytest.raises(NoNode):
        await session.get("/t/a", seen)
    with pytest.raises(NoNode):
        await session.children("/t/a", seen)
    await session.create("/t/a")
    await session.create("/t/a/b")
    await all_events(session)
    assert seen.events == []


@scenario
async def a_child_watch_sees_children_come_and_go(session: Coordination) -> None:
    seen = Seen()
    await session.children("/t", seen)
    await session.set("/t", b"1")
    await session.create("/t/a")
    await session.create("/t/b")
    await all_events(session)
    assert seen.events == [(WatchKind.CHILDREN_CHANGED, "/t")]
    await session.children("/t", seen)
    await session.set("/t/a", b"1")
    await session.create("/t/a/below")
    await session.delete("/t/b")
    await all_events(session)
    assert seen.events == [(WatchKind.CHILDREN_CHANGED, "/t")] * 2


@scenario
async def a_child_watch_sees_the_deletion_of_its_node(session: Coordination) -> None:
    seen = Seen()
    await session.create("/t/a")
    await session.children("/t/a", seen)
    await session.delete("/t/a")
    await all_events(session)
    assert seen.events == [(WatchKind.DELETED, "/t/a")]


@scenario
async def one_callable_is_called_once_for_one_change(session: Coordination) -> None:
    seen = Seen()
    await session.create("/t/a")
    await session.get("/t/a", seen)
    await session.get("/t/a", seen)
    await session.exists("/t/a", seen)
    await session.children("/t/a", seen)
    await session.delete("/t/a")
    await all_events(session)
    assert seen.events == [(WatchKind.DELETED, "/t/a")]


@scenario
async def different_callables_are_all_called(session: Coordination) -> None:
    first, second = Seen(), Seen()
    await session.exists("/t/a", first)
    await session.exists("/t/a", second)
    await session.create("/t/a")
    await all_events(session)
    assert first.events == second.events == [(WatchKind.CREATED, "/t/a")]


@scenario
async def a_multi_fires_watches_in_the_order_of_its_operations(session: Coordination) -> None:
    seen = Seen()
    await session.create("/t/a")
    await session.get("/t/a", seen)
    await session.exists("/t/b", seen)
    await session.children("/t", seen)
    await session.multi([SetData("/t/a", b"1"), Create("/t/b")])
    await all_events(session)
    assert seen.events == [
        (WatchKind.DATA_CHANGED, "/t/a"),
        (WatchKind.CREATED, "/t/b"),
        (WatchKind.CHILDREN_CHANGED, "/t"),
    ]


@scenario
async def a_failed_multi_fires_no_watch(session: Coordination) -> None:
    seen = Seen()
    await session.get("/t", seen)
    await session.exists("/t/a", seen)
    await session.children("/t", seen)
    await failed_multi(session, SetData("/t", b"1"), Create("/t/a"), Delete("/t/missing"))
    await all_events(session)
    assert seen.events == []


@scenario
async def events_come_before_later_answers(session: Coordination) -> None:
    seen = Seen()
    await session.get("/t", seen)
    await session.set("/t", b"1")
    await session.get("/t")
    assert seen.events == [(WatchKind.DATA_CHANGED, "/t")]
