"""Appends a journal's records, as one batch, to the partition that this broker leads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kavka.log.journal import JournalRecord, Producer
from kavka.server.replica.batch_admission import check_in_sync
from kavka.server.replica.replica import Replica
from kavka.wire.building import batch_of_pairs
from kavka.wire.compression import Codec
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.record_batches import LOG_APPEND_TIME, TRANSACTIONAL, read_header
from kavka.wire.steps import Steps

COMPRESSED_BYTES_MAX: Final = 64 * 1024
"""Batches up to this size are compressed, if so configured, as it is done on the event loop. Bigger
ones only if they would exceed max.message.bytes otherwise."""

RECORDS_PER_STEP: Final = 5_000
"""Records whose sizes are added up between two yields, at 0.2 us each."""

_NO_PRODUCER: Final = Producer(-1, -1)


class ReplicaPort:
    """`kavka.log.journal.Port` of a replica, for its current leader epoch."""

    __slots__ = ("_base_sequence", "_codec", "_partition", "_replica", "leader_epoch")

    def __init__(self, replica: Replica, codec: Codec, base_sequence: int) -> None:
        self._replica = replica
        self._partition = replica.partition
        self._codec = codec
        self._base_sequence = base_sequence
        self.leader_epoch = replica.partition.leader_epoch
        replica.log.producers.checks_txn_sequences = False

    @property
    def leads(self) -> bool:
        """Whether this broker still leads, in the same epoch."""
        partition = self._partition
        leads = partition.is_leader and partition.leader_epoch == self.leader_epoch
        return leads and not self._replica.offline

    @property
    def high_watermark(self) -> int:
        return self._partition.high_watermark

    def append(
        self, records: Sequence[JournalRecord], producer: Producer | None, now_ms: int
    ) -> Steps[int]:
        batch = memoryview((yield from self._batch(records, producer, now_ms)))
        if not self.leads:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        replica = self._replica
        check_in_sync(replica)
        guard = None if producer is None else producer.guard
        replica.append(batch, read_header(batch), guard)
        return replica.log.end_offset

    def _batch(
        self, records: Sequence[JournalRecord], producer: Producer | None, now_ms: int
    ) -> Steps[bytearray]:
        """The records as one batch, so that they are appended atomically. ApiError."""
        replica = self._replica
        attributes = LOG_APPEND_TIME if replica.rules.append_time else 0
        if producer is not None:
            attributes |= TRANSACTIONAL
        writer = producer or _NO_PRODUCER

        def built(codec: Codec) -> Steps[bytearray]:
            return batch_of_pairs(
                records,
                now_ms,
                attributes=attributes | codec,
                producer_id=writer.id,
                producer_epoch=writer.epoch,
                base_sequence=self._base_sequence,
            )

        bytes_max = replica.log.settings.max_message_bytes
        if not self._codec:
            yield from _check_size(records, bytes_max)
        batch = yield from built(Codec.NONE)
        if self._codec and (len(batch) <= COMPRESSED_BYTES_MAX or len(batch) > bytes_max):
            batch = yield from built(self._codec)
        if len(batch) > bytes_max:
            raise _too_large(len(batch), bytes_max)
        return batch


def _check_size(records: Sequence[JournalRecord], bytes_max: int) -> Steps[None]:
    """ApiError for records that exceed the batch size; checked before building up to 100 MB."""
    size_bytes = 0
    for begin in range(0, len(records), RECORDS_PER_STEP):
        if begin:
            yield None
        some = records[begin : begin + RECORDS_PER_STEP]
        size_bytes += sum(len(key) + len(value or b"") for key, value in some)
        if size_bytes > bytes_max:
            raise _too_large(size_bytes, bytes_max)


def _too_large(size_bytes: int, bytes_max: int) -> ApiError:
    return ApiError(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"{size_bytes} bytes of records, which belong together, do not fit into a batch of "
        f"{bytes_max}",
    )
