"""A connection of its own that goes on asking, in a process of its own, while frames fly.

`python -m fuzz.prober PORT BROKER_PID` asks ApiVersions, Metadata and Produce in turn, every few
milliseconds, until its input ends; then it prints what it saw as JSON.

Each wait is noted twice: as the wall clock has it, and without the time in which broker or prober
was ready to run and the machine had no core for it (`/proc/<pid>/schedstat`): that is what the
broker itself made others wait, on any machine.
"""

from __future__ import annotations

import json
import select
import socket
import struct
import sys
import time
from pathlib import Path
from typing import Any

from kavka.compat_tests.raw.codec import batches, wire_client
from support.ports import HOST

EVERY_S = 0.004
TIMEOUT_S = 30.0
TOPIC = "probed"
WORST_KEPT = 20
PERCENTS = (50.0, 90.0, 99.0, 99.9, 100.0)
STEP = 1.1
"""Waits are counted in classes, each so much wider than the one before."""


class Waits:
    """A histogram of times in seconds; from a microsecond on, in classes of ten per cent."""

    def __init__(self) -> None:
        self._classes: dict[int, int] = {}
        self.count = 0
        self.worst_s = 0.0
        self._bounds = [1e-6]
        while self._bounds[-1] < 100:
            self._bounds.append(self._bounds[-1] * STEP)

    def add(self, wait_s: float) -> None:
        at = 0
        low, high = 0, len(self._bounds) - 1
        while low < high:  # the first bound that is not less
            at = (low + high) // 2
            if self._bounds[at] < wait_s:
                low = at + 1
            else:
                high = at
        self._classes[low] = self._classes.get(low, 0) + 1
        self.count += 1
        self.worst_s = max(self.worst_s, wait_s)

    def percentile_ms(self, percent: float) -> float:
        """An upper bound of what so many per cent waited at most, in ms."""
        if percent >= 100:
            return self.worst_s * 1000
        least = self.count * percent / 100
        seen = 0
        for index in sorted(self._classes):
            seen += self._classes[index]
            if seen >= least:
                return self._bounds[index] * 1000
        return 0.0

    def summary(self) -> dict[str, float]:
        return {f"p{percent:g}": round(self.percentile_ms(percent), 3) for percent in PERCENTS}


def _requests() -> list[bytes]:
    batch = bytes(batches.build([batches.Written(b"key", b"value")]))
    partition = {"index": 0, "records": batch}
    produce = wire_client.encode(
        "Produce",
        9,
        acks=1,
        timeout_ms=30_000,
        transactional_id=None,
        topic_data=[{"name": TOPIC, "partition_data": [partition]}],
    )
    metadata = wire_client.encode(
        "Metadata", 9, topics=[{"name": TOPIC}], allow_auto_topic_creation=False
    )
    return [
        wire_client.framed(request)
        for request in (wire_client.encode("ApiVersions", 2), metadata, produce)
    ]


def waited_for_core_s(pid: int) -> float:
    """How long the main thread of a process has been ready to run without a core."""
    fields = Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()
    return int(fields[1]) / 1e9


class Prober:
    """One blocking connection, and what it waited."""

    def __init__(self, port: int, broker_pid: int, own_pid: int) -> None:
        self._socket = socket.create_connection((HOST, port), TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._pids = (broker_pid, own_pid)
        self.wall = Waits()
        self.net = Waits()
        self.worst: list[tuple[float, float, float]] = []

    def ask(self, request: bytes, now_s: float) -> None:
        """One request and its answer."""
        without_core_s = self._without_core_s()
        began_s = time.perf_counter()
        self._socket.sendall(request)
        self._answer()
        wall_s = time.perf_counter() - began_s
        net_s = max(0.0, wall_s - (self._without_core_s() - without_core_s))
        self.wall.add(wall_s)
        self.net.add(net_s)
        self.worst.append((round(wall_s * 1000, 2), round(net_s * 1000, 2), round(now_s, 2)))
        if len(self.worst) > 4 * WORST_KEPT:
            self.worst = sorted(self.worst, reverse=True)[:WORST_KEPT]

    def _without_core_s(self) -> float:
        return sum(waited_for_core_s(pid) for pid in self._pids)

    def _answer(self) -> None:
        (size,) = struct.unpack(">i", self._read(4))
        self._read(size)

    def _read(self, size: int) -> bytes:
        data = self._socket.recv(size, socket.MSG_WAITALL)
        if len(data) != size:
            raise ConnectionError("the broker closed the prober's connection")
        return data

    def report(self) -> dict[str, Any]:
        return {
            "requests": self.wall.count,
            "wall_ms": self.wall.summary(),
            "net_ms": self.net.summary(),
            "worst": sorted(self.worst, reverse=True)[:WORST_KEPT],
        }


def main(port: int, broker_pid: int) -> None:
    requests = _requests()
    prober = Prober(port, broker_pid, int(Path("/proc/self").resolve().name))
    began_s = time.monotonic()
    turn = 0
    while not select.select([sys.stdin], [], [], EVERY_S)[0]:
        prober.ask(requests[turn % len(requests)], time.monotonic() - began_s)
        turn += 1
    print(json.dumps(prober.report()))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
