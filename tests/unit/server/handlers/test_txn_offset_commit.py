"""TxnOffsetCommit: offsets that count when their transaction is committed. See also the
differential cases and sequences, and `tests/unit/groupcoord` for the rules."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kavka.groupcoord import offsets
from kavka.server.handlers import txn_offset_commit
from kavka.server.handlers.common import offset_commits
from kavka.server.handlers.common.offset_commits import OFFSETS_PER_STEP
from kavka.server.request.context import Peer, RequestContext
from kavka.server.request.sliced_responses import EncodedResponse
from kavka.wire.errors import ErrorCode as Code
from support import offset_requests
from support.group_requests import make_topic
from support.memory_broker import MemoryBroker, scenario
from support.memory_network import until
from support.memory_transactions import (
    Transactor,
    hold,
    release,
    write_markers,
)
from support.offset_requests import Place, codes, fetch, with_offsets
from support.virtual import run_until_idle

ADDS_SINCE = 5
A0, A1, A9, B0 = ("a", 0), ("a", 1), ("a", 9), ("b", 0)
TOPICS = {"a": 2, "b": 1}
ONE_PARTITION = "transaction.state.log.num.partitions=1"
OFFSETS = "__consumer_offsets"


def committing(producer: Transactor, offsets: dict[Place, int], **more: Any) -> dict[str, Any]:
    """A request of one who is in no group."""
    return {
        "transactional_id": producer.name,
        "group_id": "g",
        "producer_id": producer.now.id,
        "producer_epoch": producer.now.epoch,
        "topics": with_offsets(offsets),
        **more,
    }


async def commit(
    producer: Transactor, offsets: dict[Place, int], version: int = 5, **more: Any
) -> dict[Place, int]:
    """One TxnOffsetCommit: the codes."""
    request = committing(producer, offsets, **more)
    return codes(producer.broker, await producer.client.ask("TxnOffsetCommit", version, **request))


async def started(broker: MemoryBroker, version: int = 5) -> Transactor:
    """A producer, the group's partition added if it has to do that itself."""
    await make_topic(broker)
    producer = await Transactor(broker, version=12 if version >= ADDS_SINCE else 11).init()
    if version < ADDS_SINCE:
        await add_offsets(producer)
    return producer


async def add_offsets(producer: Transactor) -> None:
    answer = await producer.client.ask(
        "AddOffsetsToTxn",
        3,
        transactional_id=producer.name,
        producer_id=producer.now.id,
        producer_epoch=producer.now.epoch,
        group_id="g",
    )
    assert answer.error_code == Code.NONE


@scenario(topics=TOPICS)
async def test_of_no_group_or_of_one_elsewhere(broker: MemoryBroker) -> None:
    producer = await Transactor(broker).init()
    assert await commit(producer, {A0: 5}, group_id="") == {A0: Code.INVALID_GROUP_ID}
    assert await commit(producer, {A0: 5}) == {A0: Code.COORDINATOR_NOT_AVAILABLE}
    await make_topic(broker)
    stale: dict[str, Any] = {"generation_id": 3, "member_id": "m"}
    assert await commit(producer, {A0: 5}, **stale) == {A0: Code.ILLEGAL_GENERATION}
    groups = broker.parts.groups
    replica = broker.replica(OFFSETS, groups.partition_of("g"))
    broker.parts.replicas.remove(*replica.key)
    assert await commit(producer, {A0: 5}) == {A0: Code.NOT_COORDINATOR}


@pytest.mark.parametrize(
    ("version", "code"),
    [(1, Code.COORDINATOR_NOT_AVAILABLE), (2, Code.COORDINATOR_LOAD_IN_PROGRESS)],
)
@scenario(topics=TOPICS)
async def test_old_producers_get_coordinator_not_available_while_loading(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch, version: int, code: Code
) -> None:
    producer = await started(broker, version)
    transactions = broker.parts.transactions

    def loading(*_: object, **__: object) -> list[Code]:
        return [Code.COORDINATOR_LOAD_IN_PROGRESS]

    monkeypatch.setattr(type(transactions), "verify", loading)
    assert await commit(producer, {A0: 5}, version) == {A0: code}


# -- waiting --------------------------------------------------------------------------------


