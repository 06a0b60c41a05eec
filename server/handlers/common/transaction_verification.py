"""Whether what is to be written in a transaction belongs to it: the coordinator knows (KIP-890).

A client adds partitions to its transaction at the coordinator, or, if its protocol is so new, by
writing to them. Before the first batch of a transaction is appended to a partition, the coordinator
is asked: whether the partition is in it, or to take it in. The guard that each partition gives for
that is shown with the batch: see `kavka.log.txn_guards`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from kavka.log.txn_guards import NOT_NEEDED, Guard, Verifications
from kavka.server.broker import Broker
from kavka.server.replica.record_rules import NotVerified
from kavka.server.replica.replica import Replica
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.records import (
    HEADER_BYTES,
    TRANSACTIONAL,
    BatchHeader,
    attributes_of_first,
    read_header,
)

Place: TypeAlias = tuple[str, int]
"""Topic and partition."""

Verdict: TypeAlias = Guard | NotVerified | None
"""What is to be shown with a batch, or why it can't be appended; None: nothing is to be shown."""

Verdicts: TypeAlias = Mapping[Place, Verdict]

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
"""Codes that older producers do not expect here; they send again what is refused with
NOT_ENOUGH_REPLICAS, as which Apache Kafka tells them."""


_FOR_GOOD: Final = frozenset(
    {
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
    }
)
"""Codes that say that this is not the producer of the transactional id: to ask again is of no use,
and nothing of it needs to be kept, so that who makes up producers takes up no room."""

_FAILED: Final = (ErrorCode.UNKNOWN_SERVER_ERROR,)


class Writer(NamedTuple):
    """Who writes in a transaction."""

    transactional_id: str
    producer_id: int
    epoch: int
    adds: bool
    """Whether what it writes to is to be added: each of its transactions has its own epoch."""

    knows_abortable: bool
    """Whether its client knows TRANSACTION_ABORTABLE."""


def verify(
    broker: Broker, writer: Writer, sequences: Mapping[Place, int]
) -> Verdicts | Awaitable[Verdicts]:
    """The verdicts on batches that begin with these sequences, one for each partition. At once if
    the coordinator can tell at once."""
    if not writer.adds and not broker.settings.transaction_partition_verification_enable:
        return dict.fromkeys(sequences, NOT_NEEDED)
    now_ms = broker.clock.now_ms()
    verdicts: dict[Place, Verdict] = {}
    asked: list[_Asked] = []
    for place, sequence in sequences.items():
        try:
            producers = broker.replicas.leader(*place).log.producers
            guard = producers.verification(
                writer.producer_id, sequence, writer.epoch, now_ms, v2=writer.adds
            )
        except ApiError as refusal:
            verdicts[place] = NotVerified(refusal.code)
            continue
        verdicts[place] = guard
        if guard is not None:
            asked.append(_Asked(place, producers.verifications, guard))
    if not asked:
        return verdicts
    places = [one.place for one in asked]
    codes: Sequence[int] | Awaitable[Sequence[int]] = _FAILED * len(asked)
    try:
        codes = broker.transactions.verify(
            writer.transactional_id, writer.producer_id, writer.epoch, places, add=writer.adds
        )
    finally:  # also if that fails: who asked is to be counted no longer
        if not isinstance(codes, Awaitable):
            _tell(writer, asked, codes)
    if isinstance(codes, Awaitable):
        return _when_told(writer, verdicts, asked, codes)
    return _told(writer, verdicts, asked, codes)


class _Asked(NamedTuple):
    """One partition whose verdict the coordinator has."""

    place: Place
    verifications: Verifications
    guard: Guard


async def _when_told(
    writer: Writer,
    verdicts: dict[Place, Verdict],
    asked: Sequence[_Asked],
    waiting: Awaitable[Sequence[int]],
) -> Verdicts:
    codes: Sequence[int] = _FAILED * len(asked)
    try:
        codes = await waiting
    finally:
        _tell(writer, asked, codes)
    return _told(writer, verdicts, asked, codes)


