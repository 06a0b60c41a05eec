"""Who wrote last: epoch, sequences and transaction of each producer of a partition (KIP-98).

It makes a batch that was sent twice be acknowledged and not appended, and a gap be refused; it
knows which transactions are not decided. The state is in memory, follows from the batch headers
and the markers in the log, and is saved in snapshots (`<offset>.snapshot`: the state before that
offset) in Apache Kafka's format, version 1. A snapshot holds only the newest batch of each
producer, as Kafka's does.
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Iterator
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
from kavka.wire.records import CONTROL, NO_PRODUCER_ID, TRANSACTIONAL, BatchHeader

SNAPSHOT_VERSION: Final = 1
EPOCH_MAX: Final = 0x7FFF
OWN_EPOCHS_VERSION: Final = 2
"""From this `transaction.version` on each transaction has an epoch of its own (KIP-890)."""

ENTRIES_PER_PART: Final = 1000
"""Producers that `ProducerStates.parts` tells of at a time."""

ENTRIES_PER_STEP: Final = 500
"""Producers written to a snapshot, or read from it, before a pause; at 0.5 and 2 us each."""

_HEAD: Final = struct.Struct(">hIi")  # version, CRC-32C of what follows it, number of entries
SNAPSHOT_HEAD_BYTES: Final = _HEAD.size
_COUNT: Final = struct.Struct(">i")


class ProducerStates:
    """All producers of one partition.

    Where they are many their snapshot is made in pieces. All stand in a dictionary apart
    meanwhile, which stays as it is; whoever writes is put into the snapshot first, as it was, and
    found among `_entries` from then on. So it costs nothing where nobody is looked for in vain.

    Beside the dictionary all stand in `_parts`, short lists in the order in which they came: a
    dictionary that changes meanwhile can't be gone through in steps.
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
        """Whether writers in transactions count their records. Coordinators do not: each of their
        batches has the sequence 0, as Apache Kafka's have."""
        self.transactions = Transactions()
        self.verifications = Verifications()

    def __len__(self) -> int:
        return len(self._frozen or self._entries) + len(self._new)

    def __iter__(self) -> Iterator[ProducerEntry]:
        return chain.from_iterable(self._parts)

    def parts(self) -> Iterator[list[ProducerEntry]]:
        """All producers, some at a time. Between two parts others may come and go; those who are
        there all the while are told of once."""
        for part in list(self._parts):
            yield list(part)

    def get(self, producer_id: int) -> ProducerEntry | None:
        """One producer; None when it has not written, or not for long."""
        return self._entries.get(producer_id) or self._restore_from_frozen(producer_id)

    def _restore_from_frozen(self, producer_id: int) -> ProducerEntry | None:
        """A producer that has not been looked for since a snapshot was begun."""
        entry = self._frozen.get(producer_id)
        if entry is not None:
            if entry.saved != self._serial:
                entry.saved = self._serial
                self._saved_before_change.append(encode_entry(entry))
            self._entries[producer_id] = entry
        return entry

    def check(self, header: BatchHeader, guard: Guard | None = None) -> AppendedBatch | None:
        """Whether a producer's batch may be appended; changes nothing. Markers: `check_marker`.

        Returns the batch as it already is in the log when this one is its copy, else None.
        ApiError: INVALID_PRODUCER_EPOCH for an older epoch than the producer's newest,
        OUT_OF_ORDER_SEQUENCE_NUMBER where records are missing in between, INVALID_TXN_STATE for
        the first batch of a transaction without a good `guard` (KIP-890), or one outside the
        transaction that is going on. A producer that is not known may begin with any sequence:
        its state may have been forgotten.
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
                f"{entry.txn_first_offset} on, the batch is outside of it",
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
            raise _out_of_order(header, f"a batch that begins with {lowest} has to come first")
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
        """What the coordinator has to confirm before a transactional batch that begins with
        `sequence` is appended; None: nothing, the producer's transaction is going on here
        (KIP-890). `v2`: each of its transactions has an epoch of its own. Of a guard, the outcome
        is to be told to `verifications`. ApiError: INVALID_PRODUCER_EPOCH, and
        COORDINATOR_NOT_AVAILABLE."""
        entry = self.get(producer_id)
        if entry is not None:
            if epoch < entry.epoch:
                raise _old_epoch(producer_id, epoch, entry.epoch)
            if entry.is_in_transaction(epoch):
                return None
        return self.verifications.begin(producer_id, sequence, epoch, now_ms, v2=v2)

    def check_marker(self, header: BatchHeader, marker: Marker, version: int = 0) -> None:
        """Whether a marker may be appended that ends a transaction of protocol `version`; changes
        nothing. In the protocol of version 2 its epoch is newer than that of the transaction; the
        same one is that of a marker sent again, or there is no higher one.

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
        """Note that a batch is in the log with its last record at `last_offset`. Not for markers:
        see `end`."""
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
        """What a marker at `offset` adds to the transaction index; changes nothing."""
        entry = self.get(producer_id)
        if marker.committed or entry is None or entry.txn_first_offset < 0:
            return None
        first = entry.txn_first_offset
        stable = self.transactions.stable_after(first, offset)
        return AbortedTxn(producer_id, first, offset, stable)

    def end(self, header: BatchHeader, marker: Marker, offset: int) -> None:
        """Note that a marker is in the log at `offset`."""
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
        """Forget, in steps, those that wrote last at `before_ms` or earlier and have no
        transaction; yields how many each step looked at. None while a snapshot is made in
        pieces."""
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
        """When the producer of the transaction that has been going on for longest wrote last;
        -1 when there is none."""
        producer_id = self.transactions.oldest_producer
        entry = None if producer_id is None else self.get(producer_id)
        return -1 if entry is None else entry.last_timestamp

    def clear(self) -> None:
        """Forget everyone."""
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
        """Begin a snapshot of all producers as they are now; `frozen` gives it, piece by piece.
        There is one at least, and no snapshot that is not at its end."""
        self._serial += 1
        self._frozen, self._entries = self._entries, {}
        self._unsaved = iter(self._frozen.values())

    def frozen(self) -> bytes:
        """The next entries of the snapshot, some `ENTRIES_PER_STEP` or, if others wrote
        meanwhile, fewer. After the last one `thaw` is to be called."""
        serial = self._serial
        parts, self._saved_before_change = self._saved_before_change, []
        for entry in islice(self._unsaved, ENTRIES_PER_STEP):
            if entry.saved != serial:
                entry.saved = serial
                parts.append(encode_entry(entry))
        return b"".join(parts)

    def thaw(self) -> None:
        """There is no more of the snapshot, or shall be none."""
        if self._frozen:
            self._entries, self._frozen = self._frozen, {}
            self._entries.update((entry.producer_id, entry) for entry in self._new)
            self._unsaved = iter(())
            self._new.clear()
            self._saved_before_change.clear()

    def clear_in_steps(self) -> Iterator[None]:
        """Forget everyone in steps: of very many that takes long."""
        self.thaw()
        while self._entries:
            for _ in range(min(ENTRIES_PER_STEP, len(self._entries))):
                self._entries.popitem()
                self._parts[-1].pop()
                if not self._parts[-1]:
                    self._parts.pop()
            yield

    def load(self, file: File, path: str) -> Generator[None, None, None]:
        """Take over a snapshot file's content, in steps; CorruptFileError leaves nothing behind."""
        self.clear()
        count, crc = _read_head(file, path)
        entries: dict[int, ProducerEntry] = {}
        parts: list[list[ProducerEntry]] = []
        ongoing: list[ProducerEntry] = []
        found = crc_of_count(count)
        for first in range(0, count, ENTRIES_PER_STEP):
            size = min(ENTRIES_PER_STEP, count - first) * ENTRY.size
            data = file.pread(size, _HEAD.size + first * ENTRY.size)
            found = crc32c(data, found)
            parts.append([])
            for fields in ENTRY.iter_unpack(data):
                entry = decode_entry(*fields)
                entries[entry.producer_id] = entry
                parts[-1].append(entry)
                if entry.txn_first_offset >= 0:
                    ongoing.append(entry)
            yield
        if found != crc:
            raise CorruptFileError(path, "its checksum is wrong")
        self._entries = entries
        self._parts = parts if len(entries) == count else [list(entries.values())]
        for entry in sorted(ongoing, key=attrgetter("txn_first_offset")):
            self.transactions.begin(entry.producer_id, entry.txn_first_offset)