@scenario(ONE_PARTITION, topics=TOPICS)
async def test_nothing_is_kept_before_the_coordinator_is_sure(broker: MemoryBroker) -> None:
    producer = await started(broker)
    hold(broker)
    answer = producer.client.send("TxnOffsetCommit", 5, **committing(producer, {A0: 5}))
    later = producer.client.send("TxnOffsetCommit", 5, **committing(producer, {A0: 6}))
    outside = producer.client.send("OffsetCommit", 9, **offset_requests.committing(broker, {B0: 3}))
    await run_until_idle()
    log = broker.replica(OFFSETS, broker.parts.groups.partition_of("g")).log
    assert not answer.done() and log.end_offset == 0
    release(broker)
    await until(outside.done, "the answers")
    assert codes(broker, answer.result()) == codes(broker, later.result()) == {A0: 0}
    broker.share((1,), "__transaction_state")
    assert await producer.end(commit=True) == Code.COORDINATOR_NOT_AVAILABLE, "too few in sync"
    hold(broker)
    ended = producer.client.send(
        "EndTxn",
        5,
        transactional_id="tx",
        producer_id=producer.now.id,
        producer_epoch=producer.now.epoch,
        committed=True,
    )
    await run_until_idle()
    release(broker)
    await until(ended.done, "the end")
    await run_until_idle()
    assert await fetch(broker, [A0, B0]) == {A0: (6, 0), B0: (3, 0)}, "in the order of the requests"


@scenario(ONE_PARTITION, topics=TOPICS)
async def test_a_marker_in_between_takes_the_guard_away(broker: MemoryBroker) -> None:
    producer = await started(broker, 4)
    hold(broker)
    producer.client.send("AddPartitionsToTxn", 3, **producer.adding(A0))  # so that nothing is sure
    producer.client = broker.connect()
    answer = producer.client.send("TxnOffsetCommit", 4, **committing(producer, {A0: 5}))
    await run_until_idle()
    place = OFFSETS, broker.parts.groups.partition_of("g")
    assert not answer.done()
    assert await write_markers(broker, producer.now, place, commit=True) == [Code.NONE]
    release(broker)
    await until(answer.done, "the answer")
    assert codes(broker, answer.result()) == {A0: Code.INVALID_TXN_STATE}


@pytest.mark.parametrize("held", [False, True])
@scenario(ONE_PARTITION, topics={"a": 10})
async def test_many_offsets_are_kept_in_steps(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch, held: bool
) -> None:
    monkeypatch.setattr(offset_commits, "OFFSETS_PER_STEP", 4)
    monkeypatch.setattr(offsets, "OFFSETS_PER_STEP", 4)
    producer = await started(broker)
    if held:
        hold(broker)
    many = {("a", index): index for index in range(10)}
    answer = producer.client.send("TxnOffsetCommit", 5, **committing(producer, many))
    later = producer.client.send("TxnOffsetCommit", 5, **committing(producer, {A9: 77}))
    await run_until_idle()
    if held:
        assert not answer.done()
        release(broker)
    await until(later.done, "the answers")
    assert codes(broker, answer.result()) == dict.fromkeys(many, 0)
    if held:
        hold(broker)
        release(broker)
    place = OFFSETS, broker.parts.groups.partition_of("g")
    ending = producer.now._replace(epoch=producer.now.epoch + 1)
    assert await write_markers(broker, ending, place, commit=True) == [Code.NONE]
    expected = {place: (offset, 0) for place, offset in {**many, A9: 77}.items()}
    assert await fetch(broker) == expected


@scenario(topics={"a": 1})
async def test_many_are_refused_in_steps(broker: MemoryBroker) -> None:
    partition = SimpleNamespace(partition_index=0, committed_offset=1, committed_metadata="")
    topic = SimpleNamespace(name="a", partitions=[partition] * 2 * OFFSETS_PER_STEP)
    request = SimpleNamespace(transactional_id="tx", group_id="", topics=[topic])
    context = RequestContext(Peer("PLAINTEXT", "host:1"), 1, 1, None)
    answer = await txn_offset_commit.handle(broker.parts, context, request)
    assert isinstance(answer, EncodedResponse), "what was made in steps is written in steps"
    response: Any = answer.response
    received = [result.error_code for result in response.topics[0].partitions]
    assert received == [Code.INVALID_GROUP_ID] * 2 * OFFSETS_PER_STEP
