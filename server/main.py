"""The broker as a process: settings, loop, signals, the ready line and the exit code."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import random
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from kavka import __version__
from kavka.log.errors import StorageError
from kavka.log.fs import OsFs
from kavka.server.clock import SystemClock, process_age_ms
from kavka.server.config import BrokerSettings, ConfigError
from kavka.server.coordination.api import CoordinationError
from kavka.server.instance import Instance, StartError
from kavka.server.jobs import ThreadJobs
from kavka.server.network import SYSTEM_SIZED, SocketNetwork
from kavka.server.tasks import LoopTasks

try:
    import uvloop
except ImportError:  # not on every platform; asyncio's own loop does the same, slower
    new_event_loop = asyncio.new_event_loop
else:
    new_event_loop = uvloop.new_event_loop

logger = logging.getLogger(__name__)

YOUNG_OBJECTS_MAX = 50_000
"""The collector's first threshold: requests make few cycles, and each run costs."""


def main(config: str | None, overrides: Sequence[str]) -> int:
    """Run a broker until SIGTERM or SIGINT. 0 after a clean stop, 1 when it could not start."""
    gc.disable()  # until the start is over: with many partitions a collection takes 40 ms
    logging.basicConfig(format="[%(asctime)s] %(levelname)s %(message)s (%(name)s)", level="INFO")
    try:
        settings = _load(config, overrides)
    except ConfigError as failure:
        return _refuse(str(failure))
    for warning in settings.warnings:
        logger.warning("%s", warning)
    try:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            return runner.run(_serve(settings))
    except (StartError, StorageError, OSError) as failure:
        return _refuse(str(failure))
    except CoordinationError as failure:
        return _refuse(f"the metadata can't be read or written: {type(failure).__name__}")


def _load(config: str | None, overrides: Sequence[str]) -> BrokerSettings:
    properties = b""
    if config is not None:
        try:
            properties = Path(config).read_bytes()
        except OSError as failure:
            raise ConfigError(f"the settings can't be read: {failure}") from failure
    return BrokerSettings.load(
        properties,
        path=config or "server.properties",
        environ=os.environ,
        overrides=overrides,
    )


def _refuse(why: str) -> int:
    print(f"kavka: {why}", file=sys.stderr)
    return 1


async def _serve(settings: BrokerSettings) -> int:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    jobs = ThreadJobs(loop)
    instance = Instance(
        settings,
        clock=SystemClock(),
        tasks=LoopTasks(loop),
        jobs=jobs,
        random=random.Random(),
        fs=OsFs(),
        network=_network(settings, loop),
        on_failure=stop.set,
    )
    try:
        await instance.start()
        _quieten_collector()
        print(_ready_line(instance), flush=True)
        await stop.wait()
    finally:
        await instance.stop()
        await jobs.close()
    return 1 if instance.has_failed else 0


def _network(settings: BrokerSettings, loop: asyncio.AbstractEventLoop) -> SocketNetwork:
    """Socket buffers of a fixed size switch off the system's sizing by need, which reads and
    writes a megabyte in a third of the calls: they are set only for who asks for it."""
    given = settings.given
    receive, send = settings.socket_receive_buffer_bytes, settings.socket_send_buffer_bytes
    return SocketNetwork(
        loop,
        backlog=settings.socket_listen_backlog_size,
        receive_bytes=receive if "socket.receive.buffer.bytes" in given else SYSTEM_SIZED,
        send_bytes=send if "socket.send.buffer.bytes" in given else SYSTEM_SIZED,
    )


def _ready_line(instance: Instance) -> str:
    addresses = ",".join(f"{host}:{port}" for host, port in instance.addresses.values())
    directories = ",".join(instance.settings.log_dirs)
    took_ms = process_age_ms()
    return f"Kavka {__version__} ready on {addresses}, data in {directories}, {took_ms} ms"


def _quieten_collector() -> None:
    """What the start made stays: the collector, off until now, need not look at it again."""
    gc.enable()
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS_MAX, 20, 50)
