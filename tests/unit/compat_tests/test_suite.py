"""What the suite makes of scenarios that pass, fail, and can't be tried."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from kavka.compat_tests.broker import Broker
from kavka.compat_tests.clients.table import Client
from kavka.compat_tests.driver import Drivers, Program
from kavka.compat_tests.errors import Mismatch, Unavailable
from kavka.compat_tests.results import Cell, Results, Status
from kavka.compat_tests.scenario import Scenario, Trial, becomes, equal, refused
from kavka.compat_tests.suite import Suite
from kavka.tools.admin.cluster_client import ClusterClient
from unit.compat_tests.test_driver import FAKE

NOWHERE = Broker("127.0.0.1:1", cast(ClusterClient, None))
"""A broker that is never asked."""


def client(name: str = "fake") -> Client:
    return Client(name, name, "Python", lambda: FAKE)


def missing() -> Program:
    raise Unavailable("needs a toolchain")


async def passes(trial: Trial) -> None:
    with trial.step("do nothing"):
        await trial.driver()


async def fails(trial: Trial) -> None:
    with trial.step("go well"):
        pass
    with trial.step("see two", "Fetch", "ListOffsets"):
        equal(1, 2, "number")


async def breaks(trial: Trial) -> None:
    raise ZeroDivisionError


async def dies(trial: Trial) -> None:
    driver = await trial.driver()
    with trial.step("die"):
        await driver.ask("die")


async def outcome(*scenarios: Scenario, of: Client | None = None) -> Results:
    heard: list[Cell] = []
    suite = Suite(NOWHERE, 2, lambda cell, _: heard.append(cell))
    results = await suite.run([of or client()], scenarios, "a broker")
    assert sorted(heard, key=lambda cell: cell.scenario) == sorted(
        results.cells, key=lambda cell: cell.scenario
    )
    return results


async def test_outcomes_of_scenarios() -> None:
    results = await outcome(
        Scenario("passes", "", passes),
        Scenario("fails", "", fails),
        Scenario("breaks", "", breaks),
        Scenario("dies", "", dies),
        Scenario("needs", "", passes, frozenset({"swim"})),
        Scenario("broken", "", passes, frozenset({"sing", "dance", "produce"})),
        Scenario("needs and broken", "", passes, frozenset({"sing", "swim"})),
        Scenario("controls", "", passes, controls=True),
    )
    found = {cell.scenario: cell for cell in results.cells}
    assert {name: cell.status for name, cell in found.items()} == {
        "passes": Status.PASSED,
        "fails": Status.FAILED,
        "breaks": Status.FAILED,
        "dies": Status.FAILED,
        "needs": Status.ABSENT,
        "broken": Status.BROKEN,
        "needs and broken": Status.ABSENT,
        "controls": Status.NOT_RUN,
    }
    assert found["fails"].reason == "Mismatch: number: 1, expected 2"
    assert (found["fails"].step, found["fails"].apis) == ("see two", ("Fetch", "ListOffsets"))
    assert "the suite itself failed: ZeroDivisionError" in found["breaks"].reason
    assert found["needs"].reason == "the client has no swim"
    assert found["broken"].reason == "it stumbles; it is off key"
    (row,) = results.clients
    assert (row.name, row.version) == ("fake", "1.2")


@pytest.mark.parametrize(
    ("can", "writes", "reads", "reads_committed"),
    [
        ((), "reference", "reference", "reference"),
        (("produce",), "fake", "reference", "reference"),
        (("consume",), "reference", "fake", "reference"),
        (("produce", "consume"), "fake", "fake", "reference"),
        (("produce", "consume", "isolation"), "fake", "fake", "fake"),
    ],
)
async def test_kafka_python_does_what_the_client_can_not(
    tmp_path: Path, can: tuple[str, ...], writes: str, reads: str, reads_committed: str
) -> None:
    def drivers(name: str) -> Drivers:
        (tmp_path / name).mkdir()
        return Drivers(FAKE.within({"FAKE_NAME": name}), NOWHERE.bootstrap, tmp_path / name)

    trial = Trial(NOWHERE, drivers("fake"), drivers("reference"), can, "label")
    try:
        assert (await trial.producer()).client == writes
        assert (await trial.producer("timestamps")).client == "reference"
        assert (await trial.reader({})).client == reads
        assert (await trial.reader({}, reset="latest")).client == reads
        assert (await trial.reader({}, isolation="read_committed")).client == reads_committed
    finally:
        await trial.kill()


async def test_a_client_without_its_toolchain() -> None:
    absent = Client("absent", "Absent", "Go", missing)
    results = await outcome(Scenario("passes", "", passes), of=absent)
    (cell,) = results.cells
    assert (cell.status, cell.reason) == (Status.UNAVAILABLE, "needs a toolchain")
    assert results.clients[0].version == ""


async def test_scenarios_of_applications_are_for_them_alone() -> None:
    application = Client("app", "App", "Java", lambda: FAKE, is_application=True)
    scenarios = (
        Scenario("for all", "", passes),
        Scenario("for it", "Does it", passes, only="app"),
        Scenario("for another", "", passes, only="other", controls=True),
    )
    (cell,) = (await outcome(scenarios[1], of=application)).cells
    assert (cell.client, cell.scenario, cell.status) == ("app", "for it", Status.PASSED)
    results = await Suite(NOWHERE, 2, lambda *_: None).run(
        [client(), application], scenarios, "a broker"
    )
    assert {(cell.client, cell.scenario) for cell in results.cells} == {
        ("fake", "for all"),
        ("app", "for it"),
    }
    assert [row.name for row in results.matrix_rows] == ["fake"]
    assert [scenario.name for scenario in results.matrix_columns] == ["for all"]
    assert [(row.name, scenario.title) for row, scenario, _ in results.applications] == [
        ("app", "Does it")
    ]


async def test_a_refusal_must_be_the_expected_one(tmp_path: Path) -> None:
    async def run(trial: Trial) -> None:
        driver = await trial.driver()
        await refused(driver.ask("refuse", code=36), "TOPIC_ALREADY_EXISTS")
        with trial.step("another error"):
            await refused(driver.ask("refuse", code=3), "TOPIC_ALREADY_EXISTS")

    (cell,) = (await outcome(Scenario("one", "", run))).cells
    assert cell.step == "another error"
    assert "expected TOPIC_ALREADY_EXISTS, got UNKNOWN_TOPIC_OR_PARTITION" in cell.reason


async def test_what_must_not_succeed() -> None:
    async def succeeds() -> int:
        return 5

    with pytest.raises(Mismatch, match="expected ERROR, but it succeeded: 5"):
        await refused(succeeds(), "ERROR")


async def test_what_takes_its_time_is_waited_for() -> None:
    values = iter([1, 2, 3])

    async def ask() -> int:
        return next(values)

    await becomes(ask, 3, "number")
    with pytest.raises(Mismatch, match="never"):
        await becomes(passing, 1, "never", within_s=0)


async def passing() -> int:
    return 0
