"""Which segments become one."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from kavka.log.compaction.grouping import GROUP_SEGMENTS_MAX, SegmentSize, group
from kavka.log.segment import RELATIVE_OFFSET_MAX


def segments(
    *sizes: int, span: int = 10, index: int = 8, time_index: int = 12
) -> list[SegmentSize]:
    return [
        SegmentSize(slot * span, (slot + 1) * span, size, index, time_index)
        for slot, size in enumerate(sizes)
    ]


def slots(groups: Sequence[Sequence[SegmentSize]], span: int = 10) -> list[list[int]]:
    return [[segment.base_offset // span for segment in members] for members in groups]


def test_adjacent_segments_that_fit_are_grouped() -> None:
    found = group(segments(50, 50, 1, 60, 40), 100, 1000)
    assert slots(found) == [[0, 1], [2, 3], [4]]


def test_a_segment_that_is_too_large_is_a_group_of_its_own() -> None:
    assert slots(group(segments(10, 500, 10, 10), 100, 1000)) == [[0], [1], [2, 3]]


def test_indexes_have_to_fit_too() -> None:
    assert slots(group(segments(1, 1, 1, index=40), 100, 80)) == [[0, 1], [2]]
    assert slots(group(segments(1, 1, 1, time_index=50), 100, 100)) == [[0, 1], [2]]


def test_a_group_spans_no_more_offsets_than_an_index_can_hold() -> None:
    span = RELATIVE_OFFSET_MAX // 2 + 1
    assert slots(group(segments(1, 1, 1, span=span), 100, 1000), span) == [[0, 1], [2]]
    wider = span + 1
    assert slots(group(segments(1, 1, 1, span=wider), 100, 1000), wider) == [[0], [1], [2]]


def test_an_empty_segment_joins_the_group_before_it() -> None:
    span = RELATIVE_OFFSET_MAX
    assert slots(group(segments(1, 0, 0, span=span), 100, 1000), span) == [[0, 1, 2]]


def test_there_is_nothing_to_group() -> None:
    assert group([], 100, 100) == []


@given(st.lists(st.integers(0, 150), max_size=200))
def test_groups_are_all_segments_in_order_and_small_enough(sizes: list[int]) -> None:
    ungrouped = segments(*sizes)
    groups = group(ungrouped, 100, 10_000)
    assert [segment for members in groups for segment in members] == ungrouped
    for members in groups:
        assert len(members) <= GROUP_SEGMENTS_MAX
        assert len(members) == 1 or sum(segment.log for segment in members) <= 100
    for members, following in zip(groups, groups[1:], strict=False):
        too_large = sum(segment.log for segment in members) + following[0].log > 100
        assert too_large or len(members) == GROUP_SEGMENTS_MAX
