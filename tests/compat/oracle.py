"""The compatibility suite against Apache Kafka: `python -m compat.oracle VERSION [OPTION]...`.

The options are those of `kavka compat`. With `4.3.1-SASL_SSL`, for instance (compat.secured.WAYS),
the broker wants TLS and a login. A scenario that fails here is a fault of the suite, unless
that version does not serve the client any more.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from compat.secured import WAYS, Way, let_in
from differential.brokers import JUDGES
from kavka.compat_tests.broker import RECORDED_WITH, SETTINGS, Broker, given
from kavka.compat_tests.command import main
from kavka.compat_tests.raw.judges import NEW, OLD
from kavka.tools.admin.errors import Failed
from support.kavka_cluster import ProcessCluster
from support.oracle import ApacheKafka
from support.oracle39 import ApacheKafka39
from support.process import BrokerProcess
from support.secure_kafka import SecureKafka

VERSIONS: Mapping[str, type[BrokerProcess]] = {NEW: ApacheKafka, OLD: ApacheKafka39}
SECURED: Mapping[str, Way] = {f"4.3.1-{name}": way for name, way in WAYS.items()}
KNOWN_WITHIN_S = 60.0
RETRY_S = 0.2


@asynccontextmanager
async def started(
    version: str,
    settings: Mapping[str, str] = SETTINGS,
    kinds: Mapping[str, type[BrokerProcess]] = VERSIONS,
) -> AsyncIterator[Broker]:
    """An Apache Kafka in a temporary directory."""
    way = SECURED.get(version)
    with TemporaryDirectory(prefix="kavka-compat-") as home:
        kind = kinds[version] if way is None else SecureKafka
        kafka = kind(Path(home) / "kafka", settings)

        async def restart() -> None:
            before = await led(broker)
            await asyncio.to_thread(kafka.stop)
            await asyncio.to_thread(kafka.start)
            await until_known(bootstrap, config)
            async for _ in broker.admin.attempts(KNOWN_WITHIN_S):
                if before <= await led(broker):  # with ZooKeeper it hears of them later
                    return
            raise Failed(f"not all topics have leaders again after {KNOWN_WITHIN_S:.0f} s")

        try:
            await asyncio.to_thread(kafka.start)
            bootstrap, config = kafka.bootstrap, dict[str, str]()
            if way is not None:
                assert isinstance(kafka, SecureKafka)
                bootstrap = kafka.at(way.listener)
                config = await asyncio.to_thread(let_in, kafka, way)
            await until_known(bootstrap, config)
            async with given(bootstrap, config) as broker:
                broker.restart = restart
                if version == OLD:
                    broker.judges = (OLD,)
                yield broker
        finally:
            kafka.close()


async def led(broker: Broker) -> set[str]:
    """The topics whose partitions have leaders. Failed."""
    return {
        topic.name or ""
        for topic in await broker.admin.topics()
        if all(partition.leader_id >= 0 for partition in topic.partitions)
    }


async def until_known(bootstrap: str, config: Mapping[str, str]) -> None:
    """Wait until the broker has heard of itself: with ZooKeeper it answers before. Failed."""
    deadline_s = time.monotonic() + KNOWN_WITHIN_S
    while True:
        try:
            async with given(bootstrap, config):
                return
        except Failed:
            if time.monotonic() > deadline_s:
                raise
        await asyncio.sleep(RETRY_S)


class Cluster39(ProcessCluster):
    """Three of Apache Kafka 3.9, with ZooKeeper."""

    def new_member(self, home: Path, settings: Mapping[str, str]) -> BrokerProcess:
        return ApacheKafka39(home, settings, self.zookeeper)


@asynccontextmanager
async def cluster39() -> AsyncIterator[Broker]:
    """It, in a temporary directory."""
    with TemporaryDirectory(prefix="kavka-compat-") as home:
        cluster = Cluster39(Path(home), SETTINGS)
        try:
            await asyncio.to_thread(cluster.open)
            async with given(cluster.bootstrap, {}) as broker:
                yield broker
        finally:
            await asyncio.to_thread(cluster.close)


CLUSTERS = {OLD: cluster39}
"""Those of one broker's version; without one, what needs a cluster is not tried."""


if __name__ == "__main__":
    names = [*VERSIONS, *SECURED]
    if sys.argv[1:2] and sys.argv[1] in names:
        version, *words = sys.argv[1:]
        named = ["--name", f"Apache Kafka {version}", *words]
        judge = partial(started, version, RECORDED_WITH, JUDGES)
        for_protocol = None if version in SECURED else judge
        sys.exit(main(named, lambda: started(version), CLUSTERS.get(version), for_protocol))
    sys.exit(f"usage: python -m compat.oracle {'|'.join(names)} [OPTION]...")
