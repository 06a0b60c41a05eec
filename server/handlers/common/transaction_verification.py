"""Verifies with the transaction coordinator that a partition is in a transaction (KIP-890).

A client adds partitions to its transaction at the coordinator or, with a newer protocol, by
writing to them. Before a transaction's first batch is appended to a partition, the coordinator
verifies that the partition is in the transaction, or adds it. The partition's log gives out a
guard for that, which is passed to the append: see `kavka.log.txn_guards`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from kavka.log.txn_guards import NOT_NEEDED, Guard, Verifications
from kavka.server.broker import Broker
from kavka.server.replica.record_rules import NotVerified
from kavka.server.replica.replica import Replica
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.record_batches import (
    HEADER_BYTES,
    TRANSACTIONAL,
    BatchHeader,
    attributes_of_first,
    read_header,
)

TopicPartition: TypeAlias = tuple[str, int]
"""Topic and partition."""

Verdict: TypeAlias = Guard | NotVerified | None
"""The guard to append a batch with, or why it can't be appended; None: no guard is needed."""

Verdicts: TypeAlias = Mapping[TopicPartition, Verdict]

_ABORTABLE_SINCE: Final = 11
_ADDS_SINCE: Final = 12
"""Versions of Produce."""

_UNKNOWN_TO_PRODUCERS: Final = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""Codes that older producers do not expect here. As in Apache Kafka they get NOT_ENOUGH_REPLICAS
instead, which they retry."""


_PERMANENT: Final = frozenset(
    {
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
    }
)
"""Codes that mean that this is not the producer of the transactional id: retries are useless, and
no state is kept, so that invented producers use no memory."""

_FAILED: Final = (ErrorCode.UNKNOWN_SERVER_ERROR,)


class Writer(NamedTuple):
    """The producer that writes in a transaction."""

    transactional_id: str
    producer_id: int
    epoch: int
    adds: bool
    """Whether partitions it writes to are added implicitly (transactions V2, in which each
    transaction has its own epoch)."""

    knows_abortable: bool
    """Whether its client knows TRANSACTION_ABORTABLE."""


def verify(
    broker: Broker, writer: Writer, sequences: Mapping[TopicPartition, int]
) -> Verdicts | Awaitable[Verdicts]:
    """The verdicts on batches that begin with these sequences, one for each partition. Plain if
    the coordinator need not wait."""
    if not writer.adds and not broker.settings.transaction_partition_verification_enable:
        return dict.fromkeys(sequences, NOT_NEEDED)
    now_ms = broker.clock.now_ms()
    verdicts: dict[TopicPartition, Verdict] = {}
    pending: list[_Pending] = []
    for topic_partition, sequence in sequences.items():
        try:
            producers = broker.replicas.leader(*topic_partition).log.producers
            guard = producers.verification(
                writer.producer_id, sequence, writer.epoch, now_ms, v2=writer.adds
            )
        except ApiError as error:
            verdicts[topic_partition] = NotVerified(error.code)
            continue
        verdicts[topic_partition] = guard
        if guard is not None:
            pending.append(_Pending(topic_partition, producers.verifications, guard))
    if not pending:
        return verdicts
    topic_partitions = [partition.topic_partition for partition in pending]
    codes: Sequence[int] | Awaitable[Sequence[int]] = _FAILED * len(pending)
    try:
        codes = broker.transactions.verify(
            writer.transactional_id,
            writer.producer_id,
            writer.epoch,
            topic_partitions,
            add=writer.adds,
        )
    finally:  # also if that fails: the verifications must not stay pending
        if not isinstance(codes, Awaitable):
            _report_to_logs(writer, pending, codes)
    if isinstance(codes, Awaitable):
        return _await_codes(writer, verdicts, pending, codes)
    return _add_refusals(writer, verdicts, pending, codes)


class _Pending(NamedTuple):
    """A partition whose verification is pending at the coordinator."""

    topic_partition: TopicPartition
    verifications: Verifications
    guard: Guard


async def _await_codes(
    writer: Writer,
    verdicts: dict[TopicPartition, Verdict],
    pending: Sequence[_Pending],
    waiting: Awaitable[Sequence[int]],
) -> Verdicts:
    codes: Sequence[int] = _FAILED * len(pending)
    try:
        codes = await waiting
    finally:
        _report_to_logs(writer, pending, codes)
    return _add_refusals(writer, verdicts, pending, codes)


def _report_to_logs(writer: Writer, pending: Sequence[_Pending], codes: Sequence[int]) -> None:
    """Report the results to the partitions' logs."""
    for (_, verifications, guard), code in zip(pending, codes, strict=True):
        if code:
            is_final = code in _PERMANENT
            verifications.failed(writer.producer_id, guard, is_final=is_final)
        else:
            verifications.confirmed(writer.producer_id, guard)


