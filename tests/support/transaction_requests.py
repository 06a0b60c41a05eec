"""What producers ask of the transaction coordinator, request by request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from support.memory_broker import MemoryBroker
from support.memory_network import Client

ID = "tx"
TRANSACTION_KEY = 1


class Producer(NamedTuple):
    """An id and an epoch."""

    id: int = -1
    epoch: int = -1


async def find(broker: MemoryBroker, *transactional_ids: str) -> None:
    """Have the topic made."""
    keys = transactional_ids or (ID,)
    answer = await broker.ask(
        "FindCoordinator", 6, key_type=TRANSACTION_KEY, coordinator_keys=list(keys)
    )
    assert [coordinator.error_code for coordinator in answer.coordinators] == [0] * len(keys)


async def init(
    on: MemoryBroker | Client,
    transactional_id: str | None = ID,
    was: Producer = Producer(),  # noqa: B008 - immutable
    *,
    version: int = 5,
    timeout_ms: int = 60_000,
) -> Any:
    """InitProducerId."""
    return await on.ask(
        "InitProducerId",
        version,
        transactional_id=transactional_id,
        transaction_timeout_ms=timeout_ms,
        producer_id=was.id,
        producer_epoch=was.epoch,
    )


async def begun(broker: MemoryBroker, transactional_id: str = ID, **values: Any) -> Producer:
    """The producer that InitProducerId gives."""
    answer = await init(broker, transactional_id, **values)
    assert answer.error_code == 0, answer
    return Producer(answer.producer_id, answer.producer_epoch)


def adding(
    producer: Producer, topics: Mapping[str, Sequence[int]], transactional_id: str = ID
) -> dict[str, Any]:
    """AddPartitionsToTxn of a client."""
    return {
        "v3_and_below_transactional_id": transactional_id,
        "v3_and_below_producer_id": producer.id,
        "v3_and_below_producer_epoch": producer.epoch,
        "v3_and_below_topics": _topics(topics),
    }


def asked_by_broker(
    producer: Producer,
    topics: Mapping[str, Sequence[int]],
    transactional_id: str = ID,
    *,
    verify_only: bool = False,
) -> dict[str, Any]:
    """One transaction in the AddPartitionsToTxn of a broker."""
    return {
        "transactional_id": transactional_id,
        "producer_id": producer.id,
        "producer_epoch": producer.epoch,
        "verify_only": verify_only,
        "topics": _topics(topics),
    }


def _topics(topics: Mapping[str, Sequence[int]]) -> list[dict[str, Any]]:
    return [{"name": name, "partitions": list(indexes)} for name, indexes in topics.items()]


async def add(
    broker: MemoryBroker,
    producer: Producer,
    topics: Mapping[str, Sequence[int]],
    transactional_id: str = ID,
    *,
    version: int = 3,
) -> dict[tuple[str, int], int]:
    """Code by topic and partition."""
    values = adding(producer, topics, transactional_id)
    answer = await broker.ask("AddPartitionsToTxn", version, **values)
    return codes(answer.results_by_topic_v3_and_below)


def codes(topics: Sequence[Any]) -> dict[tuple[str, int], int]:
    """Code by topic and partition."""
    return {
        (topic.name, partition.partition_index): partition.partition_error_code
        for topic in topics
        for partition in topic.results_by_partition
    }


async def end(
    broker: MemoryBroker,
    producer: Producer,
    transactional_id: str = ID,
    *,
    version: int = 4,
    committed: bool = True,
) -> Any:
    """EndTxn."""
    return await broker.ask(
        "EndTxn",
        version,
        transactional_id=transactional_id,
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        committed=committed,
    )


async def described(broker: MemoryBroker, *transactional_ids: str) -> Any:
    """The description of one id, or of each of several."""
    answer = await broker.ask(
        "DescribeTransactions", 0, transactional_ids=list(transactional_ids or (ID,))
    )
    states = answer.transaction_states
    return states if transactional_ids[1:] else states[0]
