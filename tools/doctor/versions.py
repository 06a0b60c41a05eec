"""Judges which versions of the protocol brokers serve."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from kavka.tools.doctor.findings import Finding, error, note, ok
from kavka.tools.doctor.port_protocol import METADATA_KEY
from kavka.wire.apis import (
    fetch,
    find_coordinator,
    heartbeat,
    join_group,
    list_offsets,
    metadata,
    offset_commit,
    offset_fetch,
    produce,
    sync_group,
)

STEP: Final = "versions"
Served: TypeAlias = Mapping[int, tuple[int, int]]
"""(lowest, highest) version by the key of an API."""

CONTROLLER_KEYS: Final = frozenset({52, 55, 62})
"""Vote, DescribeQuorum and BrokerRegistration: what a KRaft controller serves."""

CLIENT_APIS: Final = (
    produce.API,
    fetch.API,
    list_offsets.API,
    metadata.API,
    offset_commit.API,
    offset_fetch.API,
    find_coordinator.API,
    join_group.API,
    heartbeat.API,
    sync_group.API,
)

NEEDED: Final = {0: 3, 1: 4, 2: 1, 3: 0, 8: 2, 9: 1, 10: 0, 11: 2, 12: 0, 14: 0}
"""The lowest version of each that clients of Apache Kafka 4 speak (KIP-896)."""


def judge_versions(subject: str, served: Served) -> Finding:
    """Whether today's clients and Kavka's tools can work with what a broker serves."""
    if METADATA_KEY not in served and CONTROLLER_KEYS & served.keys():
        return error(
            STEP,
            "controller-listener",
            subject,
            "is the listener of a KRaft controller: it serves no client",
            "use the port of a listener that is not in controller.listener.names; tools of Apache "
            "Kafka reach this one by --bootstrap-controller",
        )
    missing = [api.name for api in CLIENT_APIS if api.key not in served]
    if missing:
        return error(
            STEP,
            "apis-missing",
            subject,
            f"does not serve {', '.join(missing)}",
            "this is no broker that clients can use: ask who runs it what it is for",
        )
    old = [api.name for api in CLIENT_APIS if served[api.key][1] < NEEDED[api.key]]
    if old:
        return error(
            STEP,
            "too-old",
            subject,
            f"serves only old versions of {', '.join(old)}, which clients from 4.0 on don't speak",
            "upgrade the broker to 2.1 or newer, or use clients before 4.0",
        )
    return ok(STEP, subject, f"serves {len(served)} APIs, in versions that today's clients speak")


def judge_differences(served: Mapping[str, Served]) -> list[Finding]:
    """Whether the brokers of a cluster serve the same. `served`: by broker."""
    if len({frozenset(apis.items()) for apis in served.values()}) < 2:
        return []
    return [
        note(
            STEP,
            "brokers-differ",
            ", ".join(sorted(served)),
            "serve different versions of the protocol: they are of different releases",
            "finish the upgrade, unless this is what you want",
        )
    ]
