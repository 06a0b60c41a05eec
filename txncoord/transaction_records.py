"""The records of transactional ids in `__transaction_state`. Pure.

Keys have version 0. Values have the versions 0 and 1; 1 is written from the level 1 of the feature
`transaction.version` on, as Apache Kafka does. The schemas are its TransactionLogKey and
TransactionLogValue.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from struct import Struct, pack
from struct import error as StructError
from typing import Final

from kavka.log.journal import JournalRecord
from kavka.txncoord.transaction import State, Transaction
from kavka.txncoord.transaction_requests import NO_EPOCH, NO_PRODUCER_ID
from kavka.wire.fields import Reader, uvarint
from kavka.wire.steps import QUICK_ITEMS_PER_STEP, PauseCounter, Steps

ID_BYTES_MAX: Final = 2**15 - 1
"""The longest transactional id that fits into a key."""

_KEY_HEAD: Final = Struct(">hh")
_SHORT: Final = Struct(">h")
_INT: Final = Struct(">i")
_LONG: Final = Struct(">q")
_TWO_LONGS: Final = Struct(">qq")

_HEAD: Final = Struct(">hqhib")
"""The value's version; producer id, epoch, timeout, state."""

_PREVIOUS_ID_TAG: Final = 0
_NEXT_ID_TAG: Final = 1
_VERSION_TAG: Final = 2
TOPIC_COST: Final = 10
"""A topic costs as much time as this many partitions."""


def encode_key(transactional_id: str) -> bytes:
    """The key of an id's record."""
    data = transactional_id.encode()
    return _KEY_HEAD.pack(0, len(data)) + data


def decode_key(key: bytes) -> str | None:
    """The transactional id; None if it is not such a key."""
    try:
        version, length = _KEY_HEAD.unpack_from(key)
        if version != 0 or len(key) != _KEY_HEAD.size + length:
            return None
        return key[_KEY_HEAD.size :].decode()
    except (StructError, UnicodeDecodeError):
        return None


def transaction_record(
    transactional_id: str, transaction: Transaction, feature: int
) -> Steps[JournalRecord]:
    """The record to append; `feature` is the level of `transaction.version`."""
    value = yield from encode(transaction, 1 if feature >= 1 else 0)
    return JournalRecord(encode_key(transactional_id), value)


def tombstone(transactional_id: str) -> JournalRecord:
    """The record that deletes a transactional id."""
    return JournalRecord(encode_key(transactional_id), None)


def encode(transaction: Transaction, version: int) -> Steps[bytes]:
    """A value of this version; version 0 lacks the previous and next producer id and the client's
    transaction version."""
    head = _HEAD.pack(
        version,
        transaction.producer_id,
        transaction.producer_epoch,
        transaction.timeout_ms,
        transaction.state,
    )
    times = _TWO_LONGS.pack(transaction.updated_ms, transaction.started_ms)
    if version == 0:
        return head + (yield from _partitions(transaction)) + times
    return head + (yield from _compact_partitions(transaction)) + times + _tags(transaction)


def _partitions(transaction: Transaction) -> Steps[bytes]:
    if transaction.state is State.EMPTY:
        return _INT.pack(-1)
    topics = yield from transaction.by_topic()
    out, pauses = bytearray(_INT.pack(len(topics))), PauseCounter()
    for name, indexes in topics:
        topic = name.encode()
        out += _SHORT.pack(len(topic)) + topic + _INT.pack(len(indexes)) + _ints(indexes)
        if pauses.is_due(TOPIC_COST + len(indexes)):
            yield None
    return bytes(out)


def _compact_partitions(transaction: Transaction) -> Steps[bytes]:
    if transaction.state is State.EMPTY:
        return b"\x00"
    if not transaction.partitions:
        return b"\x01"
    topics = yield from transaction.by_topic()
    out, pauses = bytearray(uvarint(len(topics) + 1)), PauseCounter()
    for name, indexes in topics:
        topic = name.encode()
        out += uvarint(len(topic) + 1) + topic + uvarint(len(indexes) + 1) + _ints(indexes) + b"\0"
        if pauses.is_due(TOPIC_COST + len(indexes)):
            yield None
    return bytes(out)


