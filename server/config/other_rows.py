"""Configs of groups and of client metrics subscriptions.

Those of consumer groups are taken; the others are known, described, and refused. Apache Kafka
describes any group and any subscription, made or not, by the defaults; so does Kavka.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kavka.server.config.checks import AtLeast, Between, Check, Items
from kavka.server.config.rows import Config, Scope, Status
from kavka.server.config.values import Type, Value

_NO_GROUPS: Final = "share groups and streams groups are not served"
_NO_CLIENT_METRICS: Final = "this broker collects no metrics of clients"
_HOUR_MS: Final = 3_600_000


def _group(name: str, default: Value, doc: str, type_: Type = Type.INT) -> Config:
    """A row whose default is the broker's `group.` setting of that name, where there is one."""
    fallback = ((f"group.{name}", 1),) if type_ is Type.INT else ()
    return _row(name, type_, default, None, doc, Scope.GROUP, note=_NO_GROUPS, fallback=fallback)


def _subscription(name: str, type_: Type, default: Value, check: Check, doc: str) -> Config:
    return _row(name, type_, default, check, doc, Scope.CLIENT_METRICS, note=_NO_CLIENT_METRICS)


def _row(
    name: str,
    type_: Type,
    default: Value,
    check: Check | None,
    doc: str,
    scope: Scope,
    **more: Any,
) -> Config:
    return Config(name, type_, default, doc, check, scope=scope, status=Status.REFUSED, **more)


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
    _group("share.assignment.interval.ms", 1000, "Least time between two assignments."),
    _group("share.auto.offset.reset", "latest", "Where a share group begins.", Type.STRING),
    _group("share.delivery.count.limit", 5, "How often a record is delivered at most."),
    _group("share.heartbeat.interval.ms", 5000, "Time between two heartbeats of a member."),
    _group(
        "share.isolation.level",
        "read_uncommitted",
        "Whether records of transactions are delivered before those are committed.",
        Type.STRING,
    ),
    _group("share.partition.max.record.locks", 2000, "Records of a partition delivered at once."),
    _group("share.record.lock.duration.ms", 30_000, "How long a delivered record is locked."),
    _group(
        "share.renew.acknowledge.enable",
        True,
        "Whether members may renew the lock of a record.",
        Type.BOOLEAN,
    ),
    _group("share.session.timeout.ms", 45_000, "A silent member is given up after this time."),
    _group("streams.assignment.interval.ms", 1000, "Least time between two assignments."),
    _group("streams.heartbeat.interval.ms", 5000, "Time between two heartbeats of a member."),
    _group("streams.initial.rebalance.delay.ms", 3000, "How long a new group waits for members."),
    _group("streams.num.standby.replicas", 0, "Standby replicas of each task."),
    _group("streams.session.timeout.ms", 45_000, "A silent member is given up after this time."),
)

_SUBSCRIPTION_ROWS: Final = (
    _subscription(
        "interval.ms",
        Type.INT,
        300_000,
        Between(100, _HOUR_MS),
        "Time between two reports of a client.",
    ),
    _subscription("match", Type.LIST, (), Items(), "Which clients report."),
    _subscription("metrics", Type.LIST, (), Items(), "Beginnings of the metrics' names."),
)

GROUP: Final[Mapping[str, Config]] = {row.name: row for row in _GROUP_ROWS}
CLIENT_METRICS: Final[Mapping[str, Config]] = {row.name: row for row in _SUBSCRIPTION_ROWS}
