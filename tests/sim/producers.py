"""Producers: batches of unique values to partitions, with the retries of a stock client.

The rules are those of Apache Kafka's `Sender` and `TransactionManager` (clients 3.9): up to
max.in.flight.requests.per.connection = 5 batches are on their way; a batch whose outcome is not
known, or whose error is retriable, is sent again with the same sequence, and those behind it keep
their order; an idempotent producer whose sequence is out of order takes the next epoch and numbers
what is left from 0.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kavka.wire.errors import ErrorCode as Code
from sim.actors import Actor
from sim.client import BACKOFF_S, Client, Connection, Lost
from sim.history import History, Place, Write
from support.logs import NO_PRODUCER, batch
from support.logs import Producer as Identity

IN_FLIGHT_MAX = 5
PRODUCE_VERSION = 9
RETRIABLE = frozenset(
    {
        Code.UNKNOWN_TOPIC_OR_PARTITION,
        Code.NOT_LEADER_OR_FOLLOWER,
        Code.LEADER_NOT_AVAILABLE,
        Code.KAFKA_STORAGE_ERROR,
        Code.NOT_ENOUGH_REPLICAS,
        Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        Code.COORDINATOR_LOAD_IN_PROGRESS,
        Code.COORDINATOR_NOT_AVAILABLE,
        Code.NOT_COORDINATOR,
        Code.CONCURRENT_TRANSACTIONS,
        Code.REQUEST_TIMED_OUT,
    }
)
TOO_FEW_REPLICAS = frozenset({Code.NOT_ENOUGH_REPLICAS, Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND})


@dataclass
class Load:
    """How much a producer writes."""

    records: int
    """In all."""
    pause_s: float
    """Between batches, on average."""
    batch_max: int = 5
    value_bytes_max: int = 200
    compression: int = 0


class Producer(Actor):
    """One idempotent or plain producer of one partition.

    Brokers take the first batch of a producer that they do not know with any sequence, Apache
    Kafka's as well: if one was refused (another broker led), one in flight behind it may be
    appended as the first. Then nothing can be said any more of the order of what was on its way,
    nor that it is there once: see `_overtaken`.
    """

    def __init__(
        self,
        client: Client,
        history: History,
        chance: random.Random,
        place: Place,
        load: Load,
        *,
        idempotent: bool,
    ) -> None:
        super().__init__(client, history, chance)
        self._place = place
        self._load = load
        self._is_idempotent = self._is_dense = idempotent
        self._identity = NO_PRODUCER
        self._sequence = 0
        self._number = 0
        self._unfinished: deque[_Batch] = deque()
        """Batches that are not acknowledged, in order; the first `_sent` are on their way."""
        self._sent = 0
        self._changed = asyncio.Event()
        self._backs_off = False
        """Whether to wait before anything is sent again."""
        self._refused: _Batch | None = None
        """The first unfinished batch, after it was refused; None once any is acknowledged."""
        self._connection: Connection | None = None
        """On which the last batch was sent."""

    async def run(self) -> None:
        """Write all, and wait for the outcomes."""
        if self._is_idempotent:
            await self._init()
        writing = self.client.process.spawn(self._write(), name="write")
        while not (writing.done() and not self._unfinished):
            await self._changed.wait()
            self._changed.clear()
            if self._backs_off:
                self._backs_off = False
                await asyncio.sleep(BACKOFF_S)
            try:
                await self._send_all()
            except Lost:
                self._sent = 0
                self.client.hang_up()
                await asyncio.sleep(BACKOFF_S)
                self._changed.set()
        self.is_done = True

    async def _init(self) -> None:
        while True:
            answer, _ = await self.client.ask_until_answered(
                "InitProducerId",
                4,
                transactional_id=None,
                transaction_timeout_ms=60_000,
                producer_id=-1,
                producer_epoch=-1,
            )
            if answer.error_code == Code.NONE:
                self._identity = Identity(answer.producer_id, answer.producer_epoch, 0)
                return
            assert Code(answer.error_code) in RETRIABLE, Code(answer.error_code)
            await asyncio.sleep(BACKOFF_S)

    async def _write(self) -> None:
        """The program that uses the producer."""
        chance, load = self.chance, self._load
        while self._number < load.records:
            values = []
            for _ in range(1 + chance.randrange(load.batch_max)):
                filler = b"." * chance.randrange(load.value_bytes_max)
                values.append(f"{self.name}:{self._number}:".encode() + filler)
                self._number += 1
            write = Write(
                self.name,
                self._place,
                is_idempotent=self._is_idempotent,
                is_dense=self._is_dense,
            )
            self.history.writes |= dict.fromkeys(values, write)
            self._unfinished.append(_Batch(values, self._sequence))
            self._sequence += len(values)
            self._changed.set()
            await asyncio.sleep(load.pause_s * 2 * chance.random())
        self._changed.set()

    async def _send_all(self) -> None:
        """Have as many on their way as may be."""
        connection = self._connection = (await self.client.leader(self._place)).connection
        while self._sent < min(IN_FLIGHT_MAX, len(self._unfinished)):
            unfinished = self._unfinished[self._sent]
            self._sent += 1
            self.client.process.spawn(self._send(connection, unfinished), name="send")

    async def _send(self, connection: Connection, unfinished: _Batch) -> None:
        identity = self._identity
        if self._is_idempotent:
            identity = identity._replace(sequence=unfinished.sequence)
        data = batch(
            unfinished.values,
            producer=identity,
            compression=self._load.compression,
            timestamps=self.client.process.now_ms(),
        )
        topic, index = self._place
        values = {
            "transactional_id": None,
            "acks": -1,
            "timeout_ms": 30_000,
            "topic_data": [
                {"name": topic, "partition_data": [{"index": index, "records": bytes(data)}]}
            ],
        }
        try:
            answer = await connection.ask("Produce", PRODUCE_VERSION, **values)
        except Lost:
            if self._connection is connection and self._sent:
                self._lost()
            return
        (response,) = answer.responses[0].partition_responses
        self._answered(unfinished, response)

    def _lost(self) -> None:
        """All that was on its way is sent again, on another connection; a plain producer without
        retries gives it up."""
        if not self._is_idempotent:
            for _ in range(self._sent):
                self._unfinished.popleft()
        self._sent = 0
        self.client.hang_up()
        self._changed.set()

    def _answered(self, unfinished: _Batch, response: Any) -> None:
        code = Code(response.error_code)
        if unfinished not in self._unfinished:
            return
        if code is Code.NONE:
            self._refused = None
            assert self._unfinished[0] is unfinished, "responses come in order"
            self._unfinished.popleft()
            self._sent -= 1
            self._acknowledged(unfinished.values, response.base_offset)
        elif code in RETRIABLE and self._is_idempotent:
            self._refused = self._unfinished[0]
            self._backs_off = code in TOO_FEW_REPLICAS  # it may last
            self._again_soon()
        elif code in RETRIABLE:
            self._lost()  # perhaps another broker leads now
        elif code in (Code.OUT_OF_ORDER_SEQUENCE_NUMBER, Code.UNKNOWN_PRODUCER_ID):
            if unfinished is self._unfinished[0]:
                if unfinished is self._refused:
                    self._overtaken()
                self._next_epoch()
            self._again_soon()  # else one before it was lost on its way
        else:
            if self._is_idempotent:
                self.history.violation(f"{self.name}: Produce answered {code.name}")
            self._unfinished.popleft()
            self._sent -= 1
        self._changed.set()

    def _again_soon(self) -> None:
        """Send all that is unfinished again, in order."""
        self._sent = 0
        self.client.hang_up()

    def _next_epoch(self) -> None:
        """All before the first unfinished batch was acknowledged, so the log has lost records. As
        KIP-360 has it, what is left is numbered from 0 under the next epoch."""
        if not self.history.may_lose and self._refused is not self._unfinished[0]:
            self.history.violation(f"{self.name}: an acknowledged sequence is unknown")
        self._identity = self._identity._replace(epoch=self._identity.epoch + 1)
        self._sequence = 0
        for unfinished in self._unfinished:
            unfinished.sequence = self._sequence
            self._sequence += len(unfinished.values)

    def _overtaken(self) -> None:
        """One that was in flight behind the refused batch was appended before it."""
        self._is_dense = False
        for unfinished in self._unfinished:
            for value in unfinished.values:
                write = self.history.writes[value]
                loose = write._replace(is_idempotent=False, is_dense=False)
                self.history.writes[value] = loose

    def _acknowledged(self, values: Sequence[bytes], base_offset: int) -> None:
        history = self.history
        for delta, value in enumerate(values):
            history.acknowledged[value] = base_offset + delta
        end = base_offset + len(values)
        history.ends[self._place] = max(end, history.ends.get(self._place, 0))


@dataclass(eq=False)
class _Batch:
    values: list[bytes]
    sequence: int
