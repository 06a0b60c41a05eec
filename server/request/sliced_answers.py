"""Answers of many items: written before the connection asks for them, in slices of the loop."""

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


class Written:
    """An answer that is written already, but for the time that a client is to be quiet."""

    __slots__ = ("errors", "frame", "response", "throttle_time_ms")

    def __init__(self, response: Response, frame: list[Any], errors: Counts) -> None:
        self.response: Final = response
        self.frame: Final = frame
        self.errors: Final = errors
        """How often each code is in it."""
        self.throttle_time_ms = 0


def answer(
    tasks: Tasks, api: Api, context: RequestContext, work: cooperative.Waits[Response]
) -> Response | Awaitable[Response]:
    """What `work` gives; what took slices to make takes slices to write."""
    made = cooperative.run(tasks, work)
    return _later(tasks, api, context, made) if isinstance(made, Awaitable) else made


async def _later(
    tasks: Tasks, api: Api, context: RequestContext, made: Awaitable[Response]
) -> Response:
    return await written(tasks, api, context, await made)


async def written(
    tasks: Tasks, api: Api, context: RequestContext, response: Response
) -> Written | Response:
    """An answer with its frame; nothing in it may change any more. As it was if there is no such
    frame, which then is for the connection to find (see `Dispatcher.encode`)."""

    def steps() -> cooperative.Slices[Written]:
        version, correlation_id = context.version, context.correlation_id
        frame = yield from long_messages.encode_in_slices(api, version, correlation_id, response)
        errors = yield from long_messages.count_errors_in_slices(api, response)
        return Written(response, frame, errors)

    try:
        return await cooperative.go_on(tasks, steps())
    except StructError:
        return response
