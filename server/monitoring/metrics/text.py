"""The page `/metrics` in Prometheus' text format, generated in short slices of the event loop."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Iterator, Sequence
from itertools import islice
from typing import Final

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.metrics_core import Metric as Family

from kavka.seams import Tasks
from kavka.server.monitoring.metrics.row import Kind, Metric
from kavka.server.monitoring.metrics.samples import Sample, Summary
from kavka.server.monitoring.metrics.view import Sources, View, collect
from kavka.server.runtime import cooperative

CONTENT_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4

SAMPLES_PER_STEP: Final = 128
"""At 7 us each, a millisecond."""

SUMMARIES_PER_STEP: Final = 16
"""Eight lines each, with quantiles to compute."""

_QUANTILES: Final = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)
_QUANTILE_LABELS: Final = ("0.50", "0.75", "0.95", "0.98", "0.99", "0.999")
"""As the JMX exporter writes Apache Kafka's percentiles."""


class _Piece:
    """A registry of one family, for the Prometheus library."""

    def __init__(self, family: Family) -> None:
        self._family = family

    def collect(self) -> Iterator[Family]:
        yield self._family


async def page(
    table: Sequence[Metric], sources: Sources, tasks: Tasks, names: Collection[str] = ()
) -> AsyncGenerator[bytes, None]:
    """The text of the whole table, or of the metrics with these Prometheus `names`."""
    view = cooperative.run(tasks, collect(sources))
    if not isinstance(view, View):
        view = await view
    for metric in table:
        if names and metric.prometheus not in names:
            continue
        samples = iter(metric.read(view))
        size = SUMMARIES_PER_STEP if metric.kind is Kind.SUMMARY else SAMPLES_PER_STEP
        part = list(islice(samples, size))
        text = _text(metric, part, view) if part else b""
        while text:
            yield text
            await tasks.sleep(0)
            part = list(islice(samples, size))
            text = _without_head(_text(metric, part, view)) if part else b""


def _text(metric: Metric, samples: Sequence[Sample], view: View) -> bytes:
    name = metric.prometheus
    family = Family(name.removesuffix("_total"), metric.doc, metric.kind.value)
    for values, value in samples:
        labels = dict(zip(metric.labels, values, strict=False))
        if isinstance(value, Summary):
            _add_summary(family, name, labels, value, view)
        else:
            family.add_sample(name, labels, value)
    return generate_latest(_Piece(family))


def _add_summary(
    family: Family, name: str, labels: dict[str, str], summary: Summary, view: View
) -> None:
    quantiles = summary.histogram.quantiles(_QUANTILES, view.now_s)
    for label, value in zip(_QUANTILE_LABELS, quantiles, strict=True):
        family.add_sample(name, {**labels, "quantile": label}, value)
    family.add_sample(f"{name}_sum", labels, summary.histogram.total)
    family.add_sample(f"{name}_count", labels, summary.times)


def _without_head(text: bytes) -> bytes:
    """Remove HELP and TYPE, which only a family's first piece may have."""
    return text.split(b"\n", 2)[2]