def _ints(numbers: list[int]) -> bytes:
    return pack(f">{len(numbers)}i", *numbers)


def _tags(transaction: Transaction) -> bytes:
    tags = []
    if transaction.previous_producer_id != NO_PRODUCER_ID:
        tags.append(b"\x00\x08" + _LONG.pack(transaction.previous_producer_id))
    if transaction.next_producer_id != NO_PRODUCER_ID:
        tags.append(b"\x01\x08" + _LONG.pack(transaction.next_producer_id))
    if transaction.version != 0:
        tags.append(b"\x02\x02" + _SHORT.pack(transaction.version))
    return uvarint(len(tags)) + b"".join(tags)


def is_known(value: bytes) -> bool:
    """Whether the version of a value is supported."""
    return value[:2] in (b"\0\0", b"\0\1")


def decode(value: bytes) -> Steps[Transaction | None]:
    """The transaction in a value; None if it can't be decoded, e.g. has a later version."""
    try:
        return (yield from _Reader(value).transaction())
    except (StructError, ValueError):
        return None


class _Reader(Reader):
    """Decodes one value. ValueError or struct.error where it is malformed."""

    __slots__ = ("_head", "_is_flexible")

    def __init__(self, data: bytes) -> None:
        super().__init__(data, _HEAD.size)
        self._head = data[: _HEAD.size]
        self._is_flexible = int.from_bytes(data[:2], "big") == 1

    def transaction(self) -> Steps[Transaction]:
        version, producer_id, epoch, timeout_ms, number = _HEAD.unpack(self._head)
        if version not in (0, 1):
            raise ValueError(f"version {version}")
        state = State(number)
        partitions = yield from self._partitions()
        updated_ms, started_ms = _TWO_LONGS.unpack(self.take(_TWO_LONGS.size))
        previous_id = next_id = NO_PRODUCER_ID
        client_version = 0
        for tag, data in self._tags():
            if tag == _PREVIOUS_ID_TAG:
                (previous_id,) = _LONG.unpack(data)
            elif tag == _NEXT_ID_TAG:
                (next_id,) = _LONG.unpack(data)
            elif tag == _VERSION_TAG:
                (client_version,) = _SHORT.unpack(data)
        return Transaction(
            state,
            producer_id,
            previous_id,
            next_id,
            epoch,
            NO_EPOCH,
            timeout_ms,
            frozenset() if state is State.EMPTY else partitions,
            started_ms,
            updated_ms,
            client_version,
        )

    def _partitions(self) -> Steps[frozenset[tuple[str, int]]]:
        found: set[tuple[str, int]] = set()
        pauses = PauseCounter()
        for _ in range(self._length(_INT)):
            topic = self.take(self._length(_SHORT)).decode()
            count = self._length(_INT)
            indexes = Struct(f">{count}i").unpack(self.take(_INT.size * count))
            for begin in range(0, count, QUICK_ITEMS_PER_STEP):
                some = indexes[begin : begin + QUICK_ITEMS_PER_STEP]
                found.update(zip(repeat(topic), some, strict=False))
                if pauses.is_due(len(some)):
                    yield None
            self._skip_tags()
            if pauses.is_due(TOPIC_COST):
                yield None
        return frozenset(found)

    def _length(self, plain: Struct) -> int:
        """The length of a string or array; -1 for null."""
        if self._is_flexible:
            return self.uvarint() - 1
        return int.from_bytes(self.take(plain.size), "big", signed=True)

    def _tags(self) -> Iterator[tuple[int, bytes]]:
        if self._is_flexible:
            for _ in range(self.uvarint()):
                yield self.uvarint(), self.take(self.uvarint())

    def _skip_tags(self) -> None:
        for _ in self._tags():
            pass
