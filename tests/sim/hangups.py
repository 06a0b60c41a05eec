"""Clients that hang up on their own requests: what the broker has read it carries out whole.

As in Apache Kafka, only the wait for a response ends with its connection (`SocketServer`: a request
that is in the queue is handled, its response dropped). So a request about several topics creates or
deletes all of them, or none if it has not been read.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any, Final

from kavka.wire.errors import ErrorCode as Code
from sim.actors import Actor
from sim.client import Client
from sim.history import History
from sim.machine import Machine
from support.wire_client import new_topic

TOPICS: Final = 10
TIMEOUT_MS: Final = 10_000
CARRIED_OUT_S: Final = 20.0
"""So long after its request a broker that nothing delays has carried it out."""


class Leaver(Actor):
    """Creates some topics and deletes them again, so many times, without waiting for responses."""

    def __init__(
        self,
        client: Client,
        history: History,
        chance: random.Random,
        machine: Machine,
        *,
        rounds: int,
        stays_s: float,
    ) -> None:
        super().__init__(client, history, chance)
        self._machine = machine
        self._rounds = rounds
        self._stays_s = stays_s

    async def run(self) -> None:
        """Each time with topics of other names, so that no round depends on the one before."""
        for number in range(self._rounds):
            topics = [f"of-{self.name}-{number}.{index}" for index in range(TOPICS)]
            created = await self._leave(
                topics,
                "CreateTopics",
                7,
                topics=[new_topic(topic) for topic in topics],
                timeout_ms=TIMEOUT_MS,
            )
            if created:
                await self._leave(
                    created, "DeleteTopics", 5, topic_names=created, timeout_ms=TIMEOUT_MS
                )
        self.is_done = True

    async def _leave(
        self, about: list[str], name: str, version: int, /, **values: Any
    ) -> list[str]:
        """Ask, hang up, and return the topics that are there when the request has been carried out.
        A broker that stops half way keeps this client waiting (I11)."""
        life = self._machine.lives
        response = (await self.client.connection()).send(name, version, **values)
        await asyncio.sleep(self._stays_s * 2 * self.chance.random())
        self.client.hang_up()
        await asyncio.gather(response, return_exceptions=True)
        while True:
            await asyncio.sleep(CARRIED_OUT_S)
            found = await self._existing(about)
            if len(found) in (0, len(about)) or self._machine.lives != life:
                return found

    async def _existing(self, topics: list[str]) -> list[str]:
        answer, _ = await self.client.ask_until_answered("Metadata", 9, topics=None)
        known = {one.name for one in answer.topics if one.error_code == Code.NONE}
        return [topic for topic in topics if topic in known]
