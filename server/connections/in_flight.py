"""A connection's requests in flight: what each weighs, and which of them hold back those behind."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from kavka.server.request.results import Call
from kavka.server.runtime.purgatory import Wait
from kavka.wire.api import Api

IN_FLIGHT_MAX: Final = 128
"""In-flight requests of one connection, if all are Produce."""

OTHERS_IN_FLIGHT_MAX: Final = 8
"""The same for other requests, whose queued responses hold more memory.
Apache Kafka handles one request of a connection at a time, so clients pipeline few."""

FETCHES_IN_FLIGHT_MAX: Final = 2

PRODUCE: Final = 0
_FETCH, _JOIN_GROUP, _SYNC_GROUP = 1, 11, 14
_WEIGHTS: Final = {PRODUCE: 1, _FETCH: IN_FLIGHT_MAX // FETCHES_IN_FLIGHT_MAX}
_HOLDS_BACK_WHILE_IN_FLIGHT: Final = frozenset({PRODUCE, _JOIN_GROUP, _SYNC_GROUP})
_WEIGHT_OF_OTHERS: Final = IN_FLIGHT_MAX // OTHERS_IN_FLIGHT_MAX


def weight_of(api: Api) -> int:
    """Weight of a request in flight; reading pauses when they sum to `IN_FLIGHT_MAX`."""
    return _WEIGHTS.get(api.key, _WEIGHT_OF_OTHERS)


class Slot:
    """An in-flight request in the response queue."""

    __slots__ = (
        "api",
        "context",
        "holds_back",
        "request",
        "request_bytes",
        "response",
        "waiting",
        "weight",
    )

    def __init__(
        self, call: Call, waiting: asyncio.Future[Any] | Wait | None, request_bytes: int
    ) -> None:
        """`waiting`: what the response waits for, unless it waits only for those before it."""
        self.api = call.api
        self.context = call.context
        self.request = None if waiting is None else call.request
        """For an error response; views of its frame are gone."""
        self.response = call.result
        self.waiting = waiting
        self.request_bytes = request_bytes
        self.weight = weight_of(call.api)
        self.holds_back = waiting is not None and (
            call.api.key in _HOLDS_BACK_WHILE_IN_FLIGHT or call.context.is_in_progress(waiting)
        )
        """Whether what is behind it would not see its effect yet."""
