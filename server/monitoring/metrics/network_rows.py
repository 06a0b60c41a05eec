"""Rows of `kafka.network`: requests, by API."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from kavka.server.monitoring.metrics.row import Kind, Metric
from kavka.server.monitoring.metrics.samples import Sample, Summary
from kavka.server.monitoring.metrics.view import View
from kavka.server.request.stats import HOT_PERIOD, ApiStats
from kavka.server.runtime.histogram import Histogram
from kavka.wire.apis import fetch
from kavka.wire.errors import ErrorCode

_TYPE: Final = "kafka.network:type=RequestMetrics"
_FETCH_CONSUMER: Final = "FetchConsumer"


def _used_apis(view: View) -> Iterator[tuple[str, ApiStats]]:
    """The APIs that were requested so far. Fetch counts as two, as in Apache Kafka: all fetches,
    and those of consumers, which for now are the same."""
    for stats in view.broker.requests:
        if any(stats.counts) or stats.errors:
            yield stats.api.name, stats
            if stats.api is fetch.API:
                yield _FETCH_CONSUMER, stats


def _requests(view: View) -> Iterator[Sample]:
    for name, stats in _used_apis(view):
        for version, count in enumerate(stats.counts):
            if count:
                yield (name, str(version)), count


def _errors(view: View) -> Iterator[Sample]:
    for name, stats in _used_apis(view):
        if name != _FETCH_CONSUMER:
            for code, count in sorted(stats.error_counts.items()):
                yield (name, ErrorCode(code).name), count


def _summary(name: str, doc: str, read: Callable[[ApiStats], Histogram]) -> Metric:
    def read_all(view: View) -> Iterator[Sample]:
        for api, stats in _used_apis(view):
            yield (api,), Summary(read(stats), sum(stats.counts))

    return Metric(f"{_TYPE},name={name}", Kind.SUMMARY, ("request",), doc, read_all)


NETWORK_ROWS: Final = (
    Metric(
        f"{_TYPE},name=RequestsPerSec",
        Kind.COUNTER,
        ("request", "version"),
        "Requests that reached their handler.",
        _requests,
    ),
    Metric(
        f"{_TYPE},name=ErrorsPerSec",
        Kind.COUNTER,
        ("request", "error"),
        "Error codes in responses, NONE included; most responses have one for each partition.",
        _errors,
    ),
    _summary(
        "TotalTimeMs",
        "Time from the arrival of a request to the sending of its response. Produce, Fetch, "
        "OffsetCommit, heartbeats and the requests of transactions are sampled: one in "
        f"{HOT_PERIOD} is timed.",
        lambda stats: stats.total_ms,
    ),
    _summary(
        "RequestQueueTimeMs",
        "Time from the arrival of a request to its handler; part of TotalTimeMs, as all below.",
        lambda stats: stats.queue_ms,
    ),
    _summary(
        "LocalTimeMs",
        "Time to decode a request and run its handler, up to the first wait.",
        lambda stats: stats.local_ms,
    ),
    _summary(
        "RemoteTimeMs",
        "Time for which a request waited: for records, replicas, the disk or the controller.",
        lambda stats: stats.remote_ms,
    ),
    _summary(
        "ResponseQueueTimeMs",
        "Time for which a response waited for those to earlier requests of its connection.",
        lambda stats: stats.response_queue_ms,
    ),
    _summary(
        "ResponseSendTimeMs",
        "Time to write a response to the socket, without the time that the peer takes to read it.",
        lambda stats: stats.send_ms,
    ),
    _summary(
        "ThrottleTimeMs",
        "How long clients were throttled.",
        lambda stats: stats.throttle_ms,
    ),
    _summary(
        "RequestBytes",
        "Sizes of requests.",
        lambda stats: stats.request_bytes,
    ),
)
