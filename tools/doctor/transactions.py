"""Judges transactions: those that nobody will ever end, and those that should have ended by now.
Consumers with isolation.level=read_committed get nothing that comes after them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from kavka.tools.doctor.findings import Finding, error, ok, warning
from kavka.tools.doctor.groups import TopicPartition
from kavka.tools.doctor.health import named

STEP: Final = "transactions"
GRACE_MS: Final = 60_000
"""How much later than its timeout a transaction may be aborted: coordinators look every
transaction.abort.timed.out.transaction.cleanup.interval.ms, 10 s."""

LONG_MS: Final = 15 * 60_000
"""What Apache Kafka's tool takes for long (transaction.max.timeout.ms by default)."""

ONGOING: Final = "Ongoing"
PREPARED: Final = frozenset({"PrepareCommit", "PrepareAbort", "PrepareEpochFence"})


class Transaction(NamedTuple):
    """One as its coordinator has it."""

    transactional_id: str
    coordinator: int
    state: str
    producer_id: int
    timeout_ms: int
    start_ms: int
    """-1 where none is open."""
    partitions: frozenset[TopicPartition]


class Open(NamedTuple):
    """A transaction as a partition has it."""

    producer_id: int
    producer_epoch: int
    start_offset: int


def judge_transactions(known: Sequence[Transaction], now_ms: int) -> list[Finding]:
    """Which should have ended."""
    findings = []
    for transaction in known:
        if transaction.start_ms < 0:
            continue
        lasts_ms = now_ms - transaction.start_ms
        if transaction.state == ONGOING and lasts_ms > transaction.timeout_ms + GRACE_MS:
            findings.append(_overdue(transaction, lasts_ms))
        elif transaction.state == ONGOING and lasts_ms > LONG_MS:
            findings.append(_long(transaction, lasts_ms))
        elif transaction.state in PREPARED and lasts_ms > transaction.timeout_ms + GRACE_MS:
            findings.append(_unfinished(transaction, lasts_ms))
    return findings


def judge_hanging(
    held: Mapping[TopicPartition, Sequence[Open]], known: Sequence[Transaction]
) -> list[Finding]:
    """Which of the transactions that partitions wait for no coordinator knows of."""
    at = {
        (transaction.producer_id, topic_partition)
        for transaction in known
        for topic_partition in transaction.partitions
    }
    return [
        error(
            STEP,
            "hanging",
            f"{topic}-{partition}",
            "waits for a transaction that no coordinator knows, of producer "
            f"{transaction.producer_id} (epoch {transaction.producer_epoch}) from offset "
            f"{transaction.start_offset} on: consumers with read_committed get nothing behind "
            "that, ever",
            f"kavka transactions abort --topic {topic} --partition {partition} --start-offset "
            f"{transaction.start_offset}",
        )
        for (topic, partition), opened in sorted(held.items())
        for transaction in opened
        if (transaction.producer_id, (topic, partition)) not in at
    ]


def none_wrong(known: Sequence[Transaction]) -> Finding:
    """For a cluster where nothing was found."""
    open_now = sum(
        transaction.start_ms >= 0 and transaction.state == ONGOING for transaction in known
    )
    return ok(STEP, "all", f"{len(known)} transactional ids, {open_now} with an open transaction")


def _overdue(transaction: Transaction, lasts_ms: int) -> Finding:
    return error(
        STEP,
        "overdue",
        transaction.transactional_id,
        f"has been open for {_minutes(lasts_ms)}, though its transaction.timeout.ms is "
        f"{transaction.timeout_ms}: its coordinator, broker {transaction.coordinator}, should have "
        "aborted it",
        f"look at the log of broker {transaction.coordinator}, and at the clocks; partitions: "
        f"{_partitions(transaction)}",
    )


def _long(transaction: Transaction, lasts_ms: int) -> Finding:
    return warning(
        STEP,
        "long",
        transaction.transactional_id,
        f"has been open for {_minutes(lasts_ms)}: consumers with read_committed get nothing new "
        f"from {_partitions(transaction)}",
        "let its producer commit more often, or lower its transaction.timeout.ms "
        f"({transaction.timeout_ms})",
    )


def _unfinished(transaction: Transaction, lasts_ms: int) -> Finding:
    return error(
        STEP,
        "unfinished",
        transaction.transactional_id,
        f"was decided ({transaction.state}), but after {_minutes(lasts_ms)} its markers are not "
        f"written everywhere: {_partitions(transaction)}",
        "look whether these partitions have a leader, and at the log of broker "
        f"{transaction.coordinator}",
    )


def _partitions(transaction: Transaction) -> str:
    return named(f"{topic}-{partition}" for topic, partition in sorted(transaction.partitions))


def _minutes(number_ms: int) -> str:
    return f"{number_ms / 60_000:.0f} minutes"
