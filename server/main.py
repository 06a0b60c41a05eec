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
from kavka.server.instance import Instance, StartError
from kavka.server.monitoring.process_log import start_log
from kavka.server.runtime.allocator import return_freed_memory
from kavka.server.runtime.clock import process_age_ms

logger = logging.getLogger(__name__)

GC_THRESHOLDS: Final = (1_500, 5, 700)
"""The collector's thresholds: objects made until the young ones are looked at, and how often that
is done before those that were looked at are once more, and then all. Requests make few cycles, so
it need not run often, but each time that holds the loop: for 0.4 us an object, 9,000 of them where
groups and offsets come that stay."""


def main(
    config: str | None,
    overrides: Sequence[str],
    log_levels: Sequence[str] = (),
    log_file: str | None = None,
) -> int:
    """Run a broker until it is signalled to end. 0 after a clean stop, 1 without a start."""
    gc.disable()  # until the start is over: with many partitions a collection takes 40 ms
    _allow_open_files()
    try:
        start_log(log_levels, log_file)
    except (OSError, ValueError) as failure:
        return _refuse(f"the log can't be written: {failure}")
    try:
        settings = _load(config, overrides)
    except ConfigError as failure:
        _warn(failure.warnings)
        return _refuse(str(failure))
    _warn(settings.warnings)
    try:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            return runner.run(_serve(settings))
    except (StartError, OSError) as failure:
        return _refuse(str(failure))


def _allow_open_files() -> None:
    """As many as the system lets us have, without being asked for, as a JVM does."""
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


def _refuse(why: str) -> int:
    print(f"kavka: {why}", file=sys.stderr)
    return 1


async def _serve(settings: BrokerSettings) -> int:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()

    def end() -> None:
        stop.set()
        machine.instance.give_up()

    def end_by(number: signal.Signals) -> None:
        logger.info("shutting down: received %s", number.name)
        end()

    for number in _ending_signals():
        loop.add_signal_handler(number, end_by, number)
    machine = Host(settings, on_failure=end)
    try:
        await machine.start()
        broker = machine.instance.broker
        assert broker is not None
        _tune_gc(broker.groups, broker.transactions)
        print(ready_line(machine.instance), flush=True)
        return_freed_memory(os.environ)
        await stop.wait()
    except LoadingStopped:
        logger.info("stopping before the start is over")
    finally:
        await machine.stop()
    return 1 if machine.instance.has_failed else 0


def _ending_signals() -> list[signal.Signals]:
    """As with a JVM: SIGHUP, too, is an orderly end, unless `nohup` has it ignored."""
    ending = [signal.SIGTERM, signal.SIGINT]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        ending.append(signal.SIGHUP)
    return ending


def ready_line(instance: Instance) -> str:
    """What a broker says, on standard output, when it lets clients in."""
    listening, advertised = _joined(instance.bound), _joined(instance.addresses)
    if advertised != listening:
        listening += f" (advertised as {advertised})"
    directories = ",".join(instance.settings.log_dirs)
    took_ms = process_age_ms()
    return f"Kavka {__version__} ready on {listening}, data in {directories}, {took_ms} ms"


def _joined(addresses: Mapping[str, tuple[str, int]]) -> str:
    return ",".join(
        f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in addresses.values()
    )


def _tune_gc(*coordinators: Coordinator[Any]) -> None:
    """What the start made stays: the collector, off until now, need not look at it again. Nor at
    groups and transactions that are loaded, now or later: all at once they would take it half a
    second."""
    if not any(one.is_loading for one in coordinators):
        gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    gc.enable()
    for one in coordinators:
        one.on_replayed = gc.freeze
