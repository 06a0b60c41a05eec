"""The client of a cluster: it learns from metadata who leads and who coordinates, and asks them.

The rules are those of the stock clients (3.9, `Metadata`, `ConsumerMetadata`): metadata with an
older leader epoch of the same topic is not believed (KIP-320), and after an error that says that
it may be out of date it is asked for again.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple
from uuid import UUID

from kavka.wire.errors import ErrorCode as Code
from sim.client import BACKOFF_S, Client, Connection, Leader
from sim.history import Place
from sim.loop import Process
from sim.network import HostNetwork

OUT_OF_DATE: Final = frozenset(
    {
        Code.NOT_LEADER_OR_FOLLOWER,
        Code.LEADER_NOT_AVAILABLE,
        Code.FENCED_LEADER_EPOCH,
        Code.UNKNOWN_LEADER_EPOCH,
        Code.OFFSET_NOT_AVAILABLE,
        Code.KAFKA_STORAGE_ERROR,
        Code.REPLICA_NOT_AVAILABLE,
        Code.UNKNOWN_TOPIC_OR_PARTITION,
        Code.UNKNOWN_TOPIC_ID,
        Code.NOT_COORDINATOR,
        Code.COORDINATOR_NOT_AVAILABLE,
        Code.NOT_CONTROLLER,
    }
)

BY_LEADER: Final[Mapping[str, tuple[str, str, str, str]]] = {
    "Produce": ("topic_data", "name", "partition_data", "index"),
    "Fetch": ("topics", "topic", "partitions", "partition"),
    "ListOffsets": ("topics", "name", "partitions", "partition_index"),
    "DeleteRecords": ("topics", "name", "partitions", "partition_index"),
}
"""Where the first of a request's partitions is: those of other leaders are not asked for in it."""

BY_CONTROLLER: Final = frozenset(
    {
        "CreateTopics",
        "DeleteTopics",
        "CreatePartitions",
        "ElectLeaders",
        "AlterPartitionReassignments",
        "ListPartitionReassignments",
    }
)
GROUP, TRANSACTION = 0, 1
"""Types of coordinators."""

CONNECTED_SHARE: Final = 0.8
"""Of the requests that any broker can answer, those that go to one that is connected already."""


class _Known(NamedTuple):
    topic_id: UUID
    leader: int
    epoch: int


