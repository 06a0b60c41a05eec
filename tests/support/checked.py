"""`python -m support.checked …`: `python -m kavka …`, strict about whose bytes are looked at.

Tests start brokers with it: arenas are strict (`strict_arenas`), and a job begins a turn of the
loop after it was asked for and takes no bytes of a request that is not kept. What is found is an
error with a traceback in the broker's output, which fails the test.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from kavka import cli
from kavka.seams import Pool
from kavka.server import host
from kavka.server.runtime.jobs import ThreadJobs
from support import strict_arenas


class CheckedJobs(ThreadJobs):
    """Jobs that begin a turn later."""

    def run(self, pool: Pool, function: Callable[..., Any], *args: Any) -> Awaitable[Any]:
        begin = super().run

        async def run_later() -> Any:
            await asyncio.sleep(0)
            strict_arenas.check_owned(args)
            return await begin(pool, function, *args)

        return asyncio.ensure_future(run_later())


def main(arguments: list[str]) -> int:
    """Run a command of Kavka's."""
    vars(host)["ThreadJobs"] = CheckedJobs
    with strict_arenas.enforce():
        return cli.main(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
