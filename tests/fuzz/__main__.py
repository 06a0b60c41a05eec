"""`python -m fuzz [--frames N] [--seed S] [--brokers B] [--replay N[-M]]`: a fuzz run against live
brokers, each with an equal part of the frames and a seed of its own: S, S+1, …
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from fuzz.session import NET_P99_MS_MAX, Failed, Session

FRAMES = 10_000_000


def main() -> int:
    parser = argparse.ArgumentParser(prog="fuzz")
    parser.add_argument("--frames", type=int, default=FRAMES)
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--brokers", type=int, default=1, help="so many at once")
    parser.add_argument("--replay", help="a frame's number, or first-last")
    parser.add_argument("--report", type=Path, help="file for the figures as JSON")
    given = parser.parse_args()
    if given.replay is not None:
        return _replay(given.seed, given.replay)
    count = given.frames // given.brokers
    with ProcessPoolExecutor(given.brokers) as pool:
        runs = [pool.submit(_run, given.seed + i, count) for i in range(given.brokers)]
    results = [run.result() for run in runs]
    reports = [report for report, _ in results]
    print(json.dumps(reports, indent=1))
    if given.report is not None:
        given.report.write_text(json.dumps(reports, indent=1))
    failures = [why for _, why in results if why]
    for why in failures:
        print(why)
    return 1 if failures else 0


def _run(seed: int, count: int) -> tuple[dict[str, Any], str]:
    """The figures, as far as there are any, and why the run failed, if it did."""
    with tempfile.TemporaryDirectory(prefix="kavka-fuzz-") as home:
        session = Session(
            Path(home),
            seed,
            count,
            lambda text: print(f"{seed}: {text}", flush=True),
            net_p99_ms_max=NET_P99_MS_MAX,
        )
        try:
            return session.run(), ""
        except Failed as failure:
            return session.report, f"seed {seed}: {failure}"


def _replay(seed: int, numbers: str) -> int:
    first, _, last = numbers.partition("-")
    with tempfile.TemporaryDirectory(prefix="kavka-fuzz-") as home:
        Session(Path(home), seed, 0).replay(range(int(first), int(last or first) + 1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
