"""Many partitions on one broker: made, written to, and back after a stop and after a SIGKILL.

A broker of its own does it, on a directory of its own, so that the other rows are not touched.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from bench import frames, procs, raw
from bench.peers import Peer
from bench.run import Run

TOPICS: Final = 50
PARTITIONS: Final = 100
SETTLE_S: Final = 2.0
READY_TIMEOUT_S: Final = 180.0

_NAMES: Final = tuple(f"many-{number:02}" for number in range(TOPICS))


def many(run: Run) -> None:
    """TOPICS topics of PARTITIONS partitions each through a broker's life."""
    with type(run.peer)(run.peer.home / "many") as peer:
        peer.prepare()
        _live(run, peer)


def _live(run: Run, peer: Peer) -> None:
    peer.start()
    raw.create_topic(peer.port, "warm")
    started_s = time.monotonic()
    raw.create_topics(peer.port, _NAMES, PARTITIONS)
    run.add("many.creation", time.monotonic() - started_s)
    started_s = time.monotonic()
    _write_everywhere(peer)
    run.add("many.written", time.monotonic() - started_s)
    time.sleep(SETTLE_S)
    _note_holdings(run, peer, "many")
    run.add("many.stop", peer.stop())
    run.add("many.clean", _start(peer))
    _write_everywhere(peer)
    peer.kill()
    run.add("many.killed", _start(peer))
    time.sleep(SETTLE_S)
    run.add("many-again.rss", peer.rss_mb())


def _start(peer: Peer) -> float:
    """Seconds until every topic has taken a record again."""
    started_s = peer.start()
    for number, name in enumerate(_NAMES):
        raw.write_one(peer.port, name, number % PARTITIONS, READY_TIMEOUT_S)
    return time.monotonic() - started_s


def _write_everywhere(peer: Peer) -> None:
    batch = frames.Batch(100, 1).encode()
    for name in _NAMES:
        raw.write_each(peer.port, name, PARTITIONS, batch, READY_TIMEOUT_S)


def _note_holdings(run: Run, peer: Peer, key: str) -> None:
    run.add(f"{key}.rss", peer.rss_mb())
    run.add(f"{key}.files", sum(map(open_files, procs.tree(peer.pid))))
    run.add(f"{key}.maps", sum(map(mapped_files, procs.tree(peer.pid))))


def open_files(pid: int) -> int:
    """Descriptors that a process holds; 0 when it is gone."""
    with suppress(OSError):
        return len(os.listdir(f"/proc/{pid}/fd"))
    return 0


def mapped_files(pid: int) -> int:
    """Mapped areas of a process; 0 when it is gone."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/maps").read_text().count("\n")
    return 0
