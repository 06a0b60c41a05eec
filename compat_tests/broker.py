"""The broker under test, which the suite knows by its address; and a Kavka of the suite's own."""

from __future__ import annotations

import asyncio
import re
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from kavka.compat_tests.errors import DriverFailed
from kavka.compat_tests.raw.judges import JUDGES
from kavka.testing.cluster import Cluster
from kavka.tools.admin.cluster_client import SERVER, ClusterClient, check_answer
from kavka.tools.admin.command import reached, way_of
from kavka.tools.admin.config_entities import BROKERS
from kavka.tools.admin.errors import Failed
from kavka.tools.admin.leader_election import ElectLeadersRequest
from kavka.tools.admin.leader_election import RequestedTopic as ElectedTopic
from kavka.tools.admin.partition_offsets import offsets_at
from kavka.tools.admin.reassignment.requests import reassign
from kavka.tools.admin.requests import DescribeConfigsRequest, RequestedResource
from kavka.tools.admin.resource_configs import RESOURCES
from kavka.wire.apis import create_topics, describe_configs, elect_leaders
from kavka.wire.apis.create_topics import CreateTopicsRequest, NewConfig, NewTopic
from kavka.wire.errors import ErrorCode

TIMEOUT_MS: Final = 30_000
LED_WITHIN_S: Final = 60.0
GONE_WITHIN_S: Final = 60.0
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
SETTINGS: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "log.initial.task.delay.ms": "1000",
    "log.retention.check.interval.ms": "5000",
}
"""Of the suite's own brokers: a group's first members are not waited for, and retention deletes
soon."""

RECORDED_WITH: Final = {
    # records have old timestamps: retention, which begins after half a minute, would take them
    "log.initial.task.delay.ms": "3600000",
    # a group's first members need not be waited for, nor its dead ones for long
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "group.max.size": "4",
    "group.consumer.assignment.interval.ms": "0",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
}
"""Those with which Apache Kafka's answers to the protocol's cases were recorded: no case has to
wait long, or to make many members."""

