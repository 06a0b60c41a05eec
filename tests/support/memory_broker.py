"""A whole broker in this process, on virtual time, with disk and network in memory.

    @scenario()
    async def test_something(broker: MemoryBroker) -> None:
        await broker.create("t")
        answer = await broker.ask("Metadata", 12, topics=None)

Nothing takes real time: an answer that needs time to pass comes when the test lets it pass
(`advance`). A failure inside the broker that is not handled fails the test.
"""

from __future__ import annotations

import asyncio
import inspect
import random
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar
from uuid import UUID

import pytest

from kavka.compat_tests.raw.codec.wire_client import by_topic, new_topic
from kavka.log.fs import FileSystem
from kavka.log.memfs import MemFs
from kavka.seams import Clock, Jobs, Pool, Tasks
from kavka.server.broker import Broker
from kavka.server.config import BrokerSettings
from kavka.server.connections.registry import Connections
from kavka.server.coordination.embedded import open_embedded
from kavka.server.instance import Instance
from kavka.server.replica.partition_state import LeaderAndIsrState
from kavka.server.replica.replica import Replica
from kavka.zktree.api import Coordination
from support.logs import Read, parse
from support.loop_context import collect_lost_failures
from support.memory_network import CLIENT_HOST, Client, MemoryNetwork, until
from support.virtual import (
    DeferredJobs,
    VirtualClock,
    VirtualTasks,
    VirtualTimer,
    do,
    run_until_idle,
)

P = ParamSpec("P")
T = TypeVar("T")
DATA = "/data"
BESIDE = "/beside"
NO_ERROR = 0

NEVER_AWAITED = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
"""A process that dies leaves coroutines that would have been awaited if it had lived."""


