"""What a broker asks others about transactions, in how many requests, and what it makes of the
answers."""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from typing import Any
from uuid import UUID

from kavka.client.errors import Disconnected
from kavka.server.cluster.metadata_cache import MetadataCache, PartitionImage, TopicImage
from kavka.server.replication import transaction_peers
from kavka.server.replication.transaction_peers import (
    RemoteMarker,
    TransactionEnd,
    TransactionPeers,
)
from kavka.wire.apis import add_partitions_to_txn, write_txn_markers
from kavka.wire.errors import ErrorCode as Code
from support.virtual import VirtualClock, VirtualTasks, run_until_idle

ALICE = TransactionEnd(7, 0, True, 3, 0)
BOB = TransactionEnd(8, 2, False, 3, 0)


class Peer:
    """Another broker: what it was asked, and answers as the test gives them."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.answers: deque[asyncio.Future[Any]] = deque()

    async def ask(self, api: Any, request: Any) -> Any:
        self.requests.append(request)
        self.answers.append(asyncio.get_running_loop().create_future())
        return await self.answers[-1]

    async def answer(self, answer: Any) -> None:
        """To the oldest request; an exception is what it fails with."""
        future = self.answers.popleft()
        if isinstance(answer, Exception):
            future.set_exception(answer)
        else:
            future.set_result(answer)
        await run_until_idle()


class Network:
    """`Peers` with one other broker, number 2."""

    def __init__(self) -> None:
        self.peer = Peer()
        self.is_closed = False

    def client(self, broker_id: int) -> Peer | None:
        return self.peer if broker_id == 2 else None

    def close(self) -> None:
        self.is_closed = True


class World:
    def __init__(self) -> None:
        network: Any = Network()
        self.network: Network = network
        self.peer = self.network.peer
        self.metadata = MetadataCache("c")
        tasks = VirtualTasks(VirtualClock())
        self.peers = TransactionPeers(
            1, self.metadata, coordinators=network, leaders=network, tasks=tasks
        )
        self.done: list[tuple[int, str, int, str]] = []

    async def send(self, end: TransactionEnd, *keys: tuple[str, int], broker_id: int = 2) -> None:
        for key in keys:
            done = partial(self._done, end.producer_id, key)
            self.peers.send(broker_id, RemoteMarker(end, key, done))
        await run_until_idle()

    def _done(self, producer_id: int, key: tuple[str, int], code: Code) -> None:
        self.done.append((producer_id, *key, code.name))

    def sent(self) -> list[list[tuple[Any, ...]]]:
        """Requests, with the markers of each."""
        return [
            [
                (
                    marker.producer_id,
                    marker.producer_epoch,
                    marker.transaction_result,
                    marker.coordinator_epoch,
                    {topic.name: list(topic.partition_indexes) for topic in marker.topics},
                )
                for marker in request.markers
            ]
            for request in self.peer.requests
        ]


def written(request: Any, code: Code = Code.NONE) -> Any:
    return write_txn_markers.error_response(request, code, 1)


async def test_one_request_at_a_time_has_all_markers_that_wait() -> None:
    world = World()
    await world.send(ALICE, ("t", 0), ("t", 1), ("u", 0))
    await world.send(BOB, ("t", 0))
    assert world.sent() == [[(7, 0, True, 3, {"t": [0, 1], "u": [0]})]]
    await world.peer.answer(written(world.peer.requests[0]))
    assert world.sent()[1:] == [[(8, 2, False, 3, {"t": [0]})]]
    assert world.done == [(7, "t", 0, "NONE"), (7, "t", 1, "NONE"), (7, "u", 0, "NONE")]
    await world.peer.answer(written(world.peer.requests[1], Code.NOT_LEADER_OR_FOLLOWER))
    assert world.done[3:] == [(8, "t", 0, "NOT_LEADER_OR_FOLLOWER")]


async def test_two_ends_of_one_producer_are_not_in_one_request() -> None:
    """Answers do not say which of the two they mean."""
    world = World()
    await world.send(BOB, ("t", 0))
    await world.send(ALICE, ("t", 0))
    await world.send(ALICE._replace(producer_epoch=1), ("t", 0))
    for number in range(3):
        await world.peer.answer(written(world.peer.requests[number]))
    assert [[(marker[0], marker[1]) for marker in request] for request in world.sent()] == [
        [(8, 2)],
        [(7, 0)],
        [(7, 1)],
    ]


async def test_a_request_is_bounded(monkeypatch: Any) -> None:
    monkeypatch.setattr(transaction_peers, "MARKERS_PER_REQUEST_MAX", 2)
    world = World()
    await world.send(ALICE, *(("t", index) for index in range(5)))
    for number in range(3):
        await world.peer.answer(written(world.peer.requests[number]))
    assert [request[0][4] for request in world.sent()] == [{"t": [0, 1]}, {"t": [2, 3]}, {"t": [4]}]
    assert len(world.done) == 5


async def test_what_came_of_it_is_not_known() -> None:
    """When the response is lost, the broker is not known, or it does not answer for one."""
    world = World()
    await world.send(ALICE, ("t", 0))
    await world.peer.answer(Disconnected("gone"))
    await world.send(ALICE, ("t", 1), broker_id=3)
    await world.send(BOB, ("t", 2))
    await world.peer.answer(write_txn_markers.WriteTxnMarkersResponse([]))
    assert [outcome[3] for outcome in world.done] == ["NETWORK_EXCEPTION"] * 3


async def test_nothing_is_sent_after_the_end() -> None:
    world = World()
    world.peers.close()
    await world.send(ALICE, ("t", 0))
    assert not world.peer.requests
    assert world.network.is_closed


async def test_a_coordinator_is_asked_for_codes() -> None:
    world = World()
    partitions = [("t", 0), ("u", 3), ("t", 1)]
    asking = asyncio.ensure_future(world.peers.verify(2, ("tx", 7, 1), partitions, add=False))
    await run_until_idle()
    (request,) = world.peer.requests
    (txn,) = request.transactions
    assert (txn.transactional_id, txn.producer_id, txn.producer_epoch) == ("tx", 7, 1)
    assert txn.verify_only
    assert {topic.name: list(topic.partitions) for topic in txn.topics} == {"t": [0, 1], "u": [3]}
    results = [
        add_partitions_to_txn.TopicResult(
            "t",
            [
                add_partitions_to_txn.PartitionResult(1, Code.INVALID_TXN_STATE),
                add_partitions_to_txn.PartitionResult(0, Code.NONE),
            ],
        )
    ]
    await world.peer.answer(
        add_partitions_to_txn.AddPartitionsToTxnResponse(
            results_by_transaction=[add_partitions_to_txn.TransactionResult("tx", results)]
        )
    )
    assert await asking == [Code.NONE, Code.UNKNOWN_SERVER_ERROR, Code.INVALID_TXN_STATE]


async def test_a_coordinator_that_can_t_be_asked() -> None:
    world = World()
    verify = partial(world.peers.verify, producer=("tx", 7, 1), partitions=[("t", 0)], add=True)
    assert await verify(3) == [Code.COORDINATOR_NOT_AVAILABLE]
    asking = asyncio.ensure_future(verify(2))
    await run_until_idle()
    assert not world.peer.requests[0].transactions[0].verify_only
    await world.peer.answer(Disconnected("gone"))
    assert await asking == [Code.NETWORK_EXCEPTION]
    asking = asyncio.ensure_future(verify(2))
    await run_until_idle()
    refused = add_partitions_to_txn.AddPartitionsToTxnResponse(Code.CLUSTER_AUTHORIZATION_FAILED)
    await world.peer.answer(refused)
    assert await asking == [Code.CLUSTER_AUTHORIZATION_FAILED]


def test_who_leads_elsewhere() -> None:
    world = World()
    partitions = tuple(
        PartitionImage(index, leader, 0, (1, 2), (1, 2), (), 0)
        for index, leader in enumerate((1, 2, -1))
    )
    topic = TopicImage("t", UUID(int=1), partitions)
    world.metadata.image = world.metadata.image.__class__("c", topics={"t": topic})
    found = [world.peers.leader_elsewhere(("t", index)) for index in range(4)]
    assert found == [None, 2, None, None]
    assert world.peers.leader_elsewhere(("unknown", 0)) is None
