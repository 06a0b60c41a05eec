"""Clients that hang up on their own requests: what the broker has read it carries out whole.

As in Apache Kafka, only the wait for a response ends with its connection (`SocketServer`: a request
that is in the queue is handled, its response dropped). So a request writes to all of its
partitions, or to none if it has not been read.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any, Final

from kavka.compat_tests.raw.codec.wire_client import new_topic
from sim.actors import Actor
from sim.client import BACKOFF_S, REQUEST_TIMEOUT_S, Client
from sim.history import History
from sim.machine import Machine
from sim.producers import PRODUCE_VERSION
from sim.readers import LATEST
from support.logs import batch
from support.memory_broker import producing

PARTITIONS: Final = 10
VALUE_BYTES: Final = 5000
TIMEOUT_MS: Final = 10_000
CARRIED_OUT_S: Final = 2.0
"""After a request, until the client looks whether it has been carried out."""


class Leaver(Actor):
    """Creates a topic, writes to all of its partitions at once so many times, and deletes it, and
    the same with a second one. It waits for the first response of each kind, to know how long that
    takes: from then on it leaves within that time. The broker has to compress the batches, which it
    does in jobs, one after the other."""

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
        self._topic = ""
        self._takes_s: dict[str, float] = {}
        """From a request to its response, by API: the least so far."""
        self._life = 0
        """Of the broker, since which it has carried out nothing but what is counted from `_base`
        on."""
        self._base: list[int] = []
        """Where the partitions ended then."""

    async def run(self) -> None:
        for number in range(2):
            self._topic = f"of-{self.name}.{number}"  # a request for the former one may be late
            topic = new_topic(self._topic, PARTITIONS, configs={"compression.type": "gzip"})
            while not await self._exists():
                await self._leave("CreateTopics", 7, topics=[topic], timeout_ms=TIMEOUT_MS)
            self._life = 0
            for _ in range(1 + self._rounds):
                await self._write()
            while await self._exists():
                await self._leave(
                    "DeleteTopics", 5, topic_names=[self._topic], timeout_ms=TIMEOUT_MS
                )
        self.is_done = True

    async def _write(self) -> None:
        """A record to each partition. A broker that stops half way keeps this client waiting (I11):
        then the partitions never get equally long. One that is killed may have written to some."""
        while self._life != self._machine.lives:  # nothing of its former life is carried out now
            self._life = self._machine.lives
            self._base = await self._ends()
        data = bytes(batch([self.chance.randbytes(VALUE_BYTES)]))
        places = [(self._topic, index) for index in range(PARTITIONS)]
        values = producing(dict.fromkeys(places, data), acks=1)
        await self._leave("Produce", PRODUCE_VERSION, transactional_id=None, **values)
        while self._life == self._machine.lives:
            ends = zip(await self._ends(), self._base, strict=True)
            if len({end - base for end, base in ends}) == 1:
                return
            await asyncio.sleep(CARRIED_OUT_S)

    async def _leave(self, name: str, version: int, /, **values: Any) -> None:
        """Ask, hang up, and wait for a moment."""
        connection, loop = await self.client.connection(), asyncio.get_running_loop()
        asked_s = loop.time()
        response = connection.send(name, version, **values)
        takes_s = self._takes_s.get(name)
        stays_s = REQUEST_TIMEOUT_S if takes_s is None else takes_s * self.chance.random()
        await asyncio.wait([response], timeout=stays_s)
        took_s = loop.time() - asked_s
        if self.chance.random() < 0.7:
            connection.abort()
        else:
            connection.close()
        if response.exception() is None:
            self._takes_s[name] = min(took_s, self._takes_s.get(name, took_s))
        await asyncio.sleep(CARRIED_OUT_S)

    async def _exists(self) -> bool:
        answer, _ = await self.client.ask_until_answered("Metadata", 9, topics=None)
        return any(topic.name == self._topic and not topic.error_code for topic in answer.topics)

    async def _ends(self) -> list[int]:
        """Where the partitions end."""
        partitions = [{"partition_index": at, "timestamp": LATEST} for at in range(PARTITIONS)]
        topics = [{"name": self._topic, "partitions": partitions}]
        while True:
            answer, _ = await self.client.ask_until_answered(
                "ListOffsets", 7, replica_id=-1, topics=topics
            )
            found = answer.topics[0].partitions
            if not any(partition.error_code for partition in found):
                return [partition.offset for partition in found]
            await asyncio.sleep(BACKOFF_S)
