"""ConsumerGroupHeartbeat. What requests lead to is the groups' own test; see also the differential
cases."""

from __future__ import annotations

from typing import Any

import pytest

from kavka.server.auth.authorizer import Operation
from kavka.wire.errors import ErrorCode as Code
from support.denied import Denied
from support.group_requests import make_topic
from support.memory_broker import MemoryBroker, scenario

FIRST: dict[str, Any] = {
    "rebalance_timeout_ms": 60_000,
    "subscribed_topic_names": ["t"],
    "topic_partitions": [],
}


async def beat(
    broker: MemoryBroker, member_id: str, epoch: int, version: int = 1, **more: Any
) -> Any:
    """One heartbeat to the group "g"."""
    values = {"rebalance_timeout_ms": -1, "group_id": "g", **more}
    return await broker.ask(
        "ConsumerGroupHeartbeat", version, member_id=member_id, member_epoch=epoch, **values
    )


def assigned(answer: Any) -> list[list[int]]:
    return [one.partitions for one in answer.assignment.topic_partitions]


@pytest.mark.parametrize("version", [0, 1])
@scenario(topics={"t": 3})
async def test_a_member_joins_stays_and_leaves(broker: MemoryBroker, version: int) -> None:
    await make_topic(broker)
    answer = await beat(broker, "m", 0, version, **FIRST)
    assert (answer.error_code, answer.error_message) == (Code.NONE, None)
    assert (answer.member_id, answer.member_epoch, answer.heartbeat_interval_ms) == ("m", 2, 5000)
    assert assigned(answer) == [[0, 1, 2]]
    answer = await beat(broker, "m", 2, version)
    assert (answer.member_epoch, answer.assignment) == (2, None)
    answer = await beat(broker, "m", -1, version)
    assert (answer.error_code, answer.member_id, answer.member_epoch) == (Code.NONE, "m", -1)


@scenario(topics={"t": 3})
async def test_a_group_outlives_its_broker(broker: MemoryBroker) -> None:
    await make_topic(broker)
    await beat(broker, "m", 0, **FIRST)
    await broker.restart()
    answer = await beat(broker, "m", 2)
    assert (answer.error_code, answer.member_epoch) == (Code.NONE, 2)


@scenario(topics={"t": 3})
async def test_new_partitions_come_with_a_heartbeat(broker: MemoryBroker) -> None:
    await make_topic(broker)
    await beat(broker, "m", 0, **FIRST)
    await broker.ask(
        "CreatePartitions",
        3,
        topics=[{"name": "t", "count": 5, "assignments": None}],
        timeout_ms=5000,
        validate_only=False,
    )
    await broker.advance(5000)
    answer = await beat(broker, "m", 2)
    assert (answer.member_epoch, assigned(answer)) == (3, [[0, 1, 2, 3, 4]])


@scenario(topics={"t": 3})
async def test_a_session_ends(broker: MemoryBroker) -> None:
    await make_topic(broker)
    await beat(broker, "m", 0, **FIRST)
    await broker.advance(44_000)
    assert (await beat(broker, "m", 2)).error_code == Code.NONE
    await broker.advance(46_000)
    assert (await beat(broker, "m", 2)).error_code == Code.UNKNOWN_MEMBER_ID


@scenario(topics={"t": 1, "tt": 2, "u": 1})
async def test_topics_by_expression(broker: MemoryBroker) -> None:
    await make_topic(broker)
    first = {**FIRST, "subscribed_topic_names": None, "subscribed_topic_regex": "t.*"}
    answer = await beat(broker, "m", 0, **first)
    assert (answer.error_code, assigned(answer)) == (Code.NONE, [])
    await broker.advance(1000)
    answer = await beat(broker, "m", 1)
    assert sorted(assigned(answer)) == [[0], [0, 1]]
    await broker.create("ttt")
    await broker.advance(11_000)
    await beat(broker, "m", 2)
    await broker.advance(1000)
    answer = await beat(broker, "m", 2)
    assert sorted(assigned(answer)) == [[0], [0], [0, 1]]


@scenario(topics={"t": 1, "tt": 2})
async def test_topics_that_may_not_be_seen_are_not_found(broker: MemoryBroker) -> None:
    await make_topic(broker)
    broker.parts.authorizer = Denied((Operation.DESCRIBE, "tt"))
    first = {**FIRST, "subscribed_topic_names": None, "subscribed_topic_regex": "t.*"}
    await beat(broker, "m", 0, **first)
    await broker.advance(1000)
    assert assigned(await beat(broker, "m", 1)) == [[0]]
    refused = await beat(broker, "n", 0, **{**FIRST, "subscribed_topic_names": ["t", "tt"]})
    assert refused.error_code == Code.TOPIC_AUTHORIZATION_FAILED


