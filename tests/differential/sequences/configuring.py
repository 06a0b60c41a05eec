"""Configs that groups have for themselves, set by IncrementalAlterConfigs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from differential.case import Cases, Ground, Script, Values
from differential.configs import DELETE, GROUP, SET, Change, described, in_force, resource

CASES = Cases("IncrementalAlterConfigs")


def altering(name: str, *changes: Change, validate_only: bool = False) -> dict[str, Any]:
    """A change of one group's configs."""
    return {"resources": [resource(GROUP, name, *changes)], "validate_only": validate_only}


SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
OF_GROUPS = (SESSION, HEARTBEAT, "consumer.assignment.interval.ms")


@CASES.case(topics=[])
def configs_of_a_group_come_and_go(on: Ground) -> Script:
    changes = [Change(SESSION, SET, "50000"), Change(HEARTBEAT, SET, "6000")]
    yield on.ask(**altering(on.group, *changes))
    yield from in_force(on, GROUP, on.group, SESSION, "50000")
    yield described(on, GROUP, on.group, *OF_GROUPS)
    yield on.ask(**altering(on.group, Change(SESSION, DELETE, None)))
    yield from in_force(on, GROUP, on.group, SESSION, "45000")
    yield described(on, GROUP, on.group, *OF_GROUPS)
    yield on.ask(**altering(on.group, Change(HEARTBEAT, DELETE, None)))
    yield from in_force(on, GROUP, on.group, HEARTBEAT, "5000")


@CASES.case(topics=[])
def a_group_with_a_name_like_a_path(on: Ground) -> Script:
    name = f"{on.group}/../~ *+%é"
    yield on.ask(**altering(name, Change(SESSION, SET, "50000")))
    yield from in_force(on, GROUP, name, SESSION, "50000")
    yield on.ask(**altering(name, Change(SESSION, DELETE, None)))
    yield from in_force(on, GROUP, name, SESSION, "45000")


OUT_OF_BOUNDS = {
    "a session too short": [(SESSION, "44999")],
    "a session too long": [(SESSION, "60001")],
    "no session": [(SESSION, "0")],
    "heartbeats too often": [(HEARTBEAT, "4999")],
    "heartbeats too seldom": [(HEARTBEAT, "15001")],
    "no heartbeats": [(HEARTBEAT, "0"), (SESSION, "1")],
    "assignments too seldom": [("consumer.assignment.interval.ms", "15001")],
    "less than no assignments": [("consumer.assignment.interval.ms", "-1")],
}
for name, values in OUT_OF_BOUNDS.items():

    def out_of_bounds(on: Ground, values: Sequence[tuple[str, str]] = tuple(values)) -> Values:
        changes = [Change(key, SET, value) for key, value in values]
        return altering(on.group, *changes, validate_only=True)

    CASES.add(f"a group, {name}", out_of_bounds, topics=[])
