"""Translation of offsets, against a plain table of every record."""

from __future__ import annotations

from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from kavka.tools.mirror.ledger import Ledger, forgotten_offsets, offsets_entry
from kavka.tools.mirror.offset_map import RUNS_MAX, OffsetMap, Run, runs_of

PLACE = ("t", 0)
gaps = st.lists(st.tuples(st.sampled_from((1, 1, 1, 2, 5)), st.sampled_from((1, 1, 1, 3))))
transactions = st.lists(gaps, max_size=90)


def offsets(steps: list[tuple[int, int]], begin: tuple[int, int]) -> list[tuple[int, int]]:
    """Of records, from their gaps on both sides."""
    both = accumulate(steps, lambda at, step: (at[0] + step[0], at[1] + step[1]), initial=begin)
    return list(both)[1:]


def goes_on_at(copied: list[tuple[int, int]], offset: int) -> int | None:
    """Where a consumer goes on: at the first record from `offset` on, else behind the last."""
    if not copied:
        return None
    return next((there for here, there in copied if here >= offset), copied[-1][1] + 1)


@given(transactions)
def test_each_offset_is_translated_exactly_and_the_ledger_knows_it_too(
    batches: list[list[tuple[int, int]]],
) -> None:
    copied: list[tuple[int, int]] = []
    found, entries = OffsetMap(), []
    for steps in batches:
        some = offsets(steps, copied[-1] if copied else (-1, -1))
        copied += some
        chunks = found.add(runs_of(*([pair[side] for pair in some] for side in (0, 1))))
        entries += [offsets_entry(PLACE, chunk) for chunk in chunks]
    kept = Ledger(entries).map_of(PLACE)
    for offset in range(copied[-1][0] + 3 if copied else 1):
        assert found.translate(offset) == goes_on_at(copied, offset)
        assert kept.translate(offset) == goes_on_at(copied, offset)
    assert found.next_source == kept.next_source == (copied[-1][0] + 1 if copied else None)


@given(gaps)
def test_runs_are_the_records(steps: list[tuple[int, int]]) -> None:
    some = offsets(steps, (6, 8))
    runs = runs_of([here for here, _ in some], [there for _, there in some])
    found = [(run.source + at, run.target + at) for run in runs for at in range(run.records)]
    assert found == some


def test_what_the_target_has_deleted_is_forgotten_but_not_where_copying_goes_on() -> None:
    found = OffsetMap()
    entries = []
    for number in range(3 * RUNS_MAX):
        for chunk in found.add([Run(10 * number, 20 * number, 5)]):
            entries.append(offsets_entry(PLACE, chunk))
    second = 10 * RUNS_MAX
    assert found.forget(20 * RUNS_MAX) == [0]
    assert found.forget(20 * RUNS_MAX) == []
    assert found.translate(0) == 20 * RUNS_MAX
    assert found.translate(second + 3) == 20 * RUNS_MAX + 3
    assert found.forget(10**9) == [second]
    kept = Ledger([*entries, forgotten_offsets(PLACE, 0), forgotten_offsets(PLACE, second)])
    assert kept.map_of(PLACE).translate(0) == found.translate(0) == 40 * RUNS_MAX
    assert kept.map_of(PLACE).next_source == 10 * (3 * RUNS_MAX - 1) + 5
