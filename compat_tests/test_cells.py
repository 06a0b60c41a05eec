"""Every scenario with every client; see conftest.py."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kavka.compat_tests.clients.table import CLIENTS, Client
from kavka.compat_tests.reports.marks import failure
from kavka.compat_tests.results import Cell, Status
from kavka.compat_tests.scenario import Scenario
from kavka.compat_tests.scenarios.every import SCENARIOS


@pytest.mark.parametrize(
    ("client", "scenario"),
    [
        pytest.param(client, scenario, id=f"{client.name}-{scenario.name}")
        for client in CLIENTS
        for scenario in SCENARIOS
        if client.fits(scenario)
    ],
)
def test_it_works(
    client: Client, scenario: Scenario, tried: Callable[[Client, Scenario], Cell]
) -> None:
    cell = tried(client, scenario)
    if cell.status == Status.FAILED:
        pytest.fail(failure(cell), pytrace=False)
    if cell.status != Status.PASSED:
        pytest.skip(f"{client.name}: {cell.reason}")
