"""Many questions for one answer; with brokers they are in the handlers' tests."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.server.auth.authorizer import Operation, ResourceType
from kavka.server.group_calls import check_group, in_parts
from kavka.wire.errors import ApiError, ErrorCode

TOPICS = st.lists(st.tuples(st.text(max_size=2), st.lists(st.integers(0, 9), max_size=8)))


@given(TOPICS, st.integers(1, 6))
def test_parts_are_the_whole_in_order(topics: list[tuple[str, list[int]]], size: int) -> None:
    parts = list(in_parts(topics, size))
    whole = [(name, index) for name, indexes in topics for index in indexes]
    assert [place for part in parts for place in places(part)] == whole
    sizes = [len(places(part)) for part in parts]
    if len(whole) > size:
        assert all(one == size for one in sizes[:-1]) and 0 < sizes[-1] <= size
    else:
        assert parts == [topics]


def places(part: Sequence[tuple[str, Sequence[int]]]) -> list[tuple[str, int]]:
    return [(name, index) for name, indexes in part for index in indexes]


@pytest.mark.parametrize("size", [3, 4])
def test_what_is_not_too_much_is_one_part(size: int) -> None:
    topics = [("a", [1, 2]), ("b", [3]), ("c", [])]
    assert list(in_parts(topics, size)) == [topics]


class _Authorizer:
    def __init__(self, *allowed: tuple[Operation, str]) -> None:
        self._allowed = allowed

    def allows(self, _: object, operation: Operation, kind: ResourceType, name: str) -> bool:
        return kind is ResourceType.GROUP and (operation, name) in self._allowed


def refusal(operation: Operation, group_id: str) -> ErrorCode | None:
    authorizer = _Authorizer((Operation.READ, "mine"), (Operation.READ, ""))
    broker: Any = SimpleNamespace(authorizer=authorizer)
    context: Any = None
    try:
        check_group(broker, context, operation, group_id)
    except ApiError as failure:
        return failure.code
    return None


def test_a_group_must_be_allowed_and_have_a_name() -> None:
    assert refusal(Operation.READ, "mine") is None
    assert refusal(Operation.DELETE, "mine") == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert refusal(Operation.READ, "other") == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert refusal(Operation.READ, "") == ErrorCode.INVALID_GROUP_ID
