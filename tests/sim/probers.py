"""Clients that pipeline questions of all kinds, some of which wait, on one connection: responses
come in the order of the requests, and the end of a log is behind all that was acknowledged."""

from __future__ import annotations

import asyncio
import random

from kavka.wire.errors import ErrorCode as Code
from sim.actors import Actor
from sim.client import BACKOFF_S, Client, Lost
from sim.history import History, Place
from sim.readers import LATEST, listing
from support.memory_broker import fetching

PIPELINED_MAX = 6


class Prober(Actor):
    """Asks about some partitions, until it is stopped."""

    def __init__(
        self, client: Client, history: History, chance: random.Random, places: list[Place]
    ) -> None:
        super().__init__(client, history, chance)
        self._places = places

    async def run(self) -> None:
        """Ask, several things at a time."""
        chance = self.chance
        kinds = (self._fetch, self._end, self._metadata)
        while True:
            try:
                count = 1 + chance.randrange(PIPELINED_MAX)
                await asyncio.gather(*(chance.choice(kinds)() for _ in range(count)))
            except Lost:
                self.client.hang_up()
                await asyncio.sleep(BACKOFF_S)
            await asyncio.sleep(2 * chance.random())

    async def _fetch(self) -> None:
        """What waits: from the end on, or from far behind it."""
        place = self.chance.choice(self._places)
        offset = self.chance.choice((0, self._acknowledged_end(place), 1 << 40))
        wait_ms = self.chance.choice((100, 500))
        await self.client.ask("Fetch", 11, **fetching({place: offset}, max_wait_ms=wait_ms))

    async def _metadata(self) -> None:
        await self.client.ask("Metadata", 9, topics=None)

    async def _end(self) -> None:
        place = self.chance.choice(self._places)
        known = self._acknowledged_end(place)
        answer = await self.client.ask("ListOffsets", 7, **listing(place, LATEST))
        (response,) = answer.topics[0].partitions
        if response.error_code == Code.NONE and response.offset < known:
            if not self.history.may_lose:
                self.history.violation(
                    f"I6: {place} ends at {response.offset}, but {known - 1} was acknowledged"
                )

    def _acknowledged_end(self, place: Place) -> int:
        return self.history.ends.get(place, 0)
