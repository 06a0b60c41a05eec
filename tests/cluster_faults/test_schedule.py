"""What a seed means is the same each time, and every kind of fault comes."""

from __future__ import annotations

from itertools import islice

from hypothesis import given, settings
from hypothesis import strategies as st

from cluster_faults.faults import KINDS as CARRIED_OUT
from cluster_faults.schedule import (
    DURABLE_ONLY,
    KINDS,
    ROLES,
    SESSION_SHARES,
    SHORT,
    draw,
    draw_short,
    is_durable,
)

SEEDS = st.integers(0, 1 << 32)
PARTITIONS = 4


@given(SEEDS)
@settings(max_examples=30)
def test_a_seed_replays_its_faults(seed: int) -> None:
    first, again = (list(islice(draw(seed, PARTITIONS), 40)) for _ in range(2))
    assert first == again
    assert draw_short(seed, PARTITIONS) == draw_short(seed, PARTITIONS)


@given(SEEDS)
@settings(max_examples=30)
def test_each_kind_comes_before_any_comes_again(seed: int) -> None:
    faults = draw(seed, PARTITIONS)
    for _ in range(3):
        turn = list(islice(faults, len(KINDS)))
        assert sorted(each.kind for each in turn) == sorted(KINDS)
        assert {each.victim for each in turn} == set(ROLES)
        for fault in turn:
            assert 0 <= fault.partition < PARTITIONS
            assert SESSION_SHARES[0] <= fault.lasts <= SESSION_SHARES[1]


@given(SEEDS)
@settings(max_examples=30)
def test_a_short_run_has_six_faults_of_six_kinds(seed: int) -> None:
    kinds = [(fault.kind, fault.victim) for fault in draw_short(seed, PARTITIONS)]
    assert sorted(kinds) == sorted(SHORT)
    assert len({kind for kind, _ in kinds}) == 6


def test_seeds_differ() -> None:
    assert len({tuple(draw_short(seed, PARTITIONS)) for seed in range(20)}) == 20


def test_acknowledged_means_synced_in_some_runs() -> None:
    assert {is_durable(seed) for seed in range(20)} == {True, False}
    assert [is_durable(seed) for seed in range(20)] == [is_durable(seed) for seed in range(20)]
    assert set(KINDS) >= DURABLE_ONLY
    assert not DURABLE_ONLY & {kind for kind, _ in SHORT}


def test_every_kind_is_carried_out() -> None:
    assert set(KINDS) == set(CARRIED_OUT)
