"""Responses with many items: encoded in slices of the loop, before they reach the connection."""

from __future__ import annotations

from collections.abc import Awaitable
from struct import error as StructError
from typing import Any, Final

from kavka.seams import Tasks
from kavka.server.request.context import RequestContext, Response
from kavka.server.runtime import cooperative
from kavka.wire.api import Api
from kavka.wire.codec import long_messages
from kavka.wire.error_counts import Counts
from kavka.wire.steps import Steps


class EncodedResponse:
    """A response that is already encoded, except for its throttle time. `response` is None if it
    comes from the fast path, which there is only without quotas."""

    __slots__ = ("errors", "frame", "response", "throttle_time_ms")

    def __init__(self, response: Response, frame: list[Any], errors: Counts) -> None:
        self.response: Final = response
        self.frame: Final = frame
        self.errors: Final = errors
        """Count of each error code in it."""
        self.throttle_time_ms = 0


def respond(
    tasks: Tasks, api: Api, context: RequestContext, work: Steps[Response]
) -> Response | Awaitable[Response]:
    """The result of `work`; if that takes slices, it is encoded in slices too."""
    response = cooperative.run(tasks, work)
    if isinstance(response, Awaitable):
        return _encode_awaited(tasks, api, context, response)
    return response


async def _encode_awaited(
    tasks: Tasks, api: Api, context: RequestContext, response: Awaitable[Response]
) -> Response:
    return await encode_in_slices(tasks, api, context, await response)


async def encode_in_slices(
    tasks: Tasks, api: Api, context: RequestContext, response: Response
) -> EncodedResponse | Response:
    """The encoded response, which must not change any more. Unencoded if it can't be encoded: the
    connection then handles that error (see `Dispatcher.encode`)."""

    def steps() -> Steps[EncodedResponse]:
        version, correlation_id = context.version, context.correlation_id
        frame = yield from long_messages.encode_in_steps(api, version, correlation_id, response)
        errors = yield from long_messages.count_errors_in_steps(api, response)
        return EncodedResponse(response, frame, errors)

    try:
        return await cooperative.run_rest(tasks, steps())
    except StructError:
        return response
