"""Settings of transactions: timeouts, verification, and the topic `__transaction_state`."""

from __future__ import annotations

from typing import Final

from kavka.server.config.rows import Config, Importance, Mode
from kavka.server.config.validators import AtLeast, Between, Validator
from kavka.server.config.value_types import Type, Value

REPLICATION_FACTOR: Final = "transaction.state.log.replication.factor"

TRANSACTION_VERSION_MAX: Final = 2


def _row(
    name: str,
    default: Value,
    check: Validator | None,
    doc: str,
    *,
    type_: Type = Type.INT,
    importance: Importance = Importance.HIGH,
    dynamic: Mode = Mode.READ_ONLY,
) -> Config:
    field = name.replace(".", "_")
    return Config(name, type_, default, doc, check, importance, dynamic, field=field)


TRANSACTION_ROWS: Final = (
    _row(
        "kavka.transaction.version",
        TRANSACTION_VERSION_MAX,
        Between(0, TRANSACTION_VERSION_MAX),
        "The level of the feature transaction.version that clients see, unless one was set while "
        "the cluster ran (kafka-features). With 2, those that "
        "can use the newer protocol of transactions, in which each has an epoch of its own "
        "(KIP-890); below, all use the older one. With 0, the state of transactions is written as "
        "brokers before Apache Kafka 4.0 write it; brokers from 3.5 on read both forms (KIP-915).",
        importance=Importance.MEDIUM,
    ),
    _row(
        "add.partitions.to.txn.retry.backoff.max.ms",
        100,
        AtLeast(0),
        "How long a write may wait while the producer's previous transaction is being completed.",
    ),
    _row(
        "add.partitions.to.txn.retry.backoff.ms",
        20,
        AtLeast(1),
        "Interval of retries at the transaction coordinator meanwhile.",
    ),
    _row(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        10_000,
        AtLeast(1),
        "Interval of aborting transactions that are open for longer than their timeout.",
        importance=Importance.LOW,
    ),
    _row(
        "transaction.max.timeout.ms",
        900_000,
        AtLeast(1),
        "The longest transaction timeout that a producer may request.",
    ),
    _row(
        "transaction.partition.verification.enable",
        True,
        None,
        "Whether a transactional write to a partition that is not in the transaction is refused "
        "(KIP-890): otherwise the transaction would hang there.",
        type_=Type.BOOLEAN,
        importance=Importance.LOW,
        dynamic=Mode.CLUSTER_WIDE,
    ),
    _row(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        3_600_000,
        AtLeast(1),
        "Interval of removing ids that have expired by transactional.id.expiration.ms.",
        importance=Importance.LOW,
    ),
    _row(
        "transaction.state.log.load.buffer.size",
        5_242_880,
        AtLeast(1),
        "Bytes read at a time when the transactions of a partition are loaded; a larger batch is "
        "read whole.",
    ),
    _row(
        "transaction.state.log.min.isr",
        2,
        AtLeast(1),
        "The min.insync.replicas of __transaction_state, when it is created; at most its number of "
        "replicas.",
    ),
    _row(
        "transaction.state.log.num.partitions",
        50,
        AtLeast(1),
        "Partitions of __transaction_state, when it is created.",
    ),
    _row(
        REPLICATION_FACTOR,
        3,
        AtLeast(1),
        "Replicas of __transaction_state, when it is created; transactions are not served until so "
        "many brokers run. On a broker that keeps the cluster's metadata itself, and so is the "
        "only one, it is 1 unless set.",
        type_=Type.SHORT,
    ),
    _row(
        "transaction.state.log.segment.bytes",
        104_857_600,
        AtLeast(1),
        "The segment.bytes of __transaction_state, when it is created.",
    ),
    _row(
        "transactional.id.expiration.ms",
        604_800_000,
        AtLeast(1),
        "How long a transactional id is kept without a new transaction. An open transaction does "
        "not expire.",
    ),
)
