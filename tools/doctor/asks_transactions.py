"""Asks coordinators for transactions, and partitions for those that they wait for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from kavka.tools.admin.requests import (
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    ListTransactionsRequest,
    ProducersOfTopic,
)
from kavka.tools.doctor.asks_offsets import held_back, leaders
from kavka.tools.doctor.cluster import Cluster, Unanswered
from kavka.tools.doctor.groups import TopicPartition
from kavka.tools.doctor.transactions import Open, Transaction
from kavka.wire.apis import describe_producers, describe_transactions, list_transactions
from kavka.wire.errors import ErrorCode

OVER: Final = frozenset({"Empty", "CompleteCommit", "CompleteAbort", "Dead"})


async def transactions(cluster: Cluster) -> list[Transaction]:
    """All that coordinators know. Unanswered if one of them does not tell now."""
    answers = await cluster.ask_all(list_transactions.API, ListTransactionsRequest())
    found = []
    for broker, answer in answers.items():
        if answer.error_code:
            raise Unanswered(f"broker {broker} answers {ErrorCode(answer.error_code).name}")
        listed = {state.transactional_id: state for state in answer.transaction_states}
        begun = [name for name, state in listed.items() if state.transaction_state not in OVER]
        found += [
            Transaction(
                name, broker, state.transaction_state, state.producer_id, 0, -1, frozenset()
            )
            for name, state in listed.items()
            if name not in begun
        ]
        found += await _described(cluster, broker, begun) if begun else []
    return found


async def _described(cluster: Cluster, broker: int, names: Sequence[str]) -> list[Transaction]:
    request = DescribeTransactionsRequest(names)
    answer = await cluster.ask(broker, describe_transactions.API, request)
    return [
        Transaction(
            state.transactional_id,
            broker,
            state.transaction_state,
            state.producer_id,
            state.transaction_timeout_ms,
            state.transaction_start_time_ms,
            frozenset(
                (topic.topic, number) for topic in state.topics for number in topic.partitions
            ),
        )
        for state in answer.transaction_states
        if not state.error_code
    ]


async def open_in_partitions(cluster: Cluster) -> Mapping[TopicPartition, Sequence[Open]]:
    """The transactions that partitions wait for. Unanswered."""
    led = leaders(cluster)
    by_leader: defaultdict[int, defaultdict[str, list[int]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for topic, number in await held_back(cluster):
        by_leader[led[topic, number]][topic].append(number)
    found: dict[TopicPartition, Sequence[Open]] = {}
    for leader, topics in by_leader.items():
        request = DescribeProducersRequest([ProducersOfTopic(*item) for item in topics.items()])
        answer = await cluster.ask(leader, describe_producers.API, request)
        found |= {
            (topic.name, partition.partition_index): [
                Open(
                    producer.producer_id, producer.producer_epoch, producer.current_txn_start_offset
                )
                for producer in partition.active_producers
                if producer.current_txn_start_offset >= 0
            ]
            for topic in answer.topics
            for partition in topic.partitions
            if not partition.error_code
        }
    return found


def still_open(
    before: Mapping[TopicPartition, Sequence[Open]], after: Mapping[TopicPartition, Sequence[Open]]
) -> Mapping[TopicPartition, Sequence[Open]]:
    """Those that were open at two moments: then also between, when coordinators were asked."""
    return {
        topic_partition: [
            transaction for transaction in opened if transaction in after.get(topic_partition, ())
        ]
        for topic_partition, opened in before.items()
    }
