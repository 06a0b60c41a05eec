"""Settings of groups of the consumer protocol (KIP-848): limits, heartbeats, sessions, assignors
and the migration from and to classic groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from kavka.server.config.rows import Config, Importance, Mode
from kavka.server.config.validators import AtLeast, Items, OneOf, Validator
from kavka.server.config.value_types import LARGEST, Type, Value

_ASSIGNORS: Final = ("uniform", "range")
_POLICIES: Final = ("DISABLED", "DOWNGRADE", "UPGRADE", "BIDIRECTIONAL")


def _row(
    name: str,
    default: Value,
    check: Validator,
    doc: str,
    type_: Type = Type.INT,
    *,
    dynamic: Mode = Mode.READ_ONLY,
    internal: bool = False,
) -> Config:
    name = f"group.consumer.{name}"
    return Config(
        name,
        type_,
        default,
        doc,
        check,
        Importance.MEDIUM,
        dynamic,
        field=name.replace(".", "_"),
        internal=internal,
    )


CONSUMER_GROUP_ROWS: Final = (
    _row(
        "assignment.interval.ms",
        1000,
        AtLeast(0),
        "The least time between two assignments of a group: changes in between are assigned "
        "together (KIP-1263).",
        dynamic=Mode.CLUSTER_WIDE,
    ),
    _row(
        "assignors",
        _ASSIGNORS,
        Items(may_be_empty=False),
        "The assignors that members may request; the first is the default.",
        Type.LIST,
    ),
    _row(
        "heartbeat.interval.ms",
        5000,
        AtLeast(1),
        "The interval at which members send heartbeats.",
    ),
    _row(
        "max.assignment.interval.ms",
        15_000,
        AtLeast(0),
        "The upper bound applied to a group's consumer.assignment.interval.ms.",
    ),
    _row(
        "max.heartbeat.interval.ms",
        15_000,
        AtLeast(1),
        "The upper bound applied to a group's consumer.heartbeat.interval.ms.",
    ),
    _row(
        "max.session.timeout.ms",
        60_000,
        AtLeast(1),
        "The upper bound applied to a group's consumer.session.timeout.ms.",
    ),
    _row("max.size", LARGEST[Type.INT], AtLeast(1), "How many members one group may have."),
    _row(
        "migration.policy",
        "bidirectional",
        OneOf(_POLICIES, any_case=True),
        "Which non-empty groups are converted to the other protocol: classic groups when the first "
        "member of the consumer protocol joins (upgrade), consumer groups when the last such "
        "member leaves (downgrade), both, or none.",
        Type.STRING,
    ),
    _row(
        "min.assignment.interval.ms",
        0,
        AtLeast(0),
        "The lower bound applied to a group's consumer.assignment.interval.ms.",
    ),
    _row(
        "min.heartbeat.interval.ms",
        5000,
        AtLeast(1),
        "The lower bound applied to a group's consumer.heartbeat.interval.ms.",
    ),
    _row(
        "min.session.timeout.ms",
        45_000,
        AtLeast(1),
        "The lower bound applied to a group's consumer.session.timeout.ms.",
    ),
    _row(
        "regex.refresh.interval.ms",
        600_000,
        AtLeast(10_000),
        "How often members' regular expressions are resolved again if no topic was created.",
        internal=True,
    ),
    _row(
        "session.timeout.ms",
        45_000,
        AtLeast(1),
        "How long a member may go without a heartbeat before it is removed.",
    ),
    Config(
        "group.coordinator.rebalance.protocols",
        Type.LIST,
        ("classic", "consumer", "streams"),
        "The enabled group protocols. Without consumer, its members are refused; classic is "
        "required. Share groups and streams groups are not served either way.",
        Items(may_be_empty=False, words=("consumer", "classic", "share", "streams")),
        Importance.MEDIUM,
        field="group_coordinator_rebalance_protocols",
    ),
)

_BOUNDED: Final = ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms")


def broken_rules(values: Mapping[str, Value]) -> Iterator[tuple[str, str]]:
    """(setting, reason) for times that contradict each other, unknown assignors, and a missing
    classic protocol."""
    assignors = values.get("group.consumer.assignors", _ASSIGNORS)
    if not isinstance(assignors, tuple) or set(assignors).difference(_ASSIGNORS):
        yield "group.consumer.assignors", f"the assignors are {', '.join(_ASSIGNORS)}"
    protocols = values.get("group.coordinator.rebalance.protocols", ("classic",))
    if not isinstance(protocols, tuple) or "classic" not in protocols:
        reason = "Disabling the 'classic' protocol is not supported."
        yield "group.coordinator.rebalance.protocols", reason
    times = {row.name: values.get(row.name, row.default) for row in CONSUMER_GROUP_ROWS}

    def ms(name: str) -> int:
        value = times[f"group.consumer.{name}"]
        assert isinstance(value, int)
        return value

    for name in _BOUNDED:
        least, most = f"min.{name}", f"max.{name}"
        if ms(most) < ms(least):
            rule = f"must be greater than or equal to group.consumer.{least}"
            yield f"group.consumer.{most}", rule
        elif not ms(least) <= ms(name) <= ms(most):
            rule = f"must be between group.consumer.{least} and group.consumer.{most}"
            yield f"group.consumer.{name}", rule
    if ms("session.timeout.ms") <= ms("heartbeat.interval.ms"):
        rule = "must be greater than group.consumer.heartbeat.interval.ms"
        yield "group.consumer.session.timeout.ms", rule
