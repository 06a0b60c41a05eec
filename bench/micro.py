"""`python -m bench.micro`: hot calls of wire, log and server by themselves, in microseconds.

Each figure is the best of a few runs: what the code costs when nothing disturbs it. Use it to
see what a change did, not to compare brokers.
"""

from __future__ import annotations

import argparse
import gc
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple

from bench import micro_groups, micro_log, micro_server, micro_transactions, micro_wire

RUNS: Final = 7
RUN_S: Final = 0.03


class Row(NamedTuple):
    """One call, and what it took."""

    name: str
    microseconds: float


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table; rows can be chosen by a part of their name."""
    parser = argparse.ArgumentParser(prog="python -m bench.micro", description=__doc__)
    parser.add_argument("part", nargs="?", default="", help="only rows with this in their name")
    part = parser.parse_args(argv).part
    with tempfile.TemporaryDirectory(prefix="kavka-micro-") as scratch:
        for row in rows(Path(scratch), part):
            print(f"{row.microseconds:10.2f} µs  {row.name}", flush=True)
    return 0


def rows(scratch: Path, part: str = "") -> Iterator[Row]:
    """Measure each call whose name holds `part`."""
    for name, call in chain(
        micro_wire.calls(),
        micro_log.calls(scratch),
        micro_server.calls(scratch),
        micro_groups.calls(scratch),
        micro_transactions.calls(scratch),
    ):
        if part in name:
            yield Row(name, microseconds(call))


def microseconds(call: Callable[[], object]) -> float:
    """The best time of one call out of RUNS runs of about RUN_S seconds."""
    call()
    started_s = time.perf_counter()
    call()
    count = max(1, int(RUN_S / max(1e-7, time.perf_counter() - started_s)))
    best_s = float("inf")
    gc.disable()
    try:
        for _ in range(RUNS):
            turns = range(count)
            started_s = time.perf_counter()
            for _ in turns:
                call()
            best_s = min(best_s, time.perf_counter() - started_s)
    finally:
        gc.enable()
    return best_s / count * 1e6


if __name__ == "__main__":
    sys.exit(main())
