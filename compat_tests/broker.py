"""The broker under test, which the suite knows by its address; and a Kavka of the suite's own."""

from __future__ import annotations

import asyncio
import re
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from kavka.compat_tests.errors import DriverFailed
from kavka.testing.cluster import Cluster
from kavka.tools.admin.cluster_client import SERVER, ClusterClient, check_answer
from kavka.tools.admin.command import reached, way_of
from kavka.tools.admin.config_entities import BROKERS
from kavka.tools.admin.errors import Failed
from kavka.tools.admin.leader_election import AskedTopic as ElectedTopic
from kavka.tools.admin.leader_election import ElectLeadersRequest
from kavka.tools.admin.partition_offsets import offsets_at
from kavka.tools.admin.reassignment.requests import reassign
from kavka.tools.admin.requests import AskedResource, DescribeConfigsRequest
from kavka.tools.admin.resource_configs import RESOURCES
from kavka.wire.apis import create_topics, describe_configs, elect_leaders
from kavka.wire.apis.create_topics import CreateTopicsRequest, NewConfig, NewTopic

TIMEOUT_MS: Final = 30_000
LED_WITHIN_S: Final = 60.0
READY_WITHIN_S: Final = 60.0
END_WITHIN_S: Final = 30.0
DEFAULT: Final = -1
"""The replication factor that the broker chooses."""

CLUSTER: Final = 3
"""Brokers of the suite's own cluster."""

PREFERRED: Final = 0
"""The kind of election."""

LATEST: Final = -1
"""The time that asks for a partition's end."""

NO_LEADER: Final = -1
SETTINGS: Final = {"group.initial.rebalance.delay.ms": "0"}
"""Of the suite's own brokers: a group's first members are not waited for."""

_READY: Final = re.compile(r"ready on (\S+):(\d+)")


@dataclass
class Broker:
    """Its address, and requests of the suite itself. `restart`, if the suite can do that, returns
    when the broker answers again."""

    bootstrap: str
    admin: ClusterClient
    restart: Callable[[], Awaitable[None]] | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    """Of a Java client: TLS and the login that clients need."""

    async def create_topic(
        self, name: str, partitions: int, configs: Mapping[str, str], replicas: int = DEFAULT
    ) -> None:
        """A topic; the leaders of all partitions answer for them when this returns: clients without
        retries would stumble before that. tools.admin's Failed."""
        settings = [NewConfig(key, value) for key, value in configs.items()]
        topic = NewTopic(name, partitions, replicas, [], settings)
        request = CreateTopicsRequest([topic], TIMEOUT_MS)
        response = await self.admin.ask_controller(
            create_topics.API, request, lambda it: [one.error_code for one in it.topics]
        )
        for one in response.topics:
            check_answer(one.error_code, one.error_message)
        async for _ in self.admin.attempts(LED_WITHIN_S):
            found = (await self.admin.topics_named([name]))[name]
            led = [one for one in found.partitions if one.leader_id >= 0]
            if not found.error_code and len(led) == partitions:
                places = [(name, number) for number in range(partitions)]
                await offsets_at(self.admin, places, LATEST, LED_WITHIN_S)
                return
        raise Failed(f"topic {name} has no leaders after {LED_WITHIN_S:.0f} s")

    async def config(self, name: str) -> str | None:
        """A setting of the broker; None if it has none of this name. tools.admin's Failed."""
        broker = self.admin.brokers[0].node_id
        asked = AskedResource(RESOURCES[BROKERS].number, str(broker), [name])
        response = await self.admin.ask_broker(
            broker, describe_configs.API, DescribeConfigsRequest([asked])
        )
        (result,) = response.results
        check_answer(result.error_code, result.error_message)
        for one in result.configs:
            if one.name == name:
                value: str | None = one.value
                return value
        return None

    async def leader(self, topic: str) -> int:
        """The broker that leads a topic's first partition. tools.admin's Failed."""
        found = (await self.admin.topics_named([topic]))[topic]
        check_answer(found.error_code)
        leader: int = found.partitions[0].leader_id
        return leader

    async def await_leader(self, topic: str) -> None:
        """Wait until the leader of a topic's first partition answers. tools.admin's Failed."""
        await offsets_at(self.admin, [(topic, 0)], LATEST, LED_WITHIN_S)

    async def move_leader(self, topic: str) -> None:
        """Let another replica lead a topic's first partition: it becomes the preferred one.
        tools.admin's Failed."""
        before = await self.leader(topic)
        found = (await self.admin.topics_named([topic]))[topic]
        others = [one for one in found.partitions[0].replica_nodes if one != before]
        refused = await reassign(self.admin, {(topic, 0): [*others, before]})
        for why in refused.values():
            raise Failed(f"the replicas of {topic} can't be put into another order: {why}")
        async for _ in self.admin.attempts(LED_WITHIN_S):
            request = ElectLeadersRequest(PREFERRED, [ElectedTopic(topic, [0])])
            await self.admin.ask_controller(elect_leaders.API, request, lambda it: [it.error_code])
            if await self.leader(topic) not in (before, NO_LEADER):
                return
        raise Failed(f"broker {before} still leads {topic} after {LED_WITHIN_S:.0f} s")


