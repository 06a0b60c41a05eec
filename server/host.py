"""Runs an `Instance` on this machine: with its clock, disk, sockets and threads.

Shared by `kavka start` and `kavka.testing`. Signals, the garbage collector, logging and the process
belong to the caller, which may be a program with an embedded broker.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

from kavka.log.errors import StorageError
from kavka.log.fs import OsFs
from kavka.seams import Network
from kavka.server.config import BrokerSettings
from kavka.server.coordination.embedded import open_embedded
from kavka.server.instance import Instance
from kavka.server.runtime.clock import SystemClock
from kavka.server.runtime.jobs import ThreadJobs
from kavka.server.runtime.sockets import SYSTEM_SIZED, SocketNetwork, TlsNetwork
from kavka.server.runtime.tasks import LoopTasks
from kavka.server.start_checks import StartError
from kavka.zktree.api import CoordinationError, OpenCoordination

try:
    import uvloop
except ImportError:  # not on every platform; asyncio's own loop does the same, slower
    new_event_loop = asyncio.new_event_loop
else:
    new_event_loop = uvloop.new_event_loop


class Host:
    """One broker on the running event loop: call `start`, and then `stop` or `kill`."""

    def __init__(
        self,
        settings: BrokerSettings,
        on_failure: Callable[[], object],
        *,
        network: Network | None = None,
        open_coordination: OpenCoordination | None = None,
    ) -> None:
        """`on_failure` is called after a fatal error: the broker must then be stopped. `network`
        and `open_coordination` take the place of the system's sockets and of what the settings say
        about the coordination service."""
        loop = asyncio.get_running_loop()
        self._tasks = LoopTasks(loop)
        self._stop_tasks = LoopTasks(loop)
        self._jobs = ThreadJobs(loop)
        chance = random.Random()
        network = network or socket_network(settings, loop)
        self.instance = Instance(
            settings,
            clock=SystemClock(),
            tasks=self._tasks,
            jobs=self._jobs,
            random=chance,
            fs=OsFs(),
            network=network,
            on_failure=on_failure,
            open_coordination=open_coordination or coordination_opener(settings, network, chance),
        )

    async def start(self) -> None:
        """Start serving clients. StartError if that fails; `stop` must be called then too."""
        try:
            await self.instance.start()
        except (StorageError, OSError) as failure:
            raise StartError(str(failure)) from failure
        except CoordinationError as failure:
            reason = str(failure) or type(failure).__name__
            raise StartError(f"the metadata can't be read or written: {reason}") from failure

    async def stop(self) -> None:
        """Shut down cleanly: acknowledged records are on disk, and no thread is left.

        If that fails (a broken disk, a cancelled caller) it ends as by `kill`, and raises.
        """
        try:
            await self.instance.stop()
        except BaseException:
            await self.kill()
            raise
        # Requests may still be under way, which can have no effect any more.
        await self._tasks.kill()
        await self._jobs.close(drop_waiting=True)

    def stop_soon(self) -> asyncio.Task[None]:
        """Start a task that calls `stop`; for `on_failure`, which can't await."""
        return self._stop_tasks.spawn(self.stop(), name="end of a failed broker")

    async def kill(self) -> None:
        """End as by SIGKILL: nothing more is written or flushed."""
        self.instance.kill()
        await self._tasks.kill()
        await self._jobs.close(drop_waiting=True)
        self.instance.release()


def coordination_opener(
    settings: BrokerSettings, network: Network, chance: random.Random, advice: str = ""
) -> OpenCoordination:
    """How the broker opens a session: with ZooKeeper in a cluster, else on its own disk. `advice`:
    what else to do than to correct a broker's settings, if no ZooKeeper answers."""
    if not settings.in_cluster:
        return open_embedded
    try:
        from kavka.server.coordination.zookeeper import FOR_BROKERS, opener
    except ModuleNotFoundError as failure:
        raise StartError(
            f"zookeeper.connect needs {failure.name}: pip install kavka[zookeeper]"
        ) from failure
    security = settings.zookeeper_security
    if security is not None and security.tls is not None:
        from kavka.server.coordination.zookeeper_tls import TlsError, tls_context

        try:
            context = tls_context(security.tls)
        except TlsError as failure:
            raise StartError(str(failure)) from failure
        network = TlsNetwork(network, asyncio.get_running_loop(), context)
    return opener(settings, network, chance, advice or FOR_BROKERS)


def socket_network(settings: BrokerSettings, loop: asyncio.AbstractEventLoop) -> SocketNetwork:
    """Sets socket buffer sizes only if they were configured: a fixed size switches off the
    system's auto-tuning, which reads and writes a megabyte in a third of the calls."""
    given = settings.given
    receive, send = settings.socket_receive_buffer_bytes, settings.socket_send_buffer_bytes
    return SocketNetwork(
        loop,
        backlog=settings.socket_listen_backlog_size,
        receive_bytes=receive if "socket.receive.buffer.bytes" in given else SYSTEM_SIZED,
        send_bytes=send if "socket.send.buffer.bytes" in given else SYSTEM_SIZED,
    )
