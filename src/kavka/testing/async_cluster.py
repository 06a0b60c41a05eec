"""Brokers on the caller's event loop: `async with kavka.testing.AsyncCluster() as cluster:`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, Final, Self, TypeVar

from kavka.server.broker import Broker as Parts
from kavka.server.config import BrokerSettings, ConfigError
from kavka.server.coordination.shared import SharedCoordination
from kavka.server.host import Host, socket_network
from kavka.server.runtime.clock import SystemClock
from kavka.server.runtime.tasks import LoopTasks
from kavka.testing.async_broker import NOTHING, AsyncBroker
from kavka.testing.client import BROKER_DEFAULT, READ_WITHIN_S, Client, Record
from kavka.testing.cuts import CutNetwork, Cuts
from kavka.testing.lifetime import AsyncClosing
from kavka.testing.settings import text_of
from kavka.wire.errors import ApiError, ErrorCode
from kavka.zktree.paths import TOPICS

T = TypeVar("T")

WITHIN_S: Final = 30.0
"""How long waits take at most by default."""

_IN_THIS_PROCESS: Final = "in-this-process:2181"
"""As `zookeeper.connect`: the brokers share a coordination service in memory."""

_NOT_FOR_ALL: Final = (
    "broker.id",
    "broker.rack",
    "zookeeper.connect",
    "log.dirs",
    "log.dir",
    "listeners",
)
"""Each broker has its own."""


class _Member(AsyncBroker):
    """One broker of a cluster."""

    def __init__(
        self, cluster: AsyncCluster, broker_id: int, settings: Mapping[str, object]
    ) -> None:
        super().__init__(settings=settings)
        self._cluster = cluster
        self._broker_id = broker_id

    def _new_host(self, settings: BrokerSettings) -> Host:
        return self._cluster.new_host(self._broker_id, settings, self._on_failure)

    def _started(self, parts: Parts) -> None:
        assert parts.control is not None
        parts.control.on_metadata.append(lambda update: self._cluster.changed())


class AsyncCluster(AsyncClosing):
    """Several brokers in this process, on the loop that runs when they are started.

    As `kavka.testing.Cluster`, which documents the arguments and methods; but methods that take
    time are coroutines here.
    """

    def __init__(
        self,
        brokers: int = 3,
        *,
        first_port: int = 0,
        racks: Sequence[str] = (),
        settings: Mapping[str, object] = NOTHING,
        **keywords: object,
    ) -> None:
        if brokers < 1:
            raise ValueError("a cluster has at least one broker")
        if racks and len(racks) != brokers:
            raise ValueError(f"{len(racks)} racks for {brokers} brokers: each has one, or none has")
        given = _given(settings, keywords)
        self._brokers: dict[int, _Member] = {}
        for broker_id in range(1, brokers + 1):
            port = first_port + broker_id - 1 if first_port else 0
            own = {
                "broker.id": broker_id,
                "zookeeper.connect": _IN_THIS_PROCESS,
                "listeners": f"PLAINTEXT://127.0.0.1:{port}",
            }
            if racks:
                own["broker.rack"] = racks[broker_id - 1]
            self._brokers[broker_id] = _Member(self, broker_id, _defaults(brokers) | given | own)
        self._service: SharedCoordination | None = None
        self._cuts: Cuts | None = None
        self._changed: asyncio.Event | None = None
        self._changes = 0
        """How often brokers have had other metadata."""

    # -- the life of brokers --------------------------------------------------------------

    async def start(self, broker_id: int | None = None) -> Self:
        """Start one broker, or all that do not run."""
        if self._service is None:
            self._service = SharedCoordination(SystemClock(), LoopTasks(asyncio.get_running_loop()))
            self._cuts, self._changed = Cuts(), asyncio.Event()
        those = [broker_id] if broker_id is not None else self._down()
        await asyncio.gather(*(self._broker(one).start() for one in those))
        await self._until(lambda: self._knows(those), "the controller does not know all brokers")
        return self

    async def stop(self, broker_id: int | None = None) -> None:
        """Stop one broker cleanly, or one after the other: first others lead what it leads."""
        for broker in self._those(broker_id):
            await broker.stop()

    async def kill(self, broker_id: int | None = None) -> None:
        """End one broker as SIGKILL does, or all at once."""
        results = await asyncio.gather(
            *(broker.kill() for broker in self._those(broker_id)), return_exceptions=True
        )
        for failure in results:
            if isinstance(failure, BaseException):
                raise failure

    async def close(self) -> None:
        """End all, and release ports and data. BrokerFailed if one had stopped after an error."""
        self.heal()
        try:
            await self.kill()
        finally:
            self.forget()

    def forget(self) -> None:
        """Release the ports and data of brokers that do not run."""
        for broker in self._brokers.values():
            broker.forget()
        if self._service is not None:
            self._service.close()
            self._service = None

    def _those(self, broker_id: int | None) -> list[_Member]:
        return list(self._brokers.values()) if broker_id is None else [self._broker(broker_id)]

    def new_host(
        self, broker_id: int, settings: BrokerSettings, on_failure: Callable[[], object]
    ) -> Host:
        """What runs one of its brokers."""
        assert self._service is not None and self._cuts is not None, "it is being started"
        network = socket_network(settings, asyncio.get_running_loop())
        timeout_s = settings.zookeeper_session_timeout_ms / 1000
        return Host(
            settings,
            on_failure,
            network=CutNetwork(network, broker_id, self._cuts),
            open_coordination=self._service.opener(timeout_s),
        )

    # -- faults ---------------------------------------------------------------------------

    def partition(self, broker_id: int, from_: Sequence[int]) -> None:
        """Cut the network between one broker and others; clients still reach all."""
        self._broker(broker_id)
        for other in from_:
            self._broker(other)
        if self._cuts is None:
            raise RuntimeError("the cluster does not run")
        self._cuts.separate(broker_id, from_)

    def heal(self) -> None:
        """Undo all cuts of the network."""
        if self._cuts is not None:
            self._cuts.heal()

    # -- what it is like ------------------------------------------------------------------

    @property
    def brokers(self) -> Mapping[int, AsyncBroker]:
        """The brokers by id: 1, 2, ..."""
        return MappingProxyType(self._brokers)

    @property
    def bootstrap_servers(self) -> str:
        """`host:port,host:port,...` for clients, of all brokers."""
        return ",".join(broker.bootstrap_servers for broker in self._brokers.values())

    @property
    def controller(self) -> int | None:
        """The broker that is the controller; None while there is none."""
        found = [one for one, parts in self._running() if parts.controller.is_active]
        return max(found, key=self._controller_epoch, default=None)

    def _controller_epoch(self, broker_id: int) -> int:
        parts = self._brokers[broker_id].parts
        return 0 if parts is None else parts.controller.epoch

    def leader_of(self, topic: str, partition: int = 0) -> int | None:
        """The broker that leads a partition; None while no running broker does."""
        for leader, index, _, _ in self._partitions(topic):
            if index == partition:
                return leader if leader in dict(self._running()) else None
        raise KeyError(f"there is no partition {topic}-{partition}")

    async def wait_until_in_sync(
        self, topic: str | None = None, *, within_s: float = WITHIN_S
    ) -> None:
        """Wait until every replica of a topic, or of all, is in sync, and every partition has a
        leader. TimeoutError."""

        def lagging() -> list[str]:
            known, names = self._image().topics, self._names(topic)
            return [f"{name} (not known yet)" for name in names if name not in known] + [
                f"{name}-{index} (leader {leader}, ISR {list(isr)} of {list(replicas)})"
                for name in names
                if name in known
                for leader, index, replicas, isr in self._partitions(name)
                if leader <= 0 or set(isr) != set(replicas)
            ]

        await self._until(lambda: not lagging(), lambda: f"not in sync: {lagging()}", within_s)

    # -- topics and records ---------------------------------------------------------------

    async def create_topic(
        self,
        name: str,
        partitions: int | None = None,
        *,
        replication_factor: int | None = None,
        configs: Mapping[str, object] = NOTHING,
    ) -> None:
        """Create a topic; all brokers that run know it then, and its replicas are in sync."""
        texts = {key: text_of(key, value, f"topic {name}") for key, value in configs.items()}
        count = BROKER_DEFAULT if partitions is None else partitions
        factor = BROKER_DEFAULT if replication_factor is None else replication_factor
        client = await self._controller_client()
        await client.create_topic(name, count, texts, replication_factor=factor)
        await self._until(lambda: self._all_know(name), f"not all brokers know topic {name}")

    async def delete_topic(self, name: str) -> None:
        """Delete a topic; afterwards its name is free."""
        await (await self._controller_client()).delete_topic(name)

    async def topics(self) -> list[str]:
        """The names of all topics but Kafka's internal ones, sorted."""
        return await (await self._controller_client()).topics()

    async def produce(
        self, topic: str, value: bytes | None, *, partition: int = 0, **more: Any
    ) -> int:
        """Write one record, which all in-sync replicas have then. Returns its offset. It may be
        there twice if its leader dies meanwhile."""
        while True:
            before = self._changes
            broker = await self._leader(topic, partition)
            try:
                return await broker.produce(topic, value, partition=partition, **more)
            except ApiError as refusal:
                if refusal.code is not ErrorCode.NOT_LEADER_OR_FOLLOWER:
                    raise
            await self._until(
                partial(self._has_changed_since, before), f"{topic}-{partition} has no leader"
            )

    async def read(
        self,
        topic: str,
        partition: int | None = None,
        *,
        at_least: int = 0,
        within_s: float = READ_WITHIN_S,
    ) -> list[Record]:
        """All records of a topic, or of one of its partitions, by partition and offset."""
        if partition is not None:
            leader = await self._leader(topic, partition)
            await self._caught_up(leader, topic, partition)
            return await leader.read(topic, partition, at_least=at_least, within_s=within_s)
        if at_least:
            raise ValueError("at_least needs a partition: each has its own leader")
        found = []
        for _, index, _, _ in list(self._partitions(topic)):
            found += await self.read(topic, index, within_s=within_s)
        return found

    # -- within ---------------------------------------------------------------------------

    def changed(self) -> None:
        """The metadata of a broker has changed."""
        self._changes += 1
        if self._changed is not None:
            self._changed.set()

    async def _until(
        self,
        condition: Callable[[], object],
        what: str | Callable[[], str],
        within_s: float = WITHIN_S,
    ) -> None:
        """Wait for a condition on the brokers' metadata. TimeoutError."""
        assert self._changed is not None, "it has been started"
        try:
            async with asyncio.timeout(within_s):
                while not condition():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            text = what if isinstance(what, str) else what()
            raise TimeoutError(f"after {within_s:g} s: {text}") from None

    def _has_changed_since(self, before: int) -> bool:
        return self._changes != before

    def _broker(self, broker_id: int) -> _Member:
        if broker_id not in self._brokers:
            known = ", ".join(map(str, self._brokers))
            raise KeyError(f"there is no broker {broker_id}: the brokers are {known}")
        return self._brokers[broker_id]

    def _down(self) -> list[int]:
        return [one for one, broker in self._brokers.items() if not broker.is_running]

    def _running(self) -> Iterator[tuple[int, Parts]]:
        for broker_id, broker in self._brokers.items():
            parts = broker.parts
            if parts is not None:
                yield broker_id, parts

    def _knows(self, those: Sequence[int]) -> bool:
        """Whether every broker's metadata has these."""
        images = [parts.metadata.image.brokers for _, parts in self._running()]
        return all(set(those) <= set(known) for known in images)

    def _all_know(self, name: str) -> bool:
        images = [parts.metadata.image.topics.get(name) for _, parts in self._running()]
        return all(
            topic is not None and all(one.leader > 0 for one in topic.partitions)
            for topic in images
        )

    def _image(self) -> Any:
        """The metadata of the controller's broker; of any, while there is no controller."""
        running = dict(self._running())
        if not running:
            raise RuntimeError("no broker runs")
        return running.get(self.controller or 0, next(iter(running.values()))).metadata.image

    def _names(self, topic: str | None) -> list[str]:
        """All topics, or this one. KeyError."""
        if self._service is None:
            raise RuntimeError("the cluster does not run")
        names = self._service.tree.children(TOPICS)
        if topic is not None and topic not in names:
            raise KeyError(f"there is no topic {topic}")
        return names if topic is None else [topic]

    def _partitions(self, topic: str) -> Iterator[tuple[int, int, Sequence[int], Sequence[int]]]:
        """Leader, number, replicas and ISR of each partition. KeyError."""
        found = self._image().topics.get(topic)
        if found is None:
            raise KeyError(f"there is no topic {topic}")
        for one in found.partitions:
            yield one.leader, one.partition, one.replicas, one.isr

    async def _leader(self, topic: str, partition: int) -> AsyncBroker:
        """The leader, once it knows that it is. KeyError, TimeoutError."""
        await self._until(
            lambda: self._leads(self.leader_of(topic, partition), topic, partition),
            f"{topic}-{partition} has no leader",
        )
        leader = self.leader_of(topic, partition)
        assert leader is not None
        return self._brokers[leader]

    async def _caught_up(self, leader: AsyncBroker, topic: str, partition: int) -> None:
        """Wait until a new leader knows which records its followers have: before, some that were
        acknowledged would be missing (KIP-207)."""
        parts = leader.parts
        replica = None if parts is None else parts.replicas.find(topic, partition)
        if parts is not None and replica is not None and replica.partition.is_catching_up:
            state = replica.partition
            await parts.purgatory.wait([replica.key], lambda: not state.is_catching_up, WITHIN_S)

    def _leads(self, broker_id: int | None, topic: str, partition: int) -> bool:
        parts = None if broker_id is None else self._brokers[broker_id].parts
        if parts is None or topic not in parts.metadata.image.topics:
            return False
        replica = parts.replicas.find(topic, partition)
        return replica is not None and replica.partition.is_leader

    async def _controller_client(self) -> Client:
        await self._until(lambda: self.controller, "there is no controller")
        assert self.controller is not None
        return self._brokers[self.controller].client


def _given(settings: Mapping[str, object], keywords: Mapping[str, object]) -> dict[str, object]:
    """The settings of all brokers by name. ConfigError for one that differs from broker to
    broker."""
    by_name = {keyword.replace("_", "."): value for keyword, value in keywords.items()}
    for key in (*settings, *by_name):
        if key in _NOT_FOR_ALL:
            raise ConfigError(f"{key}: each broker of the cluster has its own", key)
    if twice := settings.keys() & by_name.keys():
        key = min(twice)
        raise ConfigError(f"{key} is given twice: in settings and by keyword", key)
    return {**settings, **by_name}


def _defaults(brokers: int) -> dict[str, object]:
    """Default settings for so many brokers: three replicas of everything, if there are three."""
    replicas = min(brokers, 3)
    return {
        "default.replication.factor": replicas,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": min(brokers, 2),
        "controlled.shutdown.retry.backoff.ms": 100,
    }
