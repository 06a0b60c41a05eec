"""Proposed replicas: spread over racks, then over brokers."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from kavka.tools.admin.errors import Failed
from kavka.tools.admin.reassignment.placement import place

SEEDS = range(50)
RACKS = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c", 6: "c"}


@pytest.mark.parametrize("seed", SEEDS)
def test_every_partition_has_a_replica_in_each_rack(seed: int) -> None:
    for replicas in place(RACKS, 20, 3, random.Random(seed)):
        assert {RACKS[broker] for broker in replicas} == {"a", "b", "c"}


@pytest.mark.parametrize("seed", SEEDS)
def test_brokers_lead_and_hold_as_many_in_a_round(seed: int) -> None:
    placed = place(dict.fromkeys(range(1, 6)), 5, 3, random.Random(seed))
    assert Counter(replicas[0] for replicas in placed) == dict.fromkeys(range(1, 6), 1)
    assert Counter(broker_id for replicas in placed for broker_id in replicas) == dict.fromkeys(
        range(1, 6), 3
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_a_small_rack_gives_no_broker_twice(seed: int) -> None:
    for replicas in place({1: "a", 2: "b", 3: "b", 4: "b"}, 12, 4, random.Random(seed)):
        assert sorted(replicas) == [1, 2, 3, 4]


def test_too_few_brokers() -> None:
    with pytest.raises(Failed, match=r"of 3 cannot be reached because only 2 broker\(s\)"):
        place({1: None, 2: None}, 1, 3, random.Random(1))
    with pytest.raises(Failed, match="None of the brokers"):
        place({}, 1, 1, random.Random(1))
