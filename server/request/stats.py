"""What is counted and timed of requests, for metrics and the request log.

Every request is counted. Times cost some microseconds, so of the APIs in `HOT`, of which there
are many requests, only one in `HOT_PERIOD` is timed and stands for those since the last one; of
all others, and while the request log is on, each is.
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
"""A prime, so that a pattern of requests does not hide behind it."""

HOT: Final = (0, 1, 8, 12, 24, 25, 26, 28, 68)
"""Produce, Fetch, OffsetCommit, Heartbeat, ConsumerGroupHeartbeat, and what there is in each
transaction: AddPartitionsToTxn, AddOffsetsToTxn, EndTxn and TxnOffsetCommit."""


class Tally:
    """The requests of one API in one version.

    Counted down with `left -= 1` while `left` is not 0; when it is, the request is to be timed,
    and `RequestStats.begin` or `timed_at_once` counts it.
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
        """How many there have been."""
        return self._base - self.left

    def count_timed(self, period: int) -> int:
        """Count a request that is timed; how many it stands for. `left` is 0."""
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
        "remembered",
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
        self.remembered = [Tally(self, version) for version in range(api.highest + 1)]
        """Those that went the short way, each with one code in its answer, that of no error."""
        self.errors: defaultdict[int, int] = defaultdict(int)
        """Codes in the answers to the others."""
        self.total_ms = Histogram()
        self.queue_ms = PartHistogram(self.total_ms)
        self.local_ms = PartHistogram(self.total_ms)
        self.remote_ms = PartHistogram(self.total_ms)
        self.throttle_ms = PartHistogram(self.total_ms)
        self.response_queue_ms = PartHistogram(self.total_ms)
        self.send_ms = PartHistogram(self.total_ms)
        self.request_bytes = PartHistogram(self.total_ms)
        self.count_errors: Counter = self._count_first_errors
        """Adds the error codes of an answer, no error included."""

    @property
    def counts(self) -> list[int]:
        """Requests by version."""
        return [
            general.count + short.count
            for general, short in zip(self.tallies, self.remembered, strict=True)
        ]

    @property
    def error_counts(self) -> dict[int, int]:
        """How often each code was in an answer, no error included."""
        counts = dict(self.errors)
        if short := sum(tally.count for tally in self.remembered):
            counts[ErrorCode.NONE] = counts.get(ErrorCode.NONE, 0) + short
        return counts

    def _count_first_errors(self, response: Any) -> None:
        """Find out where they are: it takes a look at the API's schema."""
        self.count_errors = error_counter(self.api, self.errors)
        self.count_errors(response)


class Timing:
    """One request on its way whose times are taken. Seconds of the monotonic clock."""

    __slots__ = (
        "_answered_s",
        "_arrived_s",
        "_handled_s",
        "_headed_s",
        "_now_s",
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
        self._handled_s = self._answered_s = self._headed_s = started_s

    def handled(self) -> None:
        """The handler has returned, with an answer or something to wait for."""
        self._handled_s = self._answered_s = self._headed_s = self._now_s()

    def answered(self) -> None:
        """What the handler waited for has come."""
        self._answered_s = self._headed_s = self._now_s()

    def headed(self) -> None:
        """It is this answer's turn to be sent."""
        self._headed_s = self._now_s()

    def written(
        self, context: RequestContext, request_bytes: int, answer_bytes: int, throttle_ms: int
    ) -> None:
        """The answer is on its way, or there is none: add up."""
        end_s = self._now_s()
        headed_s = self._headed_s
        stats, weight = self._tally.api, self._weight
        queue_ms = (self._started_s - self._arrived_s) * 1000
        local_ms = (self._handled_s - self._started_s) * 1000
        remote_ms = (self._answered_s - self._handled_s) * 1000
        response_queue_ms = (headed_s - self._answered_s) * 1000
        send_ms = (end_s - headed_s) * 1000
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
                answer_bytes=answer_bytes,
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
        """Whether the request log was on when it was looked at last."""

    def __iter__(self) -> Iterator[ApiStats]:
        return iter(list(self._apis.values()))

    def of(self, api: Api) -> ApiStats:
        """The statistics of an API, begun when it is first asked for."""
        found = self._apis.get(api.key)
        if found is None:
            found = self._apis[api.key] = ApiStats(api)
        return found

    def follow_log(self) -> None:
        """The request log was turned on, or off."""
        self.logs = not self.logs
        if self.logs:
            for stats in self._apis.values():
                for tally in (*stats.tallies, *stats.remembered):
                    tally.time_next()

    def begin(self, tally: Tally, arrived_s: float) -> Timing:
        """Count a request that is about to be handled, and time it; `tally.left` is 0."""
        weight = tally.count_timed(1 if self.logs else tally.api.period)
        return Timing(tally, weight, self.now_s, arrived_s, self.now_s())

    def timed_at_once(
        self,
        tally: Tally,
        context: RequestContext,
        started_s: float,
        frame: memoryview,
        answer: bytes | bytearray,
    ) -> None:
        """Count and time a request that was handled and answered without anything in between;
        `tally.left` is 0. `context` is that of an earlier one with the same bytes but for its
        correlation id."""
        if request_log.is_on() is not self.logs:
            self.follow_log()
        weight = tally.count_timed(1 if self.logs else tally.api.period)
        timing = Timing(tally, weight, self.now_s, context.peer.arrived_s, started_s)
        timing.handled()
        correlation_id = header.read_fixed(frame)[2]
        own = RequestContext(context.peer, context.version, correlation_id, context.client_id)
        timing.written(own, len(frame), len(answer), 0)
