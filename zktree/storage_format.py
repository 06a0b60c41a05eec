"""The format of the embedded service's two files: transactions in the log, nodes in the snapshot.

The log is a header and frames. A frame is one group commit: length, CRC-32C, and one or more
transactions. Only the last frame can be torn, since a frame is written only after the previous
one is synced. The snapshot is a header, the nodes and a CRC-32C of everything.

An operation or node is a fixed part, which ends with two lengths, and then the path (UTF-8) and
the data; length -1 means no data. Numbers are big-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from kavka.wire.crc import crc32c
from kavka.zktree.api import Check, Create, Delete, SetData
from kavka.zktree.tree import CloseSession, MultiTransaction, Node, TreeOp

LOG_HEADER: Final = b"kavka coordination log 1\n"
SNAPSHOT_HEADER: Final = b"kavka coordination snapshot 1\n"

FRAME: Final = struct.Struct(">II")
_CRC: Final = struct.Struct(">I")
_TRANSACTION: Final = struct.Struct(">qqqI")
_CREATE: Final = struct.Struct(">B??Hi")
_SET: Final = struct.Struct(">BiHi")
_DELETE: Final = struct.Struct(">BiH")
_CLOSE: Final = struct.Struct(">Bq")
_COUNTS: Final = struct.Struct(">qI")
_NODE: Final = struct.Struct(">qqqqqiiqHi")

_ZXID_MAX: Final = 2**48
"""An upper bound of transaction ids."""

_NO_DATA: Final = -1
_OP_CREATE, _OP_SET, _OP_DELETE, _OP_CLOSE = range(4)


class Corrupt(Exception):
    """A file is damaged in a way that no crash explains, so acknowledged writes may be lost."""


class Frame(NamedTuple):
    """Positions of one frame's transactions; the next frame begins at `end`."""

    start: int
    end: int


def encode_transaction(transaction: MultiTransaction) -> bytes:
    """Encode a transaction that took effect, without its checks, which changed nothing."""
    ops = [encoded for op in transaction.ops if (encoded := _encode_op(op))]
    zxid, time_ms, session_id, _ = transaction
    return b"".join((_TRANSACTION.pack(zxid, time_ms, session_id, len(ops)), *ops))


def _encode_op(op: TreeOp) -> bytes:
    if isinstance(op, CloseSession):
        return _CLOSE.pack(_OP_CLOSE, op.session_id)
    path = op.path.encode()
    match op:
        case SetData():
            fixed = _SET.pack(_OP_SET, op.version, len(path), _length(op.data))
            return fixed + path + (op.data or b"")
        case Create():
            sizes = len(path), _length(op.data)
            fixed = _CREATE.pack(_OP_CREATE, op.ephemeral, op.sequential, *sizes)
            return fixed + path + (op.data or b"")
        case Delete():
            return _DELETE.pack(_OP_DELETE, op.version, len(path)) + path
        case Check():
            return b""


def _length(data: bytes | None) -> int:
    return _NO_DATA if data is None else len(data)


def encode_frame(transactions: Iterable[bytes]) -> bytes:
    """The frame that one group commit appends to the log."""
    payload = b"".join(transactions)
    return FRAME.pack(len(payload), crc32c(payload)) + payload


def read_frame(log: bytes, position: int) -> Frame | None:
    """The frame at `position`, or None if the log ends there or has no complete frame there."""
    start = position + FRAME.size
    if start >= len(log):
        return None
    length, crc = FRAME.unpack_from(log, position)
    end = start + length
    if not length or end > len(log) or crc32c(memoryview(log)[start:end]) != crc:
        return None
    return Frame(start, end)


def check_tail(log: bytes, position: int) -> None:
    """Raise Corrupt unless a torn write explains that there is no complete frame at `position`.

    A broken frame that is followed by a complete one was damaged after it had been synced. The
    next frame is searched for byte by byte, since the broken frame's length may be wrong.
    """
    after = _find_frame(log, position + 1)
    if after is not None:
        raise Corrupt(
            f"the frame at byte {position} of {len(log)} is damaged, the one at byte {after} is "
            "whole"
        )


