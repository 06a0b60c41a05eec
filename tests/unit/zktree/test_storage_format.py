"""Bytes of transactions and nodes: round trips, and damage as opposed to a torn end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.zktree import storage_format
from kavka.zktree.api import Check, Create, Delete, SetData
from kavka.zktree.storage_format import Corrupt
from kavka.zktree.tree import CloseSession, MultiTransaction, Node, TreeOp

numbers = st.integers(-(2**63), 2**63 - 1)
small = st.integers(-(2**31), 2**31 - 1)
paths = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
data = st.one_of(st.none(), st.binary(max_size=50))
operations: st.SearchStrategy[TreeOp] = st.one_of(
    st.builds(Create, paths, data, st.booleans(), st.booleans()),
    st.builds(SetData, paths, data, small),
    st.builds(Delete, paths, small),
    st.builds(Check, paths, small),
    st.builds(CloseSession, numbers),
)
transactions = st.builds(
    MultiTransaction, numbers, numbers, numbers, st.lists(operations, max_size=4)
)
nodes = st.builds(Node, data, *(numbers for _ in range(5)), *(small for _ in range(2)), numbers)


def without_checks(transaction: MultiTransaction) -> MultiTransaction:
    return transaction._replace(ops=[op for op in transaction.ops if not isinstance(op, Check)])


def encode(frames: list[list[MultiTransaction]]) -> bytes:
    encoded = (map(storage_format.encode_transaction, frame) for frame in frames)
    return b"".join(storage_format.encode_frame(frame) for frame in encoded)


@given(st.lists(st.lists(transactions, min_size=1, max_size=3), max_size=3))
def test_transactions_round_trip(frames: list[list[MultiTransaction]]) -> None:
    log = encode(frames)
    position = 0
    for expected in frames:
        frame = storage_format.read_frame(log, position)
        assert frame is not None
        found = list(storage_format.decode_transactions(log, frame))
        assert found == [without_checks(transaction) for transaction in expected]
        position = frame.end
    assert position == len(log)
    assert storage_format.read_frame(log, position) is None
    storage_format.check_tail(log, position)


FRAME = encode([[MultiTransaction(1, 2, 3, [Create("/a", b"x" * 20), Delete("/b", 4)])]])


def test_a_frame_truncated_anywhere_is_a_torn_end() -> None:
    for size in range(len(FRAME)):
        assert storage_format.read_frame(FRAME[:size], 0) is None
        storage_format.check_tail(FRAME[:size], 0)


def test_zeros_are_a_torn_end() -> None:
    for size in (1, 8, 9, 100, 4096):
        assert storage_format.read_frame(bytes(size), 0) is None
        storage_format.check_tail(bytes(size), 0)


@given(st.integers(0, 8 * len(FRAME) - 1))
def test_a_flipped_bit_is_detected(bit: int) -> None:
    damaged = bytearray(FRAME)
    damaged[bit // 8] ^= 1 << bit % 8
    assert storage_format.read_frame(bytes(damaged), 0) is None


@given(st.integers(0, 8 * len(FRAME) - 1))
def test_damage_before_a_whole_frame_is_not_a_torn_end(bit: int) -> None:
    damaged = bytearray(FRAME + FRAME)
    damaged[bit // 8] ^= 1 << bit % 8
    assert storage_format.read_frame(bytes(damaged), 0) is None
    with pytest.raises(Corrupt, match="byte 0 of 152 is damaged"):
        storage_format.check_tail(bytes(damaged), 0)


def snapshot(zxid: int, entries: dict[str, Node]) -> bytes:
    parts = [storage_format.encode_snapshot_start(zxid, len(entries))]
    parts += [storage_format.encode_node(path, node) for path, node in entries.items()]
    before = b"".join(parts)
    return before + storage_format.encode_snapshot_end(before)


@given(numbers, st.dictionaries(paths, nodes, max_size=4))
def test_snapshots_round_trip(zxid: int, entries: dict[str, Node]) -> None:
    found_zxid, found = storage_format.decode_snapshot(snapshot(zxid, entries))
    assert (found_zxid, dict(found)) == (zxid, entries)


SNAPSHOT = snapshot(5, {"/": Node(None, 1, 2, 3, 4, 5, 6, 7, 8), "/a": Node(b"x", *range(8))})


@given(st.integers(0, 8 * len(SNAPSHOT) - 1))
def test_a_damaged_snapshot_is_refused(bit: int) -> None:
    damaged = bytearray(SNAPSHOT)
    damaged[bit // 8] ^= 1 << bit % 8
    with pytest.raises(Corrupt):
        storage_format.decode_snapshot(bytes(damaged))


def test_a_truncated_snapshot_is_refused() -> None:
    for size in range(len(SNAPSHOT)):
        with pytest.raises(Corrupt):
            storage_format.decode_snapshot(SNAPSHOT[:size])