class LifeTasks(VirtualTasks):
    """Tasks of one process: they end with it, and their failures are kept for the test."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(clock)
        self.failures: list[BaseException] = []
        self._alive: dict[asyncio.Task[Any], None] = {}
        self._dead = False

    def spawn(self, coroutine: Coroutine[Any, Any, Any], *, name: str) -> asyncio.Task[Any]:
        if self._dead:
            coroutine.close()
            raise asyncio.CancelledError
        task = asyncio.get_running_loop().create_task(coroutine, name=name)
        self._alive[task] = None
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        del self._alive[task]
        if not task.cancelled() and (failure := task.exception()) is not None:
            self.failures.append(failure)

    def call_soon(self, callback: Callable[..., object], *args: Any) -> None:
        super().call_soon(self._call, callback, args)

    def call_later(
        self, delay_s: float, callback: Callable[..., object], *args: Any
    ) -> VirtualTimer:
        return super().call_later(delay_s, self._call, callback, args)

    def _call(self, callback: Callable[..., object], args: Sequence[Any]) -> None:
        if not self._dead:
            callback(*args)

    @property
    def names(self) -> list[str]:
        """What runs."""
        return [task.get_name() for task in self._alive]

    def silence(self) -> None:
        """Nothing is called any more, and nothing begun."""
        self._dead = True

    async def die(self) -> None:
        """Nothing of it runs any further."""
        self.silence()
        for task in list(self._alive):
            task.cancel()
        await run_until_idle()


READS = "_MemFile.pread"
"""The jobs that read a log when it is loaded."""


class HoldableJobs(DeferredJobs):
    """Jobs done some iterations of the loop later or, while they are held, at `release`."""

    def __init__(self, seed: int = 1) -> None:
        super().__init__(seed)
        self._held: list[tuple[asyncio.Future[Any], Callable[..., Any], tuple[Any, ...]]] | None
        self._held = None
        self._holding = ""
        self.done: list[str] = []
        """Names of the functions that have run."""

    def run(self, pool: Pool, function: Callable[..., Any], *args: Any) -> Awaitable[Any]:
        if self._held is None or not function.__qualname__.startswith(self._holding):
            self.done.append(function.__qualname__)
            return super().run(pool, function, *args)
        result: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._held.append((result, function, args))
        return result

    def hold(self, name: str = "") -> None:
        """Begin nothing, or no function whose name begins so, until `release`."""
        self._held = []
        self._holding = name

    @property
    def held(self) -> list[str]:
        """Names of the functions that wait."""
        return [function.__qualname__ for _, function, _ in self._held or ()]

    def release(self) -> None:
        """Do what waits, and go on as usual."""
        held, self._held = self._held or [], None
        for result, function, args in held:
            self.done.append(function.__qualname__)
            do(result, function, args)


async def open_beside(
    fs: FileSystem, directory: str, *, clock: Clock, tasks: Tasks, jobs: Jobs
) -> Coordination:
    """In the place of ZooKeeper: its files are not in a log directory."""
    fs.make_dir(BESIDE)
    return await open_embedded(fs, BESIDE, clock=clock, tasks=tasks, jobs=jobs)


class MemoryBroker:
    """One broker, its disk and one client; it can die and be started again on the same disk."""

    def __init__(
        self,
        *overrides: str,
        fs: MemFs | None = None,
        network: MemoryNetwork | None = None,
        seed: int = 1,
        in_cluster: bool = False,
    ) -> None:
        """`in_cluster`: it may have others beside it, and serves what brokers ask each other."""
        self.in_cluster = in_cluster
        self.overrides = list(overrides)
        self.fs = fs or MemFs()
        self.clock = VirtualClock()
        self.fs.now_ms = self.clock.now_ms
        self.random = random.Random(seed)
        self.failed = 0
        """How often the broker has said that it can't go on."""
        self._new_life(network or MemoryNetwork())

    def _new_life(self, network: MemoryNetwork) -> None:
        overrides = [f"log.dirs={DATA}", "listeners=PLAINTEXT://127.0.0.1:0", *self.overrides]
        if self.in_cluster:
            overrides += ["broker.id=1", "zookeeper.connect=in-memory:2181"]
        self.settings = BrokerSettings.load(environ={}, overrides=overrides)
        self.tasks = LifeTasks(self.clock)
        self.jobs = HoldableJobs(self.random.getrandbits(32))
        self.network = network
        self.instance = Instance(
            self.settings,
            clock=self.clock,
            tasks=self.tasks,
            jobs=self.jobs,
            random=self.random,
            fs=self.fs,
            network=self.network,
            on_failure=self._on_failure,
            open_coordination=open_beside if self.in_cluster else open_embedded,
        )

    # -- life and death -------------------------------------------------------------------

    async def start(self) -> None:
        """Start and connect."""
        await self.instance.start()
        self.client = self.connect()

    async def stop(self) -> None:
        """A clean stop. Fails with the first failure of the broker's tasks."""
        for replica in self.replicas():
            replica.partition.check_invariants()
        await self.instance.stop()
        await run_until_idle()
        assert not self.tasks.names, "these still run"
        await self.tasks.die()
        for failure in self.tasks.failures:
            raise failure

    async def restart(self, *overrides: str) -> None:
        """A clean stop and a start."""
        await self.stop()
        await self.revive(*overrides)

    async def kill(self, *overrides: str, holding: str | None = None) -> None:
        """SIGKILL, and a start on what had been written, perhaps `holding` jobs from then on."""
        await self.die()
        await self.revive(*overrides, holding=holding)

    async def crash(self, chance: random.Random | None = None) -> None:
        """A power cut, and a start on what had reached the disk (see `MemFs.crash`)."""
        await self.die()
        self.fs.crash(chance)
        await self.revive()

    async def die(self) -> None:
        """SIGKILL."""
        self.network.die()
        self.jobs.drop()
        await self.tasks.die()
        self.fs.kill()
        for failure in self.tasks.failures:
            raise failure

    async def end_abruptly(self) -> None:
        """`Instance.kill`, which a process that lives on uses instead of SIGKILL."""
        self.instance.kill()
        self.jobs.drop()
        await self.tasks.die()
        self.instance.release()
        for failure in self.tasks.failures:
            raise failure

    async def revive(self, *overrides: str, holding: str | None = None) -> None:
        """A start on the same disk, with further settings, after any kind of end."""
        self.overrides += overrides
        self._new_life(MemoryNetwork())
        if holding is not None:
            self.jobs.hold(holding)
        await self.start()

    def _on_failure(self) -> None:
        self.failed += 1

    async def advance(self, by_ms: float) -> None:
        """Let time pass."""
        await self.tasks.advance(by_ms)
        await run_until_idle()

    # -- asking ---------------------------------------------------------------------------

    def connect(self, listener: str = "PLAINTEXT", host: str = CLIENT_HOST) -> Client:
        """Another connection, from the address `host`."""
        names = [configured.name for configured in self.settings.listeners]
        ports = [port for port in self.network.ports if port != self.instance.http_port]
        return self.network.client(ports[names.index(listener)], host)

    async def ask(self, name: str, version: int, /, **values: Any) -> Any:
        """Ask on the first connection."""
        return await self.client.ask(name, version, **values)

    async def create(
        self, name: str, partitions: int = 1, configs: Mapping[str, str | None] | None = None
    ) -> UUID:
        """Make a topic; its id."""
        topic = new_topic(name, partitions, configs=configs)
        answer = await self.ask("CreateTopics", 7, timeout_ms=10_000, topics=[topic])
        assert answer.topics[0].error_code == NO_ERROR, answer
        topic_id: UUID = answer.topics[0].topic_id
        return topic_id

    async def produce(
        self,
        records: bytes | bytearray | None,
        topic: str = "t",
        partition: int = 0,
        *,
        version: int = 9,
        acks: int = -1,
        timeout_ms: int = 30_000,
    ) -> Any:
        """Write to one partition; its answer."""
        request = producing({(topic, partition): records}, acks=acks, timeout_ms=timeout_ms)
        answer = await self.ask("Produce", version, **request)
        return answer.responses[0].partition_responses[0]

    async def fetch(
        self,
        offset: int = 0,
        topic: str = "t",
        partition: int = 0,
        *,
        version: int = 12,
        max_bytes: int = 1 << 20,
        **values: Any,
    ) -> Any:
        """Read one partition without waiting; its answer. `values` are the partition's."""
        answer = await self.ask(
            "Fetch",
            version,
            **fetching({(topic, partition): offset}, max_bytes=max_bytes, **values),
        )
        return answer.responses[0].partitions[0]

    async def read_all(self, topic: str = "t", partition: int = 0) -> list[Read]:
        """All records, as a consumer gets them from the beginning on."""
        offset = (await self.list_offset(-2, topic, partition)).offset
        found: list[Read] = []
        while True:
            answer = await self.fetch(offset, topic, partition)
            assert answer.error_code == NO_ERROR, answer
            records = [record for record in parse(bytes(answer.records)) if record.offset >= offset]
            if not records:
                return found
            found += records
            offset = records[-1].offset + 1

    async def list_offset(
        self,
        timestamp: int,
        topic: str = "t",
        partition: int = 0,
        *,
        version: int = 9,
        isolation_level: int = 0,
        current_leader_epoch: int = -1,
    ) -> Any:
        """ListOffsets of one partition; its answer."""
        requested = {
            "partition_index": partition,
            "current_leader_epoch": current_leader_epoch,
            "timestamp": timestamp,
        }
        answer = await self.ask(
            "ListOffsets",
            version,
            replica_id=-1,
            isolation_level=isolation_level,
            topics=[{"name": topic, "partitions": [requested]}],
        )
        return answer.topics[0].partitions[0]

    def share(self, isr: tuple[int, ...], topic: str = "t", partition: int = 0) -> None:
        """Let a partition have a replica on broker 2 as well, and these in sync, as if
        LeaderAndIsr had said so. It is never heard of, so it lags."""
        self._place(topic, partition, isr, (isr[0], 2))

    def unshare(self, topic: str = "t", partition: int = 0) -> None:
        """Let a partition have its leader's replica only."""
        leader = self.replica(topic, partition).partition.leader
        self._place(topic, partition, (leader,), (leader,))

    def _place(
        self, topic: str, partition: int, isr: tuple[int, ...], replicas: tuple[int, ...]
    ) -> None:
        replica = self.replica(topic, partition)
        now = replica.partition
        version = now.partition_epoch + 1
        now.lead(LeaderAndIsrState(1, now.leader, now.leader_epoch, isr, version, replicas))
        self.parts.purgatory.changed(replica.key)

    # -- looking inside -------------------------------------------------------------------

    @property
    def parts(self) -> Broker:
        """The broker as its handlers see it."""
        connection: Any = self.client.transport.get_protocol()
        found: Broker = connection._dispatcher._broker
        return found

    @property
    def connections(self) -> Connections:
        """Those to the broker, and what became of others."""
        return self.instance._connections

    def replicas(self) -> list[Replica]:
        """What the broker hosts."""
        parts = self.instance._assembled
        return [] if parts is None else list(parts.replicas)

    def replica(self, topic: str = "t", partition: int = 0) -> Replica:
        """One of them."""
        return next(replica for replica in self.replicas() if replica.key == (topic, partition))


