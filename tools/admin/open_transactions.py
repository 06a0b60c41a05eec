"""What brokers and coordinators tell of transactions (KIP-664), and which of them hang."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kavka.tools.admin.cluster_client import ClusterClient
from kavka.tools.admin.coordinators import Outcome, ask_coordinators
from kavka.tools.admin.errors import Failed
from kavka.tools.admin.java_errors import Refused
from kavka.tools.admin.java_order import long_order
from kavka.tools.admin.leaders import Leaders, TopicPartition, by_topic, leaders
from kavka.tools.admin.requests import (
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    ListTransactionsRequest,
    ProducersOfTopic,
)
from kavka.tools.progress import progress
from kavka.wire.apis import (
    describe_producers,
    describe_transactions,
    find_coordinator,
    list_transactions,
)
from kavka.wire.apis.describe_producers import ProducerState
from kavka.wire.apis.describe_transactions import TransactionState
from kavka.wire.errors import ErrorCode

WITHIN_S: Final = 60.0
"""How long coordinators may take to be there."""

PARTITIONS_MAX: Final = 500
"""Of one request for producers."""


class OpenTransaction(NamedTuple):
    """A transaction that a partition has not seen the end of."""

    topic_partition: TopicPartition
    producer: ProducerState


async def listed(
    cluster: ClusterClient, request: ListTransactionsRequest
) -> dict[int, Sequence[list_transactions.TransactionState]]:
    """What each broker coordinates. Failed."""
    refused = {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
    async for _ in cluster.attempts(WITHIN_S):
        ids = [broker.node_id for broker in cluster.brokers]
        requests = (
            cluster.ask_broker(broker_id, list_transactions.API, request) for broker_id in ids
        )
        answers = dict(zip(ids, await asyncio.gather(*requests), strict=True))
        refused = {ErrorCode(answer.error_code) for answer in answers.values() if answer.error_code}
        if not refused:
            return {broker_id: answer.transaction_states for broker_id, answer in answers.items()}
        if refused != {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}:
            break
    raise Refused(min(refused))


async def described(cluster: ClusterClient, ids: Iterable[str]) -> dict[str, Outcome]:
    """What the coordinators of transactional ids say of them: `result` is a TransactionState.
    Failed."""

    def states(response: Any) -> Iterable[tuple[str, int, str | None, TransactionState]]:
        found: Sequence[TransactionState] = response.transaction_states
        return ((state.transactional_id, state.error_code, None, state) for state in found)

    return await ask_coordinators(
        cluster,
        ids,
        describe_transactions.API,
        DescribeTransactionsRequest,
        states,
        within_s=WITHIN_S,
        kind=find_coordinator.TRANSACTION,
    )


def partitions(state: TransactionState) -> list[TopicPartition]:
    """Those that a transaction writes to, and that do not have its end yet."""
    return [(topic.topic, partition) for topic in state.topics for partition in topic.partitions]


async def producers(
    cluster: ClusterClient, topic_partitions: Sequence[TopicPartition], broker_id: int | None
) -> dict[TopicPartition, Sequence[ProducerState]]:
    """The active producers of partitions, by their leaders or by one broker. Refused, Failed."""
    led = Leaders({broker_id: topic_partitions}, {}) if broker_id is not None else None
    led = led or await leaders(cluster, topic_partitions)
    for code in led.refused.values():
        raise Refused(code)
    found: dict[TopicPartition, Sequence[ProducerState]] = {}
    for leader, some in led.led.items():
        request = DescribeProducersRequest(
            [ProducersOfTopic(*item) for item in by_topic(some).items()]
        )
        response = await cluster.ask_broker(leader, describe_producers.API, request)
        for topic in response.topics:
            for partition in topic.partitions:
                if partition.error_code:
                    raise Refused(partition.error_code, partition.error_message)
                found[topic.name, partition.partition_index] = partition.active_producers
    return found


async def long_open(
    cluster: ClusterClient,
    topic_partitions: Sequence[TopicPartition],
    broker_id: int | None,
    longer_than_ms: int,
) -> list[OpenTransaction]:
    """Transactions that have been open for longer than this. Refused, Failed."""
    found = []
    begins = range(0, len(topic_partitions), PARTITIONS_MAX)
    with progress("partitions asked", len(begins)) as step:
        for begin in begins:
            states = await producers(
                cluster, topic_partitions[begin : begin + PARTITIONS_MAX], broker_id
            )
            since_ms = cluster.now_ms() - longer_than_ms
            found += [
                OpenTransaction(topic_partition, producer)
                for topic_partition, active in states.items()
                for producer in active
                if producer.current_txn_start_offset >= 0 and producer.last_timestamp < since_ms
            ]
            step()
    return found


async def hanging(
    cluster: ClusterClient, candidates: Sequence[OpenTransaction]
) -> list[OpenTransaction]:
    """Those of them whose end no coordinator is going to write. Failed."""
    by_producer: defaultdict[int, list[OpenTransaction]] = defaultdict(list)
    for candidate in candidates:
        by_producer[candidate.producer.producer_id].append(candidate)
    if not by_producer:
        return []
    request = ListTransactionsRequest(producer_id_filters=list(by_producer))
    ids = {
        state.producer_id: state.transactional_id
        for states in (await listed(cluster, request)).values()
        for state in states
    }
    outcomes = await described(cluster, ids.values())
    expected = {producer_id: _expected(outcomes[name]) for producer_id, name in ids.items()}
    return _unexpected(by_producer, expected)


def _expected(outcome: Outcome) -> frozenset[TopicPartition]:
    """Where a coordinator is going to write the end."""
    if outcome.code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
        return frozenset()
    if outcome.code:
        raise Failed(str(Refused(outcome.code, outcome.message)))
    return frozenset(partitions(outcome.result))


def _unexpected(
    by_producer: Mapping[int, Sequence[OpenTransaction]],
    expected: Mapping[int, frozenset[TopicPartition]],
) -> list[OpenTransaction]:
    return [
        transaction
        for producer_id in long_order(by_producer)
        for transaction in by_producer[producer_id]
        if transaction.topic_partition not in expected.get(producer_id, ())
    ]
