"""Files that Apache Kafka's tool does not read: checkpoints and small files, which both brokers
write, and those of Kavka's own coordination service."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from kavka.log import dir_names, epochs
from kavka.log.checkpoint import decode_epochs, decode_offsets
from kavka.log.errors import CorruptFileError
from kavka.tools.admin.errors import Failed
from kavka.tools.dump_log.files import read_file
from kavka.tools.dump_log.java_values import boolean
from kavka.tools.dump_log.paths import name_of
from kavka.tools.dump_log.shown import Dump, Shown
from kavka.tools.java_text import text
from kavka.zktree import storage_format
from kavka.zktree.api import Create, Delete, SetData
from kavka.zktree.storage import LOG_NAME, SNAPSHOT_NAME
from kavka.zktree.storage_format import Corrupt, Frame
from kavka.zktree.tree import CloseSession, MultiTransaction, Node, TreeOp

EXPORTED: Final = ".exported"


class Detail(NamedTuple):
    """How much is printed of what has parts."""

    is_deep: bool
    """The parts too."""
    has_content: bool
    """Their data too."""


def reader(path: str) -> Callable[[str, Detail], Dump] | None:
    """What reads a file of that name; None if it is none of these."""
    return _READERS.get(name_of(path).removesuffix(EXPORTED))


def _line(kind: str, fields: Mapping[str, Any], prefix: str = "") -> Shown:
    shown = (
        f"{name}: {boolean(value) if isinstance(value, bool) else value}"
        for name, value in fields.items()
        if value is not None
    )
    return Shown(f"{prefix}{' '.join(shown)}\n", {"kind": kind, **fields})


# --- of a directory


def _offsets(path: str, _: Detail) -> Dump:
    try:
        found = decode_offsets(read_file(path), path)
    except CorruptFileError as error:
        raise Failed(str(error)) from error
    for (topic, partition), offset in found.items():
        yield _line("checkpoint", {"topic": topic, "partition": partition, "offset": offset})


def _epochs(path: str, _: Detail) -> Dump:
    try:
        found = decode_epochs(read_file(path), path)
    except CorruptFileError as error:
        raise Failed(str(error)) from error
    for epoch, start in found:
        yield _line("leaderEpoch", {"epoch": epoch, "startOffset": start})


def _meta(path: str, _: Detail) -> Dump:
    data = read_file(path)
    try:
        meta = dir_names.decode_meta(data, path)
    except CorruptFileError as error:
        raise Failed(str(error)) from error
    directory_id = dir_names.decode_directory_id(data)
    fields = {"clusterId": meta.cluster_id, "brokerId": meta.broker_id, "directoryId": directory_id}
    yield _line("owner", fields)


def _partition(path: str, _: Detail) -> Dump:
    try:
        topic_id = dir_names.decode_partition(read_file(path), path)
    except CorruptFileError as error:
        raise Failed(str(error)) from error
    encoded = base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")
    yield _line("partition", {"topicId": encoded})


# --- of the coordination service


def _log(path: str, detail: Detail) -> Dump:
    log = read_file(path)
    position = len(storage_format.LOG_HEADER)
    if log[:position] != storage_format.LOG_HEADER:
        raise Failed(f"{path} is no coordination log of a version that this Kavka reads")
    while (frame := storage_format.read_frame(log, position)) is not None:
        yield from _frame(path, log, position, frame, detail)
        position = frame.end
    try:
        storage_format.check_tail(log, position)
    except Corrupt as error:
        raise Failed(f"{path}: {error}") from error
    if left := len(log) - position:
        yield Shown(
            f"Found {left} invalid bytes at the end of {name_of(path)}\n",
            {"kind": "end", "invalidBytes": left},
        )


def _frame(path: str, log: bytes, position: int, frame: Frame, detail: Detail) -> Dump:
    try:
        found = list(storage_format.decode_transactions(log, frame))
    except Corrupt as error:
        raise Failed(f"{path}: the frame at byte {position}: {error}") from error
    _, crc = storage_format.FRAME.unpack_from(log, position)
    size = frame.end - position
    fields = {"transactions": len(found), "position": position, "size": size, "crc": crc}
    yield _line("frame", fields)
    for transaction in found if detail.is_deep else ():
        yield from _transaction(transaction, detail)


def _transaction(transaction: MultiTransaction, detail: Detail) -> Dump:
    fields = {
        "zxid": transaction.zxid,
        "time": transaction.time_ms,
        "session": f"{transaction.session_id & (1 << 64) - 1:#x}",
    }
    for op in transaction.ops:
        yield _line("operation", {**fields, **_operation(op, detail)}, "| ")


def _operation(op: TreeOp, detail: Detail) -> dict[str, Any]:
    match op:
        case Create():
            flags = {"isEphemeral": op.ephemeral, "isSequential": op.sequential}
            return {"create": op.path, **flags, **_data(op.data, detail)}
        case SetData():
            return {"set": op.path, "version": op.version, **_data(op.data, detail)}
        case Delete():
            return {"delete": op.path, "version": op.version}
        case CloseSession():
            return {"closeSession": f"{op.session_id & (1 << 64) - 1:#x}"}
        case _:
            return {"check": op.path}


def _data(data: bytes | None, detail: Detail) -> dict[str, Any]:
    found: dict[str, Any] = {"dataSize": -1 if data is None else len(data)}
    if detail.has_content:
        found["data"] = None if data is None else text(data)
    return found


def _snapshot(path: str, detail: Detail) -> Dump:
    try:
        zxid, nodes = storage_format.decode_snapshot(read_file(path))
    except Corrupt as error:
        raise Failed(f"{path}: {error}") from error
    found = list(nodes)
    yield _line("snapshot", {"zxid": zxid, "nodes": len(found)})
    yield from _nodes(found if detail.is_deep else (), detail)


def _nodes(nodes: Iterable[tuple[str, Node]], detail: Detail) -> Dump:
    for path, node in nodes:
        fields = {
            "path": path,
            "czxid": node.czxid,
            "mzxid": node.mzxid,
            "pzxid": node.pzxid,
            "ctime": node.ctime,
            "mtime": node.mtime,
            "version": node.version,
            "ephemeralOwner": f"{node.ephemeral_owner & (1 << 64) - 1:#x}",
        }
        yield _line("node", {**fields, **_data(node.data, detail)}, "| ")


_READERS: Final[Mapping[str, Callable[[str, Detail], Dump]]] = {
    dir_names.RECOVERY_POINTS_FILE: _offsets,
    dir_names.START_OFFSETS_FILE: _offsets,
    dir_names.HIGH_WATERMARKS_FILE: _offsets,
    dir_names.CLEANER_OFFSETS_FILE: _offsets,
    dir_names.META_FILE: _meta,
    dir_names.PARTITION_FILE: _partition,
    epochs.FILE: _epochs,
    LOG_NAME: _log,
    SNAPSHOT_NAME: _snapshot,
}