def _find_frame(log: bytes, position: int) -> int | None:
    """The start of the first complete frame from `position` on. This takes 0.3 s a MB, but a
    torn write mostly has some hundred bytes."""
    positions = range(position, len(log) - FRAME.size - _TRANSACTION.size + 1)
    return next(
        (at for at in positions if _may_be_frame(log, at) and read_frame(log, at) is not None),
        None,
    )


def _may_be_frame(log: bytes, position: int) -> bool:
    """A cheap check before the CRC, which may have to cover the rest of the log."""
    length, _ = FRAME.unpack_from(log, position)
    if not _TRANSACTION.size <= length <= len(log) - position - FRAME.size:
        return False
    zxid, _, _, count = _TRANSACTION.unpack_from(log, position + FRAME.size)
    return bool(0 < zxid <= _ZXID_MAX and count * _DELETE.size <= length)


def decode_transactions(log: bytes, frame: Frame) -> Iterator[MultiTransaction]:
    """The transactions of one frame."""
    position = frame.start
    while position < frame.end:
        zxid, time_ms, session_id, count = _TRANSACTION.unpack_from(log, position)
        position += _TRANSACTION.size
        ops: list[TreeOp] = []
        for _ in range(count):
            op, position = _decode_op(log, position)
            ops.append(op)
        yield MultiTransaction(zxid, time_ms, session_id, ops)


def _decode_op(log: bytes, position: int) -> tuple[TreeOp, int]:
    """(operation, position after it)."""
    kind = log[position]
    if kind == _OP_SET:
        _, version, path_length, data_length = _SET.unpack_from(log, position)
        path, data, end = _take(log, position + _SET.size, path_length, data_length)
        return SetData(path, data, version), end
    if kind == _OP_CREATE:
        _, ephemeral, sequential, *lengths = _CREATE.unpack_from(log, position)
        path, data, end = _take(log, position + _CREATE.size, *lengths)
        return Create(path, data, ephemeral, sequential), end
    if kind == _OP_DELETE:
        _, version, path_length = _DELETE.unpack_from(log, position)
        path, _, end = _take(log, position + _DELETE.size, path_length, _NO_DATA)
        return Delete(path, version), end
    if kind == _OP_CLOSE:
        return CloseSession(_CLOSE.unpack_from(log, position)[1]), position + _CLOSE.size
    raise Corrupt(f"unknown operation {kind}")


def _take(
    source: bytes, position: int, path_length: int, data_length: int
) -> tuple[str, bytes | None, int]:
    """(path, data, position after them)."""
    middle = position + path_length
    path = source[position:middle].decode()
    if data_length == _NO_DATA:
        return path, None, middle
    end = middle + data_length
    return path, source[middle:end], end


def encode_snapshot_start(zxid: int, count: int) -> bytes:
    """What precedes the `count` nodes of a snapshot."""
    return SNAPSHOT_HEADER + _COUNTS.pack(zxid, count)


def encode_node(path: str, node: Node) -> bytes:
    """One node of a snapshot."""
    data, *numbers = node
    text = path.encode()
    return _NODE.pack(*numbers, len(text), _length(data)) + text + (data or b"")


def encode_snapshot_end(before: bytes) -> bytes:
    """What follows the nodes; `before` is all bytes up to there."""
    return _CRC.pack(crc32c(before))


def decode_snapshot(snapshot: bytes) -> tuple[int, Iterator[tuple[str, Node]]]:
    """A snapshot's last transaction id and its nodes; Corrupt if it is damaged."""
    end = len(snapshot) - _CRC.size
    start = len(SNAPSHOT_HEADER)
    if snapshot[:start] != SNAPSHOT_HEADER or end < start + _COUNTS.size:
        raise Corrupt("not a snapshot of a version that this Kavka reads")
    if _CRC.unpack_from(snapshot, end) != (crc32c(memoryview(snapshot)[:end]),):
        raise Corrupt("the snapshot's checksum is wrong")
    zxid, count = _COUNTS.unpack_from(snapshot, start)
    return zxid, _decode_nodes(snapshot, start + _COUNTS.size, count)


def _decode_nodes(snapshot: bytes, position: int, count: int) -> Iterator[tuple[str, Node]]:
    for _ in range(count):
        *numbers, path_length, data_length = _NODE.unpack_from(snapshot, position)
        path, data, position = _take(snapshot, position + _NODE.size, path_length, data_length)
        yield path, Node(data, *numbers)