def producing(
    records: Mapping[tuple[str, int], bytes | bytearray | None],
    *,
    acks: int = -1,
    timeout_ms: int = 30_000,
    topic_ids: Mapping[str, UUID] | None = None,
) -> dict[str, Any]:
    """A Produce request of a batch for each (topic, partition)."""
    ids = topic_ids or {}
    return {
        "acks": acks,
        "timeout_ms": timeout_ms,
        "topic_data": [
            {
                "name": topic,
                "topic_id": ids.get(topic),
                "partition_data": [
                    {"index": partition, "records": batch}
                    for partition, batch in partitions.items()
                ],
            }
            for topic, partitions in by_topic(records).items()
        ],
    }


def fetching(
    offsets: Mapping[tuple[str, int], int],
    *,
    max_bytes: int = 1 << 20,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    request_max_bytes: int = 1 << 26,
    isolation_level: int = 0,
    session_id: int = 0,
    session_epoch: int = -1,
    current_leader_epoch: int = -1,
    last_fetched_epoch: int = -1,
    log_start_offset: int = -1,
    topic_ids: Mapping[str, UUID] | None = None,
) -> dict[str, Any]:
    """A Fetch request of these (topic, partition) from these offsets, without a session."""
    ids = topic_ids or {}
    return {
        "replica_id": -1,
        "max_wait_ms": max_wait_ms,
        "min_bytes": min_bytes,
        "max_bytes": request_max_bytes,
        "isolation_level": isolation_level,
        "session_id": session_id,
        "session_epoch": session_epoch,
        "topics": [
            {
                "topic": topic,
                "topic_id": ids.get(topic),
                "partitions": [
                    {
                        "partition": partition,
                        "current_leader_epoch": current_leader_epoch,
                        "fetch_offset": offset,
                        "last_fetched_epoch": last_fetched_epoch,
                        "log_start_offset": log_start_offset,
                        "partition_max_bytes": max_bytes,
                    }
                    for partition, offset in partitions.items()
                ],
            }
            for topic, partitions in by_topic(offsets).items()
        ],
    }