SETTINGS_FOR_PROTOCOL: Final = {
    **RECORDED_WITH,
    "kavka.http.listener": "127.0.0.1:0",  # clients are asked for metrics where that can show them
}
"""Of the broker that the protocol is tried on without clients, so that no case is left out for one
of them."""

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
    judges: Collection[str] = JUDGES
    """The releases of Apache Kafka by whose answers the protocol is judged. One of them need not
    answer as another does, or survive what that one refuses."""

    async def create_topic(
        self,
        name: str,
        partitions: int,
        configs: Mapping[str, str],
        replicas: int = DEFAULT,
        *,
        again: bool = False,
    ) -> None:
        """A topic; the leaders of all partitions answer for them when this returns: clients without
        retries would stumble before that. `again`: one of this name was deleted, which a controller
        may end after it has answered. tools.admin's Failed."""
        settings = [NewConfig(key, value) for key, value in configs.items()]
        await self._create(NewTopic(name, partitions, replicas, [], settings), again=again)
        async for _ in self.admin.attempts(LED_WITHIN_S):
            found = (await self.admin.topics_named([name]))[name]
            led = [partition for partition in found.partitions if partition.leader_id >= 0]
            if not found.error_code and len(led) == partitions:
                places = [(name, number) for number in range(partitions)]
                await offsets_at(self.admin, places, LATEST, LED_WITHIN_S)
                return
        raise Failed(f"topic {name} has no leaders after {LED_WITHIN_S:.0f} s")

    async def _create(self, topic: NewTopic, *, again: bool) -> None:
        async for _ in self.admin.attempts(GONE_WITHIN_S):
            response = await self.admin.ask_controller(
                create_topics.API,
                CreateTopicsRequest([topic], TIMEOUT_MS),
                lambda answer: [result.error_code for result in answer.topics],
            )
            (created,) = response.topics
            if not again or created.error_code != ErrorCode.TOPIC_ALREADY_EXISTS:
                check_answer(created.error_code, created.error_message)
                return
        raise Failed(f"the old topic {topic.name} is still there after {GONE_WITHIN_S:.0f} s")

    async def config(self, name: str) -> str | None:
        """A setting of the broker; None if it has none of this name. tools.admin's Failed."""
        broker = self.admin.brokers[0].node_id
        resource = RequestedResource(RESOURCES[BROKERS].number, str(broker), [name])
        response = await self.admin.ask_broker(
            broker, describe_configs.API, DescribeConfigsRequest([resource])
        )
        (result,) = response.results
        check_answer(result.error_code, result.error_message)
        for config in result.configs:
            if config.name == name:
                value: str | None = config.value
                return value
        return None

    async def leader(self, topic: str) -> int:
        """The broker that leads a topic's first partition. tools.admin's Failed."""
        found = (await self.admin.topics_named([topic]))[topic]
        check_answer(found.error_code)
        leader: int = found.partitions[0].leader_id
        return leader

    async def await_leader(self, topic: str, partition: int = 0) -> None:
        """Wait until the leader of a partition answers. tools.admin's Failed."""
        await offsets_at(self.admin, [(topic, partition)], LATEST, LED_WITHIN_S)

    async def move_leader(self, topic: str) -> None:
        """Let another replica lead a topic's first partition: it becomes the preferred one.
        tools.admin's Failed."""
        before = await self.leader(topic)
        found = (await self.admin.topics_named([topic]))[topic]
        others = [replica for replica in found.partitions[0].replica_nodes if replica != before]
        refused = await reassign(self.admin, {(topic, 0): [*others, before]})
        for why in refused.values():
            raise Failed(f"the replicas of {topic} can't be put into another order: {why}")
        async for _ in self.admin.attempts(LED_WITHIN_S):
            request = ElectLeadersRequest(PREFERRED, [ElectedTopic(topic, [0])])
            await self.admin.ask_controller(
                elect_leaders.API, request, lambda answer: [answer.error_code]
            )
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
async def own(settings: Mapping[str, str] = SETTINGS) -> AsyncIterator[Broker]:
    """A Kavka on a free port, with its data in a temporary directory."""
    with TemporaryDirectory(prefix="kavka-compat-") as directory:
        process = OwnKavka(Path(directory), settings)
        try:
            await process.start()
            async with reached(way_of(process.bootstrap, SERVER, {})) as admin:
                yield Broker(process.bootstrap, admin, process.restart)
        finally:
            await process.stop()


def own_for_protocol() -> AbstractAsyncContextManager[Broker]:
    """Another one, for the part without clients."""
    return own(SETTINGS_FOR_PROTOCOL)


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

    def __init__(self, directory: Path, settings: Mapping[str, str] = SETTINGS) -> None:
        self._directory = directory
        self._settings = settings
        self.process: asyncio.subprocess.Process | None = None
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
            *(f"{name}={value}" for name, value in self._settings.items()),
        )
        overrides = [word for setting in settings for word in ("--override", setting)]
        with log.open("ab") as errors:
            self.process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "kavka", "start", *overrides),
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        assert self.process.stdout is not None
        line = ""
        try:
            async with asyncio.timeout(READY_WITHIN_S):
                line = (await self.process.stdout.readline()).decode()
        except TimeoutError:
            await self.stop()
        ready = _READY.search(line)
        if ready is None:
            raise DriverFailed(f"Kavka did not start: {log.read_text()[-1000:]}")
        self._port = int(ready[2])

    async def stop(self) -> None:
        """SIGTERM; SIGKILL if that does not end it, or if it is not waited for."""
        if self.process is None or self.process.returncode is not None:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(END_WITHIN_S):
                await self.process.wait()
        except (TimeoutError, asyncio.CancelledError) as over:
            self.process.kill()
            await self.process.wait()
            if isinstance(over, asyncio.CancelledError):
                raise

    async def restart(self) -> None:
        """Stop it and start it again at the same address."""
        await self.stop()
        await self.start()