class ClusterClient(Client):
    """A client of several brokers, with a connection to each that it asks."""

    def __init__(
        self,
        process: Process,
        network: HostNetwork,
        brokers: Mapping[int, tuple[str, int]],
        chance: random.Random,
    ) -> None:
        super().__init__(process, network, brokers[min(brokers)])
        self._brokers = brokers
        self._chance = chance
        self._open: dict[int, Connection] = {}
        self._leaders: dict[Place, _Known] = {}
        self._latest: dict[Place, _Known] = {}
        """With the highest leader epoch that was ever heard of."""
        self._controller: int | None = None
        self._coordinators: dict[tuple[int, str], int] = {}

    def another(self) -> ClusterClient:
        return ClusterClient(self.process, self._network, self._brokers, self._chance)

    async def connection(self) -> Connection:
        """To any broker."""
        while True:
            reuses = self._open and self._chance.random() < CONNECTED_SHARE
            broker_id = self._chance.choice(list(self._open if reuses else self._brokers))
            connection = await self._connected(broker_id)
            if connection is not None:
                return connection

    async def leader(self, place: Place) -> Leader:
        while True:
            known = await self._known(place)
            connection = await self._connected(known.leader)
            if connection is not None:
                return Leader(connection, known.epoch)

    async def ask(self, name: str, version: int, /, **values: Any) -> Any:
        connection = None
        while connection is None:
            connection = await self._connected(await self._broker_for(name, values))
        answer = await connection.ask(name, version, **values)
        if not OUT_OF_DATE.isdisjoint(codes(answer)):
            self.refresh()
        return answer

    def refresh(self) -> None:
        self._leaders.clear()
        self._coordinators.clear()
        self._controller = None

    def hang_up(self) -> None:
        for connection in self._open.values():
            connection.close()
        self._open.clear()
        self.refresh()

    async def _connected(self, broker_id: int) -> Connection | None:
        """A connection to a broker; None if it can't be reached, after a while."""
        connection = self._open.get(broker_id)
        if connection is not None and connection.is_open:
            return connection
        try:
            transport = await self._network.connect(*self._brokers[broker_id], Connection)
        except OSError:
            self._open.pop(broker_id, None)
            self.refresh()
            await asyncio.sleep(BACKOFF_S)
            return None
        made = transport.get_protocol()
        assert isinstance(made, Connection)
        self._open[broker_id] = made
        return made

    async def _ask_any(self, name: str, version: int, /, **values: Any) -> Any:
        """Any broker's answer."""
        while True:
            try:
                return await (await self.connection()).ask(name, version, **values)
            except OSError:
                self.hang_up()
                await asyncio.sleep(BACKOFF_S)

    # -- who is asked ---------------------------------------------------------------------

    async def _broker_for(self, name: str, values: Mapping[str, Any]) -> int:
        if (where := BY_LEADER.get(name)) is not None:
            topics, topic, partitions, partition = where
            first = values[topics][0]
            return (await self._known((first[topic], first[partitions][0][partition]))).leader
        if name in BY_CONTROLLER:
            return await self._find_controller()
        if (key := _coordinated(name, values)) is not None:
            return await self._find_coordinator(*key)
        return self._chance.choice(list(self._brokers))

    async def _known(self, place: Place) -> _Known:
        while (known := self._leaders.get(place)) is None:
            answer = await self._ask_any(
                "Metadata",
                12,
                topics=[{"name": place[0], "topic_id": None}],
                allow_auto_topic_creation=False,
            )
            self._take(answer)
            if place not in self._leaders:
                await asyncio.sleep(BACKOFF_S)
        return known

    def _take(self, answer: Any) -> None:
        for topic in answer.topics:
            for partition in topic.partitions:
                place = (topic.name, partition.partition_index)
                found = _Known(topic.topic_id, partition.leader_id, partition.leader_epoch)
                before = self._latest.get(place)
                if before is not None and before.topic_id == found.topic_id:
                    if found.epoch < before.epoch:
                        continue
                self._latest[place] = found
                if found.leader in self._brokers:
                    self._leaders[place] = found

    async def _find_controller(self) -> int:
        while (found := self._controller) is None:
            answer = await self._ask_any("Metadata", 12, topics=[])
            if answer.controller_id in self._brokers:
                self._controller = answer.controller_id
            else:
                await asyncio.sleep(BACKOFF_S)
        return found

    async def _find_coordinator(self, kind: int, key: str) -> int:
        while (found := self._coordinators.get((kind, key))) is None:
            answer = await self._ask_any("FindCoordinator", 2, key=key, key_type=kind)
            if answer.error_code == Code.NONE:
                self._coordinators[kind, key] = answer.node_id
            else:
                await asyncio.sleep(BACKOFF_S)
        return found


def _coordinated(name: str, values: Mapping[str, Any]) -> tuple[int, str] | None:
    """The type and key of the coordinator that a request is for."""
    if name == "OffsetFetch":
        return GROUP, values["groups"][0]["group_id"]
    if "group_id" in values:
        return GROUP, values["group_id"]
    key = values.get("transactional_id") or values.get("v3_and_below_transactional_id")
    return None if key is None else (TRANSACTION, key)


def codes(message: Any) -> Iterator[int]:
    """All error codes in an answer."""
    for field in message._struct._fields:
        value = getattr(message, field.name)
        if field.name.endswith("error_code"):
            yield value
        elif isinstance(value, list):
            for element in value:
                if getattr(element, "_struct", None) is not None:
                    yield from codes(element)
