"""A run of clusters: both brought up one after the other, then measured in turn, round by round.

While one is measured the other is up but idle, as in `bench.session`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from bench import cluster_stages
from bench.clusters import CLUSTERS, Cluster, ClusterRun
from bench.helper import Helper
from bench.run import Options, Results
from bench.session import BrokerFailed, blocks, failures, in_rounds, in_turn, say

PREFIX: Final = "cluster"
"""What the names of these stages begin with."""


def is_asked_for(only: Sequence[str] | None) -> bool:
    """Whether clusters are to be measured, and not standalone brokers; ValueError for both."""
    of_clusters = [name.startswith(PREFIX) for name in only or ()]
    if any(of_clusters) and not all(of_clusters):
        raise ValueError("clusters are measured in a run of their own")
    return any(of_clusters)


def measure(
    names: Sequence[str], scratch: Path, helper: Helper, options: Options, only: Sequence[str]
) -> dict[str, Results]:
    """Readings by the names in CLUSTERS. One that fails leaves the other to be measured."""
    always = () if _kills_only(only) else (cluster_stages.WARM_UP.name, cluster_stages.MEMORY.name)
    opening, *later = blocks(cluster_stages.STAGES, only, always)
    results = {name: Results(CLUSTERS[name].name) for name in names}
    kills = {"kavka": options.kills, "apache": options.apache_kills}
    with ExitStack() as stack:
        runs: list[ClusterRun] = []
        for name in names:
            with failures(results[name], runs):
                say(results[name].peer, "start")
                cluster = stack.enter_context(_up(CLUSTERS[name](scratch / name)))
                run = ClusterRun(cluster, kills[name], helper, options, results[name])
                runs.append(run)
                in_turn(run, opening)
        in_rounds(runs, later, options.rounds)
    return results


def _kills_only(only: Sequence[str]) -> bool:
    """Whether no stage is chosen for which brokers have to be warm."""
    cold = ("cluster-failover", "cluster-rolling", "cluster-catch-up", "cluster-many")
    return all(name.startswith(cold) for name in only)


@contextmanager
def _up(cluster: Cluster) -> Iterator[Cluster]:
    try:
        try:
            cluster.open()
            cluster.await_in_sync()
        except (AssertionError, OSError) as error:
            raise BrokerFailed(f"{error}\n{cluster.tail()}") from error
        yield cluster
    finally:
        cluster.close()
