"""Offsets of a request sorted out, for both requests that commit some. What a group does with them:
`handlers/test_offset_commit.py` and `handlers/test_txn_offset_commit.py`."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from kavka.groupcoord.offset_records import NO_EPOCH, NO_TIME
from kavka.server.auth.authorizer import CHECKS_PER_STEP
from kavka.server.handlers.common.offset_commits import OFFSETS_PER_STEP, Shape, ValidatedOffsets
from kavka.server.request.context import Peer, RequestContext
from kavka.wire.errors import ErrorCode as Code
from kavka.wire.steps import ITEMS_PER_STEP, run_at_once
from support.memory_broker import MemoryBroker, scenario
from support.steps import stops_of

TOPICS = {"a": 2, "b": 1}
UNKNOWN = Code.UNKNOWN_TOPIC_OR_PARTITION


def shape(**changes: Any) -> Shape:
    """Answers as plain lists."""
    plain = Shape(
        by_id=False,
        with_epochs=False,
        with_times=False,
        topic=lambda name, topic_id: SimpleNamespace(name=name, id=topic_id, partitions=[]),
        partition=lambda index, code: (index, code),
        whole=lambda topics: [(topic.name or topic.id, topic.partitions) for topic in topics],
    )
    return plain._replace(**changes)


def topic(name: str, *indexes: int, topic_id: UUID | None = None) -> SimpleNamespace:
    partitions = [
        SimpleNamespace(
            partition_index=index,
            committed_offset=10 + index,
            committed_metadata=f"m{index}",
            committed_leader_epoch=3,
            commit_timestamp=99,
        )
        for index in indexes
    ]
    return SimpleNamespace(name=name, topic_id=topic_id, partitions=partitions)


def validated(broker: MemoryBroker, topics: list[Any], **changes: Any) -> ValidatedOffsets:
    context = RequestContext(Peer("PLAINTEXT", "host:1"), 1, 1, None)
    found = ValidatedOffsets(broker.parts, context, shape(**changes))
    run_at_once(found.validate(topics))
    return found


@scenario(topics=TOPICS)
async def test_answers_are_in_the_order_of_the_request(broker: MemoryBroker) -> None:
    found = validated(broker, [topic("b", 0), topic("a", 1, 0), topic("b", 0)])
    assert [(offset.topic, offset.partition) for offset in found.offsets] == [
        ("b", 0),
        ("a", 1),
        ("a", 0),
        ("b", 0),
    ]
    assert run_at_once(found.response_in_steps([1, 2, 3, 4])) == [
        ("b", [(0, 1)]),
        ("a", [(1, 2), (0, 3)]),
        ("b", [(0, 4)]),
    ]


@scenario(topics=TOPICS)
async def test_what_is_refused_comes_first_and_each_topic_once(broker: MemoryBroker) -> None:
    found = validated(broker, [topic("a", 0, 7), topic("gone", 0), topic("b", 0), topic("a", 1)])
    assert run_at_once(found.response_in_steps([1, 2, 3])) == [
        ("a", [(7, UNKNOWN), (0, 1), (1, 3)]),
        ("gone", [(0, UNKNOWN)]),
        ("b", [(0, 2)]),
    ]


@scenario(topics=TOPICS)
async def test_where_nothing_is_left(broker: MemoryBroker) -> None:
    found = validated(broker, [topic("gone", 0, 1)])
    assert found.offsets == []
    assert found.response() == [("gone", [(0, UNKNOWN), (1, UNKNOWN)])]


@scenario(topics=TOPICS)
async def test_by_id(broker: MemoryBroker) -> None:
    known = broker.parts.metadata.image.topics["a"].topic_id
    other = UUID(int=5)
    topics = [topic("", 0, topic_id=other), topic("", 1, topic_id=known)]
    found = validated(broker, topics, by_id=True)
    (only,) = found.offsets
    assert (only.topic, only.topic_id) == ("a", known)
    assert run_at_once(found.response_in_steps([0])) == [
        (other, [(0, Code.UNKNOWN_TOPIC_ID)]),
        (known, [(1, 0)]),
    ]


@pytest.mark.parametrize("with_epochs", [False, True])
@pytest.mark.parametrize("with_times", [False, True])
@scenario(topics=TOPICS)
async def test_what_comes_with_an_offset(
    broker: MemoryBroker, with_epochs: bool, with_times: bool
) -> None:
    topics = [topic("a", 1)]
    found = validated(broker, topics, with_epochs=with_epochs, with_times=with_times)
    (only,) = found.offsets
    assert (only.offset, only.metadata) == (11, "m1")
    assert only.leader_epoch == (3 if with_epochs else NO_EPOCH)
    assert only.timestamp_ms == (99 if with_times else NO_TIME)


@scenario(topics={"a": 2 * ITEMS_PER_STEP})
async def test_many_are_sorted_out_in_steps(broker: MemoryBroker) -> None:
    context = RequestContext(Peer("PLAINTEXT", "host:1"), 1, 1, None)
    found = ValidatedOffsets(broker.parts, context, shape())
    for name in ("a", "gone"):
        assert stops_of(found.validate([topic(name, *range(2 * ITEMS_PER_STEP))]))[0] == 2
    gone = [topic("gone", 0)] * 2 * CHECKS_PER_STEP
    assert stops_of(found.validate(gone))[0] == 2, "questions"
    codes = [0] * len(found.offsets)
    assert stops_of(found.response_in_steps(codes))[0] == 0
    for _ in range(4):
        run_at_once(found.validate([topic("a", *range(2 * ITEMS_PER_STEP))]))
    codes = [0] * len(found.offsets)
    assert stops_of(found.response_in_steps(codes))[0] == len(codes) // OFFSETS_PER_STEP > 0
