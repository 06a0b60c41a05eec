"""A Produce request as a whole."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kavka.compat_tests.raw.codec.batches import build
from kavka.server.handlers.common.produce_request import (
    is_transactional,
    last_of_each,
    names_each_once,
    retained,
)
from kavka.server.request.context import COPIED_BYTES_MAX, Peer, RequestContext
from kavka.wire.errors import ApiError
from kavka.wire.errors import ErrorCode as Code

PLAIN = memoryview(build())
INSIDE = memoryview(build(producer=(5, 0, 0), transactional=True))


def topic(name: str, *partitions: tuple[int, Any], topic_id: object = None) -> SimpleNamespace:
    data = [SimpleNamespace(index=index, records=records) for index, records in partitions]
    return SimpleNamespace(name=name, topic_id=topic_id, partition_data=data)


@pytest.mark.parametrize(
    ("topics", "expected"),
    [
        ([], True),
        ([topic("a", (0, PLAIN))], True),
        ([topic("a", (0, PLAIN), (1, PLAIN)), topic("b", (0, PLAIN))], True),
        ([topic("a", (0, PLAIN), (0, PLAIN))], False),
        ([topic("a", (0, PLAIN)), topic("a", (1, PLAIN))], False),
        ([topic("", (0, PLAIN), topic_id=1), topic("", (0, PLAIN), topic_id=2)], True),
        ([topic("a")], False),
    ],
)
def test_whether_all_is_named_once(topics: Any, expected: bool) -> None:
    assert names_each_once(topics) is expected


def test_what_is_named_last_counts() -> None:
    first, second, third = (memoryview(bytes([number])) for number in range(3))
    found = last_of_each([topic("a", (0, first), (1, second)), topic("b"), topic("a", (0, third))])
    (only,) = found
    assert only.name == "a"
    assert {data.index: data.records for data in only.partition_data} == {0: third, 1: second}


@pytest.mark.parametrize(
    ("records", "expected"),
    [([PLAIN], False), ([None, PLAIN], False), ([PLAIN, INSIDE], True), ([memoryview(b"")], False)],
)
def test_whether_something_is_in_a_transaction(records: list[Any], expected: bool) -> None:
    topics = [topic("a", *enumerate(records))]
    assert is_transactional(SimpleNamespace(transactional_id="tx"), topics) is expected
    without_id = SimpleNamespace(transactional_id=None)
    if not expected:
        assert not is_transactional(without_id, topics)
        return
    with pytest.raises(ApiError) as caught:
        is_transactional(without_id, topics)
    assert caught.value.code == Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_what_is_kept_does_not_change_with_what_it_came_in() -> None:
    arena = bytearray(b"first")
    context = RequestContext(Peer("PLAINTEXT", "10.0.0.1:5555"), 12, 1, None)
    (found,) = retained(context, [topic("a", (0, memoryview(arena)), (1, None), topic_id=7)])
    arena[:] = b"later"
    assert (found.name, found.topic_id) == ("a", 7)
    assert [data.index for data in found.partition_data] == [0, 1]
    assert [data.records for data in found.partition_data] == [b"first", None]
    assert not context.keeps_frame


def test_much_stays_in_what_it_came_in() -> None:
    half = memoryview(bytes(COPIED_BYTES_MAX // 2))
    context = RequestContext(Peer("PLAINTEXT", "10.0.0.1:5555"), 12, 1, None)
    retained(context, [topic("a", (0, half)), topic("b", (0, half))])
    assert not context.keeps_frame
    context = RequestContext(Peer("PLAINTEXT", "10.0.0.1:5555"), 12, 1, None)
    whole = memoryview(bytes(COPIED_BYTES_MAX + 1))
    (found,) = retained(context, [topic("a", (0, whole))])
    assert found.partition_data[0].records is whole
    assert context.keeps_frame
