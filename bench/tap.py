"""What `kavka tap` adds to a request's time.

A small request is sent again and again, one at a time, on two connections in turn: one to the
broker, one through the tap. ApiVersions is answered at once; Produce writes a record, and Fetch
reads 256 KiB. Decoding and printing go on meanwhile, as they do in use. The rows with `unread` are
the same with a tap whose lines nobody reads.
"""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from bench import ROOT, frames
from bench.raw import HOST, Connection
from bench.rows import Measure, Section
from bench.run import Run

AIM_MS: Final = 1.0
BULK_BYTES: Final = 256 * 1024
FILL: Final = frames.Batch(1000, 16)
WARM_UP: Final = 200
REQUESTS: Final = 1500
STOP_WITHIN_S: Final = 20.0

KINDS: Final[Mapping[str, str]] = {
    "api-versions": "ApiVersions",
    "produce": "Produce of a record",
    "fetch": "Fetch of 256 KiB",
}
UNREAD: Final[Mapping[str, str]] = {"tap": "", "tap-unread": ", its lines unread"}
"""Keys of rows, and what stands in their labels."""

SECTION: Final = Section(
    "`kavka tap` between client and broker, one request in flight",
    tuple(
        Measure(f"{tap}-{kind}.{key}", f"ms added at the {name}, {label}{unread}", aim=AIM_MS)
        for tap, unread in UNREAD.items()
        for kind, label in KINDS.items()
        for key, name in (("p50", "median"), ("p99", "p99"))
    ),
)

_TAP_PORT: Final = re.compile(r"tap: [\d.]+:(\d+) leads to .* \(bootstrap\)")

Quantiles = tuple[float, float]
"""The median and the 99th percentile, in ms."""


def stage(run: Run) -> None:
    """Each kind of request, with a tap that is read and with one that is not."""
    with run.topic("tap") as topic:
        _fill(run.peer.port, topic)
        for tap in UNREAD:
            with run.meter(tap), _tap(run.peer.port, is_read=tap == "tap") as tap_port:
                for kind, request in _requests(topic).items():
                    direct, through = _times(run.peer.port, tap_port, request)
                    for at, key in enumerate(("p50", "p99")):
                        run.add(f"{tap}-{kind}.{key}", through[at] - direct[at])


def _requests(topic: str) -> dict[str, bytes]:
    fetch = frames.FetchRequest(topic, 0, max_wait_ms=0, partition_max_bytes=BULK_BYTES)
    return {
        "api-versions": frames.api_versions(),
        "produce": frames.produce(topic, 0, frames.Batch(100, 1).encode(), -1),
        "fetch": bytes(fetch.at(0)),
    }


def _times(port: int, tap_port: int, request: bytes) -> tuple[Quantiles, Quantiles]:
    """Directly and through the tap, in turn."""
    taken: tuple[list[int], list[int]] = ([], [])
    with Connection(port) as direct, Connection(tap_port) as through:
        for number in range(REQUESTS + WARM_UP):
            for connection, found in ((direct, taken[0]), (through, taken[1])):
                began = time.perf_counter_ns()
                connection.ask(request)
                if number >= WARM_UP:
                    found.append(time.perf_counter_ns() - began)
    return _summary(taken[0]), _summary(taken[1])


def _summary(times_ns: list[int]) -> Quantiles:
    cuts = statistics.quantiles(times_ns, n=100)
    return cuts[49] / 1e6, cuts[98] / 1e6


def _fill(port: int, topic: str) -> None:
    """Enough records for a Fetch."""
    batch = frames.produce(topic, 0, FILL.encode(), -1)
    with Connection(port) as connection:
        for _ in range(BULK_BYTES // FILL.payload_bytes + 2):
            connection.ask(batch)


@contextmanager
def _tap(port: int, *, is_read: bool) -> Iterator[int]:
    """The port of a tap whose lines go to nowhere, or into a pipe that nobody reads."""
    command = [sys.executable, "-m", "kavka", "tap", "--listen", f"{HOST}:0", "--full", "--records"]
    command += ["--bootstrap-server", f"{HOST}:{port}"]
    read_end, write_end = os.pipe()
    process = subprocess.Popen(
        command,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL if is_read else write_end,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )
    os.close(write_end)
    assert process.stderr is not None
    try:
        yield _port(process.stderr)
    finally:
        os.close(read_end)  # so that a printer that waits ends
        process.terminate()
        try:
            process.wait(STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stderr.close()


def _port(lines: Iterator[str]) -> int:
    for line in lines:
        if found := _TAP_PORT.search(line):
            return int(found[1])
    raise RuntimeError("the tap has ended at its start")
