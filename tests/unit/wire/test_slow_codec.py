"""Frames that are written in slices: the bytes are those of the quick writer, and none is long."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.wire import slow_codec
from kavka.wire.api import Api
from kavka.wire.apis import (
    consumer_group_describe,
    describe_groups,
    find_coordinator,
    list_groups,
    offset_fetch,
)
from kavka.wire.codec import encode_response
from kavka.wire.error_counts import error_counter
from kavka.wire.errors import ErrorCode

COUNTS = st.lists(st.integers(0, 12), max_size=4)


def run(work: Generator[None, None, Any]) -> tuple[Any, int]:
    """What is made, and how often others had a turn."""
    turns = 0
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value, turns
        turns += 1


def offsets(version: int, counts: list[int]) -> offset_fetch.OffsetFetchResponse:
    topics: list[Any] = []
    for number, count in enumerate(counts):
        partitions = [offset_fetch.PartitionResponse(one, 7, 3, "é" * one) for one in range(count)]
        name = f"t{number}"
        if version >= offset_fetch.GROUPS_VERSION:
            topic_id = UUID(int=number)
            topics.append(offset_fetch.GroupTopicResponse(name, topic_id, partitions))
        else:
            topics.append(offset_fetch.TopicResponse(name, partitions))
    if version >= offset_fetch.GROUPS_VERSION:
        groups = [offset_fetch.GroupResponse("g", topics), offset_fetch.GroupResponse("h", (), 16)]
        return offset_fetch.OffsetFetchResponse(groups=groups)
    return offset_fetch.OffsetFetchResponse(topics, ErrorCode.NONE)


@pytest.mark.parametrize("version", range(offset_fetch.API.lowest, offset_fetch.API.highest + 1))
@given(counts=COUNTS)
def test_the_bytes_are_those_of_the_quick_writer(version: int, counts: list[int]) -> None:
    response = offsets(version, counts)
    frame, _ = run(slow_codec.encode_slowly(offset_fetch.API, version, 77, response))
    assert frame == encode_response(offset_fetch.API, version, 77, response)


def describing(count: int) -> describe_groups.DescribeGroupsResponse:
    groups = [describe_groups.GroupResponse(f"g{number}") for number in range(count)]
    for group in groups:
        group.members = [describe_groups.MemberResponse("m", None, "c", "/h", b"meta", b"part")]
    return describe_groups.DescribeGroupsResponse(groups)


def finding(count: int) -> find_coordinator.FindCoordinatorResponse:
    found = [find_coordinator.Coordinator(f"g{number}", 1, "h", 9, 0) for number in range(count)]
    return find_coordinator.FindCoordinatorResponse(coordinators=found)


def listing(count: int) -> list_groups.ListGroupsResponse:
    groups = [
        list_groups.ListedGroup(f"g{number}", "", "Empty", "classic") for number in range(count)
    ]
    return list_groups.ListGroupsResponse(groups)


@pytest.mark.parametrize(
    ("api", "answer", "items"),
    [
        (describe_groups.API, describing, 2),
        (find_coordinator.API, finding, 1),
        (list_groups.API, listing, 1),
    ],
)
def test_others_have_a_turn(api: Api, answer: Any, items: int) -> None:
    for count in (0, 499, 500, 1_700):
        response = answer(count)
        frame, turns = run(slow_codec.encode_slowly(api, api.highest, 1, response))
        assert turns == items * count // slow_codec.ITEMS_A_SLICE
        assert frame == encode_response(api, api.highest, 1, response)


def test_two_at_once() -> None:
    one, other = listing(1_100), listing(900)
    works = [slow_codec.encode_slowly(list_groups.API, 5, 1, answer) for answer in (one, other)]
    for work in works:
        next(work)
    for work, answer in zip(works, (one, other), strict=True):
        assert run(work)[0] == encode_response(list_groups.API, 5, 1, answer)


@pytest.mark.parametrize("version", (0, 9))
@given(counts=COUNTS)
def test_errors_are_counted_as_the_quick_way(version: int, counts: list[int]) -> None:
    response = offsets(version, counts)
    expected: defaultdict[int, int] = defaultdict(int)
    error_counter(offset_fetch.API, expected)(response)
    assert run(slow_codec.count_slowly(offset_fetch.API, response))[0] == expected


def test_others_have_a_turn_while_errors_are_counted() -> None:
    counts, turns = run(slow_codec.count_slowly(offset_fetch.API, offsets(9, [600, 1_500])))
    assert counts == {0: 2_100 + 2, 16: 1}  # that of the whole, and of the groups
    assert turns == 2_100 // slow_codec.ITEMS_A_SLICE


def test_an_answer_without_lists() -> None:
    answer = find_coordinator.FindCoordinatorResponse(0, "", 1, "h", 9)
    frame, turns = run(slow_codec.encode_slowly(find_coordinator.API, 2, 1, answer))
    assert (frame, turns) == (encode_response(find_coordinator.API, 2, 1, answer), 0)


def test_lists_of_names_are_gone_through_in_slices() -> None:
    names = [f"topic-{number}" for number in range(3 * slow_codec.ITEMS_A_SLICE)]
    nothing = consumer_group_describe.Assignment()
    member = consumer_group_describe.Member(
        "m", None, None, 1, "c", "h", names, None, nothing, nothing, 1
    )
    group = consumer_group_describe.DescribedGroup("g", members=[member])
    response = consumer_group_describe.ConsumerGroupDescribeResponse([group])
    work = slow_codec.encode_slowly(consumer_group_describe.API, 1, 77, response)
    frame, turns = run(work)
    assert turns >= 3
    assert frame == encode_response(consumer_group_describe.API, 1, 77, response)
