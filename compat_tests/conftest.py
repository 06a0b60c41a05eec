"""The suite as tests of pytest, one a cell: `pytest compat_tests --bootstrap HOST:PORT`.

Without an address the tests start a Kavka of their own. `-k "franz-go and plain"` chooses by the
names that `kavka compat --list` has.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack

import pytest

from kavka.compat_tests import broker
from kavka.compat_tests.broker import Broker
from kavka.compat_tests.clients.table import Client
from kavka.compat_tests.results import Cell
from kavka.compat_tests.scenario import Scenario
from kavka.compat_tests.suite import Suite
from kavka.tools.admin.command import read_client_properties


def pytest_addoption(parser: pytest.Parser) -> None:
    options = parser.getgroup("compatibility suite")
    options.addoption(
        "--bootstrap",
        metavar="HOST:PORT",
        help="the broker to try; without it a Kavka that the tests start",
    )
    options.addoption(
        "--command-config",
        metavar="FILE",
        help="properties of a Java client: TLS and the login of all clients, and the suite's own",
    )


@pytest.fixture(scope="session")
def runner() -> Iterator[asyncio.Runner]:
    """The event loop of all tests."""
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="session")
def under_test(runner: asyncio.Runner, pytestconfig: pytest.Config) -> Iterator[Broker]:
    """The broker that is tried."""
    address = pytestconfig.getoption("bootstrap")
    path = pytestconfig.getoption("command_config")
    config = {} if path is None else read_client_properties(path)
    stack = AsyncExitStack()
    started = broker.given(address, config) if address else broker.own()
    try:
        yield runner.run(stack.enter_async_context(started))
    finally:
        runner.run(stack.aclose())


@pytest.fixture(scope="session")
def cluster(runner: asyncio.Runner, pytestconfig: pytest.Config) -> Iterator[Broker | None]:
    """Three Kavkas, for what one cannot show; none where the broker was given."""
    stack = AsyncExitStack()
    try:
        if pytestconfig.getoption("bootstrap"):
            yield None
        else:
            yield runner.run(stack.enter_async_context(broker.own_cluster()))
    finally:
        runner.run(stack.aclose())


@pytest.fixture
def tried(
    runner: asyncio.Runner, under_test: Broker, request: pytest.FixtureRequest
) -> Callable[[Client, Scenario], Cell]:
    """What becomes of a scenario with a client."""

    def outcome(client: Client, scenario: Scenario) -> Cell:
        several = request.getfixturevalue("cluster") if scenario.of_cluster else None
        suite = Suite(under_test, 1, lambda cell, left: None, several)
        results = runner.run(suite.run([client], [scenario], under_test.bootstrap))
        (cell,) = results.cells
        return cell

    return outcome
