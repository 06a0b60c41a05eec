"""Several questions to coordinators for one answer to a client.

Each question is asked at once, so that requests of a connection do what they do in their order;
what is answered later is waited for at the end.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any, Final, TypeAlias

from kavka.server import slices
from kavka.server.big_answers import written
from kavka.server.broker import Broker
from kavka.server.context import RequestContext, Response
from kavka.server.slices import Slices
from kavka.wire.api import Api
from kavka.wire.errors import ApiError, ErrorCode


class Calls:
    """The questions of one request."""

    def __init__(self, broker: Broker, api: Api) -> None:
        self._broker: Final = broker
        self._api: Final = api
        self._waiting: Final[list[_Waiting]] = []

    def take(
        self,
        question: Callable[[], Any],
        then: Callable[[Any], object],
        failed: Callable[[ErrorCode], object],
    ) -> None:
        """Ask, and have the answer given to one of the functions."""
        try:
            answer = question()
        except ApiError as refusal:
            failed(refusal.code)
        else:
            if isinstance(answer, Awaitable):
                self._waiting.append((answer, then, failed))
            else:
                then(answer)

    def run(
        self,
        context: RequestContext,
        steps: Slices[None],
        answer: Callable[[], Response | Slices[Response]],
    ) -> Any:
        """Ask all, in slices of the loop, and give `answer` when everything is answered; what took
        slices to ask, or to make an answer of, takes slices to tell."""
        asked = slices.run(self._broker.tasks, steps, context)
        if asked is not None or self._waiting:
            return self._finish(context, asked, answer)
        made = self._made(answer)
        return self._later(context, made) if isinstance(made, Awaitable) else made

    async def _finish(
        self,
        context: RequestContext,
        asked: Awaitable[None] | None,
        answer: Callable[[], Response | Slices[Response]],
    ) -> Response:
        if asked is not None:
            await asked
        for future, then, failed in self._waiting:
            try:
                found = await future
            except ApiError as refusal:
                failed(refusal.code)
            else:
                then(found)
        made = self._made(answer)
        if isinstance(made, Awaitable):
            return await self._later(context, made)
        if asked is None:
            return made
        return await written(self._broker.tasks, self._api, context, made)

    def _made(
        self, answer: Callable[[], Response | Slices[Response]]
    ) -> Response | Awaitable[Response]:
        made = answer()
        return slices.run(self._broker.tasks, made) if isinstance(made, Generator) else made

    async def _later(self, context: RequestContext, made: Awaitable[Response]) -> Response:
        return await written(self._broker.tasks, self._api, context, await made)


_Waiting: TypeAlias = tuple[Awaitable[Any], Callable[[Any], object], Callable[[ErrorCode], object]]
