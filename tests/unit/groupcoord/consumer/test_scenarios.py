"""Consumer groups, by the scenarios in `tests/scenarios/consumer_groups`. What is expected is
KIP-848's; error codes and messages are compared with Apache Kafka by the differential tests too."""

from __future__ import annotations

from support.consumer_group_scenarios import ConsumerGroups
from support.scenarios import Scenario, scenario_files


@scenario_files("consumer_groups")
def test_scenarios(scenario: Scenario, rewrite: bool) -> None:
    scenario.check(ConsumerGroups(), rewrite)