@asynccontextmanager
async def given(bootstrap: str, config: Mapping[str, str]) -> AsyncIterator[Broker]:
    """One that runs already; `config`: properties as Java clients have them. tools.admin's
    Failed."""
    async with reached(way_of(bootstrap, SERVER, config)) as admin:
        yield Broker(bootstrap, admin, properties=config)


@asynccontextmanager
async def own() -> AsyncIterator[Broker]:
    """A Kavka on a free port, with its data in a temporary directory."""
    with TemporaryDirectory(prefix="kavka-compat-") as directory:
        process = OwnKavka(Path(directory))
        await process.start()
        try:
            async with reached(way_of(process.bootstrap, SERVER, {})) as admin:
                yield Broker(process.bootstrap, admin, process.restart)
        finally:
            await process.stop()


@asynccontextmanager
async def own_cluster() -> AsyncIterator[Broker]:
    """Three Kavkas in this process, on a thread of their own, that keep nothing."""
    cluster = Cluster(CLUSTER, settings=SETTINGS)
    try:
        await asyncio.to_thread(cluster.start)
        async with given(cluster.bootstrap_servers, {}) as broker:
            yield broker
    finally:
        await asyncio.to_thread(cluster.close)


class OwnKavka:
    """`kavka start` as a process, which may be started again at its port."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._process: asyncio.subprocess.Process | None = None
        self._port = 0

    @property
    def bootstrap(self) -> str:
        """Its address, once it has been started."""
        return f"127.0.0.1:{self._port}"

    async def start(self) -> None:
        """Returns when it answers. DriverFailed."""
        log = self._directory / "broker.log"
        settings = (
            f"listeners=PLAINTEXT://127.0.0.1:{self._port}",
            f"log.dirs={self._directory / 'data'}",
            *(f"{name}={value}" for name, value in SETTINGS.items()),
        )
        overrides = [word for one in settings for word in ("--override", one)]
        with log.open("ab") as errors:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "kavka", "start", *overrides),
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        assert self._process.stdout is not None
        line = ""
        try:
            async with asyncio.timeout(READY_WITHIN_S):
                line = (await self._process.stdout.readline()).decode()
        except TimeoutError:
            await self.stop()
        ready = _READY.search(line)
        if ready is None:
            raise DriverFailed(f"Kavka did not start: {log.read_text()[-1000:]}")
        self._port = int(ready[2])

    async def stop(self) -> None:
        """SIGTERM; SIGKILL if that does not end it."""
        if self._process is None or self._process.returncode is not None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(END_WITHIN_S):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()

    async def restart(self) -> None:
        """Stop it and start it again at the same address."""
        await self.stop()
        await self.start()
