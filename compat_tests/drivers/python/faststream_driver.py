"""The driver of faststream (see ../README.md)."""

from __future__ import annotations

import asyncio
import sys
from importlib.metadata import version
from typing import Any

from faststream_app import application, application_of_batches
from serve import Arguments, serve_async


class Applications:
    """At most one at a time: it runs as faststream's own command runs it, in a task."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._app: Any = None
        self._task: asyncio.Task[None] | None = None
        self._sizes: list[int] = []

    async def hello(self, _: Arguments) -> dict[str, Any]:
        return {"client": "faststream", "version": version("faststream"), "can": []}

    async def start(self, arguments: Arguments) -> dict[str, Any]:
        make = application_of_batches if arguments["batches"] else application
        topics = arguments["input"], arguments["output"]
        self._sizes = []
        app = make(
            self._bootstrap, arguments["library"], topics, arguments["group"], self._sizes.append
        )
        started = asyncio.Event()

        @app.after_startup
        async def note() -> None:
            started.set()

        self._app, self._task = app, asyncio.create_task(app.run())
        waits = asyncio.create_task(started.wait())
        await asyncio.wait([waits, self._task], return_when=asyncio.FIRST_COMPLETED)
        waits.cancel()
        if self._task.done():  # it could not start
            self._task.result()
        return {}

    async def handled(self, _: Arguments) -> dict[str, Any]:
        return {"sizes": self._sizes}

    async def stop(self, _: Arguments) -> dict[str, Any]:
        await self.close()
        return {"sizes": self._sizes}

    async def close(self) -> None:
        if self._task is not None:
            self._app.exit()  # as its command does at SIGTERM
            task, self._task = self._task, None
            await task


def error_as_json(failure: Exception) -> dict[str, str]:
    return {"name": type(failure).__name__, "message": str(failure)}


async def main() -> None:
    applications = Applications(sys.argv[1])
    requests = {name: getattr(applications, name) for name in ("hello", "start", "handled", "stop")}
    await serve_async(requests, error_as_json, applications.close)


if __name__ == "__main__":
    asyncio.run(main())
