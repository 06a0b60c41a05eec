"""The quick part of the suite against Kavka: a client of each language."""

from __future__ import annotations

import pytest

from compat.passing import check_passed
from kavka.compat_tests.broker import own
from kavka.compat_tests.clients.table import CLIENTS, Client
from kavka.compat_tests.scenarios.every import SCENARIOS
from kavka.compat_tests.suite import Suite

JOBS = 2


@pytest.mark.parametrize(
    "client", [one for one in CLIENTS if one.quick], ids=lambda client: client.name
)
async def test_quick_scenarios_pass(client: Client) -> None:
    async with own() as broker:
        suite = Suite(broker, JOBS, lambda cell, left: None)
        scenarios = [one for one in SCENARIOS if one.quick]
        results = await suite.run([client], scenarios, "Kavka")
    check_passed(results)
