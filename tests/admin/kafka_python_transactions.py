"""Transactions by kafka-python's KafkaAdminClient."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka import KafkaAdminClient as Admin
from kafka import TopicPartition
from kafka.admin import AbortTransactionSpec

from admin import begun
from admin.begun import IDLE, MISSING, OPEN, OVER, PARTITION
from admin.cells import cells
from admin.kafka_python import CLIENT
from admin.place import Place

Returned = Any
does = CLIENT.does

NOT_THE_SAME = ("producer_id", "transaction_start_time_ms", "last_timestamp", "age_ms")


def shown(state: Any) -> Any:
    """Fields without those that differ between any two brokers."""
    fields: Mapping[str, Any] = state if isinstance(state, Mapping) else state._asdict()
    kept = {name: str(value) for name, value in fields.items() if name not in NOT_THE_SAME}
    if "topic_partitions" in fields:
        kept["topic_partitions"] = str(sorted(fields["topic_partitions"]))
    return kept


@cells
def listed(admin: Admin, place: Place, /, **options: Any) -> Returned:
    found = [txn for txns in admin.list_transactions(**options).values() for txn in txns]
    own = [shown(txn) for txn in found if txn.transactional_id.startswith(f"{place.prefix}-")]
    return sorted(own, key=str)


@cells
def described(admin: Admin, place: Place, label: str) -> Returned:
    found = admin.describe_transactions([place.topic(label)])
    return {name: shown(txn) for name, txn in found.items()}


def partition(place: Place) -> TopicPartition:
    return TopicPartition(place.topic("data"), PARTITION)


def producers(admin: Admin, place: Place) -> Returned:
    found = admin.describe_producers([partition(place)])
    states = [
        shown(producer)
        for partition_state in found.values()
        for producer in partition_state.active_producers
    ]
    return sorted(states, key=str)


does("list transactions")(listed())
does("list transactions in some states")(listed(state_filters=["Ongoing", "CompleteCommit"]))
does("list transactions that take long")(
    lambda admin, place: (
        listed(duration_filter_ms=0)(admin, place),
        listed(duration_filter_ms=3_600_000)(admin, place),
    )
)
does("describe a transaction")(described(OPEN))
does("describe a transaction that is over")(described(OVER))
does("describe a missing transaction")(described(MISSING))
does("describe producers in transactions")(producers)


@does("list transactions of some producers")
def _(admin: Admin, place: Place) -> Returned:
    producer_id = begun.described(place, IDLE)["producer_id"]
    return listed(producer_id_filters=[producer_id])(admin, place)


@does("find transactions that hang")
def _(admin: Admin, place: Place) -> Returned:
    return admin.find_hanging_transactions()


@does("abort a transaction")
def _(admin: Admin, place: Place) -> Returned:
    state = begun.described(place, OPEN)
    spec = AbortTransactionSpec(partition(place), state["producer_id"], state["producer_epoch"])
    return admin.abort_transaction(spec), producers(admin, place)
