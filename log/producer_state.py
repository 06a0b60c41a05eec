"""Producer state: epoch, sequence numbers and transaction of each producer (KIP-98).

Detects duplicate batches, which are acknowledged but not appended, and out-of-order sequences,
which are rejected, and tracks ongoing transactions. The state is in memory, is derived from the
batch headers and markers in the log, and is saved in snapshots (`<offset>.snapshot`: the state
before that offset) in Apache Kafka's format, version 1. As in Kafka a snapshot has only the newest
batch of each producer.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import chain, islice
from operator import attrgetter
from typing import Final

from kavka.log.errors import CorruptFileError
from kavka.log.fs import File
from kavka.log.producer_entry import (
    ENTRY,
    NO_EPOCH,
    NO_OFFSET,
    SEQUENCE_MASK,
    AppendedBatch,
    ProducerEntry,
    decode_entry,
    encode_entry,
)
from kavka.log.transactions import Transactions
from kavka.log.txn_guards import Guard, Verifications
from kavka.log.txn_index import AbortedTxn
from kavka.wire.control_records import Marker
from kavka.wire.crc import crc32c
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.record_batches import CONTROL, NO_PRODUCER_ID, TRANSACTIONAL, BatchHeader
from kavka.wire.steps import Steps

SNAPSHOT_VERSION: Final = 1
EPOCH_MAX: Final = 0x7FFF
OWN_EPOCHS_VERSION: Final = 2
"""From this `transaction.version` on each transaction has an epoch of its own (KIP-890)."""

ENTRIES_PER_PART: Final = 1000
"""Producers in one part of `ProducerStates.parts`."""

ENTRIES_PER_STEP: Final = 500
"""Producers written to a snapshot, or read from it, in one step; at 0.5 and 2 us each."""

_HEAD: Final = struct.Struct(">hIi")  # version, CRC-32C of what follows it, number of entries
SNAPSHOT_HEAD_BYTES: Final = _HEAD.size
_COUNT: Final = struct.Struct(">i")


class ProducerStates:
    """All producers of one partition.

    With many producers a snapshot is written in steps, copy-on-write: `freeze` moves all entries
    to the dictionary `_frozen`, which stays unchanged. Before an entry is changed it is encoded for
    the snapshot and moved to `_entries`.

    All entries are also in `_parts`, a list of short lists in insertion order, because a dictionary
    can't be iterated in steps while it changes.
    """

    __slots__ = (
        "_saved_before_change",
        "_entries",
        "_frozen",
        "_unsaved",
        "_new",
        "_parts",
        "_serial",
        "checks_txn_sequences",
        "transactions",
        "verifications",
    )

    def __init__(self) -> None:
        self._entries: dict[int, ProducerEntry] = {}
        self._frozen: dict[int, ProducerEntry] = {}
        self._new: list[ProducerEntry] = []
        self._parts: list[list[ProducerEntry]] = []
        self._saved_before_change: list[bytes] = []
        self._unsaved: Iterator[ProducerEntry] = iter(())
        self._serial = 0
        self.checks_txn_sequences = True
        """Whether transactional batches have sequence numbers to check. Those written by
        coordinators all have the sequence 0, as in Apache Kafka."""
        self.transactions = Transactions()
        self.verifications = Verifications()

    def __len__(self) -> int:
        return len(self._frozen or self._entries) + len(self._new)

    def __iter__(self) -> Iterator[ProducerEntry]:
        return chain.from_iterable(self._parts)

    def parts(self) -> Iterator[list[ProducerEntry]]:
        """All producers, in parts. Producers may be added or removed between two parts; those that
        exist all the time are included once."""
        for part in list(self._parts):
            yield list(part)

    def get(self, producer_id: int) -> ProducerEntry | None:
        """One producer; None if it is unknown or expired."""
        return self._entries.get(producer_id) or self._restore_from_frozen(producer_id)

    def _restore_from_frozen(self, producer_id: int) -> ProducerEntry | None:
        """Move an entry from `_frozen` to `_entries`, encoding it for the snapshot first."""
        entry = self._frozen.get(producer_id)
        if entry is not None:
            if entry.saved != self._serial:
                entry.saved = self._serial
                self._saved_before_change.append(encode_entry(entry))
            self._entries[producer_id] = entry
        return entry

    def check(self, header: BatchHeader, guard: Guard | None = None) -> AppendedBatch | None:
        """Check whether a batch may be appended; changes nothing. For markers see `check_marker`.

        Returns the batch in the log of which this one is a duplicate, else None.
        ApiError: INVALID_PRODUCER_EPOCH for an older epoch than the producer's newest,
        OUT_OF_ORDER_SEQUENCE_NUMBER for a gap in the sequence, INVALID_TXN_STATE for the first
        batch of a transaction without a valid `guard` (KIP-890), or for a non-transactional batch
        during a transaction. An unknown producer may start with any sequence, because its state
        may have expired.
        """
        entry = self._entries.get(header.producer_id)
        if header.attributes & _SPECIAL:
            return self._check_transactional(header, entry, guard)
        if entry is None:
            entry = self._restore_from_frozen(header.producer_id)
            if entry is None:
                return None
        if header.producer_epoch == entry.epoch:
            if header.base_sequence != (entry.last_sequence + 1) & SEQUENCE_MASK:
                return _duplicate_of(header, entry)
        else:
            _check_new_epoch(header, entry)
        if entry.txn_first_offset >= 0:
            raise ApiError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {header.producer_id} has a transaction from offset "
                f"{entry.txn_first_offset} on, but the batch is not transactional",
            )
        return None

    def _check_transactional(
        self, header: BatchHeader, entry: ProducerEntry | None, guard: Guard | None
    ) -> AppendedBatch | None:
        if header.attributes & CONTROL:
            return None
        producer_id = header.producer_id
        if entry is None:
            entry = self._restore_from_frozen(producer_id)
        in_sequence = self.checks_txn_sequences and header.base_sequence >= 0
        copy = _find_duplicate(header, entry) if entry is not None and in_sequence else None
        if copy is not None:
            return copy
        if entry is not None and header.producer_epoch < entry.epoch:
            raise _old_epoch(header.producer_id, header.producer_epoch, entry.epoch)
        if entry is None or not entry.is_in_transaction(header.producer_epoch):
            if not self.verifications.holds(producer_id, guard):
                raise ApiError(
                    ErrorCode.INVALID_TXN_STATE, "Record was not part of an ongoing transaction"
                )
        if not in_sequence:
            return None
        has_written = entry is not None and bool(entry.batches)
        lowest = self.verifications.lowest_sequence(producer_id, has_written=has_written)
        if lowest is not None and header.base_sequence > lowest:
            raise _out_of_order(header, f"a batch that starts with {lowest} has to come first")
        if entry is None:
            return None
        if header.producer_epoch != entry.epoch:
            _check_new_epoch(header, entry)
        elif header.base_sequence != (entry.last_sequence + 1) & SEQUENCE_MASK:
            raise _out_of_order(header, f"the last one appended is {entry.last_sequence}")
        return None

    def verification(
        self, producer_id: int, sequence: int, epoch: int, now_ms: int, *, v2: bool
    ) -> Guard | None:
        """The guard with which a transactional batch that starts with `sequence` may be appended
        after the coordinator has verified the transaction; None if the transaction is already
        ongoing in this partition (KIP-890). `v2`: each transaction has its own epoch. The caller
        has to report the result to `verifications`. ApiError: INVALID_PRODUCER_EPOCH and
        COORDINATOR_NOT_AVAILABLE."""
        entry = self.get(producer_id)
        if entry is not None:
            if epoch < entry.epoch:
                raise _old_epoch(producer_id, epoch, entry.epoch)
            if entry.is_in_transaction(epoch):
                return None
        return self.verifications.begin(producer_id, sequence, epoch, now_ms, v2=v2)

    def check_marker(self, header: BatchHeader, marker: Marker, version: int = 0) -> None:
        """Check whether a marker of `transaction.version` `version` may be appended; changes
        nothing. With version 2 the marker's epoch is higher than that of the transaction; an equal
        epoch means a duplicate marker, or that there is no higher epoch.

        ApiError: INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED.
        """
        entry = self.get(header.producer_id)
        if entry is None:
            return
        epoch = header.producer_epoch
        ends_its_own = epoch < EPOCH_MAX and entry.is_in_transaction(epoch)
        if epoch < entry.epoch or (version >= OWN_EPOCHS_VERSION and ends_its_own):
            raise _old_epoch(header.producer_id, epoch, entry.epoch)
        if marker.coordinator_epoch < entry.coordinator_epoch:
            raise ApiError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"a marker for producer {header.producer_id} from coordinator epoch "
                f"{marker.coordinator_epoch}, known is {entry.coordinator_epoch}",
            )

    def update(self, header: BatchHeader, last_offset: int) -> None:
        """Update the producer's entry for a batch that was appended with its last record at
        `last_offset`. For markers see `end`."""
        producer_id = header.producer_id
        special = header.attributes & _SPECIAL
        if producer_id == NO_PRODUCER_ID or special & CONTROL:
            return
        entry = self._entries.get(producer_id)
        if entry is None:
            entry = self._restore_from_frozen(producer_id) or self._add_entry(producer_id)
        if entry.epoch != header.producer_epoch:
            entry.epoch = header.producer_epoch
            entry.batches = ()
        delta = header.last_offset_delta
        first = header.base_sequence
        timestamp = header.max_timestamp
        last = (first + delta) & SEQUENCE_MASK if first >= 0 else first
        entry.last_sequence = last
        entry.last_timestamp = timestamp
        entry.keep(AppendedBatch(first, last, last_offset, delta, timestamp))
        if special:
            self.verifications.batch_appended(producer_id)
            if entry.txn_first_offset < 0:
                entry.txn_first_offset = last_offset - delta
                self.transactions.begin(producer_id, last_offset - delta)

    def _add_entry(self, producer_id: int) -> ProducerEntry:
        self._entries[producer_id] = entry = ProducerEntry(producer_id)
        if not self._parts or len(self._parts[-1]) >= ENTRIES_PER_PART:
            self._parts.append([])
        self._parts[-1].append(entry)
        if self._frozen:
            self._new.append(entry)
        return entry

    def aborted_by(self, producer_id: int, marker: Marker, offset: int) -> AbortedTxn | None:
        """The transaction index entry for a marker at `offset`, if any; changes nothing."""
        entry = self.get(producer_id)
        if marker.committed or entry is None or entry.txn_first_offset < 0:
            return None
        first = entry.txn_first_offset
        stable = self.transactions.stable_after(first, offset)
        return AbortedTxn(producer_id, first, offset, stable)

    def end(self, header: BatchHeader, marker: Marker, offset: int) -> None:
        """End the producer's transaction: its marker was appended at `offset`."""
        producer_id = header.producer_id
        entry = self.get(producer_id) or self._add_entry(producer_id)
        entry.enter_epoch(header.producer_epoch)
        entry.coordinator_epoch = marker.coordinator_epoch
        entry.last_timestamp = marker.timestamp
        self.verifications.marker_appended(producer_id, header.producer_epoch)
        if entry.txn_first_offset >= 0:
            self.transactions.end(entry.txn_first_offset, offset)
            entry.txn_first_offset = NO_OFFSET

    def expire(self, before_ms: int) -> Iterator[int]:
        """Expire, in steps, producers without an ongoing transaction whose last write is at
        `before_ms` or earlier; yields how many each step has checked. Does nothing while a
        stepwise snapshot is being written."""
        for part in list(self._parts):
            if self._frozen:
                return
            kept = []
            for entry in part:
                if entry.last_timestamp > before_ms or entry.txn_first_offset >= 0:
                    kept.append(entry)
                elif self._entries.get(entry.producer_id) is entry:
                    del self._entries[entry.producer_id]
            looked = len(part)
            part[:] = kept
            yield looked
        if not self._frozen:
            self._parts = [part for part in self._parts if part]

    @property
    def oldest_transaction_ms(self) -> int:
        """When the producer of the oldest ongoing transaction wrote last; -1 if there is none."""
        producer_id = self.transactions.oldest_producer
        entry = None if producer_id is None else self.get(producer_id)
        return -1 if entry is None else entry.last_timestamp

    def clear(self) -> None:
        """Remove all producers."""
        self.thaw()
        self._entries.clear()
        self._parts.clear()
        self.transactions.clear()
        self.verifications.clear()

    # --- snapshots

    def encode(self) -> bytes:
        """The snapshot file's content."""
        body = b"".join([encode_entry(entry) for entry in self])
        return snapshot_head(len(self), crc32c(body, crc_of_count(len(self)))) + body

    def freeze(self) -> None:
        """Begin a snapshot of the current state; `frozen` returns it in parts. There must be at
        least one producer, and no other snapshot being written."""
        self._serial += 1
        self._frozen, self._entries = self._entries, {}
        self._unsaved = iter(self._frozen.values())

    def frozen(self) -> bytes:
        """The next entries of the snapshot, about `ENTRIES_PER_STEP`. Call `thaw` after the last
        ones."""
        serial = self._serial
        parts, self._saved_before_change = self._saved_before_change, []
        for entry in islice(self._unsaved, ENTRIES_PER_STEP):
            if entry.saved != serial:
                entry.saved = serial
                parts.append(encode_entry(entry))
        return b"".join(parts)

    def thaw(self) -> None:
        """End the snapshot, complete or not."""
        if self._frozen:
            self._entries, self._frozen = self._frozen, {}
            self._entries.update((entry.producer_id, entry) for entry in self._new)
            self._unsaved = iter(())
            self._new.clear()
            self._saved_before_change.clear()

    def clear_in_steps(self) -> Steps[None]:
        """Remove all producers in steps, since freeing very many takes long."""
        self.thaw()
        while self._entries:
            for _ in range(min(ENTRIES_PER_STEP, len(self._entries))):
                self._entries.popitem()
                self._parts[-1].pop()
                if not self._parts[-1]:
                    self._parts.pop()
            yield None

    def load(self, file: File, path: str) -> Steps[None]:
        """Load a snapshot file, in steps. After a CorruptFileError there are no producers."""
        self.clear()
        entries: dict[int, ProducerEntry] = {}
        parts: list[list[ProducerEntry]] = []
        ongoing: list[ProducerEntry] = []
        count = 0
        for fields_of_part in read_snapshot(file, path):
            parts.append([])
            for fields in fields_of_part:
                entry = decode_entry(*fields)
                entries[entry.producer_id] = entry
                parts[-1].append(entry)
                if entry.txn_first_offset >= 0:
                    ongoing.append(entry)
            count += len(parts[-1])
            yield None
        self._entries = entries
        self._parts = parts if len(entries) == count else [list(entries.values())]
        for entry in sorted(ongoing, key=attrgetter("txn_first_offset")):
            self.transactions.begin(entry.producer_id, entry.txn_first_offset)


