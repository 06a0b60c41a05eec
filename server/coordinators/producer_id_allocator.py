"""Producer ids, handed out of blocks that the controller reserves durably."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from kavka.seams import Tasks
from kavka.wire.errors import ApiError, ErrorCode
from kavka.zktree.api import CoordinationError

Allocate: TypeAlias = Callable[[], Awaitable[tuple[int, int]]]
"""Reserves a block: (first id, count). Ids of a block are never handed out again."""


class ProducerIds:
    """Ids that no other producer of this cluster has, now or ever."""

    def __init__(self, tasks: Tasks, allocate: Allocate) -> None:
        self._tasks = tasks
        self._allocate = allocate
        self._next = 0
        self._end = 0
        self._reserving: asyncio.Task[None] | None = None

    def take(self) -> int | None:
        """One fresh id; None when the block is used up."""
        if self._next >= self._end:
            return None
        taken = self._next
        self._next += 1
        return taken

    async def reserve(self) -> None:
        """Have the next block, if this one is used up. ApiError when there are no ids left, and
        COORDINATOR_LOAD_IN_PROGRESS when there is no block to be had now."""
        if self._next < self._end:
            return
        if self._reserving is None:
            self._reserving = self._tasks.spawn(self._reserve(), name="producer id block")
        await asyncio.shield(self._reserving)  # one waiter giving up stops nobody else

    async def next(self) -> int:
        """One fresh id; waits when the block is used up."""
        while (taken := self.take()) is None:
            await self.reserve()
        return taken

    async def _reserve(self) -> None:
        try:
            first, count = await self._allocate()
            self._next, self._end = first, first + count
        except CoordinationError as failure:
            # as Apache Kafka: the client asks again, where it would give up for other errors
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, str(failure)) from failure
        except ApiError as refusal:
            if refusal.code != ErrorCode.NOT_CONTROLLER:
                raise
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS) from refusal
        finally:
            self._reserving = None
