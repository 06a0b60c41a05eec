"""Operators of a cluster: they move partitions to other brokers, take that back, and have leaders
elected, while the partitions are used (KIP-455, KIP-460).

What a request was answered with decides nothing: a reassignment that was refused is asked for again
or not at all. What counts is that the last ones end, and what the judges find then.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Final

from kavka.wire.errors import ErrorCode as Code
from sim.actors import Actor
from sim.client import BACKOFF_S, Client
from sim.history import History, Place

TIMEOUT_MS: Final = 10_000
EXPECTED: Final = {
    Code.NONE,
    Code.NOT_CONTROLLER,
    Code.REQUEST_TIMED_OUT,
    Code.INVALID_REPLICA_ASSIGNMENT,
    Code.NO_REASSIGNMENT_IN_PROGRESS,
    Code.PREFERRED_LEADER_NOT_AVAILABLE,
    Code.ELECTION_NOT_NEEDED,
}


class Operator(Actor):
    """Of some partitions, for so many steps."""

    def __init__(
        self,
        client: Client,
        history: History,
        chance: random.Random,
        places: Sequence[Place],
        *,
        brokers: Sequence[int],
        replicas: int,
        steps: int,
        pause_s: float,
    ) -> None:
        super().__init__(client, history, chance)
        self._places = places
        self._brokers = brokers
        self._replicas = replicas
        self._steps = steps
        self._pause_s = pause_s

    async def run(self) -> None:
        """All steps, and then the end of what they have begun."""
        for _ in range(self._steps):
            place = self.chance.choice(self._places)
            await self.chance.choice((self._move, self._move, self._cancel, self._elect))(place)
            await asyncio.sleep(self._pause_s * 2 * self.chance.random())
        await self._ended()
        self.is_done = True

    async def _move(self, place: Place) -> None:
        """To as many replicas as there are, or to one more or less, but never below two."""
        count = self._replicas + self.chance.choice((-1, 0, 0, 1))
        count = min(max(count, 2), len(self._brokers))
        await self._reassign(place, self.chance.sample(list(self._brokers), count))

    async def _cancel(self, place: Place) -> None:
        await self._reassign(place, None)

    async def _reassign(self, place: Place, target: Sequence[int] | None) -> None:
        reassignment = {"partition_index": place[1], "replicas": target}
        answer, _ = await self.client.ask_until_answered(
            "AlterPartitionReassignments",
            0,
            timeout_ms=TIMEOUT_MS,
            topics=[{"name": place[0], "partitions": [reassignment]}],
        )
        codes = [answer.error_code]
        codes += [
            partition.error_code for topic in answer.responses for partition in topic.partitions
        ]
        self._check("AlterPartitionReassignments", codes)

    async def _elect(self, place: Place) -> None:
        answer, _ = await self.client.ask_until_answered(
            "ElectLeaders",
            2,
            election_type=0,
            topic_partitions=[{"topic": place[0], "partitions": [place[1]]}],
            timeout_ms=TIMEOUT_MS,
        )
        codes = [answer.error_code]
        for topic in answer.replica_election_results:
            codes += [result.error_code for result in topic.partition_result]
        self._check("ElectLeaders", codes)

    async def _ended(self) -> None:
        """No partition moves any more."""
        while True:
            answer, _ = await self.client.ask_until_answered(
                "ListPartitionReassignments", 0, timeout_ms=TIMEOUT_MS, topics=None
            )
            self._check("ListPartitionReassignments", [answer.error_code])
            if answer.error_code == Code.NONE and not answer.topics:
                return
            await asyncio.sleep(5 * BACKOFF_S)

    def _check(self, name: str, codes: Sequence[int]) -> None:
        for code in codes:
            if code not in EXPECTED:
                self.history.violation(f"{self.name}: {name} answered {Code(code).name}")
