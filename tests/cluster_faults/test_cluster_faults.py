"""Six faults, one of each sort, on a cluster under load: nothing is lost, doubled or reordered.

CLUSTER_FAULTS_SEED replays a run's faults. `make cluster-faults` has every kind of fault, for
minutes.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from cluster_faults.run import run
from cluster_faults.schedule import draw_short, is_durable
from cluster_faults.workload import PARTITIONS

SEED = int(os.environ.get("CLUSTER_FAULTS_SEED") or random.SystemRandom().randrange(2**32))
RATE = 25.0
"""Records a second of each producer: what is tested is not how much a busy machine can do."""

NO_LIMIT_S = float("inf")


@pytest.mark.timeout(900)
def test_a_cluster_loses_nothing(tmp_path: Path) -> None:
    print(f"CLUSTER_FAULTS_SEED={SEED}")
    faults, durable = draw_short(SEED, PARTITIONS), is_durable(SEED)
    found = run(tmp_path, faults, rate=RATE, seconds=NO_LIMIT_S, durable=durable)
    assert not found, "\n".join(found[:20])
