"""A running broker's HTTP pages: `/metrics`, `/healthz` and `/readyz` (`kavka.http.listener`).

Imported only by a broker that serves them, with the metrics library.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from kavka import __version__
from kavka.log.fs import FileSystem
from kavka.seams import Clock, Listening, Tasks
from kavka.server.broker import Broker
from kavka.server.connections.registry import Connections
from kavka.server.monitoring.health import Health
from kavka.server.monitoring.http_server import HttpServer, MakePage, Page, Query
from kavka.server.monitoring.loop_lag import LoopLag
from kavka.server.monitoring.metrics import text
from kavka.server.monitoring.metrics.client_rows import pushed_rows
from kavka.server.monitoring.metrics.row import Metric
from kavka.server.monitoring.metrics.table import TABLE
from kavka.server.monitoring.metrics.view import Sources
from kavka.server.monitoring.process_usage import usage

_JSON: Final = "application/json"
_TEXT: Final = "text/plain; charset=utf-8"


class Monitor:
    """Serves the pages of one broker from `open` to `close`."""

    def __init__(
        self,
        *,
        health: Callable[[], Health],
        broker: Callable[[], Broker | None],
        connections: Connections,
        clock: Clock,
        tasks: Tasks,
        fs: FileSystem,
    ) -> None:
        """`broker` returns None until the broker serves clients."""
        self._health = health
        self._broker = broker
        self._connections = connections
        self._clock = clock
        self._tasks = tasks
        self._fs = fs
        self._lag = LoopLag(clock, tasks)
        self._started_ms = clock.now_ms()
        self._server = HttpServer(self._pages(), clock=clock, tasks=tasks)
        self._listening: Listening | None = None

    async def open(self, listening: Listening) -> None:
        """Start serving."""
        self._listening = listening
        self._lag.start()
        await listening.accept(self._server.connect)

    def close(self) -> None:
        """Stop serving; responses that are being sent are aborted."""
        self._lag.stop()
        if self._listening is not None:
            self._listening.close()
            self._listening = None
        self._server.close()

    def _pages(self) -> Mapping[str, MakePage]:
        return {
            "/metrics": self._metrics,
            "/healthz": lambda _: self._health_page(needs_all=True),
            "/readyz": lambda _: self._health_page(needs_all=False),
        }

    def _metrics(self, query: Query) -> Page:
        broker = self._broker()
        if broker is None:
            return Page(_TEXT, b"the broker is starting\n", 503)
        sources = Sources(
            broker,
            self._connections,
            self._lag,
            lambda: self._health().state,
            lambda: usage(self._fs),
            self._started_ms,
        )
        names = query.parameters.get("name[]", ())
        table: Sequence[Metric] = TABLE
        if broker.telemetry is not None and broker.telemetry.series.count:
            table = (*TABLE, *pushed_rows(broker.telemetry.series))
        return Page(text.CONTENT_TYPE, text.page(table, sources, self._tasks, names))

    def _health_page(self, *, needs_all: bool) -> Page:
        health = self._health()
        is_good = health.is_healthy if needs_all else health.is_ready
        body = {
            "status": "ok" if is_good else "unavailable",
            "state": health.state.name,
            "problems": health.problems,
            "broker_id": health.broker_id,
            "cluster_id": health.cluster_id,
            "version": __version__,
        }
        return Page(_JSON, json.dumps(body).encode() + b"\n", 200 if is_good else 503)
