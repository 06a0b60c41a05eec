"""What cases of clients' metrics share: ids of clients, and subscriptions that mean one alone."""

from __future__ import annotations

import hashlib
from typing import Any, Final
from uuid import UUID

from kavka.compat_tests.raw.case import Ground, Step
from kavka.compat_tests.raw.configs import DELETE, SET, SUBSCRIPTION, Change, resource
from kavka.zktree.paths import uuid_text

DEFAULT_INTERVAL_MS: Final = 300_000
LONG_MS: Final = 3_600_000


def client_of(on: Ground, label: str = "client") -> UUID:
    """The id of a client that this case and version has for itself."""
    digest = hashlib.sha256(f"{on.group} {label}".encode()).digest()
    return UUID(bytes=digest[:16], version=4)


def subscribe(on: Ground, label: str, match: str | None = None, **configs: str) -> Step:
    """Subscribe to metrics of the case's client, or of whom `match` says."""
    meant = f"client_instance_id={uuid_text(client_of(on))}"
    given = {"match": meant if match is None else match, **configs}
    changes = [Change(key.replace("_", "."), SET, text) for key, text in given.items()]
    return _altered(on, label, changes)


def unsubscribe(on: Ground, label: str) -> Step:
    names = ("match", "metrics", "interval.ms")
    return _altered(on, label, [Change(key, DELETE, None) for key in names])


def _altered(on: Ground, label: str, changes: list[Change]) -> Step:
    name = f"{on.group}-{label}"
    resources = [resource(SUBSCRIPTION, name, *changes)]
    return on.other("IncrementalAlterConfigs", 1, resources=resources, validate_only=False)


def ask_for_subscriptions(on: Ground, **more: Any) -> Step:
    """GetTelemetrySubscriptions of the case's client."""
    return on.other("GetTelemetrySubscriptions", 0, client_instance_id=client_of(on), **more)


def ask_for_subscriptions_until(on: Ground, interval_ms: int) -> Step:
    """The same, until the client is given this interval: brokers follow changes by and by, and
    a change is answered at once."""

    def is_other(answer: Any) -> bool:
        return bool(answer["push_interval_ms"] != interval_ms)

    return ask_for_subscriptions(on, again=is_other)
