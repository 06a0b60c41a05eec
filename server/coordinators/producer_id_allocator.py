"""Allocates producer ids from blocks that the controller reserves durably."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from kavka.seams import Tasks
from kavka.wire.errors import ApiError, ErrorCode
from kavka.zktree.api import CoordinationError

Allocate: TypeAlias = Callable[[], Awaitable[tuple[int, int]]]
"""Reserves a block: (first id, count). A block is never reserved twice."""


class ProducerIdAllocator:
    """Producer ids that are unique in the cluster."""

    def __init__(self, tasks: Tasks, allocate: Allocate) -> None:
        self._tasks = tasks
        self._allocate = allocate
        self._next = 0
        self._end = 0
        self._reserving: asyncio.Task[ApiError | None] | None = None

    def try_next(self) -> int | None:
        """The next id; None if the block is used up."""
        if self._next >= self._end:
            return None
        producer_id = self._next
        self._next += 1
        return producer_id

    async def reserve(self) -> None:
        """Reserve the next block, if this one is used up. ApiError if no ids are left, or
        COORDINATOR_LOAD_IN_PROGRESS if no block can be reserved now."""
        if reserving := self.begin_reserve():
            # a cancelled waiter must not cancel the others
            error = await asyncio.shield(reserving)
            if error is not None:
                raise error

    def begin_reserve(self) -> asyncio.Task[ApiError | None] | None:
        """Begin to reserve the next block, if this one is used up: the task, which never fails."""
        if self._next < self._end:
            return None
        if self._reserving is None:
            self._reserving = self._tasks.spawn(self._reserve(), name="producer id block")
        return self._reserving

    async def next(self) -> int:
        """The next id; waits for a new block if this one is used up."""
        while (producer_id := self.try_next()) is None:
            await self.reserve()
        return producer_id

    async def _reserve(self) -> ApiError | None:
        """The error for those who wait: it is no failure of this task."""
        try:
            first, count = await self._allocate()
            self._next, self._end = first, first + count
        except CoordinationError as failure:
            # as Apache Kafka: clients retry after this error, but not after others
            return ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, str(failure))
        except ApiError as error:
            if error.code == ErrorCode.NOT_CONTROLLER:
                return ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            return error
        finally:
            self._reserving = None
        return None
