"""Rows of `kafka.network`: requests, by API."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from kavka.server.monitoring.metrics.row import Kind, Metric, Sample, Spread
from kavka.server.monitoring.metrics.view import View
from kavka.server.request.stats import HOT_PERIOD, ApiStats
from kavka.server.runtime.histogram import Histogram
from kavka.wire.apis import fetch
from kavka.wire.errors import ErrorCode

_TYPE: Final = "kafka.network:type=RequestMetrics"
_FETCH_CONSUMER: Final = "FetchConsumer"


def _asked(view: View) -> Iterator[tuple[str, ApiStats]]:
    """The APIs that were asked for so far. Fetch counts as two, as in Apache Kafka: all that
    fetch, and consumers, which so far is the same."""
    for stats in view.broker.requests:
        if any(stats.counts) or stats.errors:
            yield stats.api.name, stats
            if stats.api is fetch.API:
                yield _FETCH_CONSUMER, stats


def _requests(view: View) -> Iterator[Sample]:
    for name, stats in _asked(view):
        for version, count in enumerate(stats.counts):
            if count:
                yield (name, str(version)), count


def _errors(view: View) -> Iterator[Sample]:
    for name, stats in _asked(view):
        if name != _FETCH_CONSUMER:
            for code, count in sorted(stats.error_counts.items()):
                yield (name, ErrorCode(code).name), count


def _spread(name: str, doc: str, read: Callable[[ApiStats], Histogram]) -> Metric:
    def read_all(view: View) -> Iterator[Sample]:
        for api, stats in _asked(view):
            yield (api,), Spread(read(stats), sum(stats.counts))

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
        "Error codes in answers, NONE included: one for each place that an answer has for one, so "
        "as a rule one for each partition.",
        _errors,
    ),
    _spread(
        "TotalTimeMs",
        "Time from the arrival of a request to the sending of its answer. Of Produce, Fetch, "
        "OffsetCommit, heartbeats, and of the requests of each transaction one in "
        f"{HOT_PERIOD} is timed and stands for those since the last one.",
        lambda stats: stats.total_ms,
    ),
    _spread(
        "RequestQueueTimeMs",
        "Time from the arrival of a request to its handler; part of TotalTimeMs, as those below.",
        lambda stats: stats.queue_ms,
    ),
    _spread(
        "LocalTimeMs",
        "Time to read a request and in its handler, up to the first wait.",
        lambda stats: stats.local_ms,
    ),
    _spread(
        "RemoteTimeMs",
        "Time for which a request's handler waited: for records, replicas, the disk, the "
        "controller.",
        lambda stats: stats.remote_ms,
    ),
    _spread(
        "ResponseQueueTimeMs",
        "Time for which an answer waited for those to earlier requests of its connection.",
        lambda stats: stats.response_queue_ms,
    ),
    _spread(
        "ResponseSendTimeMs",
        "Time to write an answer; not the time that the peer took to read it.",
        lambda stats: stats.send_ms,
    ),
    _spread(
        "ThrottleTimeMs",
        "How long clients were throttled.",
        lambda stats: stats.throttle_ms,
    ),
    _spread(
        "RequestBytes",
        "Sizes of requests.",
        lambda stats: stats.request_bytes,
    ),
)
