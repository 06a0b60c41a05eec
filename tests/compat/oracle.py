"""The compatibility suite against Apache Kafka: `python -m compat.oracle VERSION [OPTION]...`.

The options are those of `kavka compat`. A scenario that fails here is a fault of the suite, unless
that version does not serve the client any more.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from kavka.compat_tests.broker import Broker, given
from kavka.compat_tests.command import main
from support.oracle import ApacheKafka
from support.oracle39 import ApacheKafka39
from support.process import BrokerProcess

VERSIONS: Mapping[str, type[BrokerProcess]] = {"4.3.1": ApacheKafka, "3.9.2": ApacheKafka39}
SETTINGS = {"group.initial.rebalance.delay.ms": "0"}


@asynccontextmanager
async def started(version: str) -> AsyncIterator[Broker]:
    """An Apache Kafka in a temporary directory."""
    with TemporaryDirectory(prefix="kavka-compat-") as home:
        kafka = VERSIONS[version](Path(home) / "kafka", SETTINGS)

        async def restart() -> None:
            await asyncio.to_thread(kafka.stop)
            await asyncio.to_thread(kafka.start)

        try:
            await asyncio.to_thread(kafka.start)
            async with given(kafka.bootstrap, {}) as broker:
                broker.restart = restart
                yield broker
        finally:
            kafka.close()


if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in VERSIONS:
        version, *words = sys.argv[1:]
        sys.exit(main(["--name", f"Apache Kafka {version}", *words], lambda: started(version)))
    sys.exit(f"usage: python -m compat.oracle {'|'.join(VERSIONS)} [OPTION]...")
