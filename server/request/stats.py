"""Request counts and times, for metrics and the request log.

Every request is counted. Timing costs some microseconds, so of the frequent APIs in `HOT` only
one request in `HOT_PERIOD` is timed, with the weight of all since the last one. All others are
timed, and while the request log is on every request is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any, Final

from kavka.server.request import log as request_log
from kavka.server.request.context import RequestContext
from kavka.server.runtime.histogram import Histogram, PartHistogram
from kavka.wire import header
from kavka.wire.api import Api
from kavka.wire.error_counts import Counter, error_counter
from kavka.wire.errors import ErrorCode

HOT_PERIOD: Final = 127
"""A prime, so that sampling does not coincide with a periodic pattern of requests."""

HOT: Final = (0, 1, 2, 8, 12, 24, 25, 26, 28, 68)
"""Produce, Fetch, ListOffsets (Spark's executors send more of them than Fetches), OffsetCommit,
Heartbeat, ConsumerGroupHeartbeat, and the requests of each transaction: AddPartitionsToTxn,
AddOffsetsToTxn, EndTxn and TxnOffsetCommit."""


class Tally:
    """The requests of one API in one version.

    `left` is how many more requests are not timed: each is counted with `left -= 1`. When it is 0
    the next request is timed, and `RequestStats.begin` or `count_fast_path` counts it.
    """

    __slots__ = ("_base", "_weighed", "api", "left", "version")

    def __init__(self, api: ApiStats, version: int) -> None:
        self.api = api
        self.version = version
        self.left = 0
        self._base = 0
        self._weighed = 0

    @property
    def count(self) -> int:
        """Requests so far."""
        return self._base - self.left

    def count_timed(self, period: int) -> int:
        """Count a timed request and return its weight: the requests it stands for. `left` is 0."""
        count = self._base + 1
        self._base += period
        self.left = period - 1
        weight, self._weighed = count - self._weighed, count
        return weight

    def time_next(self) -> None:
        """Let the next request be timed."""
        self._base -= self.left
        self.left = 0


class ApiStats:
    """All requests of one API. Times in ms, sizes in bytes."""

    __slots__ = (
        "api",
        "count_errors",
        "errors",
        "local_ms",
        "period",
        "queue_ms",
        "fast_path_tallies",
        "remote_ms",
        "request_bytes",
        "response_queue_ms",
        "send_ms",
        "tallies",
        "throttle_ms",
        "total_ms",
    )

    def __init__(self, api: Api) -> None:
        self.api = api
        self.period = HOT_PERIOD if api.key in HOT else 1
        self.tallies = [Tally(self, version) for version in range(api.highest + 1)]
        self.fast_path_tallies = [Tally(self, version) for version in range(api.highest + 1)]
        """Requests of the fast path; their responses have one error code each, NONE."""
        self.errors: defaultdict[int, int] = defaultdict(int)
        """Counts of error codes in the responses of the general path."""
        self.total_ms = Histogram()
        self.queue_ms = PartHistogram(self.total_ms)
        self.local_ms = PartHistogram(self.total_ms)
        self.remote_ms = PartHistogram(self.total_ms)
        self.throttle_ms = PartHistogram(self.total_ms)
        self.response_queue_ms = PartHistogram(self.total_ms)
        self.send_ms = PartHistogram(self.total_ms)
        self.request_bytes = PartHistogram(self.total_ms)
        self.count_errors: Counter = self._count_first_errors
        """Adds the error codes of a response, NONE included."""

    @property
    def counts(self) -> list[int]:
        """Requests by version."""
        return [
            general.count + fast.count
            for general, fast in zip(self.tallies, self.fast_path_tallies, strict=True)
        ]

    @property
    def error_counts(self) -> dict[int, int]:
        """Counts of error codes in responses, NONE included."""
        counts = dict(self.errors)
        if fast := sum(tally.count for tally in self.fast_path_tallies):
            counts[ErrorCode.NONE] = counts.get(ErrorCode.NONE, 0) + fast
        return counts

    def _count_first_errors(self, response: Any) -> None:
        """Build the counter from the API's schema at its first response."""
        self.count_errors = error_counter(self.api, self.errors)
        self.count_errors(response)


class Timing:
    """A timed request in flight. Seconds of the monotonic clock."""

    __slots__ = (
        "_arrived_s",
        "_handled_s",
        "_dequeued_s",
        "_now_s",
        "_responded_s",
        "_started_s",
        "_tally",
        "_weight",
    )

    def __init__(
        self,
        tally: Tally,
        weight: int,
        now_s: Callable[[], float],
        arrived_s: float,
        started_s: float,
    ) -> None:
        self._tally = tally
        self._weight = weight
        self._now_s = now_s
        self._arrived_s = arrived_s
        self._started_s = started_s
        self._handled_s = self._responded_s = self._dequeued_s = started_s

    def handled(self) -> None:
        """The handler has returned a response or an awaitable."""
        self._handled_s = self._responded_s = self._dequeued_s = self._now_s()

    def responded(self) -> None:
        """The handler's awaited response is ready."""
        self._responded_s = self._dequeued_s = self._now_s()

    def dequeued(self) -> None:
        """The response has reached the head of the response queue."""
        self._dequeued_s = self._now_s()

    def written(
        self, context: RequestContext, request_bytes: int, response_bytes: int, throttle_ms: int
    ) -> None:
        """The response was written, or there is none: record the times."""
        end_s = self._now_s()
        dequeued_s = self._dequeued_s
        stats, weight = self._tally.api, self._weight
        queue_ms = (self._started_s - self._arrived_s) * 1000
        local_ms = (self._handled_s - self._started_s) * 1000
        remote_ms = (self._responded_s - self._handled_s) * 1000
        response_queue_ms = (dequeued_s - self._responded_s) * 1000
        send_ms = (end_s - dequeued_s) * 1000
        total_ms = (end_s - self._arrived_s) * 1000
        stats.total_ms.add(total_ms, end_s, weight)
        stats.queue_ms.add(queue_ms, end_s, weight)
        stats.local_ms.add(local_ms, end_s, weight)
        stats.request_bytes.add(request_bytes, end_s, weight)
        if remote_ms:
            stats.remote_ms.add(remote_ms, end_s, weight)
        if response_queue_ms:
            stats.response_queue_ms.add(response_queue_ms, end_s, weight)
        if send_ms:
            stats.send_ms.add(send_ms, end_s, weight)
        if throttle_ms:
            stats.throttle_ms.add(throttle_ms, end_s, weight)
        if request_log.is_on():
            request_log.log(
                stats.api,
                context,
                request_bytes=request_bytes,
                response_bytes=response_bytes,
                totalTimeMs=total_ms,
                requestQueueTimeMs=queue_ms,
                localTimeMs=local_ms,
                remoteTimeMs=remote_ms,
                throttleTimeMs=throttle_ms,
                responseQueueTimeMs=response_queue_ms,
                sendTimeMs=send_ms,
            )


class RequestStats:
    """All requests of a broker, by API key."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self.now_s = now_s
        self._apis: dict[int, ApiStats] = {}
        self.logs = False
        """Whether the request log was on at the last check."""

    def __iter__(self) -> Iterator[ApiStats]:
        return iter(list(self._apis.values()))

    def of(self, api: Api) -> ApiStats:
        """The statistics of an API, created at the first call."""
        found = self._apis.get(api.key)
        if found is None:
            found = self._apis[api.key] = ApiStats(api)
        return found

    def follow_log(self) -> None:
        """Switch to the other state of the request log, which was turned on or off."""
        self.logs = not self.logs
        if self.logs:
            for stats in self._apis.values():
                for tally in (*stats.tallies, *stats.fast_path_tallies):
                    tally.time_next()

    def begin(self, tally: Tally, arrived_s: float) -> Timing:
        """Count a request that is about to be handled, and start its timing; `tally.left` is 0."""
        weight = tally.count_timed(1 if self.logs else tally.api.period)
        return Timing(tally, weight, self.now_s, arrived_s, self.now_s())

    def count_fast_path(
        self,
        tally: Tally,
        context: RequestContext,
        started_s: float,
        frame: memoryview,
        response: bytes | bytearray,
    ) -> None:
        """Count and time a request of the fast path; `tally.left` is 0. `context` is of the
        remembered request, which differs only in its correlation id."""
        if request_log.is_on() is not self.logs:
            self.follow_log()
        weight = tally.count_timed(1 if self.logs else tally.api.period)
        timing = Timing(tally, weight, self.now_s, context.peer.arrived_s, started_s)
        timing.handled()
        correlation_id = header.read_fixed(frame)[2]
        own = RequestContext(context.peer, context.version, correlation_id, context.client_id)
        timing.written(own, len(frame), len(response), 0)
