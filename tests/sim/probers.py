"""Clients that pipeline questions of all kinds, some of which wait, on one connection: responses
come in the order of the requests, and the end of a log is behind all that was acknowledged."""

from __future__ import annotations

import asyncio
import random

from kavka.wire.errors import ErrorCode as Code
from sim.actors import Actor
from sim.admins import Lives
from sim.client import BACKOFF_S, Client, Lost
from sim.history import History, Place
from sim.readers import LATEST, listing
from support.memory_broker import fetching

PIPELINED_MAX = 6
TRIES_MAX = 300
"""So often, BACKOFF_S apart, the end of a log may be one of before; not counted before all is
healed."""


class Prober(Actor):
    """Asks about some partitions, until it is stopped."""

    def __init__(
        self,
        client: Client,
        history: History,
        chance: random.Random,
        places: list[Place],
        brokers: Lives | None = None,
    ) -> None:
        """`brokers`: those of a cluster."""
        super().__init__(client, history, chance)
        self._places = places
        self._brokers = brokers

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
        """In a cluster it is asked again: a former leader that the controller does not reach
        answers until it hears of its successor."""
        place = self.chance.choice(self._places)
        known = self._acknowledged_end(place)
        found = await self._latest(place)
        tries = TRIES_MAX
        while self._brokers is not None and tries and found is not None and found < known:
            self.client.refresh()
            await asyncio.sleep(BACKOFF_S)
            found = await self._latest(place)
            tries -= self.history.now_s() >= self._brokers.held_up_until_s
        if found is not None and found < known and not self.history.may_lose:
            self.history.violation(f"I6: {place} ends at {found}, but {known - 1} was acknowledged")

    async def _latest(self, place: Place) -> int | None:
        """None if it is not known now."""
        answer = await self.client.ask("ListOffsets", 7, **listing(place, LATEST))
        (response,) = answer.topics[0].partitions
        return response.offset if response.error_code == Code.NONE else None

    def _acknowledged_end(self, place: Place) -> int:
        return self.history.ends.get(place, 0)
