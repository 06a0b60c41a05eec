"""Idempotent producers: what is a copy, what a gap, and who may begin where."""

from __future__ import annotations

import struct

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from kavka.log.errors import CorruptFileError
from kavka.log.producer_state import AppendedBatch, ProducerStates
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.records import CONTROL, BatchHeader, read_header
from support import logs
from support.logs import Producer

SEQUENCE_MAX = 2**31 - 1


def header(
    sequence: int, count: int = 1, *, epoch: int = 0, producer_id: int = 9, timestamp: int = 5
) -> BatchHeader:
    values = [b"v"] * count
    producer = Producer(producer_id, epoch, sequence)
    return read_header(logs.batch(values, producer=producer, timestamps=timestamp))


def written(*headers: BatchHeader) -> ProducerStates:
    """The state after these batches, one behind the other."""
    states = ProducerStates()
    offset = 0
    for found in headers:
        assert states.check(found) is None
        offset += found.last_offset_delta + 1
        states.update(found, offset - 1)
    return states


def refused(states: ProducerStates, found: BatchHeader) -> ErrorCode:
    with pytest.raises(ApiError) as error:
        states.check(found)
    return error.value.code


@pytest.mark.parametrize("sequence", [0, 1, 1000, SEQUENCE_MAX])
def test_an_unknown_producer_may_begin_anywhere(sequence: int) -> None:
    states = written(header(sequence))
    assert refused(states, header((sequence + 2) & SEQUENCE_MAX)) == (
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    )
    assert states.check(header((sequence + 1) & SEQUENCE_MAX)) is None


def test_the_last_five_batches_are_recognised() -> None:
    states = written(*(header(sequence, 10, timestamp=sequence) for sequence in range(0, 70, 10)))
    for sequence in range(20, 70, 10):
        assert states.check(header(sequence, 10)) == AppendedBatch(
            sequence, sequence + 9, sequence + 9, 9, sequence
        )
    assert states.check(header(20, 10)) is not None
    assert refused(states, header(10, 10)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.mark.parametrize(("sequence", "count"), [(20, 9), (21, 9), (20, 11), (5, 10), (29, 1)])
def test_a_part_of_an_earlier_batch_is_no_copy(sequence: int, count: int) -> None:
    states = written(header(0, 10), header(10, 10), header(20, 10))
    assert refused(states, header(sequence, count)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_an_older_epoch_is_fenced_even_for_a_copy() -> None:
    states = written(header(0, epoch=4), header(0, epoch=5))
    assert refused(states, header(0, epoch=4)) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert refused(states, header(1, epoch=4)) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_new_epoch_begins_with_0() -> None:
    states = written(header(0, 3, epoch=4))
    assert refused(states, header(3, epoch=5)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    new = header(0, epoch=5)
    assert states.check(new) is None
    states.update(new, 3)
    assert states.check(header(1, epoch=5)) is None
    assert states.check(header(0, epoch=5)) == AppendedBatch(0, 0, 3, 0, 5)


def test_sequences_wrap() -> None:
    states = written(header(SEQUENCE_MAX - 1, 3))
    assert states.check(header(1)) is None
    assert refused(states, header(0)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    copy = states.check(header(SEQUENCE_MAX - 1, 3))
    assert copy == AppendedBatch(SEQUENCE_MAX - 1, 0, 2, 2, 5)


def test_checking_changes_nothing() -> None:
    states = ProducerStates()
    states.check(header(0))
    assert len(states) == 0 and states.get(9) is None


def test_producers_do_not_mix() -> None:
    states = written(header(0, producer_id=1), header(7, producer_id=2))
    assert states.check(header(1, producer_id=1)) is None
    assert states.check(header(8, producer_id=2)) is None
    assert {state.producer_id: state.last_sequence for state in states} == {1: 0, 2: 7}


def test_batches_without_a_sequence_leave_no_trace() -> None:
    states = ProducerStates()
    states.update(read_header(logs.batch([b"plain"])), 0)
    marker = header(0)
    states.update(marker._replace(attributes=marker.attributes | CONTROL), 1)
    assert len(states) == 0


# --- snapshots: the fields and their order are those of ProducerSnapshot.json, version 1


def snapshot(*entries: tuple[int, ...]) -> bytes:
    body = struct.pack(">i", len(entries))
    body += b"".join(struct.pack(">qhiqiqiq", *entry) for entry in entries)
    return struct.pack(">hI", 1, crc32c(body)) + body


def test_a_snapshot_has_kafkas_form() -> None:
    states = written(header(3, 10, epoch=2, timestamp=77), header(13, 5, epoch=2, timestamp=78))
    assert states.encode() == snapshot((9, 2, 17, 14, 4, 78, -1, -1))


def test_a_snapshot_brings_the_newest_batch_back() -> None:
    states = ProducerStates()
    states.load(snapshot((9, 2, 17, 14, 4, 78, 6, -1), (10, 0, -1, -1, 0, -1, -1, -1)), "f")
    assert states.check(header(18, epoch=2)) is None
    assert states.check(header(13, 5, epoch=2)) == AppendedBatch(13, 17, 14, 4, 78)
    assert states.check(header(0, producer_id=10)) is None
    assert refused(states, header(1, producer_id=10)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    kept = states.get(9)
    assert kept is not None and (kept.coordinator_epoch, kept.txn_first_offset) == (6, -1)
    assert states.encode() == snapshot(
        (9, 2, 17, 14, 4, 78, 6, -1), (10, 0, -1, -1, 0, -1, -1, -1)
    )


@given(st.data())
def test_a_changed_snapshot_is_refused(data: st.DataObject) -> None:
    good = snapshot((9, 2, 17, 14, 4, 78, 6, 100))
    at = data.draw(st.integers(0, len(good) - 1))
    bad = bytearray(good)
    bad[at] ^= data.draw(st.integers(1, 255))
    states = ProducerStates()
    with pytest.raises(CorruptFileError):
        states.load(bytes(bad), "f")
    with pytest.raises(CorruptFileError):
        states.load(good[:at], "f")
    assert len(states) == 0
