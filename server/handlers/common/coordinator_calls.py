"""Several coordinator calls for one response to a client.

Each call is submitted immediately, so that requests of a connection take effect in order; results
that are not ready are awaited at the end.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from kavka.server.broker import Broker
from kavka.server.request.context import RequestContext, Response
from kavka.server.request.sliced_responses import encode_in_slices
from kavka.server.runtime import cooperative
from kavka.wire.api import Api
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.steps import Steps

if TYPE_CHECKING:
    from kavka.log.journal import Machine
    from kavka.server.coordinators.journal_runner import JournalRunner

    M = TypeVar("M", bound=Machine)
else:
    M = TypeVar("M")


class CoordinatorCalls:
    """The coordinator calls of one request."""

    def __init__(self, broker: Broker, api: Api) -> None:
        self._broker: Final = broker
        self._api: Final = api
        self._waiting: list[_Waiting] = []

    def submit(
        self,
        call: Callable[[], Any],
        then: Callable[[Any], object],
        failed: Callable[[ErrorCode], object],
    ) -> None:
        """Make a call; its result is passed to `then`, or its error code to `failed`."""
        try:
            result = call()
        except ApiError as error:
            failed(error.code)
        else:
            if isinstance(result, Awaitable):
                self._waiting.append((result, then, failed))
            else:
                then(result)

    def wait_for_results(self) -> Steps[None]:
        """Wait for the results of all calls so far, on which further calls depend."""
        if self._waiting:
            yield self._await_results()

    def read_all(
        self,
        runners: Iterable[JournalRunner[M]],
        keys_of: Callable[[M], Iterable[str]],
        size: int,
        read: Callable[[Sequence[str], M, int], Any],
        then: Callable[[Any], object],
        failed: Callable[[ErrorCode], object],
    ) -> Steps[None]:
        """Read all keys (group or transactional ids) of all shards, up to `size` of a shard per
        call; a shard without keys is called too, as it may be loading."""
        done = 0
        for runner in runners:
            keys = list(keys_of(runner.machine))
            for begin in range(0, max(len(keys), 1), size):
                part = keys[begin : begin + size]
                self.submit(partial(runner.read, partial(read, part)), then, failed)
                done += 1 + len(part)
                if done >= size:
                    done = 0
                    yield None

    def run(
        self,
        context: RequestContext,
        steps: Steps[None],
        build: Callable[[], Response | Steps[Response]],
    ) -> Any:
        """Run `steps`, which submit the calls, in slices; when all results are there, `build` the
        response. If submitting or building takes slices, the response is encoded in slices too."""
        submitted = cooperative.run(self._broker.tasks, steps, context)
        if submitted is not None or self._waiting:
            return self._finish(context, submitted, build)
        response = self._build(build)
        if isinstance(response, Awaitable):
            return self._encode(context, response)
        return response

    async def _finish(
        self,
        context: RequestContext,
        submitted: Awaitable[None] | None,
        build: Callable[[], Response | Steps[Response]],
    ) -> Response:
        if submitted is not None:
            await submitted
        await self._await_results()
        response = self._build(build)
        if isinstance(response, Awaitable):
            return await self._encode(context, response)
        if submitted is None:
            return response
        return await encode_in_slices(self._broker.tasks, self._api, context, response)

    async def _await_results(self) -> None:
        waiting, self._waiting = self._waiting, []
        for future, then, failed in waiting:
            try:
                result = await future
            except ApiError as error:
                failed(error.code)
            else:
                then(result)

    def _build(
        self, build: Callable[[], Response | Steps[Response]]
    ) -> Response | Awaitable[Response]:
        response = build()
        if isinstance(response, Generator):
            return cooperative.run(self._broker.tasks, response)
        return response

    async def _encode(self, context: RequestContext, response: Awaitable[Response]) -> Response:
        return await encode_in_slices(self._broker.tasks, self._api, context, await response)


_Waiting: TypeAlias = tuple[Awaitable[Any], Callable[[Any], object], Callable[[ErrorCode], object]]
