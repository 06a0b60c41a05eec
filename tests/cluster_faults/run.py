"""One run: the cluster, its clients, the faults of a seed, and the checks."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

from cluster_faults import copiers
from cluster_faults.cluster import FaultyCluster
from cluster_faults.faults import Faults
from cluster_faults.replicas import diverging, stored
from cluster_faults.schedule import Fault
from cluster_faults.workload import PLAIN, WITH_COMPACTION, Workload

SHOWN_GIVEN_UP = 20


def run(
    home: Path, faults: Iterable[Fault], *, rate: float, seconds: float, durable: bool
) -> list[str]:
    """Strike for some seconds, one fault at a time; what is violated. `durable`: nothing is
    acknowledged that is not synced."""
    copiers.CLIENT.start()  # what it needs is installed before time is taken
    began = time.monotonic()

    def say(line: str) -> None:
        print(f"{time.monotonic() - began:7.1f} s  {line}", flush=True)

    with FaultyCluster(home, durable=durable) as cluster, Workload(cluster, home, rate) as workload:
        strikes = Faults(cluster, PLAIN, workload.reborn)
        cluster.await_in_sync()
        workload.await_progress()
        say(f"all is well; {workload.progress()}")
        first = time.monotonic()
        for fault in faults:
            if time.monotonic() - first > seconds:
                break
            time.sleep(fault.quiet_s)
            say(str(fault))
            strikes.strike(fault)
            say("healed")
            cluster.await_in_sync()
            workload.await_progress()
            say(f"all is well; {workload.progress()}")
        found = [*strikes.violations, *workload.finish()]
        for reason in workload.given_up()[:SHOWN_GIVEN_UP]:
            say(f"given up {reason}")
        say("the clients have ended")
        cluster.await_in_sync()
        cluster.stop()
        say("the brokers have ended")
        replicas = {member.name: stored(member.data_dir) for member in cluster.members.values()}
        found += diverging(replicas, WITH_COMPACTION)
        found += [f"the network failed: {failure}" for failure in cluster.network.failures]
        for reason in strikes.skipped:
            say(f"skipped {reason}")
        found += [f"a traceback in {traceback}" for traceback in cluster.tracebacks()]
        say(f"{len(found)} violations")
    return found
