"""`kavka transactions`: as Apache Kafka's kafka-transactions, option by option."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import Final, TypeVar

from kavka.tools.admin import transaction_ends
from kavka.tools.admin.cluster_client import ClusterClient
from kavka.tools.admin.command import Tool
from kavka.tools.admin.errors import Failed
from kavka.tools.admin.java_errors import Refused
from kavka.tools.admin.java_order import number_order, partition_order
from kavka.tools.admin.leaders import TopicPartition
from kavka.tools.admin.open_transactions import (
    described,
    hanging,
    listed,
    long_open,
    partitions,
    producers,
)
from kavka.tools.admin.options import BROKERS, CLIENT_CONFIG, Given
from kavka.tools.admin.printing import PROGRAM_FORMS, print_rows, print_tabbed
from kavka.tools.admin.requests import ListTransactionsRequest
from kavka.tools.admin.transaction_options import COMMANDS, OLDER, START, check
from kavka.tools.java_numbers import quotient
from kavka.wire.apis import list_transactions

MINUTE_MS: Final = 60_000
TIMEOUT_MAX_MIN: Final = 15
"""transaction.max.timeout.ms of brokers, by default: what is open for longer hangs."""

T = TypeVar("T")

LISTED: Final = {
    "TransactionalId": "transactionalId",
    "Coordinator": "coordinator",
    "ProducerId": "producerId",
    "TransactionState": "state",
}
DESCRIBED: Final = {
    "CoordinatorId": "coordinator",
    "TransactionalId": "transactionalId",
    "ProducerId": "producerId",
    "ProducerEpoch": "producerEpoch",
    "TransactionState": "state",
    "TransactionTimeoutMs": "timeoutMs",
    "CurrentTransactionStartTimeMs": "startTimeMs",
    "TransactionDurationMs": "durationMs",
    "TopicPartitions": "partitions",
}
PRODUCERS: Final = {
    "ProducerId": "producerId",
    "ProducerEpoch": "producerEpoch",
    "LatestCoordinatorEpoch": "coordinatorEpoch",
    "LastSequence": "lastSequence",
    "LastTimestamp": "lastTimestampMs",
    "CurrentTransactionStartOffset": "startOffset",
}
HANGING: Final = {
    "Topic": "topic",
    "Partition": "partition",
    "ProducerId": "producerId",
    "ProducerEpoch": "producerEpoch",
    "CoordinatorEpoch": "coordinatorEpoch",
    "StartOffset": "startOffset",
    "LastTimestamp": "lastTimestampMs",
    "Duration(min)": "durationMinutes",
}
"""The columns of each table, with their names in JSON and CSV."""


async def run(cluster: ClusterClient, given: Given) -> int:
    """The chosen command. Failed."""
    assert given.command is not None
    await ACTIONS[given.command.name](cluster, given)
    return 0


async def _list(cluster: ClusterClient, given: Given) -> None:
    duration_ms = given.number("duration-filter")
    pattern = given.last("transactional-id-pattern")
    version = await cluster.version_of(list_transactions.API)
    for name, value, since in (
        ("duration-filter", duration_ms, list_transactions.DURATION_SINCE),
        ("transactional-id-pattern", pattern, list_transactions.PATTERN_SINCE),
    ):
        if value is not None and version < since:
            raise Failed(f"the brokers are too old for --{name}: leave it out")
    request = ListTransactionsRequest(
        duration_filter=-1 if duration_ms is None else duration_ms, transactional_id_pattern=pattern
    )
    found = await _or_why("Failed to list transactions", listed(cluster, request))
    rows = [
        (
            transaction.transactional_id,
            broker_id,
            transaction.producer_id,
            transaction.transaction_state,
        )
        for broker_id in number_order(found)
        for transaction in found[broker_id]
    ]
    _print("transactions", LISTED, rows, given.last("output"))


async def _describe(cluster: ClusterClient, given: Given) -> None:
    name = given.last("transactional-id") or ""
    why = f"Failed to describe transaction state of transactional-id `{name}`"
    outcome = (await _or_why(why, described(cluster, [name])))[name]
    if outcome.code:
        raise Failed(f"{why}: {Refused(outcome.code, outcome.message)}")
    state, form = outcome.result, given.last("output")
    start_ms = state.transaction_start_time_ms
    is_open = start_ms >= 0
    names = [f"{topic}-{number}" for topic, number in partition_order(partitions(state))]
    row = (
        outcome.coordinator.node_id,
        name,
        state.producer_id,
        state.producer_epoch,
        state.transaction_state,
        state.transaction_timeout_ms,
        start_ms if is_open else None,
        cluster.now_ms() - start_ms if is_open else None,
        names if form == "json" else ",".join(names),
    )
    _print("transactions", DESCRIBED, [row], form)


async def _describe_producers(cluster: ClusterClient, given: Given) -> None:
    topic_partition, broker_id = _topic_partition(given), given.number("broker-id")
    where = "leader" if broker_id is None else f"broker {broker_id}"
    why = f"Failed to describe producers for partition {_name(topic_partition)} on {where}"
    found = await _or_why(why, producers(cluster, [topic_partition], broker_id))
    rows = [
        (
            producer.producer_id,
            producer.producer_epoch,
            producer.coordinator_epoch,
            producer.last_sequence,
            producer.last_timestamp,
            None if producer.current_txn_start_offset < 0 else producer.current_txn_start_offset,
        )
        for producer in found[topic_partition]
    ]
    _print("producers", PRODUCERS, rows, given.last("output"))


async def _abort(cluster: ClusterClient, given: Given) -> None:
    topic_partition, start = _topic_partition(given), given.number(START)
    if start is not None:
        why = f"Failed to validate producer state for partition {_name(topic_partition)}"
        states = (await _or_why(why, producers(cluster, [topic_partition], None)))[topic_partition]
        found = [state for state in states if state.current_txn_start_offset == start >= 0]
        if not found:
            raise Failed(
                f"Could not find any open transactions starting at offset {start} on partition "
                f"{_name(topic_partition)}"
            )
        producer = [found[0].producer_id, found[0].producer_epoch, found[0].coordinator_epoch]
    else:
        producer = [given.number(option.name) or 0 for option in OLDER]
    producer_id, epoch, coordinator_epoch = producer
    spec = transaction_ends.Aborted(topic_partition, producer_id, epoch, max(0, coordinator_epoch))
    await _or_why(f"Failed to abort transaction {spec}", transaction_ends.abort(cluster, spec))


async def _find_hanging(cluster: ClusterClient, given: Given) -> None:
    broker_id, minutes = given.number("broker-id"), given.number("max-transaction-timeout")
    longest_ms = (TIMEOUT_MAX_MIN if minutes is None else minutes) * MINUTE_MS
    topic_partitions = await _topic_partitions(cluster, given)
    why = f"Failed to describe producers for {len(topic_partitions)} partitions"
    candidates = await _or_why(why, long_open(cluster, topic_partitions, broker_id, longest_ms))
    now_ms = cluster.now_ms()
    rows = [
        (
            *topic_partition,
            producer.producer_id,
            producer.producer_epoch,
            producer.coordinator_epoch,
            producer.current_txn_start_offset,
            producer.last_timestamp,
            quotient(now_ms - producer.last_timestamp, MINUTE_MS),
        )
        for topic_partition, producer in await _or_why(
            "Failed to look them up", hanging(cluster, candidates)
        )
    ]
    _print("transactions", HANGING, rows, given.last("output"))


async def _force_terminate(cluster: ClusterClient, given: Given) -> None:
    name = given.last("transactionalId") or ""
    await _or_why(
        f"Failed to force terminate transactionalId `{name}`",
        transaction_ends.force_terminate(cluster, name),
    )


ACTIONS: Final = {
    "list": _list,
    "describe": _describe,
    "describe-producers": _describe_producers,
    "abort": _abort,
    "find-hanging": _find_hanging,
    "forceTerminateTransaction": _force_terminate,
}

TOOL: Final = Tool(
    "transactions",
    "List transactions, and find and abort those that hang.",
    (BROKERS, CLIENT_CONFIG),
    check,
    run,
    commands=COMMANDS,
)


async def _topic_partitions(cluster: ClusterClient, given: Given) -> list[TopicPartition]:
    """Where transactions that hang are looked for. Failed."""
    topic, broker_id = given.last("topic"), given.number("broker-id")
    if topic is not None and given.has("partition"):
        return [_topic_partition(given)]
    if topic is None:
        topics = await cluster.topics()
    else:
        topics = list((await cluster.topics_named([topic])).values())
    for response in topics:
        if response.error_code:
            raise Failed(f"Failed to describe {len(topics)} topics: {Refused(response.error_code)}")
    return [
        (response.name or "", partition.partition_index)
        for response in topics
        for partition in response.partitions
        if broker_id is None or broker_id in partition.replica_nodes
    ]


def _topic_partition(given: Given) -> TopicPartition:
    return given.last("topic") or "", given.number("partition") or 0


def _name(topic_partition: TopicPartition) -> str:
    return f"{topic_partition[0]}-{topic_partition[1]}"


async def _or_why(why: str, work: Awaitable[T]) -> T:
    """What the work gives; what it fails with, behind what could not be done."""
    try:
        return await work
    except Failed as failed:
        raise Failed(f"{why}: {failed}") from failed


def _print(
    name: str, columns: Mapping[str, str], rows: Sequence[Sequence[object]], form: str | None
) -> None:
    if form in PROGRAM_FORMS:
        print_rows(name, list(columns.values()), rows, form)
    else:
        shown = [["None" if cell is None else cell for cell in row] for row in rows]
        print_tabbed(list(columns), shown)
