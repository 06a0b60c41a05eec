"""Clients that hang up on their own requests: what the broker has read it carries out whole.

As in Apache Kafka, only the wait for a response ends with its connection (`SocketServer`: a request
that is in the queue is handled, its response dropped). So a request writes to all of its
partitions, or to none if it has not been read.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

from sim.actors import Actor
from sim.client import BACKOFF_S, REQUEST_TIMEOUT_S, Client
from sim.history import History
from sim.machine import Machine
from sim.producers import PRODUCE_VERSION
from sim.readers import LATEST
from support.logs import batch
from support.memory_broker import producing
from support.wire_client import new_topic

PARTITIONS: Final = 10
VALUE_BYTES: Final = 5000
TIMEOUT_MS: Final = 10_000
CARRIED_OUT_S: Final = 2.0
"""After a request, until the client looks whether it has been carried out."""


Look = Callable[[], Awaitable[int]]
"""In how many partitions what was asked has been carried out."""


class Leaver(Actor):
    """Creates a topic, writes to all of its partitions at once so many times, and deletes it,
    without waiting for responses but for the first one of each kind, which shows how long that
    takes: it leaves within that time. The broker has to compress the batches, which it does in
    jobs, one after the other."""

    def __init__(
        self,
        client: Client,
        history: History,
        chance: random.Random,
        machine: Machine,
        *,
        rounds: int,
    ) -> None:
        super().__init__(client, history, chance)
        self._machine = machine
        self._rounds = rounds
        self._topic = f"of-{self.name}"
        self._places = [(self._topic, index) for index in range(PARTITIONS)]
        self._takes_s: dict[str, float] = {}
        """From a request to its response, by API."""

    async def run(self) -> None:
        topic = new_topic(self._topic, PARTITIONS, configs={"compression.type": "gzip"})
        while not await self._leave(
            self._existing, "CreateTopics", 7, topics=[topic], timeout_ms=TIMEOUT_MS
        ):
            pass
        for _ in range(1 + self._rounds):
            data = bytes(batch([self.chance.randbytes(VALUE_BYTES)]))
            look = partial(self._longer_than, await self._ends())
            values = producing(dict.fromkeys(self._places, data), acks=1)
            await self._leave(look, "Produce", PRODUCE_VERSION, transactional_id=None, **values)
        await self._leave(
            self._existing, "DeleteTopics", 5, topic_names=[self._topic], timeout_ms=TIMEOUT_MS
        )
        self.is_done = True

    async def _leave(self, look: Look, name: str, version: int, /, **values: Any) -> int:
        """Ask, hang up, and return what `look` sees when the request has been carried out. A broker
        that stops half way keeps this client waiting (I11)."""
        life = self._machine.lives
        connection, loop = await self.client.connection(), asyncio.get_running_loop()
        asked_s = loop.time()
        response = connection.send(name, version, **values)
        takes_s = self._takes_s.get(name)
        stays_s = REQUEST_TIMEOUT_S if takes_s is None else takes_s * self.chance.random()
        await asyncio.wait([response], timeout=stays_s)
        if self.chance.random() < 0.7:
            connection.abort()
        else:
            connection.close()
        if response.exception() is None:
            self._takes_s.setdefault(name, loop.time() - asked_s)
        while True:
            await asyncio.sleep(CARRIED_OUT_S)
            count = await look()
            if count in (0, PARTITIONS) or self._machine.lives != life:
                return count

    async def _existing(self) -> int:
        answer, _ = await self.client.ask_until_answered("Metadata", 9, topics=None)
        found = [one for one in answer.topics if one.name == self._topic and not one.error_code]
        return sum(len(one.partitions) for one in found)

    async def _ends(self) -> list[int]:
        """Where the partitions end."""
        wanted = [{"partition_index": at, "timestamp": LATEST} for _, at in self._places]
        topics = [{"name": self._topic, "partitions": wanted}]
        while True:
            answer, _ = await self.client.ask_until_answered(
                "ListOffsets", 7, replica_id=-1, topics=topics
            )
            found = answer.topics[0].partitions
            if not any(one.error_code for one in found):
                return [one.offset for one in found]
            await asyncio.sleep(BACKOFF_S)

    async def _longer_than(self, ends: list[int]) -> int:
        return sum(now > before for now, before in zip(await self._ends(), ends, strict=True))
