"""Readers of assigned partitions, from the beginning, with Fetch as stock consumers send it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from kafka.record import MemoryRecords

from kavka.wire.errors import ErrorCode as Code
from sim.client import BACKOFF_S, Client, Lost
from sim.history import End, History, Place, Reading, Seen
from sim.producers import RETRIABLE
from support.memory_broker import fetching

FETCH_VERSION = 11
AGAIN = RETRIABLE | {
    Code.FENCED_LEADER_EPOCH,
    Code.UNKNOWN_LEADER_EPOCH,
    Code.OFFSET_NOT_AVAILABLE,
    Code.REPLICA_NOT_AVAILABLE,
}
"""After these a consumer asks for metadata, and fetches again."""

MAX_WAIT_MS = 2000
"""fetch.max.wait.ms: longer than the stock clients', as most requests of a run would be those of
readers that have nothing to read."""

COMMITTED = 1
LATEST, EARLIEST = -1, -2
"""Instead of a timestamp in ListOffsets."""


class Reader:
    """Reads one partition, until it is stopped."""

    def __init__(
        self,
        client: Client,
        history: History,
        place: Place,
        *,
        committed: bool = False,
        compacted: bool = False,
        start: int = 0,
        pause_s: float = 0.0,
        max_bytes: int = 1 << 20,
    ) -> None:
        """`compacted`: offsets may be missing."""
        self._client = client
        self._history = history
        self._place = place
        self._committed = committed
        self._may_skip = compacted
        self._pause_s = pause_s
        self._max_bytes = max_bytes
        self._begin(start)
        self.end = -1
        """The high watermark that came with the last response, or the last stable offset."""

    async def run(self, until_end: bool = False, at_least: Callable[[], int] = lambda: 0) -> None:
        """Read on; with `until_end` only to the end that the log has then, and `at_least` to this
        offset: a new leader may not know yet that it is below the high watermark."""
        while not until_end or self.end < 0 or self.position < max(self.end, at_least()):
            try:
                connection, epoch = await self._client.leader(self._place)
                answer = await connection.ask(
                    "Fetch",
                    FETCH_VERSION,
                    **fetching(
                        {self._place: self.position},
                        max_bytes=self._max_bytes,
                        max_wait_ms=0 if until_end else MAX_WAIT_MS,
                        isolation_level=int(self._committed),
                        current_leader_epoch=epoch,
                    ),
                )
            except Lost:
                self._client.hang_up()
                await asyncio.sleep(BACKOFF_S)
                continue
            response = answer.responses[0].partitions[0]
            code = Code(answer.error_code or response.error_code)
            if code is Code.NONE:
                before = self.position
                self._take(response, epoch)
                if until_end and self.position == before:
                    if self._may_skip and self.end >= at_least():
                        return  # nothing is left before an open transaction
                    await asyncio.sleep(BACKOFF_S)
                await asyncio.sleep(self._pause_s)
                continue
            if code is Code.OFFSET_OUT_OF_RANGE and self._history.may_lose:
                self._begin(await earliest(self._client, self._place))
            elif code not in AGAIN:
                self._history.violation(f"{self.reading.reader}: Fetch answered {code.name}")
            self._client.refresh()
            await asyncio.sleep(BACKOFF_S)

    def _begin(self, at: int) -> None:
        """Read from an offset on."""
        self.position = at
        self.reading = Reading(self._client.process.name, self._place, self._committed, position=at)
        self._history.readings.append(self.reading)

    def _take(self, response: Any, epoch: int) -> None:
        """`epoch`: the leader epoch, if the client knows it."""
        reading = self.reading
        reading.ends.append(End(self._history.now_s(), epoch, response.high_watermark))
        self.end = response.last_stable_offset if self._committed else response.high_watermark
        if response.last_stable_offset > response.high_watermark:
            self._history.violation(
                f"I6: the last stable offset of {self._place} is {response.last_stable_offset}, "
                f"its high watermark {response.high_watermark}"
            )
        aborted = sorted(
            (transaction.first_offset, transaction.producer_id)
            for transaction in response.aborted_transactions or ()
        )
        gone: set[int] = set()  # as stock consumers: each response names all that it has part of
        batches = MemoryRecords(bytes(response.records or b""))
        while (batch := batches.next_batch()) is not None:
            assert batch.validate_crc(), "a batch with a bad CRC"
            if batch.next_offset <= self.position:
                continue
            may_skip = self._may_skip or self._history.may_lose
            if batch.base_offset > self.position and not may_skip:
                self._history.violation(
                    f"I5 skip: {reading.reader} read {self._place} from {self.position} and got "
                    f"{batch.base_offset}"
                )
            if batch.next_offset > self.end and not self._history.may_lose:
                self._history.violation(
                    f"I6: {reading.reader} got {self._place} {batch.next_offset - 1}, behind the "
                    f"end {self.end}"
                )
            while aborted and aborted[0][0] <= batch.base_offset:
                gone.add(aborted.pop(0)[1])
            self._take_batch(batch, gone)
            self.position = reading.position = batch.next_offset

    def _take_batch(self, batch: Any, gone: set[int]) -> None:
        if batch.is_control_batch:
            gone.discard(batch.producer_id)
            self.reading.markers += [batch.producer_id for _ in batch]
            return
        if self._committed and batch.is_transactional and batch.producer_id in gone:
            return
        for record in batch:
            if record.offset >= self.position:
                self.reading.records.append(Seen(record.offset, record.value, record.key))


def listing(place: Place, timestamp: int) -> dict[str, Any]:
    """The values of a ListOffsets of one partition."""
    partition = {"partition_index": place[1], "timestamp": timestamp}
    return {"replica_id": -1, "topics": [{"name": place[0], "partitions": [partition]}]}


async def earliest(client: Client, place: Place) -> int:
    """The first offset of a partition."""
    values = listing(place, EARLIEST)
    while True:
        answer, _ = await client.ask_until_answered("ListOffsets", 7, **values)
        (response,) = answer.topics[0].partitions
        if response.error_code == Code.NONE:
            return int(response.offset)
        await asyncio.sleep(BACKOFF_S)
