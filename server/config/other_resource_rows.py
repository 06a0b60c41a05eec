"""Configs of groups and of client metrics subscriptions.

Those of share groups and streams groups are accepted, with a warning, if Apache Kafka accepts them,
though Kavka has no such groups, so that its tools work; they are stored for a later version. Like
Apache Kafka, Kavka describes any group and any subscription, existing or not, with the defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kavka.server.config.rows import Config, Scope, Status
from kavka.server.config.validators import AtLeast, Items, OneOf, ShareStart, Validator
from kavka.server.config.value_types import Type, Value

_NO_GROUPS: Final = "share groups and streams groups are not served"


def _group(
    name: str, default: Value, check: Validator | None, doc: str, type_: Type = Type.INT
) -> Config:
    """A row whose default is the broker's `group.` setting of that name, if there is one."""
    return Config(
        name,
        type_,
        default,
        doc,
        check,
        scope=Scope.GROUP,
        status=Status.WARNED,
        note=_NO_GROUPS,
        fallback=((f"group.{name}", 1),) if type_ is Type.INT else (),
    )


def _subscription(
    name: str, type_: Type, default: Value, check: Validator | None, doc: str
) -> Config:
    return Config(name, type_, default, doc, check, scope=Scope.CLIENT_METRICS)


def _consumer(name: str, default: int, least: int, doc: str) -> Config:
    key = f"consumer.{name}"
    return Config(
        key,
        Type.INT,
        default,
        doc,
        AtLeast(least),
        scope=Scope.GROUP,
        fallback=((f"group.{key}", 1),),
    )


_GROUP_ROWS: Final = (
    _consumer("assignment.interval.ms", 1000, 0, "Least time between two assignments."),
    _consumer("heartbeat.interval.ms", 5000, 1, "Time between two heartbeats of a consumer."),
    _consumer("session.timeout.ms", 45_000, 1, "A silent consumer is given up after this time."),
    _group("share.assignment.interval.ms", 1000, AtLeast(0), "Least time between assignments."),
    _group(
        "share.auto.offset.reset",
        "latest",
        ShareStart(),
        "Where a share group begins.",
        Type.STRING,
    ),
    _group("share.delivery.count.limit", 5, AtLeast(2), "How often a record is delivered at most."),
    _group("share.heartbeat.interval.ms", 5000, AtLeast(1), "Time between a member's heartbeats."),
    _group(
        "share.isolation.level",
        "read_uncommitted",
        OneOf(("read_committed", "read_uncommitted")),
        "Whether records of transactions are delivered before those are committed.",
        Type.STRING,
    ),
    _group(
        "share.partition.max.record.locks",
        2000,
        AtLeast(100),
        "Records of a partition delivered at once.",
    ),
    _group(
        "share.record.lock.duration.ms",
        30_000,
        AtLeast(1000),
        "How long a delivered record is locked.",
    ),
    _group(
        "share.renew.acknowledge.enable",
        True,
        None,
        "Whether members may renew the lock of a record.",
        Type.BOOLEAN,
    ),
    _group("share.session.timeout.ms", 45_000, AtLeast(1), "A silent member is dropped after it."),
    _group("streams.assignment.interval.ms", 1000, AtLeast(0), "Least time between assignments."),
    _group(
        "streams.heartbeat.interval.ms", 5000, AtLeast(1), "Time between a member's heartbeats."
    ),
    _group(
        "streams.initial.rebalance.delay.ms",
        3000,
        AtLeast(0),
        "How long a new group waits for members.",
    ),
    _group("streams.num.standby.replicas", 0, AtLeast(0), "Standby replicas of each task."),
    _group(
        "streams.session.timeout.ms", 45_000, AtLeast(1), "A silent member is dropped after it."
    ),
)

_SUBSCRIPTION_ROWS: Final = (
    _subscription(
        "interval.ms",
        Type.INT,
        300_000,
        None,
        "Time between two pushes of a client; 100 to 3600000.",
    ),
    _subscription(
        "match",
        Type.LIST,
        (),
        Items(),
        "Which clients are meant: selectors with regular expressions, such as client_id=app.*, "
        "which all have to match. With none, every client is.",
    ),
    _subscription(
        "metrics",
        Type.LIST,
        (),
        Items(),
        "How the names of the metrics begin that clients push; * for all.",
    ),
)

GROUP: Final[Mapping[str, Config]] = {row.name: row for row in _GROUP_ROWS}
CLIENT_METRICS: Final[Mapping[str, Config]] = {row.name: row for row in _SUBSCRIPTION_ROWS}
