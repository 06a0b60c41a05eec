"""Rows about clients that push their metrics, and the pushed metrics themselves (KIP-714)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from kavka.server.monitoring.metrics.row import Kind, Metric
from kavka.server.monitoring.metrics.samples import Sample
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
        "Clients that have a metrics subscription.",
        lambda telemetry: len(telemetry.clients),
    ),
    _kafka(
        "unknown-subscription-request-count",
        Kind.UNTYPED,
        "Pushes with an outdated subscription id.",
        lambda telemetry: telemetry.clients.unknown_subscriptions,
    ),
    _kafka(
        "throttle-count",
        Kind.UNTYPED,
        "Requests that were throttled because they came too early.",
        lambda telemetry: telemetry.clients.throttled,
    ),
    _kafka(
        "plugin-export-count",
        Kind.UNTYPED,
        "Pushes that were processed.",
        lambda telemetry: telemetry.pushes,
    ),
    _kafka(
        "plugin-error-count",
        Kind.UNTYPED,
        "Pushes that could not be parsed.",
        lambda telemetry: telemetry.bad_pushes,
    ),
    _row(
        "kavka_client_series",
        Kind.GAUGE,
        "Series of client metrics that are exported here.",
        lambda telemetry: telemetry.series.count,
    ),
    _row(
        "kavka_client_series_dropped_total",
        Kind.COUNTER,
        "Data points of client metrics that were dropped because there were too many series.",
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
            f"{family.pushed_name}, as pushed by clients.",
            partial(_samples, series, family),
        )
        for family in series.families()
    ]


def _samples(series: Series, family: Family, view: View) -> Iterator[Sample]:
    return series.samples(family)
