"""Groups that begin to rebalance again and again."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kavka.tools.doctor.findings import Level
from kavka.tools.doctor.groups import Group, Sample, judge_groups

A, B, NOBODY = frozenset({"a"}), frozenset({"b"}), frozenset[str]()
STABLE, PREPARING = "Stable", "PreparingRebalance"


@pytest.mark.parametrize(
    ("samples", "problem"),
    [
        ([Sample(STABLE, A)] * 3, ""),
        ([Sample(STABLE, A), Sample(STABLE, A | B), Sample(STABLE, A | B)], ""),
        ([Sample(STABLE, A), Sample(STABLE, A | B), Sample(STABLE, A)], "restless"),
        ([Sample(STABLE, A), Sample(PREPARING, A), Sample(STABLE, A)], ""),
        ([Sample(STABLE, A), Sample(PREPARING, A)] * 2, "restless"),
        ([Sample(STABLE, A, epoch) for epoch in (1, 2, 2)], ""),
        ([Sample(STABLE, A, epoch) for epoch in (1, 2, 3)], "restless"),
        ([Sample(PREPARING, A)] * 3, "rebalancing"),
        ([Sample("Empty", NOBODY)], ""),
    ],
)
def test_members_that_come_and_go(samples: Sequence[Sample], problem: str) -> None:
    (found,) = judge_groups([Group("g", "consumer", list(samples))], {}, watched_s=6)
    assert found.problem == problem
    assert found.level == (Level.WARNING if problem else Level.OK)
