"""Workers of Kafka Connect, and their connectors."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from kavka.compat_tests.driver import Driver
from kavka.compat_tests.errors import Mismatch
from kavka.compat_tests.records import Json
from kavka.compat_tests.scenario import RETRY_S, Trial, becomes, shown

CHANGED_S: Final = 120.0
"""How long a change may take, also when a worker has died: until its session has ended."""

REBALANCING: Final = 409
"""The status by which a worker tells that it has to be asked again."""

NOT_FOUND: Final = 404
REFUSED: Final = 400
"""From this status on a request has failed."""

RUNNING: Final = ("RUNNING", "RUNNING")
"""A connector and its task."""

WORKER: Final = {
    "config.storage.replication.factor": "-1",
    "offset.storage.replication.factor": "-1",
    "status.storage.replication.factor": "-1",
    "offset.storage.partitions": "3",
    "status.storage.partitions": "2",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    "plugin.discovery": "service_load",
    "exactly.once.source.support": "enabled",
    "offset.flush.interval.ms": "500",
    "consumer.isolation.level": "read_committed",
    # A worker that was killed is soon replaced.
    "session.timeout.ms": "6000",
    "heartbeat.interval.ms": "500",
    "scheduled.rebalance.max.delay.ms": "0",
    "consumer.session.timeout.ms": "6000",
    "consumer.heartbeat.interval.ms": "500",
}


class Workers:
    """A cluster of workers, and what it is asked by its REST interface."""

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self._settings = WORKER | {
            "group.id": trial.name("connect"),
            "config.storage.topic": trial.name("connect-configs"),
            "offset.storage.topic": trial.name("connect-offsets"),
            "status.storage.topic": trial.name("connect-status"),
        }
        self._running: dict[str, Driver] = {}

    async def start(self) -> None:
        """One more worker."""
        driver = await self._trial.driver()
        found = await driver.ask("start_worker", within_s=CHANGED_S, settings=self._settings)
        self._running[found["worker"]] = driver

    async def stop(self) -> None:
        """All workers, in an orderly way."""
        for driver in self._running.values():
            await driver.ask("stop_worker")

    async def run(self, name: str, config: Mapping[str, str]) -> None:
        """Make a connector, and wait until it runs."""
        await self.ask("PUT", f"/connectors/{name}/config", dict(config))
        await self.become(name, RUNNING)

    async def become(self, name: str, states: tuple[str, ...]) -> None:
        """Wait until a connector and its tasks are in these states."""
        await becomes(lambda: self._states(name), states, f"states of {name}", CHANGED_S)

    async def places(self, *names: str) -> list[str]:
        """The workers that carry out the tasks of connectors."""
        found = [await self.ask("GET", f"/connectors/{name}/status") for name in names]
        return [task["worker_id"] for connector in found for task in connector["tasks"]]

    async def kill(self, worker: str) -> None:
        """SIGKILL."""
        await self._running.pop(worker).kill()

    async def ask(self, method: str, path: str, body: Mapping[str, str] | None = None) -> Any:
        """What a worker answers, once there is no rebalance under way. Mismatch."""
        loop = asyncio.get_running_loop()
        until = loop.time() + CHANGED_S
        while True:
            found = await self._ask(method, path, body)
            if found["status"] != REBALANCING or loop.time() > until:
                break
            await asyncio.sleep(RETRY_S)
        if found["status"] >= REFUSED:
            raise Mismatch(f"{method} {path}: {shown(found)}")
        return found["body"]

    async def _ask(self, method: str, path: str, body: Mapping[str, str] | None = None) -> Json:
        worker = next(iter(self._running.values()))
        return await worker.ask("rest", method=method, path=path, body=body)

    async def _states(self, name: str) -> tuple[str, ...]:
        found = await self._ask("GET", f"/connectors/{name}/status")
        if found["status"] in (NOT_FOUND, REBALANCING):
            return ()
        parts = [found["body"]["connector"], *found["body"]["tasks"]]
        for part in parts:
            if part["state"] == "FAILED":
                raise Mismatch(f"{name} has failed: {part['trace']}")
        return tuple(part["state"] for part in parts)
