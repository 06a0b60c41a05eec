"""The suite against Kavka, a client of each language: the quick scenarios, then all others."""

from __future__ import annotations

import pytest

from compat.passing import check_passed
from kavka.compat_tests.broker import own, own_cluster
from kavka.compat_tests.clients.table import CLIENTS, Client
from kavka.compat_tests.scenarios.every import SCENARIOS
from kavka.compat_tests.suite import Suite

JOBS = 4
QUICK = [scenario for scenario in SCENARIOS if scenario.quick]
OTHERS = [scenario for scenario in SCENARIOS if not scenario.quick and not scenario.only]

each_language = pytest.mark.parametrize(
    "client", [client for client in CLIENTS if client.quick], ids=lambda client: client.name
)


@each_language
async def test_quick_scenarios_pass(client: Client) -> None:
    async with own() as broker:
        suite = Suite(broker, JOBS, lambda cell, left: None)
        check_passed(await suite.run([client], QUICK, "Kavka"))


@each_language
async def test_all_other_scenarios_pass(client: Client) -> None:
    async with own() as broker, own_cluster() as cluster:
        suite = Suite(broker, JOBS, lambda cell, left: None, cluster)
        check_passed(await suite.run([client], OTHERS, "Kavka"))
