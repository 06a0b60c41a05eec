"""ElectLeaders: codes and texts of Apache Kafka 4.3.1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kavka.server.auth.authorizer import Operation
from kavka.wire.apis.elect_leaders import API, PREFERRED, UNCLEAN
from kavka.wire.errors import ErrorCode as Code
from support.batches import build
from support.denied import Denied
from support.memory_broker import MemoryBroker, scenario

VERSIONS = range(API.lowest, API.highest + 1)
NOT_NEEDED = "Leader election not needed for topic partition."

Told = list[tuple[str, list[tuple[int, Code, str | None]]]]


async def elect(
    broker: MemoryBroker,
    asked: Sequence[tuple[str, Sequence[int]]] | None,
    *,
    version: int = 2,
    kind: int = PREFERRED,
    timeout_ms: int = 5000,
) -> tuple[Code, Told]:
    """The code at the top, and what is told of partitions."""
    topics = None
    if asked is not None:
        topics = [{"topic": name, "partitions": list(indexes)} for name, indexes in asked]
    values: dict[str, Any] = {"topic_partitions": topics, "timeout_ms": timeout_ms}
    if version >= 1:
        values["election_type"] = kind
    answer = await broker.ask("ElectLeaders", version, **values)
    received = [
        (
            topic.topic,
            [(p.partition_id, Code(p.error_code), p.error_message) for p in topic.partition_result],
        )
        for topic in answer.replica_election_results
    ]
    return Code(answer.error_code if version >= 1 else 0), received


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", [PREFERRED, UNCLEAN])
@scenario(topics={"t": 2})
async def test_the_leaders_are_the_right_ones(
    broker: MemoryBroker, version: int, kind: int
) -> None:
    asked = [("t", [1, 7, 1]), ("no", [0]), ("t", [-1])]
    assert await elect(broker, asked, version=version, kind=kind) == (
        Code.NONE,
        [
            (
                "t",
                [
                    (1, Code.ELECTION_NOT_NEEDED, NOT_NEEDED),
                    (7, Code.UNKNOWN_TOPIC_OR_PARTITION, "No such partition as t-7"),
                    (1, Code.ELECTION_NOT_NEEDED, NOT_NEEDED),
                ],
            ),
            ("no", [(0, Code.UNKNOWN_TOPIC_OR_PARTITION, "No such topic as no")]),
            ("t", [(-1, Code.UNKNOWN_TOPIC_OR_PARTITION, "No such partition as t--1")]),
        ],
    )


@pytest.mark.parametrize("version", VERSIONS)
@scenario(topics={"t": 2, "u": 1})
async def test_of_all_partitions_those_with_the_right_leader_are_left_out(
    broker: MemoryBroker, version: int
) -> None:
    assert await elect(broker, None, version=version) == (Code.NONE, [("t", []), ("u", [])])
    for kind, timeout_ms in ((PREFERRED, 5000), (7, 0)):
        nothing = await elect(broker, [], version=version, kind=kind, timeout_ms=timeout_ms)
        assert nothing == (Code.NONE, [])


@scenario(topics={"t": 2, "u": 1})
async def test_without_its_log_no_replica_leads(broker: MemoryBroker) -> None:
    await broker.produce(build(), "t", 1)
    broker.fs.capacity_bytes = 0
    assert (await broker.produce(build(), "t", 1)).error_code == Code.KAFKA_STORAGE_ERROR
    broker.fs.capacity_bytes = None
    active = broker.parts.controller._active_controller
    assert active is not None
    partition = active.cluster.topics["t"].partitions[1]
    assert partition.state is not None
    partition.offline = (1,)
    partition.state = partition.state._replace(leader=-1)
    preferred = "The preferred leader was not available."
    eligible = "Eligible topic partition leaders are not available."
    assert await elect(broker, None) == (
        Code.NONE,
        [("t", [(1, Code.PREFERRED_LEADER_NOT_AVAILABLE, preferred)]), ("u", [])],
    )
    assert await elect(broker, [("t", [0, 1])], kind=UNCLEAN) == (
        Code.NONE,
        [
            (
                "t",
                [
                    (0, Code.ELECTION_NOT_NEEDED, NOT_NEEDED),
                    (1, Code.ELIGIBLE_LEADERS_NOT_AVAILABLE, eligible),
                ],
            )
        ],
    )


@pytest.mark.parametrize("kind", [2, 7, -1])
@scenario(topics={"t": 1})
async def test_a_kind_that_is_not_known(broker: MemoryBroker, kind: int) -> None:
    message = f"Unknown election type {kind}"
    assert await elect(broker, [("t", [0]), ("no", [])], kind=kind, version=1) == (
        Code.INVALID_REQUEST,
        [("t", [(0, Code.INVALID_REQUEST, message)]), ("no", [])],
    )
    assert await elect(broker, None, kind=kind) == (Code.INVALID_REQUEST, [])


@pytest.mark.parametrize("timeout_ms", [0, -1])
@scenario(topics={"t": 1})
async def test_without_time_nothing_is_begun(broker: MemoryBroker, timeout_ms: int) -> None:
    timed_out = Code.REQUEST_TIMED_OUT
    for kind in (PREFERRED, 7):
        assert await elect(broker, [("t", [0])], kind=kind, timeout_ms=timeout_ms) == (
            timed_out,
            [("t", [(0, timed_out, None)])],
        )
    assert await elect(broker, None, timeout_ms=timeout_ms) == (timed_out, [])


@scenario(topics={"t": 1})
async def test_who_may_not(broker: MemoryBroker) -> None:
    broker.parts.authorizer = Denied(Operation.ALTER)
    denied = Code.CLUSTER_AUTHORIZATION_FAILED
    assert await elect(broker, [("t", [0])]) == (denied, [("t", [(0, denied, None)])])


@scenario(topics={"t": 1})
async def test_only_the_controller_does_it(broker: MemoryBroker) -> None:
    broker.parts.controller.close()
    code, _ = await elect(broker, [("t", [0])])
    assert code is Code.NOT_CONTROLLER
