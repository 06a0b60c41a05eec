"""What the machine itself costs, apart from any broker."""

from __future__ import annotations

import os
import platform
import select
import socket
import sys
import time
from pathlib import Path
from typing import Final, NamedTuple

from crc32c import crc32c

from bench.raw import HOST

CHUNK_BYTES: Final = 1 << 20
PAGE_PROBE_BYTES: Final = 256 << 20
ECHO_RATE_PER_S: Final = 1000
ECHO_BYTES: Final = 200
ECHO_TIMEOUT_S: Final = 10.0


def speed_ms() -> float:
    """CPU ms of a fixed piece of work, half interpreter and half memory: the machine's pace."""
    before_s = time.process_time()
    total = 0
    for number in range(200_000):
        total += number ^ (total & 0xFF)
    block = bytes(CHUNK_BYTES)
    for _ in range(30):
        total += crc32c(bytearray(block))
    return (time.process_time() - before_s) * 1e3


def write_pages(directory: Path, size_bytes: int) -> float:
    """Write a scratch file of `size_bytes` and remove it; the CPU seconds of writing.

    Its pages go back to the kernel's free list warm. A virtual machine hands long-free memory
    back to its host, and the next to touch it pays for getting it again, up to several times what
    the write itself costs: this makes us the one who pays, and not the broker that is measured.
    """
    path = directory / "scratch"
    chunk = b"\xa5" * CHUNK_BYTES
    before_s = time.process_time()
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    try:
        for position in range(0, size_bytes, CHUNK_BYTES):
            os.pwrite(descriptor, chunk, position)
    finally:
        os.close(descriptor)
        cost_s = time.process_time() - before_s
        path.unlink()
    return cost_s


class PageCost(NamedTuple):
    """CPU seconds that the kernel takes for a GB of new file pages."""

    cold: float
    warm: float


def page_cost(directory: Path) -> PageCost:
    """Write the same scratch file twice, after a pause in which free memory may go cold."""
    time.sleep(3)
    cold_s = write_pages(directory, PAGE_PROBE_BYTES)
    warm_s = write_pages(directory, PAGE_PROBE_BYTES)
    return PageCost(cold_s * 1e9 / PAGE_PROBE_BYTES, warm_s * 1e9 / PAGE_PROBE_BYTES)


def echo_once(port: int) -> None:
    """Accept one connection and send back what it sends, until it ends. Runs in the helper."""
    with socket.create_server((HOST, port)) as listener:
        listener.settimeout(ECHO_TIMEOUT_S)
        peer = listener.accept()[0]
    with peer:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        peer.settimeout(ECHO_TIMEOUT_S)
        while data := peer.recv(4096):
            peer.sendall(data)


def echo_latencies(port: int, seconds: float) -> list[int]:
    """Round trips in ns to an echo process at ECHO_RATE_PER_S: the floor of any latency here."""
    with _connect(port) as line:
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        latencies = []
        message = b"e" * ECHO_BYTES
        due_s = time.perf_counter()
        for _ in range(int(seconds * ECHO_RATE_PER_S)):
            due_s += 1 / ECHO_RATE_PER_S
            select.select([], [], [], max(0.0, due_s - time.perf_counter()))
            sent = time.perf_counter_ns()
            line.sendall(message)
            line.recv(4096)
            latencies.append(time.perf_counter_ns() - sent)
    return latencies


def _connect(port: int) -> socket.socket:
    end_s = time.monotonic() + ECHO_TIMEOUT_S
    while True:
        try:
            return socket.create_connection((HOST, port), ECHO_TIMEOUT_S)
        except ConnectionRefusedError:
            if time.monotonic() > end_s:
                raise
            time.sleep(0.01)


def facts() -> dict[str, object]:
    """What to know about the machine to compare figures from another day."""
    return {
        "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "cores": os.cpu_count(),
        "processor": _processor(),
        "kernel": platform.release(),
        "python": sys.version.split()[0],
        "load_average": [round(load, 2) for load in os.getloadavg()],
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
