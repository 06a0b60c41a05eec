"""The scenarios of requests to a broker: `tests/scenarios/broker/`, a file for each API."""

from __future__ import annotations

from support.broker_scenarios import BrokerScenario
from support.memory_broker import NEVER_AWAITED
from support.scenarios import Scenario, scenario_files


@NEVER_AWAITED
@scenario_files("broker")
def test_scenarios(scenario: Scenario, rewrite: bool) -> None:
    with BrokerScenario() as machine:
        scenario.check(machine, rewrite)
