"""Runs scenarios with clients against a broker."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from kavka.compat_tests.broker import Broker
from kavka.compat_tests.clients import python
from kavka.compat_tests.clients.table import Client
from kavka.compat_tests.driver import Drivers
from kavka.compat_tests.errors import DriverFailed, Mismatch, NotHere, Refused, Unavailable
from kavka.compat_tests.results import Cell, ClientRow, Results, ScenarioColumn, Status
from kavka.compat_tests.scenario import Scenario, Trial
from kavka.compat_tests.security import environment, required_by
from kavka.tools.admin.errors import Failed

CELL_WITHIN_S: Final = 240.0
"""A scenario that takes longer is given up; each of its waits has a shorter limit of its own."""

MANY: Final = 2
"""Brokers without which there is no cluster to speak of."""

_REFERENCE: Final = python.here("kafka_python_driver.py", "kafka")

EXPECTED: Final = (Mismatch, Refused, DriverFailed, Failed)
"""What a failed scenario raises; anything else is a fault of the suite or of a driver."""


class Ready(NamedTuple):
    """A client whose driver starts."""

    client: Client
    drivers: Drivers
    version: str
    can: frozenset[str]
    broken: Mapping[str, str]


class Suite:
    """One run. `on_cell` hears of each outcome as it comes, with how many are still to come."""

    def __init__(
        self,
        broker: Broker,
        jobs: int,
        on_cell: Callable[[Cell, int], None],
        cluster: Broker | None = None,
    ) -> None:
        """`cluster`: for scenarios that need more than one broker, if `broker` is alone.
        tools.admin's Failed, if what clients need for TLS or their login is not right."""
        self._broker = broker
        self._cluster = cluster
        self._slots = asyncio.Semaphore(jobs)
        self._on_cell = on_cell
        self._run_id = token_hex(3)
        self._numbers = count(1)
        self._left = 0
        self._required = required_by(broker.properties)
        self._environment: Mapping[str, str] = {}

    async def run(
        self, clients: Sequence[Client], scenarios: Sequence[Scenario], broker_name: str
    ) -> Results:
        """Every scenario with every client. Those that control the broker run at the end, one
        after the other."""
        began, began_s = datetime.now(UTC), time.monotonic()
        with TemporaryDirectory(prefix="kavka-compat-") as directory:
            self._environment = environment(self._broker.properties, Path(directory))
            references = Path(directory) / "references"
            references.mkdir()
            reference = _REFERENCE().within(self._environment)
            self._references = Drivers(reference, self._broker.bootstrap, references)
            ready = await asyncio.gather(
                *(self._prepare(client, Path(directory)) for client in clients)
            )
            try:
                cells = await self._cells(dict(zip(clients, ready, strict=True)), scenarios)
            finally:
                for prepared in ready:
                    if isinstance(prepared, Ready):
                        await prepared.drivers.kill()
                await self._references.kill()
        rows = [
            ClientRow(
                client.name,
                client.title,
                client.language,
                found.version if isinstance(found, Ready) else "",
                client.is_application,
            )
            for client, found in zip(clients, ready, strict=True)
        ]
        columns = [
            ScenarioColumn(scenario.name, scenario.title, scenario.only) for scenario in scenarios
        ]
        took_s = round(time.monotonic() - began_s, 1)
        when = began.isoformat(timespec="seconds")
        return Results(broker_name, when, took_s, rows, columns, cells)

    async def _cells(
        self, found: Mapping[Client, Ready | str], scenarios: Sequence[Scenario]
    ) -> list[Cell]:
        pairs = [
            (client, ready, scenario)
            for scenario in scenarios
            for client, ready in found.items()
            if client.fits(scenario)
        ]
        self._left = len(pairs)
        cells = await asyncio.gather(*(self._cell(*pair) for pair in pairs if not pair[2].controls))
        for client, ready, scenario in pairs:
            if scenario.controls:
                cells.append(await self._cell(client, ready, scenario))
        return cells

    async def _prepare(self, client: Client, directory: Path) -> Ready | str:
        """The client, or why it can't be tried."""
        lack = client.access.lack(self._required)
        if lack:
            return lack
        async with self._slots:
            try:
                program = await asyncio.to_thread(client.install)
                own = directory / client.name
                own.mkdir()
                program = program.within(self._environment)
                drivers = Drivers(program, self._broker.bootstrap, own)
                driver = await drivers.take()
                await drivers.give_back(driver)
                return Ready(client, drivers, driver.version, driver.can, driver.broken)
            except (Unavailable, DriverFailed, Refused) as failure:
                return str(failure)

    async def _cell(self, client: Client, found: Ready | str, scenario: Scenario) -> Cell:
        cell = self._without_a_run(client, found, scenario)
        if cell is None:
            assert isinstance(found, Ready)
            async with self._slots:
                cell = await self._try(found, scenario)
        self._left -= 1
        self._on_cell(cell, self._left)
        return cell

    def _without_a_run(self, client: Client, found: Ready | str, scenario: Scenario) -> Cell | None:
        """The cell, if there is nothing to run."""
        if isinstance(found, str):
            return Cell(client.name, scenario.name, Status.UNAVAILABLE, reason=found)
        missing = sorted(scenario.needs - found.can)
        if missing:
            if all(need in found.broken for need in missing):
                reason = "; ".join(found.broken[need] for need in missing)
                return Cell(client.name, scenario.name, Status.BROKEN, reason=reason)
            reason = f"the client has no {', '.join(missing)}"
            return Cell(client.name, scenario.name, Status.ABSENT, reason=reason)
        reason = ""
        if scenario.controls and self._broker.restart is None:
            reason = "the suite can't restart this broker"
        elif scenario.of_cluster and len(self._under_test(scenario).admin.brokers) < MANY:
            reason = "the broker is alone"
        return Cell(client.name, scenario.name, Status.NOT_RUN, reason=reason) if reason else None

    def _under_test(self, scenario: Scenario) -> Broker:
        return self._cluster or self._broker if scenario.of_cluster else self._broker

    async def _try(self, ready: Ready, scenario: Scenario) -> Cell:
        label = f"compat-{self._run_id}-{next(self._numbers)}"
        trial = Trial(self._under_test(scenario), ready.drivers, self._references, ready.can, label)
        began_s = time.monotonic()
        reason = ""
        try:
            async with asyncio.timeout(CELL_WITHIN_S):
                await scenario.run(trial)
                with trial.step("close the client"):
                    await trial.close()
        except NotHere as not_here:
            return Cell(ready.client.name, scenario.name, Status.NOT_RUN, reason=str(not_here))
        except TimeoutError:
            reason = f"not done after {CELL_WITHIN_S:.0f} s"
        except EXPECTED as failure:
            reason = f"{type(failure).__name__}: {failure}"
        except Exception as failure:  # the others go on
            reason = f"the suite itself failed: {failure!r}"
        finally:
            await trial.kill()
        seconds = round(time.monotonic() - began_s, 2)
        name = ready.client.name
        if not reason:
            return Cell(name, scenario.name, Status.PASSED, seconds)
        text, apis = trial.steps[-1] if trial.steps else ("prepare topics", ())
        return Cell(name, scenario.name, Status.FAILED, seconds, reason, text, apis)
