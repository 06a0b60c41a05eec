"""CreateTopics compared with Apache Kafka's responses, races, and a failing disk. Scenarios:
topic_requests.txt."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from kavka.log.memfs import Fault
from kavka.server.cluster.control_messages import NO_TOPIC_ID
from kavka.server.config import validate_topic_configs
from kavka.server.controller.topic_validation import NewTopic, TopicResult
from kavka.wire.errors import ErrorCode
from kavka.zktree import paths, storage
from support.controlled_broker import ControlledCluster
from support.virtual import run_until_idle

RECORDED = json.loads(Path(__file__).with_name("kafka43_create_topics.json").read_text())["cases"]


async def create(
    cluster: ControlledCluster,
    *topics: NewTopic | str,
    timeout_ms: int = 1000,
    validate_only: bool = False,
) -> dict[str, TopicResult]:
    new_topics = [NewTopic(topic, 1, 1) if isinstance(topic, str) else topic for topic in topics]
    return dict(
        await cluster.controller.create_topics(
            new_topics, timeout_ms=timeout_ms, validate_only=validate_only
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


async def test_responses_are_those_of_apache_kafka(cluster: ControlledCluster) -> None:
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
    """Kafka adds something to some texts that holds for Kafka only."""
    return ours == theirs or (theirs or "").startswith((ours or "-").rstrip("."))


async def test_concurrent_requests_do_not_create_colliding_topics(
    cluster: ControlledCluster,
) -> None:
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


async def test_a_topic_that_another_process_creates_meanwhile_exists(
    cluster: ControlledCluster,
) -> None:
    await cluster.start()
    cluster.broker.gate.clear()
    creating = asyncio.ensure_future(create(cluster, "other"))
    await run_until_idle()
    topic = paths.TopicAssignment(None, {0: (0,)}, {}, {})
    making = cluster.session.create("/brokers/topics/t", paths.encode_topic(topic))
    result = (await create(cluster, "t"))["t"]
    assert result.code is ErrorCode.TOPIC_ALREADY_EXISTS
    assert result.message == "Topic 't' already exists."
    await making
    cluster.broker.gate.set()
    assert (await creating)["other"].code is ErrorCode.NONE


async def test_a_topic_does_not_exist_before_its_creation_has_succeeded(
    cluster: ControlledCluster,
) -> None:
    """A client that asks again while its first request waits must not be refused."""
    await cluster.start()
    cluster.fs.faults.append(Fault("sync", storage.LOG_NAME))
    answers = await asyncio.gather(create(cluster, "t"), create(cluster, "t"))
    assert all(answer["t"].code is not ErrorCode.TOPIC_ALREADY_EXISTS for answer in answers)
    assert all(answer["t"].code is not ErrorCode.NONE for answer in answers)


@pytest.mark.parametrize("op", ["pwrite", "sync"])
async def test_a_failing_disk_fails_the_request(cluster: ControlledCluster, op: str) -> None:
    await cluster.start()
    cluster.fs.faults.append(Fault(op, storage.LOG_NAME))
    result = (await create(cluster, "t"))["t"]
    assert result.code is not ErrorCode.NONE
    await run_until_idle()
    assert not cluster.controller.is_active
    assert (await create(cluster, "u"))["u"].code is ErrorCode.NOT_CONTROLLER
    assert await cluster.controller.delete_topics(["u"], 1000) == {"u": ErrorCode.NOT_CONTROLLER}
