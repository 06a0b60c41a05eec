"""CreatePartitions that race with each other and with deletions, or meet a failing disk. Scenarios:
partition_requests.txt."""

from __future__ import annotations

import asyncio

import pytest

from kavka.log.memfs import Fault
from kavka.server.controller.partition_validation import NewPartitions
from kavka.server.controller.topic_validation import PARTITIONS_PER_REQUEST_MAX, NewTopic
from kavka.wire.errors import ErrorCode
from kavka.zktree import storage
from kavka.zktree.api import ConnectionLost
from support.controlled_broker import ControlledCluster
from support.embedded_coordination import all_nodes
from support.virtual import run_until_idle


async def extend(
    cluster: ControlledCluster, *topics: tuple[str, int], validate_only: bool = False
) -> dict[str, ErrorCode]:
    results = await cluster.controller.create_partitions(
        [NewPartitions(*topic) for topic in topics], timeout_ms=60_000, validate_only=validate_only
    )
    return {
        name: ErrorCode.NONE if error is None else error.code for name, error in results.items()
    }


async def test_concurrent_requests_end_with_the_largest_count(
    cluster: ControlledCluster,
) -> None:
    await cluster.start(NewTopic("t", 1, 1))
    answers = await asyncio.gather(*(extend(cluster, ("t", count)) for count in (3, 5, 5, 4)))
    for count, answer in zip((3, 5, 5, 4), answers, strict=True):
        assert answer["t"] in (ErrorCode.NONE, ErrorCode.INVALID_PARTITIONS), count
    assert ErrorCode.NONE in (answers[1]["t"], answers[2]["t"])
    partitions = cluster.broker.metadata.image.topics["t"].partitions
    assert [(partition.partition, partition.leader) for partition in partitions] == [
        (n, 0) for n in range(5)
    ]


async def test_the_partitions_of_one_request_are_bounded(cluster: ControlledCluster) -> None:
    await cluster.start(*(NewTopic(name, 1, 1) for name in "tuv"))
    results = await extend(
        cluster,
        ("t", 2**31 - 1),
        ("u", PARTITIONS_PER_REQUEST_MAX + 1),
        ("v", 2),
        validate_only=True,
    )
    assert results == {
        "t": ErrorCode.POLICY_VIOLATION,
        "u": ErrorCode.NONE,
        "v": ErrorCode.POLICY_VIOLATION,
    }


@pytest.mark.parametrize("turns", range(0, 20, 2))
async def test_a_deletion_during_the_request(cluster: ControlledCluster, turns: int) -> None:
    """In any order, the topic is deleted with all its partitions, and both requests complete."""
    await cluster.start()
    before = list(await all_nodes(cluster.session))
    await cluster.controller.create_topics(
        [NewTopic("t", 1, 1)], timeout_ms=1000, validate_only=False
    )
    extending = asyncio.ensure_future(extend(cluster, ("t", 3)))
    await run_until_idle(turns)
    assert await cluster.controller.delete_topics(["t"], 1000) == {"t": ErrorCode.NONE}
    assert (await extending)["t"] in (
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    )
    await cluster.controller.wait_until_idle()
    assert cluster.broker.replicas == {}
    assert list(await all_nodes(cluster.session)) == before


@pytest.mark.parametrize("op", ["pwrite", "sync"])
async def test_a_failing_disk_fails_the_request(cluster: ControlledCluster, op: str) -> None:
    await cluster.start(NewTopic("t", 1, 1))
    cluster.fs.faults.append(Fault(op, storage.LOG_NAME))
    assert (await extend(cluster, ("t", 2)))["t"] is not ErrorCode.NONE
    await run_until_idle()
    assert not cluster.controller.is_active


async def test_a_session_that_ends_during_the_read_fails_the_request(
    cluster: ControlledCluster,
) -> None:
    await cluster.start(NewTopic("t", 1, 1))
    cluster.fs.faults.append(Fault("sync", storage.LOG_NAME))
    lost = cluster.session.create("/before")  # which the read waits for
    assert await extend(cluster, ("t", 2)) == {"t": ErrorCode.REQUEST_TIMED_OUT}
    with pytest.raises(ConnectionLost):
        await lost