def read_snapshot(file: File, path: str) -> Iterator[Iterator[tuple[int, ...]]]:
    """The entries of a snapshot file, as arguments of `decode_entry`, in parts of
    `ENTRIES_PER_STEP`. CorruptFileError, perhaps only after the last part."""
    count, crc = _read_head(file, path)
    found = crc_of_count(count)
    for first in range(0, count, ENTRIES_PER_STEP):
        size = min(ENTRIES_PER_STEP, count - first) * ENTRY.size
        data = file.pread(size, _HEAD.size + first * ENTRY.size)
        found = crc32c(data, found)
        yield ENTRY.iter_unpack(data)
    if found != crc:
        raise CorruptFileError(path, "its checksum is wrong")


def snapshot_head(count: int, crc: int) -> bytes:
    """The header of a snapshot of `count` entries; `crc` covers all entries, starting from
    `crc_of_count`."""
    return _HEAD.pack(SNAPSHOT_VERSION, crc, count)


def snapshot_bytes(count: int) -> int:
    """The size of a snapshot of `count` entries."""
    return _HEAD.size + count * ENTRY.size


def crc_of_count(count: int) -> int:
    """The CRC of the entry count, which precedes the entries."""
    return crc32c(_COUNT.pack(count))


_SPECIAL: Final = TRANSACTIONAL | CONTROL


