"""A runner of the simplest machine, over a partition of a broker in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Hashable
from typing import Any

import pytest

from kavka.server.coordinators.journal_runner import JournalRunner, RunnerResources, Settings
from kavka.wire.compression import Codec
from kavka.wire.errors import ApiError, ErrorCode
from support.memory_broker import MemoryBroker
from support.toy_machine import Toy

NOT_COORDINATOR = ErrorCode.NOT_COORDINATOR


class Kit:
    """A runner of a toy over partition 0 of "t"."""

    def __init__(
        self, broker: MemoryBroker, toy: Toy | None = None, *, codec: Codec = Codec.NONE
    ) -> None:
        self.broker = broker
        self.toy = toy or Toy()
        self.commands: list[Hashable] = []
        self.loaded: list[JournalRunner[Toy]] = []
        self.runner = JournalRunner(
            broker.replica(),
            self.toy,
            Settings(commit_timeout_ms=5000, codec=codec, load_bytes=1 << 20, base_sequence=0),
            RunnerResources(
                broker.clock,
                broker.tasks,
                broker.jobs,
                broker.parts.purgatory,
                asyncio.Semaphore(1),
                lambda: None,
            ),
            on_loaded=self.loaded.append,
            perform=self._perform,
        )
        self.runner.begin()
        broker.parts.replicas.role_listeners["t"] = self._role_changed

    def _perform(self, command: Hashable) -> None:
        if command == "bad":
            raise ValueError("planted")
        self.commands.append(command)

    def _role_changed(self, _: object) -> None:
        if not self.runner.leads:
            self.runner.close(NOT_COORDINATOR)

    def put(self, key: bytes = b"a", value: bytes | None = b"1", **more: Any) -> Any:
        return self.runner.call(lambda toy, future, _: toy.put(future, key, value, **more))

    def park(self, key: bytes, until_ms: int) -> Any:
        return self.runner.call(lambda toy, future, now: toy.park(future, key, now + until_ms))

    def read(self, key: bytes = b"a") -> Any:
        return self.runner.read(lambda toy, _: toy.numbers.get(key))


async def code(answer: Awaitable[object]) -> ErrorCode:
    with pytest.raises(ApiError) as failure:
        await answer
    return failure.value.code
