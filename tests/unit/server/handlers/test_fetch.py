"""Fetch of what is there: versions, ranges, limits, epochs. Waiting: test_fetch_waiting.py.

The answers are those of Apache Kafka 4.3.1 to the same requests.
"""

from __future__ import annotations

import sys
from typing import Any
from uuid import UUID

import pytest

import kavka.wire.frame
from kavka.server.auth.authorizer import Operation
from kavka.wire.apis.fetch import API, BATCHES_SINCE
from kavka.wire.errors import ErrorCode as Code
from kavka.wire.frame import ARENA_BYTES
from support.batches import CODECS, Written, build
from support.denied import Denied
from support.logs import parse
from support.memory_broker import MemoryBroker, fetching, producing, scenario
from support.virtual import settle

VERSIONS = range(BATCHES_SINCE, API.highest + 1)
"""Those before give message sets: see test_fetch_of_old.py."""

TOPIC_IDS_SINCE = 13
NOBODY = UUID(int=99)

BATCH = bytes(build())
BATCHES = 3
RECORDS = 3


async def fill(broker: MemoryBroker, topic: str = "t", partition: int = 0) -> None:
    """Three batches of three records."""
    for _ in range(BATCHES):
        answer = await broker.produce(BATCH, topic, partition)
        assert answer.error_code == Code.NONE


def offsets(answer: Any) -> list[int]:
    return [one.offset for one in parse(bytes(answer.records))]


@pytest.mark.parametrize("version", VERSIONS)
@scenario()
async def test_every_version_gives_the_batches(broker: MemoryBroker, version: int) -> None:
    ids = {"t": await broker.create("t")}
    await fill(broker)
    for offset in (0, 9):
        asked = fetching({("t", 0): offset}, topic_ids=ids)
        answer = await broker.ask("Fetch", version, **asked)
        (of_topic,) = answer.responses
        (found,) = of_topic.partitions
        by_id = version >= TOPIC_IDS_SINCE
        assert (of_topic.topic, of_topic.topic_id) == (("", ids["t"]) if by_id else ("t", None))
        assert answer.session_id == 0
        assert (found.partition_index, found.error_code) == (0, Code.NONE)
        assert (found.high_watermark, found.last_stable_offset) == (9, 9)
        assert found.log_start_offset == (0 if version >= 5 else -1)
        assert found.aborted_transactions is None
        assert found.preferred_read_replica == -1
        assert found.diverging_epoch is None and found.current_leader is None
        assert offsets(found) == list(range(offset, 9))


@scenario(topics={"t": 1})
async def test_batches_come_as_they_were_sent(broker: MemoryBroker) -> None:
    for codec in CODECS:
        await broker.produce(build(codec=codec))
    sent = b"".join(bytes(build(codec=codec)) for codec in CODECS)
    got = bytes((await broker.fetch()).records)
    assert len(got) == len(sent)
    start = 0
    for number, codec in enumerate(CODECS):
        size = len(build(codec=codec))
        batch, original = got[start : start + size], sent[start : start + size]
        assert int.from_bytes(batch[:8], "big") == RECORDS * number, "the offset"
        assert batch[8:12] + batch[16:] == original[8:12] + original[16:], "all but the epoch"
        start += size


@scenario(topics={"t": 1})
async def test_an_offset_within_a_batch_gives_the_whole_batch(broker: MemoryBroker) -> None:
    await fill(broker)
    assert offsets(await broker.fetch(4)) == list(range(3, 9))


@pytest.mark.parametrize("offset", [-1, -2, 10, 2**40])
@scenario(topics={"t": 1})
async def test_offsets_out_of_range(broker: MemoryBroker, offset: int) -> None:
    await fill(broker)
    answer = await broker.fetch(offset)
    assert answer.error_code == Code.OFFSET_OUT_OF_RANGE
    assert (answer.high_watermark, answer.last_stable_offset) == (-1, -1)
    assert answer.log_start_offset == -1
    assert (answer.records, answer.aborted_transactions) == (b"", None)


@pytest.mark.parametrize("version", VERSIONS)
@scenario(topics={"t": 1})
async def test_unknown_topics(broker: MemoryBroker, version: int) -> None:
    asked = fetching({("gone", 0): 0}, topic_ids={"gone": NOBODY})
    answer = await broker.ask("Fetch", version, **asked)
    found = answer.responses[0].partitions[0]
    unknown_name = version < TOPIC_IDS_SINCE
    code = Code.UNKNOWN_TOPIC_OR_PARTITION if unknown_name else Code.UNKNOWN_TOPIC_ID
    assert found.error_code == code
    assert (found.high_watermark, found.last_stable_offset) == (-1, -1)
    assert (found.records, found.aborted_transactions) == (b"", [])


