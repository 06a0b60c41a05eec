"""Brokers of a cluster in this process: real sockets, files and threads, and a real ZooKeeper."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

from kavka.log.fs import FileSystem, OsFs
from kavka.seams import Clock, Jobs, Tasks
from kavka.server.config import BrokerSettings
from kavka.server.host import socket_network
from kavka.server.instance import Instance
from kavka.server.runtime.clock import SystemClock
from kavka.server.runtime.jobs import ThreadJobs
from kavka.server.runtime.tasks import LoopTasks
from kavka.zktree.api import Coordination
from support.real_zookeeper import open_at


class ClusterBroker:
    """One broker on the running loop. It can be started again on its directory."""

    def __init__(
        self, broker_id: int, directory: Path, zookeeper: str, *, session_timeout_s: float
    ) -> None:
        self.broker_id = broker_id
        self._directory = directory
        self._zookeeper = zookeeper
        self._session_timeout_s = session_timeout_s
        self.instance: Instance | None = None

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        settings = BrokerSettings.load(
            environ={},
            overrides=[
                f"broker.id={self.broker_id}",
                f"log.dirs={self._directory}",
                "listeners=PLAINTEXT://127.0.0.1:0",
            ],
        )
        self._tasks = LoopTasks(loop)
        self._jobs = ThreadJobs(loop)
        self.instance = Instance(
            settings,
            clock=SystemClock(),
            tasks=self._tasks,
            jobs=self._jobs,
            random=random.Random(),
            fs=OsFs(),
            network=socket_network(settings, loop),
            on_failure=lambda: None,
            open_coordination=self._open_session,
            in_cluster=True,
        )
        await self.instance.start()

    async def _open_session(
        self, fs: FileSystem, directory: str, *, clock: Clock, tasks: Tasks, jobs: Jobs
    ) -> Coordination:
        return await open_at(self._zookeeper, timeout_s=self._session_timeout_s)

    @property
    def address(self) -> str:
        """Where clients find it."""
        assert self.instance is not None
        host, port = self.instance.addresses["PLAINTEXT"]
        return f"{host}:{port}"

    async def stop(self) -> None:
        """A clean stop, if it runs."""
        instance, self.instance = self.instance, None
        if instance is not None:
            await instance.stop()
            await self._tasks.kill()
            await self._jobs.close(drop_waiting=True)

    async def kill(self) -> None:
        """End as by SIGKILL."""
        instance, self.instance = self.instance, None
        assert instance is not None
        instance.kill()
        await self._tasks.kill()
        await self._jobs.close(drop_waiting=True)
        instance.release()