def _tell(writer: Writer, asked: Sequence[_Asked], codes: Sequence[int]) -> None:
    """Have each partition's log know the outcome."""
    for (_, verifications, guard), code in zip(asked, codes, strict=True):
        if code:
            for_good = code in _FOR_GOOD
            verifications.refused(writer.producer_id, guard, for_good=for_good)
        else:
            verifications.confirmed(writer.producer_id, guard)


def _told(
    writer: Writer,
    verdicts: dict[Place, Verdict],
    asked: Sequence[_Asked],
    codes: Sequence[int],
) -> Verdicts:
    for (place, *_), code in zip(asked, codes, strict=True):
        if code == ErrorCode.PRODUCER_FENCED:
            verdicts[place] = NotVerified(ErrorCode.INVALID_PRODUCER_EPOCH)
        elif code == ErrorCode.TRANSACTION_ABORTABLE and not writer.knows_abortable:
            verdicts[place] = NotVerified(ErrorCode.INVALID_TXN_STATE)
        elif code:
            verdicts[place] = NotVerified(ErrorCode(code))
    return verdicts


# -- for Produce --------------------------------------------------------------------------


def verify_writes(
    broker: Broker,
    transactional_id: str,
    version: int,
    writes: Iterable[tuple[Place, memoryview | None]],
) -> Verdicts | Coroutine[Any, Any, Verdicts]:
    """The verdicts on the records of a Produce request of this version: on those that are in a
    transaction. ApiError INVALID_PRODUCER_ID_MAPPING if they are of several producers.

    While the producer's transaction before is being completed, the coordinator is asked again and
    again for `add.partitions.to.txn.retry.backoff.max.ms`, if the partitions are to be added: the
    producer was told of its end at once.
    """
    sequences: dict[Place, int] = {}
    producers: dict[tuple[int, int], None] = {}
    for place, records in writes:
        if records is None or not attributes_of_first(records) & TRANSACTIONAL:
            continue
        if len(records) < HEADER_BYTES:
            continue
        header = read_header(records)
        if header.producer_id >= 0:
            producers[header.producer_id, header.producer_epoch] = None
            sequences[place] = header.base_sequence
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
    if isinstance(found, Awaitable) or (adds and _is_busy(found)):
        return _patiently(broker, writer, sequences, found)
    return _for_producers(writer, found)


def guard_at_once(
    broker: Broker, replica: Replica, transactional_id: str, version: int, header: BatchHeader
) -> Guard | None:
    """What is to be shown with a batch, if its partition was added to its transaction before, and
    the coordinator can say so at once; None: see `verify_writes`. ApiError."""
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
    except ApiError as refusal:
        if refusal.code == ErrorCode.COORDINATOR_NOT_AVAILABLE:
            return None  # no room: the general way says it as producers know it
        raise
    if guard is not None:
        producers.verifications.confirmed(producer_id, guard)
    return guard


async def _patiently(
    broker: Broker,
    writer: Writer,
    sequences: Mapping[Place, int],
    found: Verdicts | Awaitable[Verdicts],
) -> Verdicts:
    settings, clock = broker.settings, broker.clock
    patience_ms = min(
        settings.add_partitions_to_txn_retry_backoff_max_ms, settings.request_timeout_ms
    )
    ends_s = clock.monotonic_s() + patience_ms / 1000
    while True:
        verdicts = await found if isinstance(found, Awaitable) else found
        if not writer.adds or not _is_busy(verdicts) or clock.monotonic_s() >= ends_s:
            return _for_producers(writer, verdicts)
        await broker.tasks.sleep(settings.add_partitions_to_txn_retry_backoff_ms / 1000)
        found = verify(broker, writer, sequences)


def _is_busy(verdicts: Verdicts) -> bool:
    """Whether the transaction before is being completed."""
    return any(
        isinstance(verdict, NotVerified) and verdict.code == ErrorCode.CONCURRENT_TRANSACTIONS
        for verdict in verdicts.values()
    )


def _for_producers(writer: Writer, verdicts: Verdicts) -> Verdicts:
    """The refusals as producers know them."""
    return {
        place: _for_producer(writer, verdict) if isinstance(verdict, NotVerified) else verdict
        for place, verdict in verdicts.items()
    }


def _for_producer(writer: Writer, refusal: NotVerified) -> NotVerified:
    code = refusal.code
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
    return refusal
