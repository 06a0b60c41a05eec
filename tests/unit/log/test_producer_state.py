"""Idempotent producers: what is a copy, what a gap, and who may begin where."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.log import producer_state
from kavka.log.errors import CorruptFileError
from kavka.log.producer_entry import AppendedBatch, ProducerEntry
from kavka.log.producer_state import ProducerStates
from kavka.log.txn_guards import NOT_NEEDED
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.record_batches import CONTROL, TRANSACTIONAL, BatchHeader, read_header
from support import logs
from support.producers import (
    ABORT,
    COMMIT,
    asked,
    begun,
    header,
    load,
    marker_of,
    refused,
    snapshot,
    transactional,
    written,
)


def test_checking_changes_nothing() -> None:
    states = ProducerStates()
    states.check(header(0))
    assert len(states) == 0 and states.get(9) is None


def test_batches_without_a_sequence_leave_no_trace() -> None:
    states = ProducerStates()
    states.update(read_header(logs.batch([b"plain"])), 0)
    marker = header(0)
    states.update(marker._replace(attributes=marker.attributes | CONTROL), 1)
    assert len(states) == 0


# --- snapshots: the fields and their order are those of ProducerSnapshot.json, version 1


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
    """Nothing that is done between two pieces is in it; and all of that is done."""
    producers = st.integers(1, 8)
    states, twin = ProducerStates(), ProducerStates()
    sequences: dict[int, int] = {}
    offset, enough = 0, 20

    def act() -> None:
        nonlocal offset
        producer_id = data.draw(producers)
        offset += 1
        kind = data.draw(st.sampled_from(["write", "write", "transaction", "end", "look"]))
        for instance in (states, twin):
            if kind == "end":
                marker = marker_of(producer_id=producer_id)
                instance.check_marker(marker, COMMIT)
                instance.end(marker, COMMIT, offset)
            elif kind == "look":
                assert (instance.get(producer_id) is None) == (twin.get(producer_id) is None)
            else:
                batch = header(sequences.get(producer_id, 0), producer_id=producer_id)
                if kind == "transaction":
                    batch = batch._replace(attributes=TRANSACTIONAL)
                instance.update(batch, offset)
        if kind in ("write", "transaction"):
            sequences[producer_id] = sequences.get(producer_id, 0) + 1

    for instance in (states, twin):
        instance.update(header(0, producer_id=100), 0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(producer_state, "ENTRIES_PER_STEP", data.draw(st.integers(1, 4)))
        for _ in range(2):
            for _ in range(data.draw(st.integers(0, 12))):
                act()
            expected = fields(twin.encode()[10:])
            states.freeze()
            frozen = b""
            is_to_end = data.draw(st.booleans())
            pieces = enough if is_to_end else data.draw(st.integers(0, 4))
            while len(frozen) < 46 * len(expected) and pieces:
                pieces -= 1
                frozen += states.frozen()
                for _ in range(data.draw(st.integers(0, 4))):
                    act()
                assert len(states) == len(twin)
                assert fields(states.encode()[10:]) == fields(twin.encode()[10:])
            assert fields(frozen) == expected or (not pieces and not is_to_end)
            states.thaw()
            assert fields(states.encode()[10:]) == fields(twin.encode()[10:])
    for producer_id in (*range(1, 9), 100):
        found, same = states.get(producer_id), twin.get(producer_id)
        assert (found and list(found.batches)) == (same and list(same.batches))
    assert states.oldest_transaction_ms == twin.oldest_transaction_ms


def test_checks_see_all_producers_while_a_snapshot_is_made() -> None:
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


def test_no_producer_expires_while_a_snapshot_is_written() -> None:
    states = written(header(0))
    entries = list(states)
    states.freeze()
    assert states.get(9) is entries[0]
    assert list(states.expire(1000)) == []
    states.frozen()
    states.thaw()
    assert list(states.expire(1000)) == [1]
    assert len(states) == 0 and list(states) == []


def test_all_producers_are_removed_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_state, "ENTRIES_PER_STEP", 2)
    states = written(*(header(0, producer_id=producer_id) for producer_id in range(5)))
    assert [len(states) for _ in states.clear_in_steps()] == [3, 1, 0]


def test_expiry() -> None:
    states = begun()
    for producer, timestamp in ((1, 5), (2, 6), (3, 7)):
        states.update(header(0, producer_id=producer, timestamp=timestamp), 10 + producer)
    load(states, states.encode())
    assert list(states.expire(6)) == [4]
    assert len(states) == 2
    assert {entry.producer_id for entry in states} == {9, 3}


def test_iteration_during_changes_of_producers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The model is a dictionary. A producer that exists all the time is reported once; others may
    be added, write again or expire between the steps."""
    monkeypatch.setattr(producer_state, "ENTRIES_PER_PART", 3)
    chance = random.Random(5)
    states, model = ProducerStates(), dict[int, int]()
    looks: list[tuple[Iterator[list[ProducerEntry]], set[int], list[int]]] = []
    expiry: Iterator[int] = iter(())
    before = -1
    for now in range(5_000):
        producer = chance.randrange(200)
        sequence = 0 if (known := states.get(producer)) is None else known.last_sequence + 1
        states.update(header(sequence, producer_id=producer, timestamp=now), now)
        model[producer] = now
        if chance.random() < 0.2:
            looks.append((states.parts(), set(model), []))
        for parts, present, reported in looks:
            reported += [entry.producer_id for entry in next(parts, [])]
            present &= set(model)
        if next(expiry, None) is None:
            before = now - chance.randrange(100, 400)
            expiry = states.expire(before)
        gone = {producer_id for producer_id in model if states.get(producer_id) is None}
        assert all(model[producer_id] <= before for producer_id in gone)
        for producer_id in gone:
            del model[producer_id]
            for _, present, _ in looks:
                present.discard(producer_id)
        assert sorted(entry.producer_id for entry in states) == sorted(model)
        assert len(states) == len(model)
        for look in [look for look in looks if chance.random() < 0.02]:
            parts, present, reported = look
            reported += [entry.producer_id for part in parts for entry in part]
            assert present <= set(reported)
            assert all(reported.count(producer_id) == 1 for producer_id in present)
            looks.remove(look)
