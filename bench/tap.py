"""What `kavka tap` adds to a request's time: `python -m bench.tap`.

A small request is sent again and again, one at a time, on two connections in turn: one to the
broker, one through the tap. ApiVersions and Metadata are answered at once; Produce writes a record,
and Fetch reads 256 KiB. Decoding and printing go on meanwhile, as they do in use. `stalled` is the
same with a tap whose lines nobody reads. The aim is at most 1 ms in the median and at the 99th
percentile.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from bench import frames
from bench.raw import HOST, Connection, create_topic

AIM_MS: Final = 1.0
TOPIC: Final = "tapped"
BULK_BYTES: Final = 256 * 1024
WARM_UP: Final = 200

_BROKER_PORT: Final = re.compile(r"ready on [\d.]+:(\d+)")
_TAP_PORT: Final = re.compile(r"tap: [\d.]+:(\d+) leads to .* \(bootstrap\)")


def main() -> int:
    """Measure, print a table, and return 1 if the aim is missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.tap", description=__doc__)
    parser.add_argument("--requests", type=int, default=3000, help="of each kind")
    parser.add_argument("--broker", metavar="PORT", type=int, help="one that runs already")
    given = parser.parse_args()
    worst = 0.0
    with tempfile.TemporaryDirectory() as home, _broker(home, given.broker) as port:
        _fill(port)
        print(f"{'':24}{'direct':>16}{'through the tap':>18}{'added':>16}   (p50 / p99, ms)")
        for name, is_stalled in (("", False), ("stalled, ", True)):
            with _tap(port, is_stalled) as tap_port:
                for kind, request in _requests().items():
                    direct, through = _times(port, tap_port, request, given.requests)
                    added = [two - one for one, two in zip(direct, through, strict=True)]
                    worst = max(worst, *added)
                    cells = [f"{low:.3f} / {high:.3f}" for low, high in (direct, through, added)]
                    print(f"{name + kind:24}{cells[0]:>16}{cells[1]:>18}{cells[2]:>16}", flush=True)
    print(f"worst: {worst:.3f} ms; the aim is {AIM_MS:g} ms")
    return int(worst > AIM_MS)


def _requests() -> dict[str, bytes]:
    fetch = frames.FetchRequest(TOPIC, 0, max_wait_ms=0, partition_max_bytes=BULK_BYTES)
    return {
        "ApiVersions": frames.api_versions(),
        "Produce of a record": frames.produce(TOPIC, 0, frames.Batch(100, 1).encode(), -1),
        "Fetch of 256 KiB": bytes(fetch.at(0)),
    }


def _times(
    port: int, tap_port: int, request: bytes, count: int
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Median and 99th percentile in ms: directly and through the tap, in turn."""
    taken: tuple[list[int], list[int]] = ([], [])
    with Connection(port) as direct, Connection(tap_port) as through:
        for number in range(count + WARM_UP):
            for connection, found in ((direct, taken[0]), (through, taken[1])):
                began = time.perf_counter_ns()
                connection.ask(request)
                if number >= WARM_UP:
                    found.append(time.perf_counter_ns() - began)
    return _summary(taken[0]), _summary(taken[1])


def _summary(times_ns: list[int]) -> tuple[float, float]:
    cuts = statistics.quantiles(times_ns, n=100)
    return cuts[49] / 1e6, cuts[98] / 1e6


def _fill(port: int) -> None:
    """Enough records for a Fetch."""
    batch = frames.produce(TOPIC, 0, frames.Batch(1000, 16).encode(), -1)
    with Connection(port) as connection:
        create_topic(port, TOPIC)
        for _ in range(BULK_BYTES // 16_000 + 2):
            connection.ask(batch)


@contextmanager
def _broker(home: str, running: int | None) -> Iterator[int]:
    if running is not None:
        yield running
        return
    settings = (f"listeners=PLAINTEXT://{HOST}:0", f"log.dirs={home}/data")
    options = [word for one in settings for word in ("--override", one)]
    command = [sys.executable, "-m", "kavka", "start", *options, "--log-level", "WARN"]
    with _process(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        yield _port(process.stdout, _BROKER_PORT)


@contextmanager
def _tap(port: int, is_stalled: bool) -> Iterator[int]:
    """A tap whose lines go to nowhere, or into a pipe that nobody reads."""
    command = [sys.executable, "-m", "kavka", "tap", "--listen", f"{HOST}:0", "--full", "--records"]
    read_end, write_end = os.pipe()
    out = write_end if is_stalled else subprocess.DEVNULL
    command += ["--bootstrap-server", f"{HOST}:{port}"]
    try:
        with _process(command, stdout=out, stderr=subprocess.PIPE) as process:
            assert process.stderr is not None
            yield _port(process.stderr, _TAP_PORT)
            os.close(read_end)  # so that a stalled printer ends
            read_end = -1
    finally:
        os.close(write_end)
        if read_end >= 0:
            os.close(read_end)


@contextmanager
def _process(command: list[str], **pipes: int) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(command, text=True, stdin=subprocess.DEVNULL, **pipes)  # type: ignore[call-overload]
    try:
        yield process
    finally:
        process.terminate()
        process.wait()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


def _port(lines: Iterator[str], pattern: re.Pattern[str]) -> int:
    for line in lines:
        if found := pattern.search(line):
            return int(found[1])
    raise RuntimeError("a process has ended at its start")


if __name__ == "__main__":
    sys.exit(main())
