"""The broker as a process: settings, loop, signals, the ready line and the exit code."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import resource
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from kavka import __version__
from kavka.log.errors import LoadingStopped
from kavka.log.fs import OsFs
from kavka.server.config import BrokerSettings, ConfigError
from kavka.server.coordinators.base import Coordinator
from kavka.server.host import Host, new_event_loop
from kavka.server.instance import Instance
from kavka.server.monitoring.process_log import start_log
from kavka.server.runtime.allocator import return_freed_memory
from kavka.server.runtime.clock import process_age_ms
from kavka.server.start_checks import StartError

logger = logging.getLogger(__name__)

GC_THRESHOLDS: Final = (1_500, 5, 700)
"""The garbage collector's thresholds, by generation. Requests make few reference cycles, so it need
not run often. Each collection blocks the event loop for 0.4 us an object: up to 9,000 objects when
groups and offsets arrive that stay."""


def main(
    config: str | None,
    overrides: Sequence[str],
    log_levels: Sequence[str] = (),
    log_file: str | None = None,
) -> int:
    """Run a broker until a signal stops it. Returns 0 after a clean stop, 1 if the start failed."""
    gc.disable()  # until the start is done: with many partitions a collection takes 40 ms
    _raise_open_files_limit()
    try:
        start_log(log_levels, log_file)
    except (OSError, ValueError) as failure:
        return _fail_start(f"the log can't be written: {failure}")
    try:
        settings = _load(config, overrides)
    except ConfigError as failure:
        _warn(failure.warnings)
        return _fail_start(str(failure))
    _warn(settings.warnings)
    try:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            return runner.run(_serve(settings))
    except (StartError, OSError) as failure:
        return _fail_start(str(failure))


def _raise_open_files_limit() -> None:
    """Raise the soft limit of open files to the hard limit, as a JVM does."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _load(config: str | None, overrides: Sequence[str]) -> BrokerSettings:
    properties = b""
    if config is not None:
        try:
            properties = OsFs().read_bytes(config)
        except OSError as failure:
            raise ConfigError(f"the settings can't be read: {failure}") from failure
    return BrokerSettings.load(
        properties,
        path=config or "server.properties",
        environ=os.environ,
        overrides=overrides,
    )


def _warn(warnings: Sequence[str]) -> None:
    for warning in warnings:
        logger.warning("%s", warning)


def _fail_start(why: str) -> int:
    print(f"kavka: {why}", file=sys.stderr)
    return 1


async def _serve(settings: BrokerSettings) -> int:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()

    def request_stop() -> None:
        stop.set()
        host.instance.abort_start()

    def on_signal(number: signal.Signals) -> None:
        logger.info("shutting down: received %s", number.name)
        request_stop()

    for number in _stop_signals():
        loop.add_signal_handler(number, on_signal, number)
    host = Host(settings, on_failure=request_stop)
    try:
        await host.start()
        broker = host.instance.broker
        assert broker is not None
        _tune_gc(broker.groups, broker.transactions)
        print(ready_line(host.instance), flush=True)
        return_freed_memory(os.environ)
        await stop.wait()
    except LoadingStopped:
        logger.info("stopping before the start is over")
    finally:
        await host.stop()
    return 1 if host.instance.has_failed else 0


def _stop_signals() -> list[signal.Signals]:
    """As with a JVM: SIGHUP, too, shuts down cleanly, unless `nohup` ignores it."""
    ending = [signal.SIGTERM, signal.SIGINT]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        ending.append(signal.SIGHUP)
    return ending


def ready_line(instance: Instance) -> str:
    """The line that a broker prints to standard output when it accepts clients."""
    listening, advertised = _format_addresses(instance.bound), _format_addresses(instance.addresses)
    if advertised != listening:
        listening += f" (advertised as {advertised})"
    directories = ",".join(instance.settings.log_dirs)
    took_ms = process_age_ms()
    return f"Kavka {__version__} ready on {listening}, data in {directories}, {took_ms} ms"


def _format_addresses(addresses: Mapping[str, tuple[str, int]]) -> str:
    return ",".join(
        f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in addresses.values()
    )


def _tune_gc(*coordinators: Coordinator[Any]) -> None:
    """Freeze the objects that the start has made, as they stay, and enable the garbage collector.
    Loaded groups and transactions are frozen too, now or later: to collect them all at once would
    take half a second."""
    if not any(coordinator.is_loading for coordinator in coordinators):
        gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    gc.enable()
    for coordinator in coordinators:
        coordinator.on_replayed = gc.freeze
