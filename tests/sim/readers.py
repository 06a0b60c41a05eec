"""Readers of assigned partitions, from the beginning, with Fetch as stock consumers send it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from kafka.record import MemoryRecords

from kavka.wire.errors import ErrorCode as Code
from sim.client import BACKOFF_S, Client, Lost
from sim.history import History, Place, Reading, Seen
from sim.producers import RETRIABLE
from support.memory_broker import fetching

FETCH_VERSION = 11


class Reader:
    """Reads one partition, until it is stopped."""

    def __init__(
        self,
        client: Client,
        history: History,
        name: str,
        place: Place,
        *,
        isolation_level: int = 0,
        max_bytes: int = 1 << 20,
    ) -> None:
        self._client = client
        self._history = history
        self._place = place
        self._isolation_level = isolation_level
        self._max_bytes = max_bytes
        self.reading = Reading(name, place)
        history.readings.append(self.reading)
        self.position = 0
        self.end = -1
        """The high watermark that came with the last response."""

    async def run(self, until_end: bool = False) -> None:
        """Read on; with `until_end` only to the end that the log has then."""
        while not until_end or self.position != self.end:
            try:
                answer = await self._client.ask(
                    "Fetch",
                    FETCH_VERSION,
                    **fetching(
                        {self._place: self.position},
                        max_bytes=self._max_bytes,
                        max_wait_ms=0 if until_end else 500,
                        isolation_level=self._isolation_level,
                    ),
                )
            except Lost:
                self._client.hang_up()
                await asyncio.sleep(BACKOFF_S)
                continue
            if answer.error_code != Code.NONE or not answer.responses:
                await asyncio.sleep(BACKOFF_S)
                continue
            self._take(answer.responses[0].partitions[0])
            if answer.responses[0].partitions[0].error_code != Code.NONE:
                await asyncio.sleep(BACKOFF_S)

    def _take(self, response: Any) -> None:
        code = Code(response.error_code)
        if code is not Code.NONE:
            if code not in RETRIABLE:
                self._history.violation(f"{self.reading.reader}: Fetch answered {code.name}")
            return
        self.end = response.high_watermark
        self.reading.high_watermarks.append((self._history.now_s(), self.end))
        for offset, value in records(response.records):
            if offset < self.position:
                continue  # of the batch that has the first record that was asked for
            self.reading.records.append(Seen(offset, value))
            self.position = offset + 1


def records(data: Any) -> Iterator[tuple[int, bytes]]:
    """(offset, value) of the records in a response."""
    batches = MemoryRecords(bytes(data or b""))
    while (batch := batches.next_batch()) is not None:
        if not batch.validate_crc():
            raise AssertionError("a batch with a bad CRC")
        if not batch.is_control_batch:
            for record in batch:
                yield record.offset, record.value
