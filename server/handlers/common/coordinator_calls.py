"""Several questions to coordinators for one answer to a client.

Each question is asked at once, so that requests of a connection do what they do in their order;
what is answered later is waited for at the end.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from kavka.server.broker import Broker
from kavka.server.request.context import RequestContext, Response
from kavka.server.request.sliced_answers import written
from kavka.server.runtime import cooperative
from kavka.server.runtime.cooperative import Slices, Waits
from kavka.wire.api import Api
from kavka.wire.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from kavka.log.journal import Machine
    from kavka.server.coordinators.journal_runner import JournalRunner

    M = TypeVar("M", bound=Machine)
else:
    M = TypeVar("M")


class CoordinatorCalls:
    """The questions of one request."""

    def __init__(self, broker: Broker, api: Api) -> None:
        self._broker: Final = broker
        self._api: Final = api
        self._waiting: list[_Waiting] = []

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

    def answered(self) -> Waits[None]:
        """To wait for all that is asked so far, where it tells what else is to be asked."""
        if self._waiting:
            yield self._await_answers()

    def look_at_all(
        self,
        runners: Iterable[JournalRunner[M]],
        names_of: Callable[[M], Iterable[str]],
        size: int,
        look: Callable[[Sequence[str], M, int], Any],
        then: Callable[[Any], object],
        failed: Callable[[ErrorCode], object],
    ) -> Slices[None]:
        """Have all names of all machines looked at, up to `size` of a machine's in one go; one
        without any is asked too, as it may be loading."""
        looked_at = 0
        for runner in runners:
            names = list(names_of(runner.machine))
            for begin in range(0, max(len(names), 1), size):
                part = names[begin : begin + size]
                self.take(partial(runner.read, partial(look, part)), then, failed)
                looked_at += 1 + len(part)
                if looked_at >= size:
                    looked_at = 0
                    yield

    def run(
        self,
        context: RequestContext,
        steps: Waits[None],
        answer: Callable[[], Response | Slices[Response]],
    ) -> Any:
        """Ask all, in slices of the loop, and give `answer` when everything is answered; what took
        slices to ask, or to make an answer of, takes slices to tell."""
        asked = cooperative.run(self._broker.tasks, steps, context)
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
        await self._await_answers()
        made = self._made(answer)
        if isinstance(made, Awaitable):
            return await self._later(context, made)
        if asked is None:
            return made
        return await written(self._broker.tasks, self._api, context, made)

    async def _await_answers(self) -> None:
        waiting, self._waiting = self._waiting, []
        for future, then, failed in waiting:
            try:
                found = await future
            except ApiError as refusal:
                failed(refusal.code)
            else:
                then(found)

    def _made(
        self, answer: Callable[[], Response | Slices[Response]]
    ) -> Response | Awaitable[Response]:
        made = answer()
        return cooperative.run(self._broker.tasks, made) if isinstance(made, Generator) else made

    async def _later(self, context: RequestContext, made: Awaitable[Response]) -> Response:
        return await written(self._broker.tasks, self._api, context, await made)


_Waiting: TypeAlias = tuple[Awaitable[Any], Callable[[Any], object], Callable[[ErrorCode], object]]
