"""What a broker does in the tree before there is a controller."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from kavka.server.coordination.broker_registration import (
    cluster_id,
    ensure_paths,
    generate_broker_id,
    prepare_tree,
    register_broker,
)
from kavka.server.coordination.embedded import EmbeddedCoordination
from kavka.zktree import paths
from kavka.zktree.api import Create, NodeExists, Op, OpResult, SessionEvent, Stat
from kavka.zktree.paths import BrokerInfo, Endpoint
from support.embedded_coordination import new_fs, open_on
from support.kafka39 import CREATED as KAFKA
from support.virtual import VirtualClock

INFO = BrokerInfo((Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 23183),), rack="r1")


async def test_ensure_paths_creates_missing_nodes_in_one_transaction() -> None:
    session = await open_on(new_fs())
    await session.create("/a", b"kept")
    created = await ensure_paths(session, {"/a": b"not", "/b/c/d": b"new", "/b/e": None})
    assert created == ["/b/c/d", "/b/e"]
    nodes = {path: await session.get(path) for path in ("/a", "/b", "/b/c", "/b/c/d", "/b/e")}
    assert [node.data for node in nodes.values()] == [b"kept", None, None, b"new", None]
    assert len({nodes[path].stat.czxid for path in nodes if path != "/a"}) == 1
    before = await session.get("/b")
    assert await ensure_paths(session, {"/b/c/d": b"other"}) == []
    assert await session.get("/b") == before


class Interrupted:
    """A session whose first set of a node loses its connection; another broker sets the node before
    it is read what came of that."""

    def __init__(self, session: EmbeddedCoordination) -> None:
        self._session = session
        self._callbacks: list[Callable[[SessionEvent], object]] = []

    def on_session(self, callback: Callable[[SessionEvent], object]) -> None:
        self._callbacks.append(callback)

    async def set(self, path: str, data: bytes | None) -> Stat:
        mine = await self._session.set(path, data)
        if mine.version > 1:
            return mine
        for callback in self._callbacks:
            callback(SessionEvent.SUSPENDED)
        return await self._session.set(path, data)  # the other one's


async def test_generated_ids_are_the_versions_of_a_node() -> None:
    """`KafkaZkClient.generateBrokerSequenceId`: the first is reserved.broker.max.id + 1."""
    session = await open_on(new_fs())
    await prepare_tree(session)
    assert [await generate_broker_id(session, 1000) for _ in range(3)] == [1001, 1002, 1003]
    node = await session.get("/brokers/seqid")
    assert (node.data, node.stat.version) == (b"", 3)


async def test_an_id_that_another_broker_may_have_got_is_not_used() -> None:
    session = await open_on(new_fs())
    await prepare_tree(session)
    interrupted: Any = Interrupted(session)
    assert await generate_broker_id(interrupted, 5) == 8, "6 was lost, 7 is another broker's"


class Racing:
    """A session before whose first multi another broker creates a node."""

    def __init__(self, session: EmbeddedCoordination) -> None:
        self._session = session
        self._raced = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def multi(self, ops: Sequence[Op]) -> Awaitable[list[OpResult]]:
        if not self._raced:
            self._raced = True
            self._session.multi([Create("/a"), Create("/a/b", b"theirs")])
        return self._session.multi(ops)


async def test_ensure_paths_goes_on_when_another_broker_creates_them() -> None:
    session: Any = Racing(await open_on(new_fs()))
    assert await ensure_paths(session, {"/a/b": b"ours", "/a/c": None}) == ["/a/c"]
    assert (await session.get("/a/b")).data == b"theirs"


async def test_the_tree_is_prepared_as_by_apache_kafka() -> None:
    session = await open_on(new_fs())
    await prepare_tree(session)
    await cluster_id(session, "some-id")
    for path, theirs in KAFKA.items():
        top_only = path.split("/")[1] in ("controller", "controller_epoch", "feature")
        made_later = path.count("/") > 2 or path.startswith("/brokers/ids/")
        if not top_only and not made_later:
            assert (await session.exists(path)) is not None, path
            assert ((await session.get(path)).data is None) == (
                theirs["data"] is None or path == paths.PRODUCER_ID_BLOCK
            )


async def test_the_first_proposed_cluster_id_stays() -> None:
    session = await open_on(new_fs())
    assert await cluster_id(session, "first") == "first"
    assert await cluster_id(session, "second") == "first"


async def test_registration_as_by_apache_kafka() -> None:
    session, clock = await open_on(new_fs()), VirtualClock()
    await prepare_tree(session)
    epoch = await register_broker(session, 0, INFO, clock=clock)
    data, stat = await session.get("/brokers/ids/0")
    theirs = KAFKA["/brokers/ids/0"]
    timestamp = json.loads(theirs["data"])["timestamp"]
    assert data == theirs["data"].replace(timestamp, str(clock.now_ms())).encode()
    assert stat.version == theirs["version"]
    assert stat.ephemeral_owner == session.session_id
    assert stat.czxid == epoch
    assert await register_broker(session, 0, INFO, clock=clock) == epoch, "again is no error"


async def test_a_broker_id_of_another_session_is_refused() -> None:
    session = await open_on(new_fs())
    await prepare_tree(session)
    await session.create("/brokers/ids/0", b"{}")
    with pytest.raises(NodeExists):
        await register_broker(session, 0, INFO, clock=VirtualClock())


async def test_the_registration_of_an_earlier_process_is_taken_over() -> None:
    """It has the same addresses; another broker with this id has others."""
    session, clock = await open_on(new_fs()), VirtualClock()
    await prepare_tree(session)
    created = await session.create("/brokers/ids/0", paths.encode_broker(INFO, 1))
    epoch = await register_broker(session, 0, INFO, clock=clock, takes_over=True)
    assert epoch > created.stat.czxid
    data, stat = await session.get("/brokers/ids/0")
    assert paths.decode_broker(data) == INFO
    assert (stat.version, stat.ephemeral_owner) == (1, session.session_id)
    other = INFO._replace(endpoints=(INFO.endpoints[0]._replace(port=1),))
    await session.create("/brokers/ids/1", paths.encode_broker(other, 1))
    with pytest.raises(NodeExists):
        await register_broker(session, 1, INFO, clock=clock, takes_over=True)
    await session.delete("/brokers/ids/1")
    await session.create("/brokers/ids/1", paths.encode_broker(INFO, 1))
    with pytest.raises(NodeExists):
        await register_broker(session, 1, INFO, clock=clock)
