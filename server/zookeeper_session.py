"""A session with a cluster's ZooKeeper for a tool, opened as a broker opens its own."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

from kavka.log.fs import OsFs
from kavka.server.config import BrokerSettings, ConfigError, Given
from kavka.server.host import coordination_opener, socket_network
from kavka.server.runtime.clock import SystemClock
from kavka.server.runtime.jobs import ThreadJobs
from kavka.server.runtime.tasks import LoopTasks
from kavka.server.start_checks import StartError
from kavka.zktree.api import Coordination

CONNECT: Final = "zookeeper.connect"
OPTION: Final = "--zookeeper"
"""Of the tools, where it is given."""

_OF_ZOOKEEPER: Final = ("zookeeper.", "kavka.zookeeper.")


@asynccontextmanager
async def zookeeper_session(
    given: Mapping[str, Given], connect: str
) -> AsyncIterator[Coordination]:
    """Open a session, and close it at the end.

    Of a broker's settings (`given`, by key) those count that say how it talks with ZooKeeper: TLS,
    its name, ACLs, timeouts. `connect` takes the place of zookeeper.connect. ConfigError; OSError
    if no server lets it in.
    """
    own = {key: setting for key, setting in given.items() if key.startswith(_OF_ZOOKEEPER)}
    settings = BrokerSettings.of({**own, CONNECT: Given(connect, OPTION)})
    loop = asyncio.get_running_loop()
    network = socket_network(settings, loop)
    try:
        open_session = coordination_opener(
            settings, network, random.Random(), advice=f"correct {OPTION}"
        )
    except StartError as failure:
        raise ConfigError(str(failure)) from failure
    tasks, jobs = LoopTasks(loop), ThreadJobs(loop)
    try:
        session = await open_session(OsFs(), "", clock=SystemClock(), tasks=tasks, jobs=jobs)
        try:
            yield session
        finally:
            await session.close()
    finally:
        await tasks.kill()
        await jobs.close(drop_waiting=True)
