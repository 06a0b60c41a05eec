"""What counts as traffic, through the handlers, beside what was sent."""

from __future__ import annotations

import pytest

from kavka.compat_tests.raw.codec import batches
from kavka.server.replica.topic_traffic import TopicTraffic, Traffic
from kavka.wire.errors import ErrorCode
from support.memory_broker import MemoryBroker, fetching, scenario


def records(count: int, size: int = 10) -> bytearray:
    return batches.build([batches.Written(None, bytes(size))] * count)


def counts(traffic: TopicTraffic) -> dict[str, int]:
    """Those that are not 0."""
    found = {name: getattr(traffic, name) for name in TopicTraffic.__slots__}
    return {name: value for name, value in found.items() if value}


@scenario("auto.create.topics.enable=false", topics={"t": 2, "u": 1})
async def test_counts_of_produce(broker: MemoryBroker) -> None:
    sent = [records(count) for count in (1, 5, 3, 2)]
    for batch in sent[:3]:
        await broker.produce(batch[:])
    await broker.produce(sent[3][:], partition=1)
    await broker.produce(records(1), topic="nowhere")
    traffic = broker.parts.replicas.traffic
    assert counts(traffic.topics["t"]) == {
        "replicas": 2,
        "appends": 4,
        "messages_in": 11,
        "bytes_in": sum(map(len, sent)),
    }
    assert counts(traffic.topics["u"]) == {"replicas": 1}
    assert "nowhere" not in traffic.topics, "strangers' names are not kept"


@scenario(topics={"t": 1})
async def test_a_duplicate_batch_is_counted_again(broker: MemoryBroker) -> None:
    batch = batches.build([batches.Written(None, b"x")] * 3, producer=(7, 0, 0))
    for _ in range(2):
        assert (await broker.produce(batch[:])).error_code == 0
    traffic = broker.parts.replicas.traffic.topics["t"]
    assert broker.replica().log.end_offset == 3
    assert (traffic.appends, traffic.messages_in, traffic.bytes_in) == (2, 6, 2 * len(batch))


@scenario("message.max.bytes=1000", topics={"t": 1})
async def test_counts_of_refused_batches(broker: MemoryBroker) -> None:
    big, broken = records(1, 2000), records(1)
    broken[-1] ^= 0xFF
    gap = batches.build([batches.Written(None, b"x")], producer=(7, 0, 0))
    late = batches.build([batches.Written(None, b"x")], producer=(7, 0, 9))
    for batch, code in (
        (big, ErrorCode.MESSAGE_TOO_LARGE),
        (broken, ErrorCode.CORRUPT_MESSAGE),
        (gap, ErrorCode.NONE),
        (late, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
    ):
        assert (await broker.produce(batch[:])).error_code == code
    assert counts(broker.parts.replicas.traffic.topics["t"]) == {
        "replicas": 1,
        "appends": 1,
        "messages_in": 1,
        "bytes_in": len(gap),
        "refused": 3,
        "bytes_rejected": len(big),
        "corrupt": 1,
        "failed": 1,
    }


@scenario(topics={"t": 2})
async def test_counts_of_fetch(broker: MemoryBroker) -> None:
    batch = records(4)
    await broker.produce(batch[:])
    await broker.ask("Fetch", 12, **fetching({("t", 0): 0, ("t", 1): 0}))
    await broker.ask("Fetch", 12, **fetching({("t", 0): 4}))
    await broker.ask("Fetch", 12, **fetching({("t", 0): 99, ("nowhere", 0): 0}))
    traffic = broker.parts.replicas.traffic.topics["t"]
    assert traffic.bytes_out == len(batch)
    assert traffic.fetches == 3, "an offset out of range is found before anything is read"


@scenario(topics={"t": 2, "u": 1})
async def test_the_total_includes_deleted_topics(broker: MemoryBroker) -> None:
    await broker.produce(records(5), topic="t", partition=1)
    await broker.produce(records(2), topic="u")
    await broker.ask("DeleteTopics", 5, topic_names=["t"], timeout_ms=1000, topics=[])
    traffic = broker.parts.replicas.traffic
    assert list(traffic.topics) == ["u"]
    assert traffic.total().messages_in == 7
    await broker.create("t")
    await broker.produce(records(1), topic="t")
    assert traffic.topics["t"].messages_in == 1
    assert traffic.total().messages_in == 8


@pytest.mark.parametrize(
    "code",
    [  # "known exceptions" of Apache Kafka's ReplicaManager.appendToLocalLog
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    ],
)
def test_known_errors_are_not_counted_as_failures(code: ErrorCode) -> None:
    traffic = TopicTraffic()
    traffic.refuse(code, 1)
    assert (traffic.refused, traffic.failed) == (1, 0)
    traffic.refuse(ErrorCode.INVALID_PRODUCER_EPOCH, 1)
    assert (traffic.refused, traffic.failed) == (2, 1)


def test_a_topic_is_removed_with_its_last_replica() -> None:
    traffic = Traffic()
    first, second = traffic.add_replica("t"), traffic.add_replica("t")
    assert first is second
    first.bytes_out = 3
    traffic.remove_replica("t")
    assert list(traffic.topics) == ["t"]
    traffic.remove_replica("t")
    assert not traffic.topics
    assert counts(traffic.total()) == {"bytes_out": 3}
