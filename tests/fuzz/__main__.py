"""`python -m fuzz [--frames N] [--seed S] [--replay N[-M]]`: a fuzz run against a live broker."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from fuzz.session import Failed, Session

FRAMES = 10_000_000


def main() -> int:
    parser = argparse.ArgumentParser(prog="fuzz")
    parser.add_argument("--frames", type=int, default=FRAMES)
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--replay", help="a frame's number, or first-last")
    parser.add_argument("--report", type=Path, help="file for the figures as JSON")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kavka-fuzz-") as home:
        session = Session(
            Path(home), given.seed, given.frames, lambda text: print(text, flush=True)
        )
        try:
            if given.replay is not None:
                first, _, last = given.replay.partition("-")
                session.replay(range(int(first), int(last or first) + 1))
                return 0
            report = session.run()
        except Failed as failure:
            print(failure)
            return 1
        finally:
            if given.report is not None:
                given.report.write_text(json.dumps(session.report, indent=1))
    print(json.dumps(report, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
