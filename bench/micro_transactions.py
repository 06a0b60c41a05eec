"""The transaction coordinator inside the process: what a transaction of one record costs.

As in `micro_server` nothing reaches a socket or a disk. The requests are those of a client of the
first protocol, as librdkafka's: AddPartitionsToTxn, Produce, EndTxn.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from bench import frames
from bench.micro_server import START_S_MAX, TOPIC, InProcess

Named = tuple[str, Callable[[], object]]

FIND_COORDINATOR: Final = 10
INIT_PRODUCER_ID: Final = 22
ADD_PARTITIONS_TO_TXN: Final = 24
END_TXN: Final = 26

ID: Final = "transactional"
TIMEOUT_MS: Final = 60_000
COMMIT: Final = b"\1"
OF_TRANSACTIONS: Final = b"\1"


def calls(scratch: Path) -> Iterator[Named]:
    """Everything to measure here; files go to `scratch`."""
    loop = asyncio.new_event_loop()
    broker = InProcess(loop, scratch / "transactions", ["transaction.state.log.num.partitions=1"])
    try:
        loop.run_until_complete(asyncio.wait_for(broker.start(), START_S_MAX))
        yield "transactions: one record", Transactions(broker).transact
        loop.run_until_complete(broker.stop())
    finally:
        loop.close()


class Transactions:
    """One producer, and its transactions one after the other."""

    def __init__(self, broker: InProcess) -> None:
        self._broker = broker
        body = frames.string(ID) + OF_TRANSACTIONS
        broker.await_answer(frames.frame(FIND_COORDINATOR, 1, body))
        answer = broker.await_answer(
            frames.frame(INIT_PRODUCER_ID, 0, frames.string(ID) + struct.pack(">i", TIMEOUT_MS))
        )
        code, *self._producer = struct.unpack_from(">hqh", answer, 8)
        if code:
            raise RuntimeError(f"InitProducerId answered error {code}")
        named = frames.string(ID) + struct.pack(">qh", *self._producer)
        topic = struct.pack(">i", 1) + frames.string(TOPIC) + struct.pack(">ii", 1, 0)
        self._add = frames.frame(ADD_PARTITIONS_TO_TXN, 0, named + topic)
        self._end = frames.frame(END_TXN, 0, named + COMMIT)
        self._sequence = 0

    def transact(self) -> None:
        """Begun, written and committed, and its marker written."""
        broker = self._broker
        broker.ask(self._add)
        broker.ask(self.produce())
        broker.ask(self._end)
        broker.take_turn()

    def produce(self) -> bytes:
        """The next record."""
        batch = frames.Batch(100, 1).encode((*self._producer, self._sequence))
        self._sequence += 1
        return frames.produce(TOPIC, 0, batch, transactional_id=ID)
