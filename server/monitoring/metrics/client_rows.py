"""Rows that tell of clients that push their metrics, and these metrics themselves (KIP-714)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from kavka.server.monitoring.metrics.row import Kind, Metric, Sample
from kavka.server.monitoring.metrics.view import View

if TYPE_CHECKING:
    from kavka.server.telemetry.receiver import Telemetry
    from kavka.server.telemetry.series import Family, Series


def _row(name: str, kind: Kind, doc: str, read: Callable[[Telemetry], int]) -> Metric:
    def read_known(view: View) -> Iterator[Sample]:
        if view.broker.telemetry is not None:
            yield (), read(view.broker.telemetry)

    return Metric(name, kind, (), doc, read_known)


def _kafka(name: str, kind: Kind, doc: str, read: Callable[[Telemetry], int]) -> Metric:
    return _row(f"kafka.server:type=client-metrics#{name}", kind, doc, read)


CLIENT_ROWS: Final = (
    _kafka(
        "instance-count",
        Kind.GAUGE,
        "Clients that are asked for metrics.",
        lambda telemetry: len(telemetry.clients),
    ),
    _kafka(
        "unknown-subscription-request-count",
        Kind.UNTYPED,
        "Pushes by a subscription that is none any more.",
        lambda telemetry: telemetry.clients.unknown_subscriptions,
    ),
    _kafka(
        "throttle-count",
        Kind.UNTYPED,
        "Requests of clients that came too early.",
        lambda telemetry: telemetry.clients.throttled,
    ),
    _kafka(
        "plugin-export-count",
        Kind.UNTYPED,
        "Pushes of clients that were read.",
        lambda telemetry: telemetry.pushes,
    ),
    _kafka(
        "plugin-error-count",
        Kind.UNTYPED,
        "Pushes of clients that can't be read.",
        lambda telemetry: telemetry.bad_pushes,
    ),
    _row(
        "kavka_client_series",
        Kind.GAUGE,
        "Series of clients' metrics that are shown here.",
        lambda telemetry: telemetry.series.count,
    ),
    _row(
        "kavka_client_series_dropped_total",
        Kind.COUNTER,
        "Numbers of clients that found no place among the series.",
        lambda telemetry: telemetry.series.dropped,
    ),
)


def pushed_rows(series: Series) -> Sequence[Metric]:
    """A row for every metric that clients have pushed."""
    return [
        Metric(
            family.name,
            Kind.COUNTER if family.is_counter else Kind.GAUGE,
            tuple(family.labels),
            f"{family.pushed_name}, as clients push it.",
            partial(_samples, series, family),
        )
        for family in series.families()
    ]


def _samples(series: Series, family: Family, view: View) -> Iterator[Sample]:
    return series.samples(family)
