"""The state of one producer of a partition, and its format in a snapshot."""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

BATCHES_KEPT: Final = 5
"""Batches remembered per producer, to detect duplicates: the in-flight limit of clients."""

NO_EPOCH: Final = -1
NO_OFFSET: Final = -1
SEQUENCE_MASK: Final = 0x7FFFFFFF
"""Sequence numbers wrap around from 2**31-1 to 0."""

ENTRY: Final = struct.Struct(">qhiqiqiq")
"""Producer id, epoch, last sequence, last offset, offset delta, timestamp, coordinator's epoch,
first offset of the transaction."""


class AppendedBatch(NamedTuple):
    """A batch of a producer in the log. Timestamp: its greatest one, in ms."""

    first_sequence: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def base_offset(self) -> int:
        return self.last_offset - self.offset_delta


class ProducerEntry:
    """The state of one producer. Timestamp in ms.

    `txn_first_offset` is the first offset of its ongoing transaction, -1 if there is none;
    `coordinator_epoch` is that of its last marker. `saved` is the serial number of the last
    stepwise snapshot that includes it.
    """

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "last_sequence",
        "last_timestamp",
        "producer_id",
        "saved",
        "txn_first_offset",
    )

    def __init__(self, producer_id: int) -> None:
        self.producer_id = producer_id
        self.epoch = NO_EPOCH
        self.last_sequence = -1
        self.last_timestamp = -1
        self.coordinator_epoch = -1
        self.saved = 0
        self.txn_first_offset = NO_OFFSET
        self.batches: tuple[AppendedBatch, ...] = ()

    def keep(self, batch: AppendedBatch) -> None:
        """Remember the newest batch. A tuple takes a sixth of the memory of a deque, which matters
        for a million producers with one batch each."""
        self.batches = (*self.batches[1 - BATCHES_KEPT :], batch)

    def is_in_transaction(self, epoch: int) -> bool:
        """Whether it has an ongoing transaction in this epoch; earlier epochs are ignored."""
        return self.txn_first_offset >= 0 and self.epoch == epoch

    def enter_epoch(self, epoch: int) -> None:
        """Set the epoch; if it is a new one the sequence numbers restart."""
        if epoch != self.epoch:
            self.epoch = epoch
            self.last_sequence = -1
            self.batches = ()


def encode_entry(entry: ProducerEntry) -> bytes:
    """Encode for a snapshot: everything except the batches before the newest."""
    newest = entry.batches[-1] if entry.batches else None
    return ENTRY.pack(
        entry.producer_id,
        entry.epoch,
        newest.last_sequence if newest else -1,
        newest.last_offset if newest else -1,
        newest.offset_delta if newest else 0,
        entry.last_timestamp,
        entry.coordinator_epoch,
        entry.txn_first_offset,
    )


def decode_entry(
    producer_id: int,
    epoch: int,
    last_sequence: int,
    last_offset: int,
    offset_delta: int,
    timestamp: int,
    coordinator_epoch: int,
    txn_first_offset: int,
) -> ProducerEntry:
    """The state of a producer from the fields of a snapshot entry."""
    entry = ProducerEntry(producer_id)
    entry.epoch = epoch
    entry.last_timestamp = timestamp
    entry.coordinator_epoch = coordinator_epoch
    entry.txn_first_offset = txn_first_offset
    if last_offset >= 0:
        first = (last_sequence - offset_delta) & SEQUENCE_MASK
        entry.last_sequence = last_sequence
        entry.keep(AppendedBatch(first, last_sequence, last_offset, offset_delta, timestamp))
    return entry
