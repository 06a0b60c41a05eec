"""Requests for topics, from the client's question to the answer."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from kavka.log.memfs import Fault
from kavka.server.cluster.control_messages import NO_TOPIC_ID, TopicPartition
from kavka.server.config import validate_topic_configs
from kavka.server.controller.topic_validation import NewTopic, TopicResult
from kavka.wire.errors import ErrorCode
from kavka.zktree import paths, storage
from support.controlled_broker import ControlledCluster
from support.embedded_coordination import all_nodes
from support.virtual import settle

RECORDED = json.loads(Path(__file__).with_name("kafka43_create_topics.json").read_text())["cases"]


async def create(
    cluster: ControlledCluster,
    *topics: NewTopic | str,
    timeout_ms: int = 1000,
    validate_only: bool = False,
) -> dict[str, TopicResult]:
    wanted = [NewTopic(topic, 1, 1) if isinstance(topic, str) else topic for topic in topics]
    return dict(
        await cluster.controller.create_topics(
            wanted, timeout_ms=timeout_ms, validate_only=validate_only
        )
    )


def new_topic(recorded: dict[str, Any]) -> NewTopic:
    assignments = recorded.get("assignments")
    return NewTopic(
        recorded["name"],
        recorded["num_partitions"],
        recorded["replication_factor"],
        [(index, tuple(brokers)) for index, brokers in assignments or ()],
        recorded.get("configs", {}),
    )


async def test_answers_are_those_of_apache_kafka(cluster: ControlledCluster) -> None:
    cluster.broker_id, cluster.validate_configs = 1, validate_topic_configs
    await cluster.start()
    await create(cluster, "old.one")
    for case in RECORDED:
        topics = [new_topic(topic) for topic in case["topics"]]
        results = await create(cluster, *topics)
        for topic, expected in zip(topics, case["answers"], strict=True):
            result = results[topic.name]
            code, message, partitions, replication_factor = expected
            assert result.code == code, case["case"]
            assert _same_text(result.message, message), case["case"]
            assert result.num_partitions == partitions, case["case"]
            assert result.replication_factor == replication_factor, case["case"]
            assert (result.topic_id == NO_TOPIC_ID) == (code != 0)


def _same_text(ours: str | None, theirs: str | None) -> bool:
    """Kafka adds to some texts what is true of it alone."""
    return ours == theirs or (theirs or "").startswith((ours or "-").rstrip("."))


async def test_a_made_topic_can_be_used_at_once(cluster: ControlledCluster) -> None:
    await cluster.start()
    results = await create(cluster, NewTopic("t", 3, 1, configs={"retention.ms": "5"}), "u")
    assert {result.code for result in results.values()} == {ErrorCode.NONE}
    image = cluster.broker.metadata.image
    assert list(image.topics) == ["t", "u"]
    assert [part.leader for part in image.topics["t"].partitions] == [0, 0, 0]
    assert image.topics["t"].topic_id == results["t"].topic_id
    assert image.names_by_id[results["u"].topic_id] == "u"
    assert sorted(cluster.broker.replicas) == [("t", 0), ("t", 1), ("t", 2), ("u", 0)]
    assert all(state.is_new for state in cluster.broker.replicas.values())
    config = (await cluster.session.get("/config/topics/t")).data
    assert paths.decode_config(config) == {"retention.ms": "5"}


async def test_validate_only_changes_nothing(cluster: ControlledCluster) -> None:
    await cluster.start()
    before = await all_nodes(cluster.session), len(cluster.broker.requests)
    results = await create(cluster, NewTopic("t", 3, 1), "a b", validate_only=True)
    code, message, topic_id, *counts = results["t"]
    assert (code, message, counts) == (ErrorCode.NONE, None, [3, 1])
    assert topic_id != NO_TOPIC_ID, "of nobody, as in Apache Kafka"
    assert results["a b"].code is ErrorCode.INVALID_TOPIC_EXCEPTION
    await cluster.controller.settled()
    assert (await all_nodes(cluster.session), len(cluster.broker.requests)) == before


async def test_an_answer_that_takes_too_long_says_so(cluster: ControlledCluster) -> None:
    await cluster.start()
    cluster.broker.gate.clear()
    creating = asyncio.ensure_future(create(cluster, "t", timeout_ms=500))
    await cluster.tasks.advance(499)
    assert not creating.done()
    await cluster.tasks.advance(1)
    result = creating.result()["t"]
    assert (result.code, result.num_partitions) == (ErrorCode.REQUEST_TIMED_OUT, -1)
    assert (await create(cluster, "t"))["t"].code is ErrorCode.TOPIC_ALREADY_EXISTS
    cluster.broker.gate.set()
    await cluster.controller.settled()
    assert cluster.broker.metadata.image.topics["t"].topic_id == result.topic_id


async def test_timers_and_waiters_are_gone_with_the_answer(cluster: ControlledCluster) -> None:
    await cluster.start()
    await create(cluster, "t")
    await cluster.controller.delete_topics(["t"], 1000)
    assert cluster.tasks.pending_timers == 0


async def test_a_client_that_goes_away_leaves_nothing_behind(cluster: ControlledCluster) -> None:
    await cluster.start()
    cluster.broker.gate.clear()
    creating = asyncio.ensure_future(create(cluster, "a.b"))
    await settle()
    creating.cancel()
    await settle()
    assert cluster.tasks.pending_timers == 0
    cluster.broker.gate.set()
    await cluster.controller.settled()
    await cluster.controller.delete_topics(["a.b"], 1000)
    assert (await create(cluster, "a.b"))["a.b"].code is ErrorCode.NONE


async def test_topics_of_requests_at_once_are_told_apart(cluster: ControlledCluster) -> None:
    await cluster.start()
    answers = await asyncio.gather(
        *(create(cluster, name) for name in ("t", "t", "a.b", "a_b", "u"))
    )
    codes = [result.code for answer in answers for result in answer.values()]
    assert codes == [
        ErrorCode.NONE,
        ErrorCode.TOPIC_ALREADY_EXISTS,
        ErrorCode.NONE,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.NONE,
    ]


async def test_settings_left_by_another_are_replaced(cluster: ControlledCluster) -> None:
    await cluster.start()
    await cluster.session.create("/config/topics/t", paths.encode_config({"old": "x"}))
    assert (await create(cluster, "t"))["t"].code is ErrorCode.NONE
    assert paths.decode_config((await cluster.session.get("/config/topics/t")).data) == {}


async def test_a_topic_made_by_others_meanwhile_exists(cluster: ControlledCluster) -> None:
    await cluster.start()
    cluster.broker.gate.clear()
    creating = asyncio.ensure_future(create(cluster, "other"))
    await settle()
    topic = paths.TopicAssignment(None, {0: (0,)}, {}, {})
    making = cluster.session.create("/brokers/topics/t", paths.encode_topic(topic))
    result = (await create(cluster, "t"))["t"]
    assert result.code is ErrorCode.TOPIC_ALREADY_EXISTS
    assert result.message == "Topic 't' already exists."
    await making
    cluster.broker.gate.set()
    assert (await creating)["other"].code is ErrorCode.NONE


async def test_delete_removes_replicas_nodes_and_metadata(cluster: ControlledCluster) -> None:
    await cluster.start()
    before = list(await all_nodes(cluster.session))
    await create(cluster, NewTopic("t", 3, 1))
    codes = await cluster.controller.delete_topics(["t", "missing", "t"], 1000)
    assert codes == {"t": ErrorCode.NONE, "missing": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert cluster.broker.replicas == {}
    assert cluster.broker.metadata.image.topics == {}
    assert cluster.broker.metadata.image.names_by_id == {}
    assert list(await all_nodes(cluster.session)) == before


async def test_a_deleted_name_can_be_used_again(cluster: ControlledCluster) -> None:
    await cluster.start()
    first = (await create(cluster, "t"))["t"]
    await cluster.controller.delete_topics(["t"], 1000)
    second = (await create(cluster, NewTopic("t", 2, 1)))["t"]
    assert second.code is ErrorCode.NONE and second.topic_id != first.topic_id
    assert len(cluster.broker.metadata.image.topics["t"].partitions) == 2


async def test_a_deletion_that_takes_too_long_goes_on(cluster: ControlledCluster) -> None:
    await cluster.start()
    await create(cluster, "t")
    cluster.broker.gate.clear()
    deleting = asyncio.ensure_future(cluster.controller.delete_topics(["t", "missing"], 5))
    await cluster.tasks.advance(5)
    codes = await deleting
    assert codes["t"] is ErrorCode.REQUEST_TIMED_OUT
    assert codes["missing"] is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    cluster.broker.gate.set()
    await cluster.controller.settled()
    assert await cluster.session.exists("/brokers/topics/t") is None


async def test_a_topic_being_deleted(cluster: ControlledCluster) -> None:
    """It exists until it is gone, and a second deletion waits for the first."""
    await cluster.start()
    await create(cluster, "t")
    cluster.broker.gate.clear()
    first = asyncio.ensure_future(cluster.controller.delete_topics(["t"], 1000))
    await settle()
    second = asyncio.ensure_future(cluster.controller.delete_topics(["t"], 1000))
    assert (await create(cluster, "t"))["t"].code is ErrorCode.TOPIC_ALREADY_EXISTS
    assert not first.done() and not second.done()
    cluster.broker.gate.set()
    assert await first == await second == {"t": ErrorCode.NONE}


async def test_a_replica_that_cannot_be_deleted_keeps_the_topic(cluster: ControlledCluster) -> None:
    await cluster.start()
    await create(cluster, "t")
    cluster.broker.errors[TopicPartition("t", 0)] = ErrorCode.KAFKA_STORAGE_ERROR
    deleting = asyncio.ensure_future(cluster.controller.delete_topics(["t"], 1000))
    await cluster.tasks.advance(1000)
    assert deleting.result() == {"t": ErrorCode.REQUEST_TIMED_OUT}
    assert await cluster.session.exists("/brokers/topics/t") is not None
    assert await cluster.session.exists("/admin/delete_topics/t") is not None


@pytest.mark.parametrize("op", ["pwrite", "sync"])
async def test_a_disk_that_fails_is_no_success(cluster: ControlledCluster, op: str) -> None:
    await cluster.start()
    cluster.fs.faults.append(Fault(op, storage.LOG_NAME))
    result = (await create(cluster, "t"))["t"]
    assert result.code is not ErrorCode.NONE
    await settle()
    assert not cluster.controller.is_active
    assert (await create(cluster, "u"))["u"].code is ErrorCode.NOT_CONTROLLER
    assert await cluster.controller.delete_topics(["u"], 1000) == {"u": ErrorCode.NOT_CONTROLLER}
