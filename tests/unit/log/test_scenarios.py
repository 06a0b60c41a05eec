"""A partition's log, as clients and replicas see it, in scenarios."""

from __future__ import annotations

from support.log_scenarios import LogMachine
from support.scenarios import Scenario, scenario_files


@scenario_files("log")
def test_scenarios(scenario: Scenario, rewrite: bool) -> None:
    scenario.check(LogMachine(), rewrite)
