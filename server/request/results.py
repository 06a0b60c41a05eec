"""What handlers return: a response, or one that is made when a wait in the purgatory has ended."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, NamedTuple, TypeAlias

from kavka.server.request.context import RequestContext, Response
from kavka.server.runtime.purgatory import Wait
from kavka.wire.api import Api

HandlerResult: TypeAlias = Response | Awaitable[Response] | None
"""Plain where the handler need not wait, which saves a task; None: no response (acks=0)."""


class DelayedResponse:
    """What a handler returns whose response has to wait for a change of partitions.

    There are many of them: Fetches, and Produce with acks=all. So a connection makes the response
    in a callback of `wait`, which costs less than a task. It can be awaited, too.
    """

    __slots__ = ("make", "wait")

    def __init__(
        self, wait: Wait, make: Callable[[bool], Response | Coroutine[Any, Any, Response]]
    ) -> None:
        """`make` gets the outcome of `wait`: whether what was waited for has come, or else the time
        is up. It returns the response, or a coroutine of it if that takes longer."""
        self.wait = wait
        self.make = make

    def __await__(self) -> Generator[Any, Any, Response]:
        made = self.make((yield from self.wait.future().__await__()))
        if isinstance(made, Coroutine):
            made = yield from made.__await__()
        return made


class Call(NamedTuple):
    """A request that was passed to its handler, with the handler's result."""

    api: Api
    context: RequestContext
    request: Any
    result: HandlerResult
