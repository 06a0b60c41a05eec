"""The part without clients: whether a broker answers requests as Apache Kafka does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from kavka.compat_tests.raw.checking import check
from kavka.compat_tests.raw.outcomes import ApiOutcome, Verdict
from kavka.compat_tests.raw.playing import ranges
from kavka.compat_tests.results import ProtocolRow

REASONS_MAX: Final = 20
"""Differences of one version that are kept; one error shows in many cases."""


async def rows(
    bootstrap: str, apis: Sequence[str] | None, on_api: Callable[[str], None]
) -> list[ProtocolRow]:
    """Every version of every API, or of `apis`, against recorded answers of Apache Kafka; `on_api`
    gets a line for each API. `bootstrap`: the first address counts. raw.survey's Unsuitable."""

    def heard(outcomes: Sequence[ApiOutcome]) -> None:
        for line in lines(outcomes):
            on_api(line)

    address = bootstrap.split(",")[0]
    return [_row(one) for one in await check(address, apis, heard)]


def lines(outcomes: Sequence[ApiOutcome]) -> Iterator[str]:
    """What is said of an API's versions, a line for each verdict."""
    for verdict in Verdict:
        mine = [one for one in outcomes if one.verdict == verdict]
        if mine:
            versions = ranges([one.version for one in mine])
            played = sum(one.played for one in mine)
            yield f"{mine[0].api} v{versions}: {verdict}, {played} cases"


def _row(outcome: ApiOutcome) -> ProtocolRow:
    reasons = tuple(dict.fromkeys(map(str, outcome.failures)))[:REASONS_MAX]
    left_out = tuple(outcome.left_out) if outcome.verdict == Verdict.LEFT_OUT else ()
    return ProtocolRow(
        outcome.api,
        outcome.version,
        outcome.verdict.value,
        outcome.played,
        outcome.failed,
        reasons or left_out,
    )
