"""CreatePartitions: codes and texts of Apache Kafka 4.3.1, and that what is made can be used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from kavka.server.auth.authorizer import Operation
from kavka.server.controller import partition_requests
from kavka.server.coordination.embedded import EmbeddedCoordination
from kavka.wire.apis.create_partitions import API
from kavka.wire.errors import ErrorCode as Code
from kavka.zktree import paths
from support.batches import build
from support.denied import Denied
from support.memory_broker import MemoryBroker, scenario
from support.memory_network import until
from support.virtual import settle

VERSIONS = range(API.lowest, API.highest + 1)


def wanted(
    name: str, count: int, assignments: Sequence[Sequence[int]] | None = None
) -> dict[str, Any]:
    replicas = None
    if assignments is not None:
        replicas = [{"broker_ids": list(brokers)} for brokers in assignments]
    return {"name": name, "count": count, "assignments": replicas}


async def extend(
    broker: MemoryBroker, *topics: Mapping[str, Any], version: int = 3, **values: Any
) -> list[tuple[str, Code, str | None]]:
    asked = {"timeout_ms": 5000, "validate_only": False, "topics": list(topics)} | values
    answer = await broker.ask("CreatePartitions", version, **asked)
    return [(one.name, Code(one.error_code), one.error_message) for one in answer.results]


async def count(broker: MemoryBroker, name: str = "t") -> int:
    """How many partitions clients are told of."""
    answer = await broker.ask("Metadata", 9, topics=[{"name": name}])
    return len(answer.topics[0].partitions)


@pytest.mark.parametrize("version", VERSIONS)
@scenario(topics={"t": 1})
async def test_a_new_partition_can_be_written_to_at_once(
    broker: MemoryBroker, version: int
) -> None:
    await broker.produce(build())
    answers = await extend(broker, wanted("t", 3), version=version)
    assert answers == [("t", Code.NONE, None)]
    assert await count(broker) == 3
    assert (await broker.produce(build(), partition=2)).error_code == Code.NONE
    assert (await broker.produce(build())).base_offset == 3, "the old one goes on"
    assert len(await broker.read_all("t", 2)) == 3


@scenario(topics={"t": 1})
async def test_it_survives_a_power_cut(broker: MemoryBroker) -> None:
    await extend(broker, wanted("t", 2), wanted("gone", 2))
    await broker.crash()
    assert await count(broker) == 2
    assert (await broker.produce(build(), partition=1)).error_code == Code.NONE
    await broker.restart()
    assert len(await broker.read_all("t", 1)) == 3


@pytest.mark.parametrize("turns", range(0, 30, 3))
@scenario(topics={"t": 1})
async def test_it_is_done_entirely_or_not_at_all(broker: MemoryBroker, turns: int) -> None:
    asked = {"timeout_ms": 5000, "validate_only": False, "topics": [wanted("t", 3)]}
    broker.client.send("CreatePartitions", 3, **asked)
    await settle(turns)
    await broker.kill()
    found = await count(broker)
    assert found in (1, 3)
    for partition in range(found):
        assert (await broker.produce(build(), partition=partition)).error_code == Code.NONE


@scenario(topics={"t": 1})
async def test_a_consumer_that_waits_is_not_disturbed(broker: MemoryBroker) -> None:
    fetch = {"topic": "t", "partitions": [{"partition": 0, "fetch_offset": 0}]}
    waiting = broker.connect().send(
        "Fetch", 12, replica_id=-1, max_wait_ms=60_000, min_bytes=1, topics=[fetch]
    )
    await settle()
    await extend(broker, wanted("t", 3))
    assert not waiting.done()
    await broker.produce(build())
    await settle()
    (partition,) = waiting.result().responses[0].partitions
    assert partition.error_code == Code.NONE and partition.records


@pytest.mark.parametrize("version", VERSIONS)
@scenario(topics={"t": 2})
async def test_validate_only_makes_nothing(broker: MemoryBroker, version: int) -> None:
    answers = await extend(
        broker, wanted("t", 5), wanted("gone", 2), version=version, validate_only=True
    )
    assert answers == [("t", Code.NONE, None), ("gone", Code.UNKNOWN_TOPIC_OR_PARTITION, None)]
    assert await count(broker) == 2


@pytest.mark.parametrize(
    ("asked", "code", "message"),
    [
        (wanted("t", 2), Code.INVALID_PARTITIONS, "Topic already has 2 partition(s)."),
        (
            wanted("t", 1),
            Code.INVALID_PARTITIONS,
            "The topic t currently has 2 partition(s); 1 would not be an increase.",
        ),
        (wanted("gone", 3), Code.UNKNOWN_TOPIC_OR_PARTITION, None),
        (wanted("a b", 3), Code.UNKNOWN_TOPIC_OR_PARTITION, None),
        (wanted("", 3), Code.UNKNOWN_TOPIC_OR_PARTITION, None),
        (
            wanted("t", 3, [[9]]),
            Code.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes broker 9, but no such broker is registered.",
        ),
        (
            wanted("t", 4, [[1]]),
            Code.INVALID_REPLICA_ASSIGNMENT,
            "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.",
        ),
        (wanted("t", 3, [[1]]), Code.NONE, None),
    ],
)
@scenario(topics={"t": 2})
async def test_refusals(
    broker: MemoryBroker, asked: dict[str, Any], code: Code, message: str | None
) -> None:
    assert await extend(broker, asked) == [(asked["name"], code, message)]
    assert await count(broker) == (3 if code is Code.NONE else 2)


@scenario(topics={"t": 1, "u": 1})
async def test_a_topic_that_is_named_twice(broker: MemoryBroker) -> None:
    answers = await extend(broker, wanted("t", 2), wanted("u", 2), wanted("t", 3))
    assert answers == [
        ("t", Code.INVALID_REQUEST, "Duplicate topic name."),
        ("u", Code.NONE, None),
    ]
    assert (await count(broker), await count(broker, "u")) == (1, 2)


@pytest.mark.parametrize("timeout_ms", [0, -1])
@scenario(topics={"t": 1})
async def test_for_who_does_not_wait_nothing_is_begun(
    broker: MemoryBroker, timeout_ms: int
) -> None:
    topics = [wanted("t", 2), wanted("gone", 2), wanted("gone", 3)]
    answers = await extend(broker, *topics, timeout_ms=timeout_ms)
    assert answers == [(one["name"], Code.REQUEST_TIMED_OUT, None) for one in topics]
    (twice,) = await extend(broker, *topics[1:], timeout_ms=timeout_ms)
    assert twice[1] is Code.INVALID_REQUEST, "seen at once"
    await settle()
    assert await count(broker) == 1


@scenario(topics={"t": 1})
async def test_a_disk_that_is_too_slow(broker: MemoryBroker) -> None:
    broker.jobs.hold()
    asked = {"timeout_ms": 1000, "validate_only": False, "topics": [wanted("t", 2)]}
    waiting = broker.client.send("CreatePartitions", 3, **asked)
    await broker.advance(5000)
    broker.jobs.release()
    await settle(100)
    assert waiting.result().results[0].error_code == Code.REQUEST_TIMED_OUT
    assert await count(broker) == 2


@scenario(topics={"t": 1, "u": 1})
async def test_who_may_not(broker: MemoryBroker) -> None:
    broker.parts.authorizer = Denied((Operation.ALTER, "t"))
    answers = await extend(broker, wanted("t", 2), wanted("u", 2))
    assert answers == [("t", Code.TOPIC_AUTHORIZATION_FAILED, None), ("u", Code.NONE, None)]
    assert (await count(broker), await count(broker, "u")) == (1, 2)


@scenario(topics={"t": 1})
async def test_only_the_controller_does_it(broker: MemoryBroker) -> None:
    broker.parts.controller.close()
    ((name, code, _),) = await extend(broker, wanted("t", 2))
    assert (name, code) == ("t", Code.NOT_CONTROLLER)


@scenario()
async def test_many_are_looked_at_in_slices(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_requests, "TOPICS_A_SLICE", 2)
    asked = [wanted(f"none{number}", 2) for number in range(40)]
    waiting = broker.client.send(
        "CreatePartitions", 3, timeout_ms=5000, validate_only=False, topics=asked
    )
    await settle(10)
    assert not waiting.done(), "it takes a turn of the loop for every two topics"
    await settle()
    codes = [one.error_code for one in waiting.result().results]
    assert codes == [Code.UNKNOWN_TOPIC_OR_PARTITION] * 40


@scenario(topics={f"t{number}": 1 for number in range(20)})
async def test_topics_of_one_request_share_syncs_of_the_disk(broker: MemoryBroker) -> None:
    tree = broker.instance._coordination
    assert isinstance(tree, EmbeddedCoordination)
    names = [f"t{number}" for number in range(20)]
    broker.jobs.hold("Storage.append")
    asked = [wanted(name, 2) for name in names]
    waiting = broker.client.send(
        "CreatePartitions", 3, timeout_ms=5000, validate_only=False, topics=asked
    )
    await settle()
    written = [paths.decode_topic(tree._tree.get(paths.topic(name)).data) for name in names]
    assert [len(one.replicas) for one in written] == [2] * 20, "in memory, and on their way"
    broker.jobs.release()
    await until(waiting.done, "the answer")
    assert {one.error_code for one in waiting.result().results} == {Code.NONE}
