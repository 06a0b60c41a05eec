"""`python -m cluster_faults --seconds 600 --seed 7`: the fault run; exits 1 on violations."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from pathlib import Path

from cluster_faults import schedule
from cluster_faults.run import run
from cluster_faults.workload import PARTITIONS

SHOWN = 40


def main() -> int:
    """Run it; the exit code."""
    parser = argparse.ArgumentParser(prog="cluster_faults", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--rate", type=float, default=150.0, help="records a second per producer")
    parser.add_argument("--only", default="", help="kinds of faults, by commas")
    parser.add_argument("--durability", choices=("fsync", "system"), help="drawn if not given")
    given = parser.parse_args()
    seed = random.SystemRandom().randrange(1 << 32) if given.seed is None else given.seed
    durable = schedule.is_durable(seed) if not given.durability else given.durability == "fsync"
    print(f"SEED={seed} SECONDS={given.seconds:g} DURABLE={durable}")
    only = set(given.only.split(",")) if given.only else set(schedule.KINDS)
    if not durable:
        only -= schedule.DURABLE_ONLY
    if not only <= set(schedule.KINDS) or not only:
        parser.error(f"--only knows {', '.join(schedule.KINDS)}")
    faults = (fault for fault in schedule.draw(seed, PARTITIONS) if fault.kind in only)
    home = Path(tempfile.mkdtemp(prefix="cluster-faults-"))
    found = run(home, faults, rate=given.rate, seconds=given.seconds, durable=durable)
    for violation in found[:SHOWN]:
        print(violation)
    print(f"SEED={seed}: {len(found)} violations; what the brokers printed is in {home}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
