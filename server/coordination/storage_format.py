"""Bytes of the embedded service's two files: transactions in the log, nodes in the snapshot.

The log is a header and frames. A frame is what one group commit wrote: length, CRC-32C, and one
or more transactions. Only the last frame can be torn, since the next is not begun before the one
before it is synced. The snapshot is a header, the nodes and a CRC-32C over all of it.

Numbers are big-endian. A path is its UTF-8 length (2 bytes) and bytes; data is its length (4
bytes, -1 for none) and bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from kavka.server.coordination.api import Check, Create, Delete, SetData
from kavka.server.coordination.tree import CloseSession, Node, Transaction, TreeOp
from kavka.wire.crc import crc32c

LOG_HEADER: Final = b"kavka coordination log 1\n"
SNAPSHOT_HEADER: Final = b"kavka coordination snapshot 1\n"

FRAME: Final = struct.Struct(">II")
_CRC: Final = struct.Struct(">I")
_TRANSACTION: Final = struct.Struct(">qqqI")
_CREATE: Final = struct.Struct(">B??")
_VERSIONED: Final = struct.Struct(">Bi")
_CLOSE: Final = struct.Struct(">Bq")
_PATH: Final = struct.Struct(">H")
_DATA: Final = struct.Struct(">i")
_NODE: Final = struct.Struct(">qqqqqiiq")
_COUNTS: Final = struct.Struct(">qI")

_NO_DATA: Final = -1
_OP_CREATE, _OP_SET, _OP_DELETE, _OP_CLOSE = range(4)


class Corrupt(Exception):
    """A file is damaged in a way that no crash explains, so it may have lost what was promised."""


class Frame(NamedTuple):
    """One frame's transactions, still encoded, and where the next frame begins."""

    payload: memoryview
    end: int


def encode_transaction(transaction: Transaction) -> bytes:
    """Bytes of a transaction that took effect; its checks are left out, as they changed nothing."""
    ops = [encoded for op in transaction.ops if (encoded := _encode_op(op))]
    zxid, time_ms, session_id, _ = transaction
    return b"".join((_TRANSACTION.pack(zxid, time_ms, session_id, len(ops)), *ops))


def _encode_op(op: TreeOp) -> bytes:
    match op:
        case Create():
            kind = _CREATE.pack(_OP_CREATE, op.ephemeral, op.sequential)
            return kind + _encode_path(op.path) + _encode_data(op.data)
        case SetData():
            kind = _VERSIONED.pack(_OP_SET, op.version)
            return kind + _encode_path(op.path) + _encode_data(op.data)
        case Delete():
            return _VERSIONED.pack(_OP_DELETE, op.version) + _encode_path(op.path)
        case CloseSession():
            return _CLOSE.pack(_OP_CLOSE, op.session_id)
        case Check():
            return b""


def _encode_path(path: str) -> bytes:
    text = path.encode()
    return _PATH.pack(len(text)) + text


def _encode_data(data: bytes | None) -> bytes:
    return _DATA.pack(_NO_DATA) if data is None else _DATA.pack(len(data)) + data


def encode_frame(transactions: Iterable[bytes]) -> bytes:
    """What one group commit appends to the log."""
    payload = b"".join(transactions)
    return FRAME.pack(len(payload), crc32c(payload)) + payload


def read_frame(log: memoryview, position: int) -> Frame | None:
    """The frame at `position`, or None when the log ends there or holds no whole frame there."""
    start = position + FRAME.size
    if start >= len(log):
        return None
    length, crc = FRAME.unpack_from(log, position)
    payload = log[start : start + length]
    if not length or len(payload) < length or crc32c(payload) != crc:
        return None
    return Frame(payload, start + length)


def check_tail(log: memoryview, position: int) -> None:
    """Raise Corrupt unless a crash explains that no whole frame is at `position`.

    A frame that is broken and yet followed by a whole one was damaged after it had been synced.
    """
    if position + FRAME.size < len(log):
        length, _ = FRAME.unpack_from(log, position)
        if length and read_frame(log, position + FRAME.size + length) is not None:
            raise Corrupt(f"the frame at byte {position} is damaged, the next one is whole")


class _Reader:
    """Takes values one after the other out of a buffer."""

    def __init__(self, buffer: memoryview, position: int = 0) -> None:
        self.buffer = buffer
        self.position = position

    def take(self, layout: struct.Struct) -> tuple[int, ...]:
        values = layout.unpack_from(self.buffer, self.position)
        self.position += layout.size
        return values

    def take_bytes(self, length: int) -> bytes:
        end = self.position + length
        taken = bytes(self.buffer[self.position : end])
        self.position = end
        return taken

    def take_path(self) -> str:
        return self.take_bytes(*self.take(_PATH)).decode()

    def take_data(self) -> bytes | None:
        (length,) = self.take(_DATA)
        return None if length == _NO_DATA else self.take_bytes(length)


def decode_transactions(payload: memoryview) -> Iterator[Transaction]:
    """The transactions of one frame."""
    reader = _Reader(payload)
    while reader.position < len(payload):
        zxid, time_ms, session_id, count = reader.take(_TRANSACTION)
        yield Transaction(zxid, time_ms, session_id, [_decode_op(reader) for _ in range(count)])


def _decode_op(reader: _Reader) -> TreeOp:
    kind = reader.buffer[reader.position]
    if kind == _OP_CREATE:
        _, ephemeral, sequential = reader.take(_CREATE)
        return Create(reader.take_path(), reader.take_data(), bool(ephemeral), bool(sequential))
    if kind == _OP_CLOSE:
        return CloseSession(reader.take(_CLOSE)[1])
    _, version = reader.take(_VERSIONED)
    if kind == _OP_SET:
        return SetData(reader.take_path(), reader.take_data(), version)
    if kind == _OP_DELETE:
        return Delete(reader.take_path(), version)
    raise Corrupt(f"unknown operation {kind}")


def encode_snapshot_start(zxid: int, count: int) -> bytes:
    """What comes before the `count` nodes of a snapshot."""
    return SNAPSHOT_HEADER + _COUNTS.pack(zxid, count)


def encode_node(path: str, node: Node) -> bytes:
    """One node of a snapshot."""
    data, *numbers = node
    return _NODE.pack(*numbers) + _encode_path(path) + _encode_data(data)


def encode_snapshot_end(before: bytes) -> bytes:
    """What comes after the nodes, `before` being all bytes up to here."""
    return _CRC.pack(crc32c(before))


def decode_snapshot(snapshot: memoryview) -> tuple[int, Iterator[tuple[str, Node]]]:
    """The last transaction in a snapshot and its nodes; Corrupt when it is not whole."""
    end = len(snapshot) - _CRC.size
    start = len(SNAPSHOT_HEADER)
    if bytes(snapshot[:start]) != SNAPSHOT_HEADER:
        raise Corrupt("not a snapshot of a version that this Kavka reads")
    if _CRC.unpack_from(snapshot, end) != (crc32c(snapshot[:end]),):
        raise Corrupt("the snapshot's checksum is wrong")
    reader = _Reader(snapshot, start)
    zxid, count = reader.take(_COUNTS)
    return zxid, (_decode_node(reader) for _ in range(count))


def _decode_node(reader: _Reader) -> tuple[str, Node]:
    numbers = reader.take(_NODE)
    path = reader.take_path()
    return path, Node(reader.take_data(), *numbers)
