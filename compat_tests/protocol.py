"""The part without clients: whether a broker answers requests as Apache Kafka does."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final

from kavka.compat_tests.raw.checking import check
from kavka.compat_tests.raw.judges import JUDGES
from kavka.compat_tests.raw.outcomes import ApiOutcome, Failure, Verdict
from kavka.compat_tests.raw.playing import ranges
from kavka.compat_tests.results import ProtocolRow

REASONS_MAX: Final = 20
"""Differences of one version without a known reason that are kept; one error shows in many
cases."""


async def rows(
    bootstrap: str,
    apis: Sequence[str] | None,
    on_api: Callable[[str], None],
    judges: Collection[str] = JUDGES,
) -> list[ProtocolRow]:
    """Every version of every API, or of `apis`, against recorded answers of Apache Kafka, of the
    releases `judges`; `on_api` gets a line for each API. `bootstrap`: the first address counts.
    raw.survey's Unsuitable."""

    def heard(outcomes: Sequence[ApiOutcome]) -> None:
        for line in lines(outcomes):
            on_api(line)

    address = bootstrap.split(",")[0]
    return [row(outcome) for outcome in await check(address, apis, heard, judges)]


def lines(outcomes: Sequence[ApiOutcome]) -> Iterator[str]:
    """What is said of an API's versions, a line for each verdict."""
    for verdict in Verdict:
        mine = [outcome for outcome in outcomes if outcome.verdict == verdict]
        if mine:
            versions = ranges([outcome.version for outcome in mine])
            played = sum(outcome.played for outcome in mine)
            line = f"{mine[0].api} v{versions}: {verdict}, {played} cases"
            if verdict == Verdict.NO_CASES:
                line = f"{mine[0].api} v{versions}: offered, {verdict}"
            elif verdict == Verdict.FAILED:
                new = any(failure.why is None for outcome in mine for failure in outcome.failures)
                line += "" if new else ", for known reasons only"
            elif verdict == Verdict.LEFT_OUT:
                line += f": {'; '.join(dict.fromkeys(why for run in mine for why in run.left_out))}"
            yield line


def row(outcome: ApiOutcome) -> ProtocolRow:
    """What is kept of one version."""
    new = [str(failure) for failure in outcome.failures if failure.why is None]
    return ProtocolRow(
        outcome.api,
        outcome.version,
        outcome.verdict.value,
        outcome.played,
        outcome.failed,
        tuple(dict.fromkeys(new))[:REASONS_MAX],
        _known(outcome.failures),
        dict(outcome.left_out),
    )


def _known(failures: Sequence[Failure]) -> dict[str, str]:
    """Differences with a reason: the cases, each with the fields that are others, and why."""
    fields: dict[tuple[str, str], dict[str, None]] = {}
    for failure in failures:
        if failure.why is not None:
            fields.setdefault((failure.case, failure.why), {})[
                f"{failure.field} of {failure.asked}"
            ] = None
    return {f"'{case}': {', '.join(found)}": why for (case, why), found in fields.items()}
