"""What clients see of classic groups, as text in tests/scenarios/classic_groups."""

from __future__ import annotations

import pytest

from support.classic_scenarios import ClassicScenario
from support.scenarios import Scenario, scenario_files


@scenario_files("classic_groups")
def test_scenarios(scenario: Scenario, rewrite: bool, caplog: pytest.LogCaptureFixture) -> None:
    scenario.check(ClassicScenario(caplog), rewrite)
