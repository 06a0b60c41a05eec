"""Produce with batches and requests that no stock client sends.

What Apache Kafka 4.3.1 makes of them; tests/differential asks it again.
"""

from __future__ import annotations

import pytest

from kavka.compat_tests.raw.codec.batches import LOG_APPEND_TIME, REFUSED, Written, build, patch
from kavka.wire.errors import ErrorCode as Code
from support.logs import Read
from support.memory_broker import MemoryBroker, producing, scenario
from support.memory_network import Closed

TIME_MS = 1_700_000_000_000
IN_TRANSACTION = build(producer=(4000, 0, 0), transactional=True)


@pytest.mark.parametrize(
    ("odd", "code", "message"),
    [
        (IN_TRANSACTION, Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, None),
        (
            REFUSED["a length below any message"][0],
            Code.CORRUPT_MESSAGE,
            "Record size 13 is less than the minimum record overhead (14)",
        ),
        (REFUSED["magic -1"][0], Code.CORRUPT_MESSAGE, "Invalid magic found in record: -1"),
    ],
)
@scenario(topics={"t": 2})
async def test_some_batches_spoil_the_whole_request(
    broker: MemoryBroker, odd: bytearray, code: Code, message: str | None
) -> None:
    answer = await broker.ask("Produce", 9, **producing({("t", 0): build(), ("t", 1): odd}))
    found = answer.responses[0].partition_responses
    assert [partition.error_code for partition in found] == [code, code]
    assert [partition.error_message for partition in found] == [message, message]
    assert [partition.log_start_offset for partition in found] == [-1, -1]
    assert (await broker.list_offset(-1)).offset == 0, "nothing is appended"
    broker.client.tell("Produce", 9, **producing({("t", 0): build(), ("t", 1): odd}, acks=0))
    await broker.client.closed()


@pytest.mark.parametrize(
    ("fault", "start"),
    [
        ("nothing", -1),
        ("two batches", -1),
        ("a wrong CRC", -1),
        ("a base offset", 0),
        ("no records", 0),
        ("a control batch", 0),
        ("no sequence", 0),
    ],
)
@scenario(topics={"t": 1})
async def test_the_log_start_offset_is_in_refusals_by_the_log(
    broker: MemoryBroker, fault: str, start: int
) -> None:
    assert (await broker.produce(REFUSED[fault][0])).log_start_offset == start


@scenario(topics={"t": 1})
async def test_what_the_log_refuses_comes_before_the_size(broker: MemoryBroker) -> None:
    await broker.create("small", configs={"max.message.bytes": "300"})
    big = build([Written(value=b"x" * 400)])
    for batch, code in (
        (patch(big, base_offset=1), Code.INVALID_RECORD),
        (big + big, Code.INVALID_RECORD),
        (patch(big, crc=1), Code.MESSAGE_TOO_LARGE),
    ):
        assert (await broker.produce(batch, "small")).error_code == code


@scenario(topics={"t": 1})
async def test_part_of_a_batch_behind_one_is_cut_off(broker: MemoryBroker) -> None:
    for _ in range(2):  # the second one goes the short way, which must not take it
        assert (await broker.produce(build() + build()[:50])).error_code == Code.NONE
    assert await broker.read_all() == [Read(offset, TIME_MS, b"value") for offset in range(6)]


@scenario(topics={"t": 1})
async def test_the_flag_of_the_append_s_time_is_cleared(broker: MemoryBroker) -> None:
    batch = patch(build(), attributes=LOG_APPEND_TIME, max_timestamp=TIME_MS + 9)
    assert (await broker.produce(batch)).error_code == Code.NONE
    found = await broker.read_all()
    assert found == [Read(offset, TIME_MS, b"value") for offset in range(3)], "and the CRC fits"


@scenario(topics={"t": 2})
async def test_of_a_partition_named_twice_the_last_counts(broker: MemoryBroker) -> None:
    topic = producing({("t", 0): build()})["topic_data"][0]
    last = producing({("t", 0): build([Written(value=b"last")]), ("t", 1): build()})
    request = {**last, "topic_data": [topic, *last["topic_data"], {**topic, "partition_data": []}]}
    answer = await broker.ask("Produce", 9, **request)
    [found] = answer.responses
    assert [partition.index for partition in found.partition_responses] == [0, 1]
    assert await broker.read_all() == [Read(0, TIME_MS, b"last")]


@pytest.mark.parametrize(
    ("topic", "fault"), [("gone", "nothing"), ("t", "a wrong CRC"), ("t", "two batches")]
)
@scenario(topics={"t": 1})
async def test_with_acks_0_an_error_closes_the_connection(
    broker: MemoryBroker, caplog: pytest.LogCaptureFixture, topic: str, fault: str
) -> None:
    caplog.set_level("INFO", "kavka.server.connections.connection")
    batch = REFUSED[fault][0]
    broker.client.tell("Produce", 9, **producing({(topic, 0): batch}, acks=0))
    following = broker.client.send("Metadata", 9, topics=[])
    await broker.client.closed()
    assert isinstance(following.exception(), Closed)
    (line,) = caplog.messages
    assert f"{topic}-0" in line
