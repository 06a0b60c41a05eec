"""ElectLeaders: codes and texts of Apache Kafka 4.3.1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kavka.compat_tests.raw.codec.batches import build
from kavka.wire.apis.elect_leaders import PREFERRED, UNCLEAN
from kavka.wire.errors import ErrorCode as Code
from support.memory_broker import MemoryBroker, scenario

NOT_NEEDED = "Leader election not needed for topic partition."

Outcome = list[tuple[str, list[tuple[int, Code, str | None]]]]


async def elect(
    broker: MemoryBroker,
    requested: Sequence[tuple[str, Sequence[int]]] | None,
    *,
    version: int = 2,
    kind: int = PREFERRED,
    timeout_ms: int = 5000,
) -> tuple[Code, Outcome]:
    """The code at the top, and the results of partitions."""
    topics = None
    if requested is not None:
        topics = [{"topic": name, "partitions": list(indexes)} for name, indexes in requested]
    values: dict[str, Any] = {"topic_partitions": topics, "timeout_ms": timeout_ms}
    if version >= 1:
        values["election_type"] = kind
    answer = await broker.ask("ElectLeaders", version, **values)
    received = [
        (
            topic.topic,
            [
                (partition.partition_id, Code(partition.error_code), partition.error_message)
                for partition in topic.partition_result
            ],
        )
        for topic in answer.replica_election_results
    ]
    return Code(answer.error_code if version >= 1 else 0), received


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
