"""What the cases of the APIs of configs have in common."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from kavka.compat_tests.raw.case import Ground, Step, looking
from kavka.server.config.table import broker_rows

UNKNOWN, TOPIC, BROKER, LOGGER, SUBSCRIPTION, GROUP = 0, 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)

DESCRIBE: Final = 4
"""The version of DescribeConfigs that other APIs' cases look with."""

DYNAMIC_TOPIC: Final = 1
"""The source of a topic's own value."""

Steps: TypeAlias = Generator[Step, Any, None]


class Change(NamedTuple):
    """One config of an IncrementalAlterConfigs request."""

    name: str
    op: int
    value: str | None


def altering(*resources: Any, validate_only: bool = False) -> dict[str, Any]:
    """The fields of a request that changes configs."""
    return {"resources": list(resources), "validate_only": validate_only}


def resource(kind: int, name: str, *changes: Change | tuple[str, str | None]) -> Mapping[str, Any]:
    """One resource of an AlterConfigs or IncrementalAlterConfigs request."""
    configs = []
    for change in changes:
        if isinstance(change, Change):
            operation = change.op
            configs.append(
                {"name": change.name, "config_operation": operation, "value": change.value}
            )
        else:
            configs.append({"name": change[0], "value": change[1]})
    return {"resource_type": kind, "resource_name": name, "configs": configs}


def described_resource(
    kind: int, name: str, keys: Sequence[str] | None = None
) -> Mapping[str, Any]:
    """One resource of a DescribeConfigs request."""
    return {"resource_type": kind, "resource_name": name, "configuration_keys": keys}


def described(on: Ground, kind: int, name: str, *keys: str, compared: bool = True) -> Step:
    """A look at some configs, with their synonyms."""
    return on.other(
        "DescribeConfigs",
        DESCRIBE,
        compared=compared,
        resources=[described_resource(kind, name, keys)],
        include_synonyms=True,
        include_documentation=False,
    )


def in_force(
    on: Ground, kind: int, name: str, key: str, value: str | None, source: int | None = None
) -> Steps:
    """Look until a config has this value, and from this source if the value was the same before;
    then compare it."""
    for _ in looking():
        answer = yield described(on, kind, name, key, compared=False)
        configs = answer["results"][0]["configs"]
        if [config["value"] for config in configs] == [value] and (
            source is None or configs[0]["config_source"] == source
        ):
            break
    yield described(on, kind, name, key)


def gone(on: Ground, kind: int, name: str, key: str) -> Steps:
    """Look until a config is not described any more, then compare."""
    for _ in looking():
        answer = yield described(on, kind, name, key, compared=False)
        if not answer["results"][0]["configs"]:
            break
    yield described(on, kind, name, key)


SET_AT_START: Final = frozenset(
    {
        "advertised.listeners",
        "broker.id",
        "controller.listener.names",
        "controller.quorum.bootstrap.servers",
        "inter.broker.listener.name",
        "listener.security.protocol.map",
        "listeners",
        "log.dirs",
        "metric.reporters",
        "node.id",
        "offsets.topic.replication.factor",
        "process.roles",
        "share.coordinator.state.topic.min.isr",
        "share.coordinator.state.topic.replication.factor",
        "transaction.state.log.min.isr",
        "transaction.state.log.replication.factor",
    }
)
"""What brokers are started with, each with its own: not to be compared."""

NOT_ALIKE: Final = {*SET_AT_START, "log.dir"}

BROKER_KEYS: Final = [
    row.name
    for row in broker_rows()
    if not row.internal and not row.name.startswith("kavka.") and row.name not in NOT_ALIKE
]
