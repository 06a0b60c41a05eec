"""Replica assignment, against the examples that Apache Kafka documents in its own source."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kavka.server.controller.replica_assignment import Existing, assign_replicas


class Zeros(Random):
    """Starts at the first broker with no shift, as the documented examples do."""

    def randrange(self, *args: object, **kwargs: object) -> int:
        return 0


def test_the_documented_example_without_racks() -> None:
    """The table in `org.apache.kafka.admin.AdminUtils`: ten partitions on five brokers."""
    rounds = assign_replicas(dict.fromkeys(range(5)), 10, 3, Zeros())
    assert [rounds[index][0] for index in range(10)] == [0, 1, 2, 3, 4, 0, 1, 2, 3, 4]
    assert [rounds[index][1] for index in range(5)] == [1, 2, 3, 4, 0]
    assert [rounds[index][1] for index in range(5, 10)] == [2, 3, 4, 0, 1], "shifted by one more"
    assert [rounds[index][2] for index in range(5)] == [2, 3, 4, 0, 1]


def test_the_documented_example_with_racks() -> None:
    """The list in the same place: brokers of three racks in the order 0, 3, 1, 5, 4, 2."""
    racks = {0: "rack1", 1: "rack3", 2: "rack3", 3: "rack2", 4: "rack2", 5: "rack1"}
    assert assign_replicas(dict(racks), 7, 3, Zeros()) == {
        0: (0, 3, 1),
        1: (3, 1, 5),
        2: (1, 5, 4),
        3: (5, 4, 2),
        4: (4, 2, 0),
        5: (2, 0, 3),
        6: (0, 4, 2),
    }


@settings(deadline=None)
@given(st.data())
def test_replicas_are_distinct_and_leaders_even(data: st.DataObject) -> None:
    brokers = sorted(data.draw(st.sets(st.integers(0, 50), min_size=1, max_size=8)))
    partitions = data.draw(st.integers(1, 30))
    factor = data.draw(st.integers(1, len(brokers)))
    racks = data.draw(
        st.one_of(
            st.just(dict.fromkeys(brokers)),
            st.fixed_dictionaries({broker: st.sampled_from("abc") for broker in brokers}),
            st.fixed_dictionaries({broker: st.sampled_from(["a", None]) for broker in brokers}),
        )
    )
    assigned = assign_replicas(racks, partitions, factor, Random(data.draw(st.integers())))
    assert list(assigned) == list(range(partitions))
    for replicas in assigned.values():
        assert len(set(replicas)) == len(replicas) == factor
        assert set(replicas) <= set(brokers)
    leaders = Counter(replicas[0] for replicas in assigned.values())
    assert max(leaders.values()) - min(leaders[broker] for broker in brokers) <= 1
    if None not in racks.values():
        all_racks = set(racks.values())
        for replicas in assigned.values():
            assert len({racks[broker] for broker in replicas}) == min(factor, len(all_racks))


def test_the_first_broker_is_random() -> None:
    firsts = {assign_replicas(dict.fromkeys(range(5)), 1, 1, Random(seed))[0] for seed in range(50)}
    assert firsts == {(broker,) for broker in range(5)}
    again = [assign_replicas(dict.fromkeys(range(5)), 9, 3, Random(7)) for _ in range(2)]
    assert again[0] == again[1]


def test_added_partitions_continue_the_round() -> None:
    """With the leaders in the order in which all partitions at once would have had them."""
    whole = assign_replicas(dict.fromkeys(range(5)), 12, 3, Zeros())
    part = assign_replicas(dict.fromkeys(range(5)), 4, 3, Zeros(), Existing(8, 0))
    assert list(part) == [8, 9, 10, 11]
    assert [part[index][0] for index in part] == [whole[index][0] for index in part]


@pytest.mark.parametrize(
    ("first", "leaders"),
    [(1, [1, 5, 9]), (5, [5, 9, 1]), (4, [5, 9, 1]), (9, [9, 1, 5]), (10, [1, 5, 9])],
)
def test_the_round_begins_at_the_first_replica_of_partition_0(
    first: int, leaders: list[int]
) -> None:
    """If broker `first` is not registered any more, at the next higher one."""
    assigned = assign_replicas(dict.fromkeys([1, 5, 9]), 3, 1, Zeros(), Existing(3, first))
    assert [assigned[index] for index in (3, 4, 5)] == [(leader,) for leader in leaders]


@settings(deadline=None)
@given(st.data())
def test_replicas_of_added_partitions_are_distinct_and_not_random(data: st.DataObject) -> None:
    brokers = sorted(data.draw(st.sets(st.integers(0, 50), min_size=1, max_size=8)))
    factor = data.draw(st.integers(1, len(brokers)))
    existing = Existing(data.draw(st.integers(1, 30)), data.draw(st.integers(0, 50)))
    drawn = [
        assign_replicas(dict.fromkeys(brokers), 7, factor, Random(seed), existing)
        for seed in range(2)
    ]
    assert drawn[0] == drawn[1]
    assert list(drawn[0]) == list(range(existing.partitions, existing.partitions + 7))
    for replicas in drawn[0].values():
        assert len(set(replicas)) == len(replicas) == factor
        assert set(replicas) <= set(brokers)
