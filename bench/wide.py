"""A consumer of many partitions, of which one has news at a time: a Fetch session (KIP-227)."""

from __future__ import annotations

import struct
import time
from collections.abc import Mapping
from typing import Final

from bench import frames, raw
from bench.run import Run

PARTITIONS: Final = 1000
RECORDS: Final = 500
WARM_UP: Final = 200
"""Records that are not measured, to warm up a JVM, which compiles hot code."""

PAUSE_S: Final = 0.01
"""Between a Fetch and the record that ends its wait."""

WAIT_MS: Final = 5000
PARTITION_BYTES: Final = 1 << 20

_SESSION_AT: Final = 10
"""Where an answer without its size has the session's id, behind correlation id, time and code."""


def stage(run: Run) -> None:
    """From a record's Produce to its arrival, and what both cost the broker."""
    port = run.peer.port
    batch = frames.Batch(100, 1).encode()
    with run.topic("wide", PARTITIONS) as topic, raw.Connection(port) as line:
        reader = _Reader(line, topic)
        with raw.Connection(port) as other:
            for number in range(WARM_UP):
                reader.step(other, number, batch)
            for _ in range(run.options.rounds):
                with run.meter("wide") as meter:
                    latencies_ns = [reader.step(other, number, batch) for number in range(RECORDS)]
                run.add_latencies("wide", latencies_ns)
                run.add("wide.cpu", meter.broker_s * 1e6 / RECORDS)


class _Reader:
    """One session, which has read all there is: a record in each partition."""

    def __init__(self, line: raw.Connection, topic: str) -> None:
        self._line = line
        self._topic = topic
        self._offsets = dict.fromkeys(range(PARTITIONS), 1)
        self._named: Mapping[int, int] = {}
        answer = line.ask(_fetch(topic, self._offsets, 0, 0, wait_ms=0))
        error, self._session = struct.unpack_from(">hi", answer, _SESSION_AT - 2)
        if error or not self._session:
            raise RuntimeError(f"Fetch answered error {error}, session {self._session}")
        self._epoch = 1

    def step(self, other: raw.Connection, partition: int, batch: bytes) -> int:
        """Wait for the record that `other` writes; ns from its Produce to its arrival."""
        fetch = _fetch(self._topic, self._named, self._session, self._epoch, wait_ms=WAIT_MS)
        self._line.socket.sendall(fetch)
        time.sleep(PAUSE_S)
        began_ns = time.perf_counter_ns()
        other.socket.sendall(frames.produce(self._topic, partition, batch))
        answer = self._line.read()
        taken_ns = time.perf_counter_ns() - began_ns
        if len(answer) < len(batch):
            raise RuntimeError("Fetch was answered without the record")
        other.read()
        self._epoch += 1
        self._offsets[partition] += 1
        self._named = {partition: self._offsets[partition]}
        return taken_ns


def _fetch(
    topic: str, offsets: Mapping[int, int], session: int, epoch: int, *, wait_ms: int
) -> bytes:
    """Fetch v7, which names these partitions."""
    places = b"".join(
        struct.pack(">iqqi", partition, offset, -1, PARTITION_BYTES)
        for partition, offset in offsets.items()
    )
    topics = frames.string(topic) + struct.pack(">i", len(offsets)) + places
    return frames.frame(
        frames.FETCH,
        7,
        struct.pack(">iiiibii", -1, wait_ms, 1, 50 << 20, 0, session, epoch)
        + struct.pack(">i", bool(offsets))
        + (topics if offsets else b"")
        + struct.pack(">i", 0),  # nothing is forgotten
    )
