"""Questions to several groups, or to one in several steps, for one answer to a client.

Each question is asked at once, so that requests of a connection do what they do in their order;
what a group answers later is waited for at the end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from kavka.groupcoord.shard import GroupShard
from kavka.log.journal import Decision, Ticket
from kavka.server import slices
from kavka.server.auth.authorizer import Operation, ResourceType
from kavka.server.big_answers import written
from kavka.server.broker import Broker
from kavka.server.context import RequestContext, Response
from kavka.server.slices import Slices
from kavka.wire.api import Api
from kavka.wire.errors import ApiError, ErrorCode

Part: TypeAlias = Sequence[tuple[str, Sequence[int]]]
"""Topics with partitions."""


class GroupCalls:
    """The questions of one request."""

    def __init__(self, broker: Broker, api: Api) -> None:
        self._broker: Final = broker
        self._api: Final = api
        self._waiting: Final[list[_Waiting]] = []

    def call(
        self,
        group_id: str,
        ask: Callable[[GroupShard, Ticket, int], Decision],
        then: Callable[[Any], object],
        failed: Callable[[ErrorCode], object],
    ) -> None:
        """As `GroupCoordinator.call`; then one of the functions gets the answer."""
        self.take(partial(self._broker.groups.call, group_id, ask), then, failed)

    def read(
        self,
        group_id: str,
        look: Callable[[GroupShard, int], Any],
        then: Callable[[Any], object],
        failed: Callable[[ErrorCode], object],
    ) -> None:
        """As `GroupCoordinator.read`; then one of the functions gets what was found."""
        self.take(partial(self._broker.groups.read, group_id, look), then, failed)

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
            if asyncio.isfuture(answer):
                self._waiting.append((answer, then, failed))
            else:
                then(answer)

    def run(
        self, context: RequestContext, steps: Slices[None], answer: Callable[[], Response]
    ) -> Any:
        """Ask all, in slices of the loop, and give `answer` when everything is answered; what took
        slices to ask takes slices to tell."""
        asked = slices.run(self._broker.tasks, steps, context)
        if asked is None and not self._waiting:
            return answer()
        return self._finish(context, asked, answer)

    async def _finish(
        self, context: RequestContext, asked: Awaitable[None] | None, answer: Callable[[], Response]
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
        if asked is None:
            return answer()
        return await written(self._broker.tasks, self._api, context, answer())


_Waiting: TypeAlias = tuple[Awaitable[Any], Callable[[Any], object], Callable[[ErrorCode], object]]


def check_group(
    broker: Broker, context: RequestContext, operation: Operation, group_id: str
) -> None:
    """Whether a client may do this with a group, which must have a name. ApiError."""
    if not broker.authorizer.allows(context, operation, ResourceType.GROUP, group_id):
        raise ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not group_id:
        raise ApiError(ErrorCode.INVALID_GROUP_ID)


def in_parts(topics: Part, size: int) -> Iterator[Part]:
    """The same in parts of up to `size` partitions; `topics` itself if it is not more."""
    if sum(len(partitions) for _, partitions in topics) <= size:
        yield topics
        return
    part: list[tuple[str, Sequence[int]]] = []
    room = size
    for name, partitions in topics:
        while partitions:
            part.append((name, partitions[:room]))
            taken = len(part[-1][1])
            partitions, room = partitions[taken:], room - taken
            if not room:
                yield part
                part, room = [], size
    if part:
        yield part