def snapshot_head(count: int, crc: int) -> bytes:
    """What stands before the `count` entries of a snapshot; `crc` is that of all entries, begun
    with `crc_of_count`."""
    return _HEAD.pack(SNAPSHOT_VERSION, crc, count)


def snapshot_bytes(count: int) -> int:
    """The length of a snapshot of so many."""
    return _HEAD.size + count * ENTRY.size


def crc_of_count(count: int) -> int:
    """The checksum of what it covers before the entries."""
    return crc32c(_COUNT.pack(count))


_SPECIAL: Final = TRANSACTIONAL | CONTROL


def _find_duplicate(header: BatchHeader, entry: ProducerEntry) -> AppendedBatch | None:
    """The batch that is in the log already, if this one is its copy."""
    if header.producer_epoch == entry.epoch:
        first, last = header.base_sequence, header.last_sequence
        for batch in entry.batches:
            if batch.first_sequence == first and batch.last_sequence == last:
                return batch
    return None


def _duplicate_of(header: BatchHeader, entry: ProducerEntry) -> AppendedBatch:
    """The batch of which one that does not follow the last has to be a copy; ApiError."""
    copy = _find_duplicate(header, entry)
    if copy is None:
        raise _out_of_order(header, f"the last one appended is {entry.last_sequence}")
    return copy


def _check_new_epoch(header: BatchHeader, entry: ProducerEntry) -> None:
    """A batch of another epoch than the producer's newest: a newer one begins with 0."""
    if header.producer_epoch < entry.epoch:
        raise _old_epoch(header.producer_id, header.producer_epoch, entry.epoch)
    if header.base_sequence != 0 and entry.epoch != NO_EPOCH:
        raise _out_of_order(header, f"epoch {header.producer_epoch} is new and has to begin with 0")


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
    """The number of entries, and the checksum."""
    head = file.pread(_HEAD.size, 0)
    if len(head) < _HEAD.size:
        raise CorruptFileError(path, "it is shorter than its header")
    version, crc, count = _HEAD.unpack(head)
    if version != SNAPSHOT_VERSION:
        raise CorruptFileError(path, f"its version is {version}, not {SNAPSHOT_VERSION}")
    if file.size() != snapshot_bytes(count):
        raise CorruptFileError(path, f"it does not hold the {count} entries that it promises")
    return count, crc
