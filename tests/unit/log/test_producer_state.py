"""Idempotent producers: what is a copy, what a gap, and who may begin where."""

from __future__ import annotations

import struct

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from kavka.log import producer_state
from kavka.log.errors import CorruptFileError
from kavka.log.memfs import MemFs
from kavka.log.producer_entry import AppendedBatch
from kavka.log.producer_state import ProducerStates
from kavka.log.txn_index import AbortedTxn
from kavka.log.verification import NOT_NEEDED, Guard
from kavka.wire.control_records import Marker, end_marker
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.records import CONTROL, TRANSACTIONAL, BatchHeader, read_header
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


def load(states: ProducerStates, data: bytes) -> None:
    """Have the states load a file with this content."""
    file = MemFs().create("/f")
    file.pwrite(data, 0)
    for _ in states.load(file, "/f"):
        pass


def test_a_snapshot_has_kafkas_form() -> None:
    states = written(header(3, 10, epoch=2, timestamp=77), header(13, 5, epoch=2, timestamp=78))
    assert states.encode() == snapshot((9, 2, 17, 14, 4, 78, -1, -1))


def test_a_snapshot_brings_the_newest_batch_back() -> None:
    states = ProducerStates()
    load(states, snapshot((9, 2, 17, 14, 4, 78, 6, -1), (10, 0, -1, -1, 0, -1, -1, -1)))
    assert states.check(header(18, epoch=2)) is None
    assert states.check(header(13, 5, epoch=2)) == AppendedBatch(13, 17, 14, 4, 78)
    assert states.check(header(0, producer_id=10)) is None
    assert refused(states, header(1, producer_id=10)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    kept = states.get(9)
    assert kept is not None and (kept.coordinator_epoch, kept.txn_first_offset) == (6, -1)
    assert states.encode() == snapshot((9, 2, 17, 14, 4, 78, 6, -1), (10, 0, -1, -1, 0, -1, -1, -1))


@given(st.data())
def test_a_changed_snapshot_is_refused(data: st.DataObject) -> None:
    good = snapshot((9, 2, 17, 14, 4, 78, 6, 100))
    at = data.draw(st.integers(0, len(good) - 1))
    bad = bytearray(good)
    bad[at] ^= data.draw(st.integers(1, 255))
    states = ProducerStates()
    with pytest.raises(CorruptFileError):
        load(states, bytes(bad))
    with pytest.raises(CorruptFileError):
        load(states, good[:at])
    assert len(states) == 0


def fields(snapshot: bytes) -> list[tuple[int, ...]]:
    """The entries, sorted: their order means nothing."""
    return sorted(struct.iter_unpack(">qhiqiqiq", snapshot))


@given(st.data())
def test_a_snapshot_in_pieces_is_of_the_moment_when_it_was_begun(data: st.DataObject) -> None:
    """Whatever is done between two pieces; and all of that is done."""
    producers = st.integers(1, 8)
    states, twin = ProducerStates(), ProducerStates()
    sequences: dict[int, int] = {}
    offset, enough = 0, 20

    def act() -> None:
        nonlocal offset
        one = data.draw(producers)
        offset += 1
        kind = data.draw(st.sampled_from(["write", "write", "transaction", "end", "look"]))
        for each in (states, twin):
            if kind == "end":
                marker = marker_of(producer_id=one)
                each.check_marker(marker, COMMIT)
                each.end(marker, COMMIT, offset)
            elif kind == "look":
                assert (each.get(one) is None) == (twin.get(one) is None)
            else:
                batch = header(sequences.get(one, 0), producer_id=one)
                if kind == "transaction":
                    batch = batch._replace(attributes=TRANSACTIONAL)
                each.update(batch, offset)
        if kind in ("write", "transaction"):
            sequences[one] = sequences.get(one, 0) + 1

    for each in (states, twin):
        each.update(header(0, producer_id=100), 0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(producer_state, "ENTRIES_PER_STEP", data.draw(st.integers(1, 4)))
        for _ in range(2):
            for _ in range(data.draw(st.integers(0, 12))):
                act()
            wanted = fields(twin.encode()[10:])
            states.freeze()
            made = b""
            is_to_end = data.draw(st.booleans())
            pieces = enough if is_to_end else data.draw(st.integers(0, 4))
            while len(made) < 46 * len(wanted) and pieces:
                pieces -= 1
                made += states.frozen()
                for _ in range(data.draw(st.integers(0, 4))):
                    act()
                assert len(states) == len(twin)
                assert fields(states.encode()[10:]) == fields(twin.encode()[10:])
            assert fields(made) == wanted or (not pieces and not is_to_end)
            states.thaw()
            assert fields(states.encode()[10:]) == fields(twin.encode()[10:])
    for one in (*range(1, 9), 100):
        found, same = states.get(one), twin.get(one)
        assert (found and list(found.batches)) == (same and list(same.batches))
    assert states.oldest_transaction_ms == twin.oldest_transaction_ms


def test_who_is_known_stays_known_to_every_check_while_a_snapshot_is_made() -> None:
    def fresh(*headers: BatchHeader) -> ProducerStates:
        states = written(*headers)
        states.freeze()
        return states

    assert refused(fresh(header(0)), header(5)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert fresh(header(0)).check(header(0)) is not None, "a copy"
    states = fresh(header(0, epoch=3))
    with pytest.raises(ApiError):
        states.check(transactional(1, epoch=2), NOT_NEEDED)
    states = fresh(header(0, epoch=3))
    with pytest.raises(ApiError):
        states.check_marker(marker_of(epoch=2), COMMIT)
    states = begun()
    states.freeze()
    assert states.aborted_by(9, ABORT, 8) is not None
    states = begun()
    states.freeze()
    assert states.oldest_transaction_ms >= 0
    states = begun()
    states.freeze()
    assert asked(states, transactional(2)) is None, "its transaction is going on"


def test_nobody_is_forgotten_while_a_snapshot_is_made() -> None:
    states = written(header(0))
    entries = list(states)
    states.freeze()
    assert states.get(9) is entries[0]
    assert states.expire(entries, 1000) == 0
    states.frozen()
    states.thaw()
    assert states.expire(entries, 1000) == 1


def test_forgetting_everyone_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_state, "ENTRIES_PER_STEP", 2)
    states = written(*(header(0, producer_id=one) for one in range(5)))
    assert [len(states) for _ in states.dissolve()] == [3, 1, 0]


# --- transactions: the rules of Apache Kafka's ProducerAppendInfo, which
# tests/broker/test_transaction_rules.py asks Apache Kafka itself about


def transactional(sequence: int, count: int = 1, *, epoch: int = 0) -> BatchHeader:
    return header(sequence, count, epoch=epoch)._replace(attributes=TRANSACTIONAL)


def asked(states: ProducerStates, batch: BatchHeader, *, v2: bool = False) -> Guard | None:
    """What is to be confirmed before a batch is appended."""
    return states.verification(
        batch.producer_id, batch.base_sequence, batch.producer_epoch, 0, v2=v2
    )


def marker_of(epoch: int = 0, producer_id: int = 9) -> BatchHeader:
    return read_header(end_marker(producer_id, epoch, COMMIT))


COMMIT = Marker(True, 3, 1000)
ABORT = Marker(False, 3, 1000)


def begun() -> ProducerStates:
    """Producer 9 has a transaction from offset 5 on, sequences 0 and 1."""
    states = ProducerStates()
    states.update(transactional(0, 2), 6)
    return states


def test_a_transaction_begins_with_its_first_batch() -> None:
    states = begun()
    states.update(transactional(2), 7)
    entry = states.get(9)
    assert entry is not None and entry.txn_first_offset == 5
    assert states.transactions.first_unstable(100) == 5


def test_the_first_batch_needs_a_guard_but_a_copy_does_not() -> None:
    states = ProducerStates()
    assert refused(states, transactional(0)) == ErrorCode.INVALID_TXN_STATE
    guard = asked(states, transactional(0))
    assert guard is not None and states.check(transactional(0), guard) is None
    assert states.check(transactional(0), NOT_NEEDED) is None
    states = begun()
    assert asked(states, transactional(2)) is None, "it is going on"
    assert states.check(transactional(2)) is None
    assert states.check(transactional(0, 2)) == AppendedBatch(0, 1, 6, 1, 5)
    assert refused(states, transactional(3)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_who_waits_to_be_sent_again_comes_first() -> None:
    states = ProducerStates()
    guard = states.verifications.begin(9, 4, 0, 0)
    assert states.check(transactional(4), guard) is None
    with pytest.raises(ApiError) as error:
        states.check(transactional(5), guard)
    assert error.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_within_a_transaction_all_is_transactional() -> None:
    states = begun()
    assert refused(states, header(2)) == ErrorCode.INVALID_TXN_STATE
    assert refused(states, header(3)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refused(states, header(0, epoch=1)) == ErrorCode.INVALID_TXN_STATE
    states.end(marker_of(), COMMIT, 7)
    assert states.check(header(2)) is None


def test_offsets_of_a_group_have_no_sequence() -> None:
    states = ProducerStates()
    offsets = transactional(-1, 2)
    assert refused(states, offsets) == ErrorCode.INVALID_TXN_STATE
    assert states.check(offsets, NOT_NEEDED) is None
    states.update(offsets, 1)
    assert states.check(offsets) is None, "another, not a copy"
    assert states.encode() == snapshot((9, 0, -1, 1, 1, 5, -1, 0))
    again = ProducerStates()
    load(again, states.encode())
    assert again.check(offsets) is None
    assert refused(again, transactional(-1, epoch=-1)) == ErrorCode.INVALID_PRODUCER_EPOCH


@pytest.mark.parametrize(("marker", "expected"), [(ABORT, AbortedTxn(9, 5, 8, 9)), (COMMIT, None)])
def test_a_marker_ends_the_transaction(marker: Marker, expected: AbortedTxn | None) -> None:
    states = begun()
    guard = states.verifications.begin(9, 2, 0, 0)
    assert states.aborted_by(9, marker, 8) == expected
    states.check_marker(marker_of(), marker)
    states.end(marker_of(), marker, 8)
    assert states.encode() == snapshot((9, 0, 1, 6, 1, 1000, 3, -1))
    assert states.transactions.first_unstable(9) is None
    assert states.aborted_by(9, marker, 9) is None
    assert not states.verifications.holds(9, guard)
    assert states.check(transactional(2), NOT_NEEDED) is None, "the sequence goes on"


def test_a_marker_of_a_new_epoch_begins_the_sequence_anew() -> None:
    """Transactions of version 2 raise the epoch with each end (KIP-890)."""
    states = begun()
    states.end(marker_of(epoch=1), COMMIT, 7)
    assert states.encode() == snapshot((9, 1, -1, -1, 0, 1000, 3, -1))
    assert states.check(transactional(0, epoch=1), NOT_NEEDED) is None
    with pytest.raises(ApiError) as error:
        states.check(transactional(1, epoch=1), NOT_NEEDED)
    assert error.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_old_markers_are_refused() -> None:
    states = begun()
    states.check_marker(marker_of(), Marker(True, -1, 0))
    states.end(marker_of(epoch=2), COMMIT, 7)
    refusals = {
        (1, 9): ErrorCode.INVALID_PRODUCER_EPOCH,
        (2, 2): ErrorCode.TRANSACTION_COORDINATOR_FENCED,
    }
    for (epoch, coordinator_epoch), code in refusals.items():
        with pytest.raises(ApiError) as error:
            states.check_marker(marker_of(epoch), Marker(True, coordinator_epoch, 0))
        assert error.value.code == code
    states.check_marker(marker_of(2), Marker(True, 3, 0))
    states.check_marker(marker_of(0, producer_id=10), Marker(True, 0, 0))


def test_a_newer_epoch_does_not_go_on_with_an_older_one_s_transaction() -> None:
    """That is as good as over: the coordinator has to say that there is another."""
    states = begun()
    newer = transactional(0, epoch=1)
    assert refused(states, newer) == ErrorCode.INVALID_TXN_STATE
    guard = asked(states, newer)
    assert guard is not None and states.check(newer, guard) is None
    with pytest.raises(ApiError) as error:
        asked(begun(), transactional(2, epoch=-1))
    assert error.value.code == ErrorCode.INVALID_PRODUCER_EPOCH


def test_an_old_epoch_is_told_so_with_or_without_a_guard() -> None:
    states = begun()
    states.end(marker_of(epoch=1), COMMIT, 7)
    assert refused(states, transactional(2)) == ErrorCode.INVALID_PRODUCER_EPOCH
    with pytest.raises(ApiError) as error:
        states.check(transactional(2), NOT_NEEDED)
    assert error.value.code == ErrorCode.INVALID_PRODUCER_EPOCH


# --- each transaction with an epoch of its own (KIP-890), which only Apache Kafka 4 knows


@pytest.mark.parametrize(
    ("epoch", "is_open", "code"),
    [
        (2, True, ErrorCode.INVALID_PRODUCER_EPOCH),
        (2, False, ErrorCode.INVALID_PRODUCER_EPOCH),
        (3, True, ErrorCode.INVALID_PRODUCER_EPOCH),
        (3, False, None),
        (4, True, None),
        (4, False, None),
        (9, True, None),
    ],
)
def test_a_marker_has_a_newer_epoch_or_is_sent_again(
    epoch: int, is_open: bool, code: ErrorCode | None
) -> None:
    states = ProducerStates()
    states.update(transactional(0, epoch=3), 0)
    if not is_open:
        states.end(marker_of(epoch=3), COMMIT, 1)
    try:
        states.check_marker(marker_of(epoch), COMMIT, 2)
        found = None
    except ApiError as refusal:
        found = refusal.code
    assert found == code


def test_there_is_no_epoch_above_the_highest() -> None:
    states = ProducerStates()
    states.update(transactional(0, epoch=0x7FFF), 0)
    states.check_marker(marker_of(0x7FFF), COMMIT, 2)


def test_whoever_is_not_known_begins_with_0() -> None:
    states = ProducerStates()
    later = transactional(4)
    with pytest.raises(ApiError) as error:
        states.check(later, asked(states, later, v2=True))
    assert error.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    first = transactional(0)
    assert states.check(first, asked(states, first, v2=True)) is None
    older = ProducerStates()
    assert older.check(later, asked(older, later)) is None


def test_whose_transaction_has_ended_with_a_new_epoch_begins_with_0() -> None:
    states = begun()
    states.end(marker_of(epoch=1), COMMIT, 7)
    for sequence, code in ((1, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), (0, None)):
        batch = transactional(sequence, epoch=1)
        guard = asked(states, batch, v2=True)
        try:
            states.check(batch, guard)
            assert code is None
        except ApiError as refusal:
            assert refusal.code == code


def test_the_marker_before_leaves_the_next_transaction_s_guard() -> None:
    """Its epoch is the one that the next transaction has begun with already."""
    for v2, stays in ((True, True), (False, False)):
        states = begun()
        following = transactional(0, epoch=1)
        guard = asked(states, following, v2=v2)
        states.end(marker_of(epoch=1), COMMIT, 7)
        assert states.verifications.holds(9, guard) is stays
        states.end(marker_of(epoch=2), COMMIT, 8)
        assert not states.verifications.holds(9, guard)


def test_a_snapshot_brings_transactions_back() -> None:
    states = ProducerStates()
    entries = [(9, 2, 17, 14, 4, 78, 6, 100), (10, 0, 0, 60, 0, 70, -1, 60), (11, *[-1] * 7)]
    load(states, snapshot(*entries))
    assert states.transactions.first_unstable(200) == 60
    assert states.oldest_transaction_ms == 70
    states.end(marker_of(producer_id=10), COMMIT, 120)
    assert states.transactions.first_unstable(200) == 100
    assert states.oldest_transaction_ms == 78
    load(states, snapshot())
    assert states.transactions.settled and states.oldest_transaction_ms == -1


def test_expiry() -> None:
    states = begun()
    for producer, timestamp in ((1, 5), (2, 6), (3, 7)):
        states.update(header(0, producer_id=producer, timestamp=timestamp), 10 + producer)
    entries = list(states)
    load(states, states.encode())
    assert states.expire(entries, 100) == 0, "these are not there any more"
    assert states.expire(list(states), 6) == 2
    assert {entry.producer_id for entry in states} == {9, 3}