def _find_duplicate(header: BatchHeader, entry: ProducerEntry) -> AppendedBatch | None:
    """The batch in the log of which this one is a duplicate; None: it is not one."""
    if header.producer_epoch == entry.epoch:
        first, last = header.base_sequence, header.last_sequence
        for batch in entry.batches:
            if batch.first_sequence == first and batch.last_sequence == last:
                return batch
    return None


def _duplicate_of(header: BatchHeader, entry: ProducerEntry) -> AppendedBatch:
    """The batch of which this one is a duplicate. ApiError: it is out of order."""
    copy = _find_duplicate(header, entry)
    if copy is None:
        raise _out_of_order(header, f"the last one appended is {entry.last_sequence}")
    return copy


def _check_new_epoch(header: BatchHeader, entry: ProducerEntry) -> None:
    """Check a batch of another epoch than the producer's: a newer epoch starts with sequence 0."""
    if header.producer_epoch < entry.epoch:
        raise _old_epoch(header.producer_id, header.producer_epoch, entry.epoch)
    if header.base_sequence != 0 and entry.epoch != NO_EPOCH:
        raise _out_of_order(header, f"epoch {header.producer_epoch} is new and has to start with 0")


def _old_epoch(producer_id: int, epoch: int, newest: int) -> ApiError:
    return ApiError(
        ErrorCode.INVALID_PRODUCER_EPOCH,
        f"producer {producer_id} has epoch {newest}, the batch {epoch}",
    )


def _out_of_order(header: BatchHeader, why: str) -> ApiError:
    return ApiError(
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        f"producer {header.producer_id} sent sequence {header.base_sequence}, but {why}",
    )


def _read_head(file: File, path: str) -> tuple[int, int]:
    """The number of entries, and the CRC."""
    head = file.pread(_HEAD.size, 0)
    if len(head) < _HEAD.size:
        raise CorruptFileError(path, "it is shorter than its header")
    version, crc, count = _HEAD.unpack(head)
    if version != SNAPSHOT_VERSION:
        raise CorruptFileError(path, f"its version is {version}, not {SNAPSHOT_VERSION}")
    if file.size() != snapshot_bytes(count):
        raise CorruptFileError(path, f"its size does not match its {count} entries")
    return count, crc
