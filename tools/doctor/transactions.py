"""Judges transactions: those that nobody will ever end, and those that should have ended by now.
Consumers with isolation.level=read_committed get nothing that comes after them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from kavka.tools.doctor.findings import Finding, error, ok, warning
from kavka.tools.doctor.health import named

STEP: Final = "transactions"
GRACE_MS: Final = 60_000
"""How much later than its timeout a transaction may be aborted: coordinators look every
transaction.abort.timed.out.transaction.cleanup.interval.ms, 10 s."""

LONG_MS: Final = 15 * 60_000
"""What Apache Kafka's tool takes for long (transaction.max.timeout.ms by default)."""

ONGOING: Final = "Ongoing"
PREPARED: Final = frozenset({"PrepareCommit", "PrepareAbort", "PrepareEpochFence"})

Place: TypeAlias = tuple[str, int]


class Transaction(NamedTuple):
    """One as its coordinator has it."""

    transactional_id: str
    coordinator: int
    state: str
    producer_id: int
    timeout_ms: int
    start_ms: int
    """-1 where none is open."""
    partitions: frozenset[Place]


class Open(NamedTuple):
    """A transaction as a partition has it."""

    producer_id: int
    producer_epoch: int
    start_offset: int


def judge_transactions(known: Sequence[Transaction], now_ms: int) -> list[Finding]:
    """Which should have ended."""
    findings = []
    for one in known:
        if one.start_ms < 0:
            continue
        lasts_ms = now_ms - one.start_ms
        if one.state == ONGOING and lasts_ms > one.timeout_ms + GRACE_MS:
            findings.append(_overdue(one, lasts_ms))
        elif one.state == ONGOING and lasts_ms > LONG_MS:
            findings.append(_long(one, lasts_ms))
        elif one.state in PREPARED and lasts_ms > one.timeout_ms + GRACE_MS:
            findings.append(_unfinished(one, lasts_ms))
    return findings


def judge_hanging(
    held: Mapping[Place, Sequence[Open]], known: Sequence[Transaction]
) -> list[Finding]:
    """Which of the transactions that partitions wait for no coordinator knows of."""
    at = {(one.producer_id, place) for one in known for place in one.partitions}
    return [
        error(
            STEP,
            "hanging",
            f"{topic}-{partition}",
            f"waits for a transaction that no coordinator knows, of producer {one.producer_id} "
            f"(epoch {one.producer_epoch}) from offset {one.start_offset} on: consumers with "
            "read_committed get nothing behind that, ever",
            f"kavka transactions abort --topic {topic} --partition {partition} --start-offset "
            f"{one.start_offset}",
        )
        for (topic, partition), opened in sorted(held.items())
        for one in opened
        if (one.producer_id, (topic, partition)) not in at
    ]


def none_wrong(known: Sequence[Transaction]) -> Finding:
    """For a cluster where nothing was found."""
    open_now = sum(one.start_ms >= 0 and one.state == ONGOING for one in known)
    return ok(STEP, "all", f"{len(known)} transactional ids, {open_now} with an open transaction")


def _overdue(one: Transaction, lasts_ms: int) -> Finding:
    return error(
        STEP,
        "overdue",
        one.transactional_id,
        f"has been open for {_minutes(lasts_ms)}, though its transaction.timeout.ms is "
        f"{one.timeout_ms}: its coordinator, broker {one.coordinator}, should have aborted it",
        f"look at the log of broker {one.coordinator}, and at the clocks; partitions: "
        f"{_partitions(one)}",
    )


def _long(one: Transaction, lasts_ms: int) -> Finding:
    return warning(
        STEP,
        "long",
        one.transactional_id,
        f"has been open for {_minutes(lasts_ms)}: consumers with read_committed get nothing new "
        f"from {_partitions(one)}",
        "let its producer commit more often, or lower its transaction.timeout.ms "
        f"({one.timeout_ms})",
    )


def _unfinished(one: Transaction, lasts_ms: int) -> Finding:
    return error(
        STEP,
        "unfinished",
        one.transactional_id,
        f"was decided ({one.state}), but after {_minutes(lasts_ms)} its markers are not written "
        f"everywhere: {_partitions(one)}",
        f"look whether these partitions have a leader, and at the log of broker {one.coordinator}",
    )


def _partitions(one: Transaction) -> str:
    return named(f"{topic}-{partition}" for topic, partition in sorted(one.partitions))


def _minutes(number_ms: int) -> str:
    return f"{number_ms / 60_000:.0f} minutes"
