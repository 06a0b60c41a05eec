"""What is known of one producer of a partition, and how that stands in a snapshot."""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

BATCHES_KEPT: Final = 5
"""Batches remembered per producer: as many as a client may have in flight."""

NO_EPOCH: Final = -1
NO_OFFSET: Final = -1
SEQUENCE_MASK: Final = 0x7FFFFFFF
"""Sequences count from 0 to 2**31-1 and go on with 0."""

ENTRY: Final = struct.Struct(">qhiqiqiq")
"""Producer id, epoch, last sequence, last offset, offset delta, timestamp, coordinator's epoch,
first offset of the transaction."""


class AppendedBatch(NamedTuple):
    """A batch that a producer has in the log. Timestamp: the greatest in it, in ms."""

    first_sequence: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def base_offset(self) -> int:
        return self.last_offset - self.offset_delta


class ProducerEntry:
    """What is known of one producer. Timestamp in ms.

    `txn_first_offset` is where its transaction began, -1 when it has none; `coordinator_epoch`
    is that of the coordinator that ended the one before. `saved` numbers the last snapshot that it
    was written to in pieces.
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
        """Remember the newest batch. There may be a million producers, and hardly any has written
        more than one batch lately: a tuple takes a sixth of what a deque does."""
        self.batches = (*self.batches[1 - BATCHES_KEPT :], batch)

    def is_in_transaction(self, epoch: int) -> bool:
        """Whether it has one in this epoch: one of an earlier epoch is as good as over."""
        return self.txn_first_offset >= 0 and self.epoch == epoch

    def enter_epoch(self, epoch: int) -> None:
        """The producer goes on with `epoch`; sequences begin anew if it is another one."""
        if epoch != self.epoch:
            self.epoch = epoch
            self.last_sequence = -1
            self.batches = ()


def encode_entry(entry: ProducerEntry) -> bytes:
    """What stands in a snapshot: all but the batches before the newest."""
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
    """One read from a snapshot."""
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
