"""Requests about partitions, from the client's question to the answer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kavka.log.memfs import Fault
from kavka.server.cluster.control_messages import TopicPartition
from kavka.server.controller.partition_validation import NewPartitions
from kavka.server.controller.topic_validation import PARTITIONS_PER_REQUEST_MAX, NewTopic
from kavka.wire.errors import ApiError, ErrorCode
from kavka.zktree import paths, storage
from support.controlled_broker import ControlledCluster
from support.embedded_coordination import all_nodes
from support.virtual import settle


async def extend(
    cluster: ControlledCluster,
    *topics: tuple[str, int] | NewPartitions,
    timeout_ms: int = 1000,
    validate_only: bool = False,
) -> dict[str, ErrorCode]:
    wanted = [NewPartitions(*topic) if isinstance(topic, tuple) else topic for topic in topics]
    results = await cluster.controller.create_partitions(
        wanted, timeout_ms=timeout_ms, validate_only=validate_only
    )
    return codes(results)


def codes(results: Any) -> dict[Any, ErrorCode]:
    return {key: ErrorCode.NONE if error is None else error.code for key, error in results.items()}


def count(cluster: ControlledCluster, name: str = "t") -> int:
    """The partitions that clients are told of, each with its leader."""
    partitions = cluster.broker.metadata.image.topics[name].partitions
    assert [partition.leader for partition in partitions] == [0] * len(partitions)
    assert [partition.partition for partition in partitions] == list(range(len(partitions)))
    return len(partitions)


async def test_new_partitions_can_be_used_at_once(cluster: ControlledCluster) -> None:
    await cluster.start(NewTopic("t", 1, 1), NewTopic("u", 1, 1))
    before = cluster.broker.metadata.image.topics["t"]
    assert await extend(cluster, ("t", 3), ("u", 9)) == {
        "t": ErrorCode.NONE,
        "u": ErrorCode.NONE,
    }
    assert (count(cluster), count(cluster, "u")) == (3, 9)
    assert cluster.broker.metadata.image.topics["t"].topic_id == before.topic_id
    assert cluster.broker.replicas[TopicPartition("t", 2)].is_new
    assert cluster.broker.metadata.image.topics["t"].partitions[0] == before.partitions[0]
    stored = paths.decode_topic((await cluster.session.get("/brokers/topics/t")).data)
    assert stored.topic_id == before.topic_id
    assert stored.replicas == {index: (0,) for index in range(3)}


async def test_they_are_there_after_a_restart(cluster: ControlledCluster) -> None:
    await cluster.start(NewTopic("t", 1, 1))
    await extend(cluster, ("t", 4))
    await cluster.stop()
    await cluster.start()
    assert count(cluster) == 4
    assert await extend(cluster, ("t", 6)) == {"t": ErrorCode.NONE}
    assert count(cluster) == 6


async def test_validate_only_changes_nothing(cluster: ControlledCluster) -> None:
    await cluster.start(NewTopic("t", 1, 1), NewTopic("u", 1, 1))
    before = await all_nodes(cluster.session)
    results = await extend(cluster, ("t", 3), ("no", 3), ("u", 1), validate_only=True)
    assert results == {
        "t": ErrorCode.NONE,
        "no": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "u": ErrorCode.INVALID_PARTITIONS,
    }
    await cluster.controller.settled()
    assert await all_nodes(cluster.session) == before


async def test_one_refusal_does_not_stop_the_others(cluster: ControlledCluster) -> None:
    await cluster.start(NewTopic("t", 1, 1), NewTopic("u", 1, 1))
    wrong = NewPartitions("u", 2, [(7,)])
    results = await extend(cluster, wrong, ("a b", 3), ("t", 3))
    assert results == {
        "u": ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        "a b": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "t": ErrorCode.NONE,
    }
    assert (count(cluster), count(cluster, "u")) == (3, 1)


async def test_requests_at_once_end_with_the_most_that_was_asked_for(
    cluster: ControlledCluster,
) -> None:
    await cluster.start(NewTopic("t", 1, 1))
    answers = await asyncio.gather(*(extend(cluster, ("t", wanted)) for wanted in (3, 5, 5, 4)))
    for wanted, answer in zip((3, 5, 5, 4), answers, strict=True):
        assert answer["t"] in (ErrorCode.NONE, ErrorCode.INVALID_PARTITIONS), wanted
    assert ErrorCode.NONE in (answers[1]["t"], answers[2]["t"])
    assert count(cluster) == 5


async def test_one_request_may_not_make_too_many(cluster: ControlledCluster) -> None:
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


async def test_an_answer_that_takes_too_long_says_so(cluster: ControlledCluster) -> None:
    await cluster.start(NewTopic("t", 1, 1))
    cluster.broker.gate.clear()
    extending = asyncio.ensure_future(extend(cluster, ("t", 2), timeout_ms=500))
    await cluster.tasks.advance(499)
    assert not extending.done()
    await cluster.tasks.advance(1)
    assert await extending == {"t": ErrorCode.REQUEST_TIMED_OUT}
    cluster.broker.gate.set()
    await cluster.controller.settled()
    assert count(cluster) == 2, "they come all the same"


async def test_a_topic_that_is_being_deleted(cluster: ControlledCluster) -> None:
    await cluster.start(NewTopic("t", 1, 1))
    cluster.broker.gate.clear()
    deleting = asyncio.ensure_future(cluster.controller.delete_topics(["t"], 1000))
    await settle()
    assert await extend(cluster, ("t", 2)) == {"t": ErrorCode.INVALID_TOPIC_EXCEPTION}
    cluster.broker.gate.set()
    assert await deleting == {"t": ErrorCode.NONE}
    assert await extend(cluster, ("t", 2)) == {"t": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


@pytest.mark.parametrize("turns", range(0, 20, 2))
async def test_a_deletion_that_comes_across(cluster: ControlledCluster, turns: int) -> None:
    """Whoever is first, the topic is gone with all of its partitions, and nobody waits forever."""
    await cluster.start()
    before = list(await all_nodes(cluster.session))
    await cluster.controller.create_topics(
        [NewTopic("t", 1, 1)], timeout_ms=1000, validate_only=False
    )
    extending = asyncio.ensure_future(extend(cluster, ("t", 3), timeout_ms=60_000))
    await settle(turns)
    assert await cluster.controller.delete_topics(["t"], 1000) == {"t": ErrorCode.NONE}
    assert (await extending)["t"] in (
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    )
    await cluster.controller.settled()
    assert cluster.broker.replicas == {}
    assert list(await all_nodes(cluster.session)) == before


async def test_not_on_a_broker_that_is_no_controller(cluster: ControlledCluster) -> None:
    await cluster.start(NewTopic("t", 1, 1))
    cluster.controller.close()
    assert await extend(cluster, ("t", 2)) == {"t": ErrorCode.NOT_CONTROLLER}
    for ask in (
        lambda: cluster.controller.elect_leaders(None, unclean=False, timeout_ms=1),
        lambda: asyncio.sleep(0, cluster.controller.reassign([])),
        lambda: asyncio.sleep(0, cluster.controller.reassignments(None)),
    ):
        with pytest.raises(ApiError) as refusal:
            await ask()
        assert refusal.value.code is ErrorCode.NOT_CONTROLLER


@pytest.mark.parametrize("op", ["pwrite", "sync"])
async def test_a_disk_that_fails_is_no_success(cluster: ControlledCluster, op: str) -> None:
    await cluster.start(NewTopic("t", 1, 1))
    cluster.fs.faults.append(Fault(op, storage.LOG_NAME))
    assert (await extend(cluster, ("t", 2)))["t"] is not ErrorCode.NONE
    await settle()
    assert not cluster.controller.is_active


# -- elections ------------------------------------------------------------------------------

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


async def elect(
    cluster: ControlledCluster, *asked: TopicPartition, unclean: bool = False
) -> dict[TopicPartition, ErrorCode]:
    results = await cluster.controller.elect_leaders(
        asked or None, unclean=unclean, timeout_ms=1000
    )
    return codes(results)


@pytest.mark.parametrize("unclean", [False, True])
async def test_the_right_leaders_stay(cluster: ControlledCluster, unclean: bool) -> None:
    await cluster.start(NewTopic("t", 2, 1))
    told = len(cluster.broker.requests)
    everything = await elect(cluster, unclean=unclean)
    assert everything == dict.fromkeys([T0, T1], ErrorCode.ELECTION_NOT_NEEDED)
    some = await elect(cluster, T1, TopicPartition("no", 0), T1, unclean=unclean)
    assert some == {
        T1: ErrorCode.ELECTION_NOT_NEEDED,
        TopicPartition("no", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert len(cluster.broker.requests) == told


async def lose_leader(cluster: ControlledCluster, tp: TopicPartition) -> None:
    """Broker 9, the only in-sync replica, has failed: broker 0 can only lead after an unclean
    election. As another controller would have left it in the tree."""
    session, path = cluster.session, paths.partition_state(*tp)
    state = paths.decode_partition_state((await session.get(path)).data)
    state = state._replace(leader=-1, isr=(9,))
    await session.set(path, paths.encode_partition_state(state))
    topic = paths.decode_topic((await session.get(paths.topic(tp.topic))).data)
    topic.replicas[tp.partition] = (0, 9)  # type: ignore[index]
    await session.set(paths.topic(tp.topic), paths.encode_topic(topic))
    await cluster.idle()


async def test_the_answer_comes_when_clients_are_told_the_new_leader(
    cluster: ControlledCluster,
) -> None:
    await cluster.start(NewTopic("t", 2, 1))
    await lose_leader(cluster, T0)
    clean = await elect(cluster, T0)
    assert clean == {T0: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}
    cluster.broker.gate.clear()
    electing = asyncio.ensure_future(elect(cluster, T0, T1, unclean=True))
    await settle()
    assert not electing.done()
    cluster.broker.gate.set()
    assert await electing == {T0: ErrorCode.NONE, T1: ErrorCode.ELECTION_NOT_NEEDED}
    (partition, _) = cluster.broker.metadata.image.topics["t"].partitions
    assert (partition.leader, partition.isr, partition.leader_epoch) == (0, (0,), 1)
    assert cluster.broker.replicas[T0].leader_recovery_state == 1


async def test_an_election_that_takes_too_long(cluster: ControlledCluster) -> None:
    await cluster.start(NewTopic("t", 1, 1))
    await lose_leader(cluster, T0)
    cluster.broker.gate.clear()
    electing = asyncio.ensure_future(elect(cluster, unclean=True))
    await cluster.tasks.advance(1000)
    assert (await electing)[T0] is ErrorCode.REQUEST_TIMED_OUT
    cluster.broker.gate.set()
    await cluster.controller.settled()
    assert cluster.broker.metadata.image.topics["t"].partitions[0].leader == 0
