"""`python -m sim [--seeds N] [--first S]`: simulate worlds, one a seed."""

from __future__ import annotations

import argparse
import sys
import time

from sim.run import run


def main() -> int:
    parser = argparse.ArgumentParser(prog="sim")
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--trace", action="store_true", help="print what happened")
    parser.add_argument("--digests", action="store_true", help="print only the traces' digests")
    given = parser.parse_args()
    failed = 0
    for seed in range(given.first, given.first + given.seeds):
        began_s = time.perf_counter()
        outcome = run(seed)
        if given.digests:
            print(seed, outcome.digest)
            continue
        took_s = time.perf_counter() - began_s
        print(
            f"seed {seed}: {outcome.virtual_s:.1f} virtual s in {took_s:.2f} s, "
            f"{outcome.steps} steps, {outcome.records} records, {outcome.digest[:12]}"
        )
        if given.trace:
            print(*outcome.trace, sep="\n")
        for violation in outcome.violations[:20]:
            print("  ", violation)
        failed += bool(outcome.violations)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
