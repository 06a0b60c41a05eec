"""What clients push (KIP-714), written with OpenTelemetry's library."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AggregationTemporality,
    Metric,
    MetricsData,
)

DELTA = AggregationTemporality.AGGREGATION_TEMPORALITY_DELTA
CUMULATIVE = AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE

Labels = Mapping[str, str]


def gauge(name: str, value: float, labels: Labels | None = None) -> Metric:
    metric = Metric(name=name)
    _labelled(metric.gauge.data_points.add(as_double=value), labels)
    return metric


def counter(
    name: str,
    value: int,
    labels: Labels | None = None,
    *,
    temporality: Any = DELTA,
    is_monotonic: bool = True,
) -> Metric:
    metric = Metric(name=name)
    metric.sum.aggregation_temporality = temporality
    metric.sum.is_monotonic = is_monotonic
    _labelled(metric.sum.data_points.add(as_int=value), labels)
    return metric


def histogram(name: str, count: int, total: float, labels: Labels | None = None) -> Metric:
    metric = Metric(name=name)
    metric.histogram.aggregation_temporality = DELTA
    _labelled(metric.histogram.data_points.add(count=count, sum=total), labels)
    return metric


def in_one(*metrics: Metric) -> bytes:
    """A push with all metrics in one scope, as librdkafka makes it."""
    data = MetricsData()
    data.resource_metrics.add().scope_metrics.add().metrics.extend(metrics)
    return bytes(data.SerializeToString())


def each(*metrics: Metric) -> bytes:
    """A push with a resource for each metric, as Java's clients make it."""
    data = MetricsData()
    for metric in metrics:
        data.resource_metrics.add().scope_metrics.add().metrics.append(metric)
    return bytes(data.SerializeToString())


def _labelled(point: Any, labels: Labels | None) -> None:
    for key, text in (labels or {}).items():
        attribute = point.attributes.add(key=key)
        attribute.value.string_value = text