def scenario(
    *overrides: str,
    topics: Mapping[str, int] | None = None,
    start: bool = True,
    in_cluster: bool = False,
) -> Callable[
    [Callable[Concatenate[MemoryBroker, P], Coroutine[Any, Any, None]]], Callable[P, None]
]:
    """A test as a coroutine that is given a running broker, with `topics` of so many partitions.

    Other arguments are fixtures and parameters, as in any test.
    """

    def decorate(
        test: Callable[Concatenate[MemoryBroker, P], Coroutine[Any, Any, None]],
    ) -> Callable[P, None]:
        @wraps(test)
        def run(*args: P.args, **kwargs: P.kwargs) -> None:
            asyncio.run(_live(test, args, kwargs))

        async def _live(
            body: Callable[..., Coroutine[Any, Any, None]], args: Any, kwargs: Any
        ) -> None:
            lost = collect_lost_failures()
            broker = MemoryBroker(*overrides, in_cluster=in_cluster)
            if start:
                await broker.start()
            for name, partitions in (topics or {}).items():
                await broker.create(name, partitions)
            await body(broker, *args, **kwargs)
            if start:
                await broker.stop()
            assert not lost, lost

        signature = inspect.signature(test)
        parameters = list(signature.parameters.values())[1:]
        vars(run)["__signature__"] = signature.replace(parameters=parameters)
        marked: Callable[P, None] = NEVER_AWAITED(run)
        return marked

    return decorate


__all__ = ["Client", "MemoryBroker", "fetching", "producing", "scenario", "until"]
