"""Committed offsets, by the scenarios in `tests/scenarios/offsets`."""

from __future__ import annotations

from support.offset_scenarios import CommittedOffsets
from support.scenarios import Scenario, scenario_files


@scenario_files("offsets")
def test_scenarios(scenario: Scenario, rewrite: bool) -> None:
    scenario.check(CommittedOffsets(), rewrite)
