"""Rows for Kafka's broker settings that have no effect in Kavka.

Each group has a reason: a value other than the default is logged as a warning at start-up, or stops
the start if a broker that ignores the setting would be unsafe or not behave as configured.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kavka.server.config import unsupported_names as names
from kavka.server.config.rows import Config, Importance, Mode, Status
from kavka.server.config.topic_rows import (
    NO_TIERS,
    NOT_IN_CLUSTERS,
)
from kavka.server.config.validators import AtLeast, Between, Items, NonEmpty, OneOf, Validator
from kavka.server.config.value_types import Type, parse

_WARNED: Final = Status.WARNED
_REFUSED: Final = Status.REFUSED
_GROUPS: Final = (
    (names.SECURITY, _REFUSED, "TLS, SASL, ACLs and delegation tokens come later"),
    (names.QUOTAS, _REFUSED, "quotas come later"),
    (names.PLUGINS, _REFUSED, "Kavka does not run Java plug-ins"),
    (
        names.ZOOKEEPER_NEEDED,
        _REFUSED,
        "Kavka does not migrate to KRaft, and fetches no lists of revoked certificates",
    ),
    (names.ZOOKEEPER, _WARNED, "Kavka does not migrate to KRaft"),
    (names.TIERS_NEEDED, _REFUSED, NO_TIERS),
    (names.TIERS, _WARNED, NO_TIERS),
    (names.QUORUM, _WARNED, "Kavka's controller is in the broker, there is no KRaft quorum"),
    (names.LOOP, _WARNED, "Kavka runs on one event loop, not on pools of threads"),
    (names.SHARE, _WARNED, "share groups and streams groups are not served"),
    (names.GROUPS, _WARNED, "Kavka's groups need no threads and write at once"),
    (names.COMMITS, _WARNED, "offsets are committed when all replicas in sync have them"),
    (names.TRANSACTIONS, _WARNED, "transactions in two phases (KIP-939) are not served"),
    (names.REPLICATION, _WARNED, NOT_IN_CLUSTERS),
    (names.TIMES, _WARNED, "the bounds before and after have taken its place (KIP-937)"),
    (names.METRICS, _WARNED, "kavka.http.listener serves all metrics, without reporters"),
    (names.REST, _WARNED, "Kavka has nothing that it would change"),
)
_IMPORTANCE: Final = {"H": Importance.HIGH, "M": Importance.MEDIUM, "L": Importance.LOW}


def _check(text: str) -> Validator | None:
    if text == "-":
        return None
    if text == "nonempty":
        return NonEmpty()
    if text.startswith(">="):
        return AtLeast(int(text[2:]))
    if text.startswith("items"):
        size, _, words = text.partition(":")
        return Items(size == "items", tuple(words.split("|")) if words else ())
    if "|" in text:
        return OneOf(tuple(text.removeprefix("~").split("|")), text.startswith("~"))
    least, most = text.split("..")
    return Between(int(least), float(most) if "." in most else int(most))


def _mode(flags: str) -> Mode:
    if "C" in flags:
        return Mode.CLUSTER_WIDE
    return Mode.PER_BROKER if "B" in flags else Mode.READ_ONLY


def _rows() -> Iterator[Config]:
    for lines, status, note in _GROUPS:
        for line in lines.splitlines():
            name, type_name, default, check, flags = line.split(" ")
            type_ = Type[type_name.upper()]
            yield Config(
                name,
                type_,
                None if default == "null" else parse(name, type_, default.strip('"')),
                "",
                _check(check),
                _IMPORTANCE[flags[0]],
                _mode(flags),
                status=status,
                note=note,
                internal="i" in flags or "o" in flags,
            )


KNOWN_ROWS: Final = tuple(_rows())