@scenario(topics={"t": 1, "u": 1})
async def test_who_may_not(broker: MemoryBroker) -> None:
    broker.parts.authorizer = Denied((Operation.READ, "t"), (Operation.READ, "gone"))
    await fill(broker)
    for topic in ("t", "gone"):
        answer = await broker.fetch(0, topic)
        assert answer.error_code == Code.TOPIC_AUTHORIZATION_FAILED, "nor is told which there are"
        assert answer.records == b""
    assert (await broker.fetch(0, "u")).error_code == Code.NONE


@pytest.mark.parametrize("partition", [1, -1, 2**31 - 1])
@scenario(topics={"t": 1})
async def test_unknown_partitions(broker: MemoryBroker, partition: int) -> None:
    answer = await broker.fetch(0, "t", partition)
    assert answer.error_code == Code.UNKNOWN_TOPIC_OR_PARTITION


@scenario(topics={"t": 2, "u": 1})
async def test_several_partitions_in_the_order_asked_for(broker: MemoryBroker) -> None:
    await fill(broker, "t", 1)
    await fill(broker, "u", 0)
    wanted = {("u", 0): 3, ("t", 1): 0, ("t", 0): 0, ("gone", 0): 0}
    answer = await broker.ask("Fetch", 12, **fetching(wanted))
    found = [
        (topic.topic, one.partition_index, one.error_code, offsets(one))
        for topic in answer.responses
        for one in topic.partitions
    ]
    assert found == [
        ("u", 0, Code.NONE, list(range(3, 9))),
        ("t", 1, Code.NONE, list(range(9))),
        ("t", 0, Code.NONE, []),
        ("gone", 0, Code.UNKNOWN_TOPIC_OR_PARTITION, []),
    ]


# -- limits (KIP-74) ------------------------------------------------------------------------


@pytest.mark.parametrize("max_bytes", [0, 1, len(BATCH) - 1, len(BATCH)])
@scenario(topics={"t": 1})
async def test_the_first_batch_is_always_whole(broker: MemoryBroker, max_bytes: int) -> None:
    await fill(broker)
    assert bytes((await broker.fetch(max_bytes=max_bytes)).records) == BATCH
    assert offsets(await broker.fetch(3, max_bytes=max_bytes)) == [3, 4, 5]


@scenario(topics={"t": 1})
async def test_a_partition_is_cut_at_its_limit(broker: MemoryBroker) -> None:
    await fill(broker)
    answer = await broker.fetch(max_bytes=len(BATCH) * 2 + 10)
    assert len(answer.records) <= len(BATCH) * 2 + 10
    assert bytes(answer.records)[: len(BATCH)] == BATCH
    assert offsets(await broker.fetch(3, max_bytes=len(BATCH) * 2)) == [3, 4, 5, 6, 7, 8]


@pytest.mark.parametrize("limit", [0, 1, 50])
@scenario(topics={"t": 3})
async def test_only_the_first_that_has_records_may_pass_the_request_s_limit(
    broker: MemoryBroker, limit: int
) -> None:
    await fill(broker, "t", 1)
    await fill(broker, "t", 2)
    wanted = {("t", 0): 0, ("t", 1): 0, ("t", 2): 0}
    answer = await broker.ask("Fetch", 12, **fetching(wanted, request_max_bytes=limit))
    sizes = [len(one.records) for one in answer.responses[0].partitions]
    assert sizes == [0, len(BATCH), 0]


@scenario(topics={"t": 2})
async def test_the_request_s_limit_is_shared(broker: MemoryBroker) -> None:
    await fill(broker, "t", 0)
    await fill(broker, "t", 1)
    asked = fetching({("t", 0): 0, ("t", 1): 0}, request_max_bytes=len(BATCH) * 4)
    answer = await broker.ask("Fetch", 12, **asked)
    sizes = [len(one.records) for one in answer.responses[0].partitions]
    assert sizes == [len(BATCH) * 3, len(BATCH)]


@scenario("fetch.max.bytes=1024", topics={"t": 1})
async def test_the_broker_s_limit_holds_too(broker: MemoryBroker) -> None:
    for _ in range(20):
        await broker.produce(BATCH)
    assert 0 < len((await broker.fetch()).records) <= 1024


