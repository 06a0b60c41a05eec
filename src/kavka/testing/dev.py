"""`kavka dev`: a cluster in the foreground that keeps nothing, for a laptop."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Sequence

from kavka import __version__
from kavka.server.config import ConfigError
from kavka.server.host import new_event_loop
from kavka.server.monitoring.process_log import start_log
from kavka.server.runtime.clock import process_age_ms
from kavka.server.start_checks import StartError
from kavka.testing.async_cluster import AsyncCluster

logger = logging.getLogger(__name__)


def main(brokers: int, port: int, overrides: Sequence[str], log_levels: Sequence[str] = ()) -> int:
    """Run brokers on `port` and the following ones until a signal stops them. Returns 0 after
    that, 1 if the start failed."""
    start_log(log_levels, None)
    settings = {key.strip(): value for key, _, value in (one.partition("=") for one in overrides)}
    try:
        cluster = AsyncCluster(brokers, first_port=port, settings=settings)
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(_serve(cluster))
    except (ConfigError, StartError, ValueError) as failure:
        print(f"kavka: {failure}", file=sys.stderr)
        return 1
    return 0


async def _serve(cluster: AsyncCluster) -> None:
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, stop.set)
    async with cluster:
        count = len(cluster.brokers)
        brokers = f"{count} broker{'s' * (count > 1)}"
        print(
            f"Kavka {__version__} ready on {cluster.bootstrap_servers}: {brokers}, "
            f"data are removed at the end, {process_age_ms()} ms",
            flush=True,
        )
        await stop.wait()
        logger.info("shutting down")
