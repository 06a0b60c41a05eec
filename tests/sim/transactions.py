"""Transactional producers: each transaction writes unique values to several partitions.

The rules are those of Apache Kafka's `TransactionManager` (clients 3.9 and 4.0): a request whose
response is lost, or whose error is retriable, is sent again, Produce with the same sequence; after
any other error the transaction is given up and the next one begins with InitProducerId, which
aborts what is left. A commit that is answered by such an error after its first response was lost
may have taken effect.
"""

from __future__ import annotations

import asyncio
import random

from kavka.wire.errors import ErrorCode as Code
from sim.actors import Actor
from sim.client import BACKOFF_S, Client
from sim.history import ABORTED, COMMITTED, UNKNOWN, History, Place, Transaction, Write
from sim.producers import RETRIABLE
from support.logs import Producer as Identity
from support.logs import batch


class GivenUp(Exception):
    """The transaction can't go on."""


class TransactionalProducer(Actor):
    """One transactional id. `newer`: with the protocol of KIP-890's second part, in which each
    transaction has an epoch of its own and partitions are added by Produce."""

    def __init__(
        self,
        client: Client,
        history: History,
        chance: random.Random,
        places: list[Place],
        *,
        transactions: int,
        pause_s: float,
        timeout_ms: int,
        newer: bool,
        keys: int | None = None,
    ) -> None:
        """`keys`: so many different ones, its own, for topics that are compacted."""
        super().__init__(client, history, chance)
        self._places = places
        self._count = transactions
        self._pause_s = pause_s
        self._timeout_ms = timeout_ms
        self._newer = newer
        self._keys = keys
        self._identity = Identity(-1, -1, 0)
        self._sequences: dict[Place, int] = {}

    async def run(self) -> None:
        """All transactions, one after the other."""
        ready = False
        for number in range(self._count):
            if not ready:
                await self._init()
            transaction = Transaction(self.name, number)
            self.history.transactions.append(transaction)
            try:
                await self._live(transaction)
                ready = True
            except GivenUp:
                ready = False
            await self._pause()
        await self._init()  # aborts what may be left
        self.is_done = True

    async def _pause(self) -> None:
        await asyncio.sleep(self._pause_s * 2 * self.chance.random())

    async def _init(self) -> None:
        while True:
            # the first one creates the coordinators' topic
            await self.client.ask_until_answered("FindCoordinator", 2, key=self.name, key_type=1)
            answer, _ = await self.client.ask_until_answered(
                "InitProducerId",
                4,
                transactional_id=self.name,
                transaction_timeout_ms=self._timeout_ms,
                producer_id=-1,
                producer_epoch=-1,
            )
            if answer.error_code == Code.NONE:
                self._identity = Identity(answer.producer_id, answer.producer_epoch, 0)
                self._sequences.clear()
                return
            if (code := Code(answer.error_code)) not in RETRIABLE:
                self.history.violation(f"{self.name}: InitProducerId answered {code.name}")
            await asyncio.sleep(BACKOFF_S)

    async def _live(self, transaction: Transaction) -> None:
        chance = self.chance
        commit = chance.random() < 0.7
        transaction.producer_id = self._identity.id
        added: set[Place] = set()
        for step in range(1 + chance.randrange(4)):
            place = chance.choice(self._places)
            if not self._newer and place not in added:
                await self._add(place)
                added.add(place)
            prefix = f"{self.name}:{transaction.number}.{step}."
            values = [
                f"{prefix}{index}:".encode() + b"." * chance.randrange(200)
                for index in range(1 + chance.randrange(3))
            ]
            keys = [self._key() for _ in values]
            transaction.keys |= dict(zip(values, keys, strict=True))
            transaction.values |= dict.fromkeys(values, place)
            write = Write(self.name, place, is_idempotent=True, is_dense=False)
            self.history.writes |= dict.fromkeys(values, write)
            await self._produce(place, values, keys)
            await self._pause()
        await self._end(transaction, commit)

    async def _add(self, place: Place) -> None:
        topic, index = place
        values = {
            "v3_and_below_transactional_id": self.name,
            "v3_and_below_producer_id": self._identity.id,
            "v3_and_below_producer_epoch": self._identity.epoch,
            "v3_and_below_topics": [{"name": topic, "partitions": [index]}],
        }
        while True:
            answer, _ = await self.client.ask_until_answered("AddPartitionsToTxn", 3, **values)
            (result,) = answer.results_by_topic_v3_and_below[0].results_by_partition
            if self._is_done(Code(result.partition_error_code)):
                return
            await asyncio.sleep(BACKOFF_S)

    def _key(self) -> bytes | None:
        keys = self._keys
        return None if keys is None else f"{self.name} {self.chance.randrange(keys)}".encode()

    async def _produce(self, place: Place, values: list[bytes], keys: list[bytes | None]) -> None:
        sequence = self._sequences.get(place, 0)
        data = batch(
            values,
            keys=keys,
            producer=self._identity._replace(sequence=sequence),
            transactional=True,
            timestamps=self.client.process.now_ms(),
        )
        topic, index = place
        partition_data = [{"index": index, "records": bytes(data)}]
        while True:
            answer, _ = await self.client.ask_until_answered(
                "Produce",
                12 if self._newer else 9,
                transactional_id=self.name,
                acks=-1,
                timeout_ms=30_000,
                topic_data=[{"name": topic, "partition_data": partition_data}],
            )
            (response,) = answer.responses[0].partition_responses
            if self._is_done(Code(response.error_code)):
                self._sequences[place] = sequence + len(values)
                return
            await asyncio.sleep(BACKOFF_S)

    async def _end(self, transaction: Transaction, commit: bool) -> None:
        was_lost = False
        if commit:
            transaction.outcome = UNKNOWN
        while True:
            answer, lost = await self.client.ask_until_answered(
                "EndTxn",
                5 if self._newer else 4,
                transactional_id=self.name,
                producer_id=self._identity.id,
                producer_epoch=self._identity.epoch,
                committed=commit,
            )
            was_lost = was_lost or lost
            code = Code(answer.error_code)
            if code is Code.NONE:
                transaction.outcome = COMMITTED if commit else ABORTED
                transaction.is_ended = True
                if self._newer:
                    self._identity = Identity(answer.producer_id, answer.producer_epoch, 0)
                    self._sequences.clear()
                return
            if code not in RETRIABLE:
                if not was_lost:
                    transaction.outcome = ABORTED
                raise GivenUp(code)
            await asyncio.sleep(BACKOFF_S)

    def _is_done(self, code: Code) -> bool:
        """False: again. GivenUp after any other error than a retriable one."""
        if code is Code.NONE:
            return True
        if code in RETRIABLE:
            return False
        raise GivenUp(code)