@scenario(topics={"t": 1})
async def test_who_may_not(broker: MemoryBroker) -> None:
    await make_topic(broker)
    broker.parts.authorizer = Denied((Operation.READ, "g"))
    answer = await beat(broker, "m", 0, **FIRST)
    assert answer.error_code == Code.GROUP_AUTHORIZATION_FAILED


@pytest.mark.parametrize(
    ("epoch", "more", "code", "message"),
    [
        (0, {"member_id": ""}, Code.INVALID_REQUEST, "MemberId can't be empty."),
        (0, {"group_id": " "}, Code.INVALID_REQUEST, "GroupId can't be empty."),
        (0, {"instance_id": ""}, Code.INVALID_REQUEST, "InstanceId can't be empty."),
        (0, {"rack_id": ""}, Code.INVALID_REQUEST, "RackId can't be empty."),
        (
            0,
            {"rebalance_timeout_ms": -1},
            Code.INVALID_REQUEST,
            "RebalanceTimeoutMs must be provided in first request.",
        ),
        (
            0,
            {"topic_partitions": None},
            Code.INVALID_REQUEST,
            "TopicPartitions must be empty when (re-)joining.",
        ),
        (
            0,
            {"subscribed_topic_names": None},
            Code.INVALID_REQUEST,
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when "
            "(re-)joining.",
        ),
        (-2, {}, Code.INVALID_REQUEST, "InstanceId can't be null."),
        (-3, {}, Code.INVALID_REQUEST, "MemberEpoch is invalid."),
        (
            0,
            {"server_assignor": "sticky"},
            Code.UNSUPPORTED_ASSIGNOR,
            "ServerAssignor sticky is not supported. Supported assignors: uniform, range.",
        ),
        (
            0,
            {"subscribed_topic_regex": "("},
            Code.INVALID_REGULAR_EXPRESSION,
            "SubscribedTopicRegex `(` is not a valid regular expression: missing closing ).",
        ),
        (3, {}, Code.GROUP_ID_NOT_FOUND, "Consumer group g not found."),
    ],
)
@scenario(topics={"t": 1})
async def test_what_is_refused(
    broker: MemoryBroker, epoch: int, more: dict[str, Any], code: Code, message: str
) -> None:
    await make_topic(broker)
    values = {**FIRST, "member_id": "m", **more}
    answer = await beat(broker, values.pop("member_id"), epoch, **values)
    assert (answer.error_code, answer.error_message) == (code, message)


@scenario("group.coordinator.rebalance.protocols=classic", topics={"t": 1})
async def test_where_there_is_no_such_protocol(broker: MemoryBroker) -> None:
    await make_topic(broker)
    answer = await beat(broker, "m", 0, **FIRST)
    assert answer.error_code == Code.UNSUPPORTED_VERSION
    described = await broker.ask("ConsumerGroupDescribe", 0, group_ids=["g"])
    assert described.groups[0].error_code == Code.UNSUPPORTED_VERSION


@scenario(topics={"t": 1})
async def test_a_group_has_times_of_its_own(broker: MemoryBroker) -> None:
    await make_topic(broker)
    configs = [
        {"name": "consumer.heartbeat.interval.ms", "config_operation": 0, "value": "7000"},
        {"name": "consumer.session.timeout.ms", "config_operation": 0, "value": "60000"},
    ]
    resource = {"resource_type": 32, "resource_name": "g", "configs": configs}
    await broker.ask("IncrementalAlterConfigs", 1, resources=[resource], validate_only=False)
    assert (await beat(broker, "m", 0, **FIRST)).heartbeat_interval_ms == 7000
    await broker.advance(59_000)
    await broker.restart()
    assert (await beat(broker, "m", 2)).heartbeat_interval_ms == 7000
    listed = await broker.ask("ListConfigResources", 1, resource_types=[32])
    assert [one.resource_name for one in listed.config_resources] == ["g"]


@scenario(topics={"t": 2})
async def test_a_topic_that_is_named_twice_counts_with_all_that_is_said_of_it(
    broker: MemoryBroker,
) -> None:
    """A member that has not given up a partition yet says so in the first of the two."""
    await make_topic(broker)
    first = await beat(broker, "a", 0, **FIRST)
    topic_id = first.assignment.topic_partitions[0].topic_id
    await beat(broker, "b", 0, **FIRST)
    await broker.advance(5000)
    await beat(broker, "b", 2)
    received = await beat(broker, "a", 2)
    assert len(assigned(received)[0]) == 1, "one is to be given up"

    async def a_says(*owned: list[int]) -> Any:
        reported = [{"topic_id": topic_id, "partitions": one} for one in owned]
        return await beat(broker, "a", 2, topic_partitions=reported)

    kept = assigned(received)[0]
    assert (await a_says([0, 1], kept)).member_epoch == 2
    assert (await a_says(kept, kept)).member_epoch == 3