def _add_refusals(
    writer: Writer,
    verdicts: dict[TopicPartition, Verdict],
    pending: Sequence[_Pending],
    codes: Sequence[int],
) -> Verdicts:
    for (topic_partition, *_), code in zip(pending, codes, strict=True):
        if code == ErrorCode.PRODUCER_FENCED:
            verdicts[topic_partition] = NotVerified(ErrorCode.INVALID_PRODUCER_EPOCH)
        elif code == ErrorCode.TRANSACTION_ABORTABLE and not writer.knows_abortable:
            verdicts[topic_partition] = NotVerified(ErrorCode.INVALID_TXN_STATE)
        elif code:
            verdicts[topic_partition] = NotVerified(ErrorCode(code))
    return verdicts


# -- for Produce --------------------------------------------------------------------------


def verify_writes(
    broker: Broker,
    transactional_id: str,
    version: int,
    writes: Iterable[tuple[TopicPartition, memoryview | None]],
) -> Verdicts | Coroutine[Any, Any, Verdicts]:
    """The verdicts on the transactional records of a Produce request of this version. ApiError
    INVALID_PRODUCER_ID_MAPPING if they are of several producers.

    If partitions are to be added while the producer's previous transaction is being completed, the
    call is retried for `add.partitions.to.txn.retry.backoff.max.ms`, as the producer got the
    response to EndTxn before that.
    """
    sequences: dict[TopicPartition, int] = {}
    producers: dict[tuple[int, int], None] = {}
    for topic_partition, records in writes:
        if records is None or not attributes_of_first(records) & TRANSACTIONAL:
            continue
        if len(records) < HEADER_BYTES:
            continue
        header = read_header(records)
        if header.producer_id >= 0:
            producers[header.producer_id, header.producer_epoch] = None
            sequences[topic_partition] = header.base_sequence
    if not producers:
        return {}
    if len(producers) > 1:
        raise ApiError(
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            "Transactional records contained more than one producer ID",
        )
    ((producer_id, epoch),) = producers
    adds, knows_abortable = version >= _ADDS_SINCE, version >= _ABORTABLE_SINCE
    writer = Writer(transactional_id, producer_id, epoch, adds, knows_abortable)
    found = verify(broker, writer, sequences)
    if isinstance(found, Awaitable) or (adds and _is_concurrent(found)):
        return _retry_while_concurrent(broker, writer, sequences, found)
    return _for_producers(writer, found)


def guard_without_waiting(
    broker: Broker, replica: Replica, transactional_id: str, version: int, header: BatchHeader
) -> Guard | None:
    """The guard for a batch, if its partition was already added to the transaction and the
    coordinator can verify that without waiting; None: use `verify_writes`. ApiError.

    A transaction of one record takes 210 us instead of 250 with it (`bench.micro`)."""
    settings = broker.settings
    if version >= _ADDS_SINCE or not settings.transaction_partition_verification_enable:
        return None
    producer_id, epoch = header.producer_id, header.producer_epoch
    if producer_id < 0:
        return None
    if not broker.transactions.has_added(transactional_id, producer_id, epoch, replica.key):
        return None
    producers = replica.log.producers
    now_ms = broker.clock.now_ms()
    try:
        guard = producers.verification(producer_id, header.base_sequence, epoch, now_ms, v2=False)
    except ApiError as error:
        if error.code == ErrorCode.COORDINATOR_NOT_AVAILABLE:
            return None  # too many pending: the general path maps the code for producers
        raise
    if guard is not None:
        producers.verifications.confirmed(producer_id, guard)
    return guard


async def _retry_while_concurrent(
    broker: Broker,
    writer: Writer,
    sequences: Mapping[TopicPartition, int],
    found: Verdicts | Awaitable[Verdicts],
) -> Verdicts:
    settings, clock = broker.settings, broker.clock
    patience_ms = min(
        settings.add_partitions_to_txn_retry_backoff_max_ms, settings.request_timeout_ms
    )
    ends_s = clock.monotonic_s() + patience_ms / 1000
    while True:
        verdicts = await found if isinstance(found, Awaitable) else found
        if not writer.adds or not _is_concurrent(verdicts) or clock.monotonic_s() >= ends_s:
            return _for_producers(writer, verdicts)
        await broker.tasks.sleep(settings.add_partitions_to_txn_retry_backoff_ms / 1000)
        found = verify(broker, writer, sequences)


def _is_concurrent(verdicts: Verdicts) -> bool:
    """Whether the previous transaction is still being completed."""
    return any(
        isinstance(verdict, NotVerified) and verdict.code == ErrorCode.CONCURRENT_TRANSACTIONS
        for verdict in verdicts.values()
    )


def _for_producers(writer: Writer, verdicts: Verdicts) -> Verdicts:
    """The verdicts with error codes that producers expect."""
    return {
        topic_partition: _for_producer(writer, verdict)
        if isinstance(verdict, NotVerified)
        else verdict
        for topic_partition, verdict in verdicts.items()
    }


def _for_producer(writer: Writer, verdict: NotVerified) -> NotVerified:
    code = verdict.code
    if code in _UNKNOWN_TO_PRODUCERS or (
        code == ErrorCode.CONCURRENT_TRANSACTIONS and not writer.adds
    ):
        return NotVerified(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            "Unable to verify the partition has been added to the transaction. "
            f"Underlying error: {code.name}",
        )
    if code == ErrorCode.INVALID_TXN_STATE:
        return NotVerified(code, "Partition was not added to the transaction")
    return verdict