@scenario("fetch.max.bytes=1024", topics={"t": 1})
async def test_no_more_is_waited_for_than_would_be_given(broker: MemoryBroker) -> None:
    for _ in range(20):
        await broker.produce(BATCH)
    asked = fetching({("t", 0): 0}, min_bytes=1 << 20, max_wait_ms=10_000)
    answer = await broker.ask("Fetch", 12, **asked)
    assert len(answer.responses[0].partitions[0].records) == 1024


@scenario(topics={"t": 1})
async def test_answers_that_nobody_reads_take_a_bounded_amount(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound_bytes = 8 * ARENA_BYTES
    monkeypatch.setattr(kavka.wire.frame, "IN_USE_BYTES_MAX", bound_bytes)
    batch = build([Written(value=bytes(100_000))])
    for _ in range(40):
        assert (await broker.produce(batch)).error_code == Code.NONE
    request = fetching({("t", 0): 0}, max_bytes=50 << 20)
    arenas = broker.parts.arenas
    readers = [broker.connect() for _ in range(20)]
    answers = []
    for reader in readers:
        reader.transport.hold()
        answers.append(reader.send("Fetch", 12, **request))
        await settle()
    assert bound_bytes < arenas.in_use_bytes <= bound_bytes + len(readers) * ARENA_BYTES
    for reader in readers[:10]:
        reader.transport.release()
    for reader in readers[10:]:
        reader.close()
    await settle()
    assert all(len(answer.result().responses[0].partitions[0].records) for answer in answers[:10])
    assert arenas.in_use_bytes == 0
    records = (await broker.fetch(max_bytes=50 << 20)).records
    assert ARENA_BYTES < len(records) <= bound_bytes // 4, "there is room again"


@scenario()
async def test_reading_goes_on_over_segments(broker: MemoryBroker) -> None:
    await broker.create("t", configs={"segment.bytes": str(1 << 20)})
    big = build([Written(value=b"x" * 600_000)])
    for _ in range(4):
        assert (await broker.produce(bytes(big))).error_code == Code.NONE
    assert [one.offset for one in await broker.read_all()] == [0, 1, 2, 3]
    answer = await broker.fetch(max_bytes=1 << 24)
    assert offsets(answer) == [0], "a fetch reads one segment"


# -- isolation ------------------------------------------------------------------------------


@scenario(topics={"t": 1})
async def test_read_committed(broker: MemoryBroker) -> None:
    await fill(broker)
    for offset in (3, 9):
        answer = await broker.fetch(offset, isolation_level=1)
        assert answer.aborted_transactions == []
        assert answer.last_stable_offset == 9
        assert offsets(answer) == list(range(offset, 9))


# -- epochs ---------------------------------------------------------------------------------


@scenario(topics={"t": 1})
async def test_current_leader_epochs(broker: MemoryBroker) -> None:
    await fill(broker)
    await broker.restart()
    epoch = (await broker.list_offset(-1)).leader_epoch
    assert epoch > 0
    codes = [
        (await broker.fetch(current_leader_epoch=one)).error_code
        for one in (-1, epoch, epoch - 1, epoch + 1)
    ]
    assert codes == [
        Code.NONE,
        Code.NONE,
        Code.FENCED_LEADER_EPOCH,
        Code.UNKNOWN_LEADER_EPOCH,
    ]


@pytest.mark.parametrize("version", [12, 15, 16, 18])
@scenario()
async def test_who_is_fenced_is_told_the_leader_from_version_16_on(
    broker: MemoryBroker, version: int
) -> None:
    ids = {"t": await broker.create("t")}
    await broker.restart()
    epoch = (await broker.list_offset(-1)).leader_epoch
    asked = fetching({("t", 0): 0}, current_leader_epoch=0, topic_ids=ids)
    answer = await broker.ask("Fetch", version, **asked)
    found = answer.responses[0].partitions[0]
    assert found.error_code == Code.FENCED_LEADER_EPOCH
    if version < 16:
        assert found.current_leader is None
        return
    assert (found.current_leader.leader_id, found.current_leader.leader_epoch) == (1, epoch)
    (endpoint,) = answer.node_endpoints
    address = broker.instance.addresses["PLAINTEXT"]
    assert (endpoint.node_id, endpoint.host, endpoint.port) == (1, *address)


@scenario(topics={"t": 1, "empty": 1})
async def test_divergence(broker: MemoryBroker) -> None:
    """The log: epoch e0 up to 9, e1 up to 18."""
    await fill(broker)
    first = broker.replica().partition.leader_epoch
    await broker.restart()
    await fill(broker)
    second = broker.replica().partition.leader_epoch

    async def fetch(offset: int, last_fetched_epoch: int) -> Any:
        return await broker.fetch(offset, last_fetched_epoch=last_fetched_epoch)

    for offset, epoch in ((9, first), (5, first), (12, second), (18, second)):
        answer = await fetch(offset, epoch)
        assert (answer.error_code, answer.diverging_epoch) == (Code.NONE, None)
        assert len(answer.records) or offset == 18
    for offset, epoch, received in (
        (12, first, (first, 9)),
        (30, second, (second, 18)),
        (12, second - 1, (first, 9)),
    ):
        answer = await fetch(offset, epoch)
        diverging = answer.diverging_epoch
        assert answer.error_code == Code.NONE
        assert (diverging.epoch, diverging.end_offset) == received
        assert answer.records == b""
    assert (await fetch(3, second + 5)).error_code == Code.OFFSET_OUT_OF_RANGE
    answer = await broker.fetch(0, "empty", last_fetched_epoch=second + 5)
    assert answer.error_code == Code.OFFSET_OUT_OF_RANGE


# -- followers ------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [4, 12, 14])
@scenario()
async def test_followers_are_no_replicas_of_a_lone_broker(
    broker: MemoryBroker, version: int
) -> None:
    ids = {"t": await broker.create("t")}
    codes = []
    for epoch in (-1, 0, 5):
        asked = fetching({("t", 0): 0}, current_leader_epoch=epoch, topic_ids=ids)
        answer = await broker.ask("Fetch", version, **(asked | {"replica_id": 5}))
        codes.append(answer.responses[0].partitions[0].error_code)
    not_known = Code.UNKNOWN_LEADER_EPOCH
    if version < 9:  # has no epoch
        assert codes == [Code.NOT_LEADER_OR_FOLLOWER] * 3
    else:
        assert codes == [Code.NOT_LEADER_OR_FOLLOWER, not_known, not_known]


@scenario()
async def test_followers_say_so_in_a_tag_from_version_15_on(broker: MemoryBroker) -> None:
    ids = {"t": await broker.create("t")}
    state = {"replica_state": {"replica_id": 5, "replica_epoch": 3}}
    answer = await broker.ask("Fetch", 15, **(fetching({("t", 0): 0}, topic_ids=ids) | state))
    assert answer.responses[0].partitions[0].error_code == Code.NOT_LEADER_OR_FOLLOWER


@scenario(topics={"t": 1})
async def test_a_consumer_between_watermark_and_end_gets_nothing_and_no_error(
    broker: MemoryBroker,
) -> None:
    await fill(broker)
    broker.share((1, 2))
    await broker.ask("Produce", 9, **producing({("t", 0): BATCH}, acks=1))
    for offset in (9, 10, 12):
        answer = await broker.fetch(offset)
        assert (answer.error_code, answer.records) == (Code.NONE, b"")
        assert answer.high_watermark == 9
    assert (await broker.fetch(13)).error_code == Code.OFFSET_OUT_OF_RANGE
    assert offsets(await broker.fetch(6)) == [6, 7, 8]


# -- open files -------------------------------------------------------------------------------


@scenario(topics={"t": 5})
async def test_only_so_many_files_are_held_for_an_answer(broker: MemoryBroker) -> None:
    for partition in range(5):
        await broker.produce(build(), partition=partition)
    broker.parts.replicas.logs.files_at_once = 2
    asked = fetching({("t", n): 0 for n in range(5)}, min_bytes=1 << 20, max_wait_ms=1000)
    for version in (3, 12):
        answer = await broker.ask("Fetch", version, **asked)
        given = [bool(one.records) for one in answer.responses[0].partitions]
        assert given == [True, True, False, False, False]


@scenario(topics={"t": 1})
async def test_none_are_held_by_who_waits(broker: MemoryBroker) -> None:
    await broker.produce(build())
    file = broker.replica().log.read(0, 1000, upto=3, at_least_one=True)
    assert file is not None
    asked = fetching({("t", 0): 0}, min_bytes=1 << 20, max_wait_ms=1000)
    before = sys.getrefcount(file.file)  # what is in an assertion counts, too
    waiting = broker.connect().send("Fetch", 12, **asked)
    await broker.advance(10)
    await broker.produce(build())
    await broker.advance(10)
    assert not waiting.done()
    held = sys.getrefcount(file.file)
    assert held == before
    await broker.advance(1000)
    [answer] = waiting.result().responses[0].partitions
    assert offsets(answer) == list(range(6))
