"""What a report says of the part without clients, as rows of texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from kavka.compat_tests.raw.outcomes import Verdict
from kavka.compat_tests.raw.playing import ranges
from kavka.compat_tests.results import ProtocolRow

ABOUT: Final = (
    "Requests in every version, whose answers are compared field by field with recorded ones of "
    "Apache Kafka 4.3.1, and of 3.9.2 for versions that 4.3.1 does not serve. The broker offers "
    "the versions under 'offered, no cases', too; the suite has no requests for them yet."
)
HEAD: Final = (
    "API",
    "the same",
    "different",
    "not offered",
    "not tried",
    "offered, no cases",
    "cases",
)
KNOWN_HEAD: Final = ("API", "versions", "case and field", "why")
KNOWN: Final = "Differences with a reason: Kavka answers so on purpose"
NEW: Final = "Differences without a reason"
LEFT_OUT_HEAD: Final = ("API", "versions", "cases", "why")
LEFT_OUT: Final = "Cases that could not be tried on this broker"


def by_api(protocol: Sequence[ProtocolRow]) -> Iterator[list[str]]:
    """A row an API, under HEAD: its versions by what is said of them."""
    found: dict[str, list[ProtocolRow]] = {}
    for row in protocol:
        found.setdefault(row.api, []).append(row)
    for api, rows in found.items():
        versions = [_versions(rows, verdict) for verdict in Verdict]
        yield [api, *versions, str(sum(api_row.played for api_row in rows))]


def said_of(api: str, protocol: Sequence[ProtocolRow]) -> str:
    """What is said of an API's versions, in one line."""
    rows = [row for row in protocol if row.api == api]
    parts = zip(HEAD[1:], (_versions(rows, verdict) for verdict in Verdict), strict=False)
    return "; ".join(f"{heading} {versions}" for heading, versions in parts if versions)


def _versions(rows: Sequence[ProtocolRow], verdict: Verdict) -> str:
    return ranges([row.version for row in rows if row.verdict == verdict])


def new(protocol: Sequence[ProtocolRow]) -> dict[str, dict[str, str]]:
    """By API: each difference without a known reason, and the versions that show it."""
    found: dict[str, dict[str, list[int]]] = {}
    for row in protocol:
        if row.verdict == Verdict.FAILED:
            for reason in row.reasons:
                found.setdefault(row.api, {}).setdefault(reason, []).append(row.version)
    return {
        api: {reason: ranges(versions) for reason, versions in of_api.items()}
        for api, of_api in found.items()
    }


def known(protocol: Sequence[ProtocolRow]) -> Iterator[list[str]]:
    """A row a difference with a known reason, under KNOWN_HEAD."""
    found: dict[tuple[str, str, str], list[int]] = {}
    for row in protocol:
        for where, why in row.known.items():
            found.setdefault((row.api, where, why), []).append(row.version)
    for (api, where, why), versions in found.items():
        yield [api, ranges(versions), where, why]


def left_out(protocol: Sequence[ProtocolRow]) -> Iterator[list[str]]:
    """A row a reason for which cases of an API were left out, under LEFT_OUT_HEAD."""
    found: dict[tuple[str, str], dict[int, int]] = {}
    for row in protocol:
        for why, cases in row.left_out.items():
            found.setdefault((row.api, why), {})[row.version] = cases
    for (api, why), of_versions in found.items():
        yield [api, ranges(list(of_versions)), str(sum(of_versions.values())), why]
