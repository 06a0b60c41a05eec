"""AlterPartitionReassignments: codes and texts of Apache Kafka 4.3.1 on one node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kavka.server.auth.authorizer import Operation
from kavka.server.handlers import alter_partition_reassignments
from kavka.wire.apis.alter_partition_reassignments import API
from kavka.wire.errors import ErrorCode as Code
from support.denied import Denied
from support.memory_broker import MemoryBroker, scenario

VERSIONS = range(API.lowest, API.highest + 1)

Asked = Sequence[tuple[str, Sequence[tuple[int, Sequence[int] | None]]]]


async def alter(
    broker: MemoryBroker, asked: Asked, *, version: int = 1, timeout_ms: int = 5000, **more: Any
) -> Any:
    topics = [
        {
            "name": name,
            "partitions": [
                {"partition_index": index, "replicas": replicas and list(replicas)}
                if replicas != ()
                else {"partition_index": index, "replicas": []}
                for index, replicas in partitions
            ],
        }
        for name, partitions in asked
    ]
    return await broker.ask(
        "AlterPartitionReassignments", version, timeout_ms=timeout_ms, topics=topics, **more
    )


def received(answer: Any) -> list[tuple[str, list[tuple[int, Code, str | None]]]]:
    return [
        (
            topic.name,
            [
                (one.partition_index, Code(one.error_code), one.error_message)
                for one in topic.partitions
            ],
        )
        for topic in answer.responses
    ]


@pytest.mark.parametrize("version", VERSIONS)
@scenario(topics={"t": 2})
async def test_what_one_broker_can_do(broker: MemoryBroker, version: int) -> None:
    asked: Asked = [
        ("t", [(0, [1]), (1, [1, 2]), (0, None), (0, ()), (0, [1, 1])]),
        ("no", [(0, [1])]),
        ("t", [(9, [1]), (0, [1])]),
    ]
    answer = await alter(broker, asked, version=version)
    assert (answer.error_code, answer.error_message) == (Code.NONE, None)
    wrong, includes = Code.INVALID_REPLICA_ASSIGNMENT, "The manual partition assignment includes"
    unknown = Code.UNKNOWN_TOPIC_OR_PARTITION
    assert received(answer) == [
        (
            "t",
            [
                (0, Code.NONE, None),
                (1, wrong, f"{includes} broker 2, but no such broker is registered."),
                (0, Code.NO_REASSIGNMENT_IN_PROGRESS, None),
                (0, wrong, f"{includes} an empty replica list."),
                (0, wrong, f"{includes} the broker 1 more than once."),
            ],
        ),
        ("no", [(0, unknown, "Unable to find a topic named no.")]),
        ("t", [(9, unknown, "Unable to find partition t:9."), (0, Code.NONE, None)]),
    ]


@pytest.mark.parametrize("allow", [True, False])
@scenario(topics={"t": 1})
async def test_the_number_of_replicas_may_be_protected(broker: MemoryBroker, allow: bool) -> None:
    answer = await alter(broker, [("t", [(0, [1])])], allow_replication_factor_change=allow)
    assert answer.allow_replication_factor_change is allow
    assert received(answer) == [("t", [(0, Code.NONE, None)])]


@pytest.mark.parametrize("version", VERSIONS)
@scenario(topics={"t": 1})
async def test_about_nothing(broker: MemoryBroker, version: int) -> None:
    answer = await alter(broker, [], version=version, timeout_ms=0)
    assert (answer.error_code, answer.error_message, answer.responses) == (Code.NONE, "", [])
    answer = await alter(broker, [("t", [])], version=version)
    assert (answer.error_code, answer.error_message) == (Code.NONE, None)
    assert received(answer) == [("t", [])]


@pytest.mark.parametrize("timeout_ms", [0, -1])
@scenario(topics={"t": 1})
async def test_without_time(broker: MemoryBroker, timeout_ms: int) -> None:
    answer = await alter(broker, [("t", [(0, [1])]), ("no", [])], timeout_ms=timeout_ms)
    assert answer.error_code == Code.REQUEST_TIMED_OUT
    assert received(answer) == [("t", [(0, Code.REQUEST_TIMED_OUT, None)]), ("no", [])]


@scenario(topics={"t": 1})
async def test_who_may_not(broker: MemoryBroker) -> None:
    broker.parts.authorizer = Denied(Operation.ALTER)
    answer = await alter(broker, [("t", [(0, [1])])])
    assert answer.error_code == Code.CLUSTER_AUTHORIZATION_FAILED


@scenario(topics={"t": 1})
async def test_only_the_controller_does_it(broker: MemoryBroker) -> None:
    broker.parts.controller.close()
    answer = await alter(broker, [("t", [(0, [1])])])
    assert answer.error_code == Code.NOT_CONTROLLER


@scenario(topics={"t": 5})
async def test_many_are_looked_at_in_slices(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alter_partition_reassignments, "PARTITIONS_A_SLICE", 2)
    lengths: list[int] = []
    whole = broker.parts.controller.reassign

    def counted(targets: Sequence[Any]) -> Any:
        lengths.append(len(targets))
        return whole(targets)

    monkeypatch.setattr(broker.parts.controller, "reassign", counted)
    asked: Asked = [("t", [(index, [1 + index % 2]) for index in range(5)])]
    ((_, partitions),) = received(await alter(broker, asked))
    wrong = Code.INVALID_REPLICA_ASSIGNMENT
    assert [code for _, code, _ in partitions] == [Code.NONE, wrong, Code.NONE, wrong, Code.NONE]
    assert lengths == [2, 2, 1]
