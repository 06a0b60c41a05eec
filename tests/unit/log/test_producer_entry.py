"""A producer in a snapshot: bytes as Apache Kafka's, which `test_snapshots` has its tools read."""

from __future__ import annotations

import struct

import pytest

from kavka.log.producer_entry import (
    BATCHES_KEPT,
    ENTRY,
    AppendedBatch,
    ProducerEntry,
    decode_entry,
    encode_entry,
)

NONE = -1


def entry(**values: object) -> ProducerEntry:
    producer_entry = ProducerEntry(9)
    for name, value in values.items():
        setattr(producer_entry, name, value)
    return producer_entry


def test_a_new_producer_entry_is_empty() -> None:
    assert encode_entry(ProducerEntry(9)) == struct.pack(
        ">qhiqiqiq", 9, NONE, NONE, NONE, 0, NONE, NONE, NONE
    )


def test_the_newest_batch_is_kept() -> None:
    producer_entry = entry(epoch=3, last_timestamp=70, coordinator_epoch=4, txn_first_offset=12)
    producer_entry.keep(AppendedBatch(0, 4, 14, 4, 60))
    producer_entry.keep(AppendedBatch(5, 6, 16, 1, 70))
    data = encode_entry(producer_entry)
    assert data == struct.pack(">qhiqiqiq", 9, 3, 6, 16, 1, 70, 4, 12)
    again = decode_entry(*ENTRY.unpack(data))
    assert list(again.batches) == [AppendedBatch(5, 6, 16, 1, 70)]
    assert again.batches[0].base_offset == 15
    assert again.last_sequence == 6
    assert encode_entry(again) == data


def test_sequences_begin_again_at_the_highest() -> None:
    again = decode_entry(9, 0, 1, 10, 3, 70, NONE, NONE)
    assert again.batches[0].first_sequence == 2**31 - 2


def test_the_last_five_batches_are_kept() -> None:
    producer_entry = ProducerEntry(9)
    for number in range(BATCHES_KEPT + 1):
        producer_entry.keep(AppendedBatch(number, number, number, 0, 0))
    assert [batch.last_offset for batch in producer_entry.batches] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("first_offset", "epoch", "expected"), [(-1, 3, False), (0, 3, True), (7, 2, False)]
)
def test_a_transaction_is_of_one_epoch(first_offset: int, epoch: int, expected: bool) -> None:
    assert entry(epoch=3, txn_first_offset=first_offset).is_in_transaction(epoch) is expected


def test_another_epoch_restarts_the_sequence() -> None:
    producer_entry = entry(epoch=3, last_sequence=6)
    producer_entry.keep(AppendedBatch(5, 6, 16, 1, 70))
    producer_entry.enter_epoch(3)
    assert producer_entry.last_sequence == 6 and producer_entry.batches
    producer_entry.enter_epoch(4)
    assert producer_entry.last_sequence == NONE and not producer_entry.batches
