"""Which stages run, and that what they read has rows."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from bench import cluster_measures, cluster_session, cluster_stages
from bench.clusters import ClusterRun
from bench.run import Stage
from bench.session import blocks


def chosen(only: Sequence[str] | None, always: Sequence[str] = ()) -> list[list[str]]:
    def act(run: ClusterRun) -> None:
        raise AssertionError("nothing is run here")

    stages = [
        Stage("rest", act),
        Stage("warm", act),
        Stage("bulk-a", act, repeat=True),
        Stage("bulk-b", act, repeat=True),
        Stage("end", act),
    ]
    return [[stage.name for stage in block] for block in blocks(stages, only, always)]


def test_stages_that_repeat_and_stand_together_are_a_block() -> None:
    assert chosen(None) == [["rest", "warm"], ["bulk-a", "bulk-b"], ["end"]]


def test_stages_are_chosen_by_what_their_names_begin_with() -> None:
    assert chosen(["bulk"]) == [[], ["bulk-a", "bulk-b"], []]
    assert chosen(["bulk-b", "re"]) == [["rest"], ["bulk-b"], []]


def test_some_stages_are_always_run() -> None:
    assert chosen(["bulk-a"], ["warm", "end"]) == [["warm"], ["bulk-a"], ["end"]]


@pytest.mark.parametrize(
    ("only", "clusters"),
    [
        (None, False),
        (["produce", "e2e"], False),
        (["cluster"], True),
        (["cluster-e2e", "cluster-failover-leader"], True),
    ],
)
def test_clusters_are_measured_when_they_are_asked_for(
    only: Sequence[str] | None, clusters: bool
) -> None:
    assert cluster_session.is_asked_for(only) is clusters


def test_clusters_and_standalone_brokers_are_not_measured_in_one_run() -> None:
    with pytest.raises(ValueError, match="run of their own"):
        cluster_session.is_asked_for(["cluster-e2e", "produce"])


def test_every_row_is_of_a_stage() -> None:
    stages = {stage.name for stage in cluster_stages.STAGES}
    rows = {
        measure.key.rpartition(".")[0]
        for section in cluster_measures.SECTIONS
        for measure in section.measures
    }
    assert rows == stages - {cluster_stages.WARM_UP.name}
