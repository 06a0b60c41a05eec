"""Asking a broker in memory for configs and changing them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from support.memory_broker import MemoryBroker

TOPIC, BROKER, LOGGER, SUBSCRIPTION, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)

Change = tuple[str, int, str | None]
"""A config's name, what to do with it, and a value."""

Outcome = tuple[int, str | None]
"""Code and message."""


async def describe(
    broker: MemoryBroker,
    *resources: tuple[int, str, Sequence[str] | None],
    version: int = 4,
    **values: Any,
) -> Any:
    """The results for (type, name, keys)."""
    requested = [
        {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
        for kind, name, keys in resources
    ]
    answer = await broker.ask("DescribeConfigs", version, resources=requested, **values)
    return answer.results


async def value_of(broker: MemoryBroker, kind: int, name: str, key: str) -> str | None:
    """One config's value; "<none>" if it is not described."""
    (result,) = await describe(broker, (kind, name, [key]))
    assert not result.error_code, result
    found: list[str | None] = [config.value for config in result.configs]
    return found[0] if found else "<none>"


async def change(
    broker: MemoryBroker,
    *resources: tuple[int, str, Sequence[Change]],
    version: int = 1,
    validate_only: bool = False,
) -> list[Outcome]:
    """IncrementalAlterConfigs; an outcome for each (type, name, changes)."""
    requested = [
        {
            "resource_type": kind,
            "resource_name": name,
            "configs": [
                {"name": key, "config_operation": op, "value": value} for key, op, value in changes
            ],
        }
        for kind, name, changes in resources
    ]
    answer = await broker.ask(
        "IncrementalAlterConfigs", version, resources=requested, validate_only=validate_only
    )
    return outcomes(answer, resources)


def outcomes(answer: Any, resources: Sequence[tuple[int, str, Any]]) -> list[Outcome]:
    """Codes and messages of an answer, which must be about these in their order."""
    about = [(result.resource_type, result.resource_name) for result in answer.responses]
    assert about == [(kind, name) for kind, name, _ in resources]
    return [(result.error_code, result.error_message) for result in answer.responses]
