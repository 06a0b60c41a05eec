"""ZooKeeper's messages as bytes, by kazoo's serializers: requests, responses, watch events.

Only the serializers are used. kazoo's client works in threads that would hold up the event loop,
tells watch events and responses in two threads, so that their order is lost, does not set watches
again after a lost connection, and opens another session when one has expired.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

from kazoo.exceptions import EXCEPTIONS
from kazoo.protocol import serialization as jute
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

from kavka.zktree import paths
from kavka.zktree.api import (
    BadArguments,
    BadVersion,
    Check,
    CoordinationError,
    Create,
    Created,
    Delete,
    MultiFailed,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    Op,
    OpResult,
    SessionExpired,
    SetData,
    Stat,
    WatchEvent,
    WatchKind,
    Znode,
)
from kavka.zktree.tree import check_path

NOTIFICATION_XID: Final = -1
PING_XID: Final = -2
SET_WATCHES_XID: Final = -8
SASL_XID: Final = 0
"""Before all others: those of requests begin with 1."""

SET_WATCHES_BYTES_MAX: Final = 128 * 1024
"""Paths of one SetWatches request; a server refuses requests of over a megabyte."""

_SET_WATCHES: Final = 101
_SASL: Final = 102
_EPHEMERAL, _SEQUENTIAL = 1, 2
_FAILED_OP: Final = -1
"""Type of a multi's result for an operation that failed, or was not performed as another failed."""

_ROLLED_BACK: Final = (0, -2)
"""Errors of the operations of a failed multi that did not fail themselves."""

_ANY_NUMBER: Final = "0"
"""For the number that the server puts behind the path of a sequential node."""

_unpack_int: Final = struct.Struct(">i").unpack_from
_pack_xid_and_type: Final = struct.Struct(">ii").pack
_pack_int: Final = struct.Struct(">i").pack
_pack_long: Final = struct.Struct(">q").pack

_ERRORS: Final[dict[int, type[CoordinationError]]] = {
    -8: BadArguments,
    -101: NoNode,
    -103: BadVersion,
    -108: NoChildrenForEphemerals,
    -110: NodeExists,
    -111: NotEmpty,
    -112: SessionExpired,
}
_KINDS: Final = {
    1: WatchKind.CREATED,
    2: WatchKind.DELETED,
    3: WatchKind.DATA_CHANGED,
    4: WatchKind.CHILDREN_CHANGED,
}


class UnexpectedError(CoordinationError):
    """ZooKeeper refused a request for a reason that Kavka's own service does not know."""

    def __init__(self, code: int, path: str) -> None:
        super().__init__(path)
        self._name = EXCEPTIONS[code].__name__ if code in EXCEPTIONS else f"error {code}"

    def __str__(self) -> str:
        return f"{self._name} {self.path}"


class AuthenticationFailed(Exception):
    """ZooKeeper does not believe who the session says it is."""


class Header(NamedTuple):
    """Of a response or an event."""

    xid: int
    zxid: int
    error: int
    end: int
    """Position after it."""


class Request(NamedTuple):
    """A request without its number, and how its response is read."""

    path: str
    """For errors."""
    body: bytes
    """Type and arguments."""
    read: Callable[[bytes, int], Any]
    """(frame, position) -> result; of a multi MultiFailed."""
    writes: Sequence[Op] = ()
    """What it changes; empty for a read."""
    is_multi: bool = False
    """Whether the result is that of each operation, in a list."""
    missing_is_none: bool = False
    """Whether a node that does not exist is a result."""


class Chroot:
    """The part of the server's tree below `root` ("" or "/a/b"): our paths as the server knows
    them. BadArguments for paths that ZooKeeper does not accept: appended to the root, such a path
    could be the path of another node."""

    def __init__(self, root: str, *, is_secure: bool = False) -> None:
        """`is_secure`: whether new nodes get ACLs, so that only this session's user (SASL) or
        certificate may change them; see `acls`."""
        self.root: Final = root
        self._is_secure = is_secure

    def full(self, path: str) -> str:
        """A path on the server."""
        check_path(path)
        return self.root + path if path != "/" else self.root or "/"

    def acls(self, path: str) -> Sequence[Any]:
        """The ACLs of a new node, as `ZkData.defaultAcls` of Apache Kafka."""
        if not self._is_secure or path == paths.OLD_CONSUMERS:
            return OPEN_ACL_UNSAFE  # type: ignore[no-any-return]
        if path.startswith(paths.SECRET):
            return CREATOR_ALL_ACL  # type: ignore[no-any-return]
        return [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE]

    def own(self, full: str) -> str:
        """The path without the root."""
        return full[len(self.root) :] or "/"


def header(frame: bytes) -> Header:
    """The first fields of a response's or an event's frame."""
    (xid, zxid, error), end = jute.ReplyHeader.deserialize(frame, 0)
    return Header(xid, zxid, error, end)


def numbered(xid: int, request: Request) -> bytes:
    """The frame of a request, with its length."""
    return _framed(_pack_int(xid) + request.body)


def ping() -> bytes:
    return _framed(_pack_xid_and_type(PING_XID, jute.Ping.type))


def hello(last_zxid: int, timeout_ms: int, session_id: int, password: bytes) -> bytes:
    """Opens a session (id 0), or continues one on a new connection."""
    return _framed(jute.Connect(0, last_zxid, timeout_ms, session_id, password, False).serialize())


def sasl(token: bytes) -> bytes:
    """The frame with a client's token in a SASL exchange."""
    return _framed(_pack_xid_and_type(SASL_XID, _SASL) + _pack_int(len(token)) + token)


def sasl_token(frame: bytes) -> bytes | None:
    """The server's token in a SASL exchange; None if it sent none. AuthenticationFailed."""
    head = header(frame)
    if head.error != 0:
        raise AuthenticationFailed
    token: bytes | None = jute.read_buffer(frame, head.end)[0]
    return token


class Welcome(NamedTuple):
    """The response to a hello."""

    session_id: int
    password: bytes
    timeout_ms: int
    """As the server has it; 0 says that the session has expired."""


def welcome(frame: bytes) -> Welcome:
    found, _ = jute.Connect.deserialize(frame, 0)
    return Welcome(found.session_id, found.passwd, max(found.time_out, 0))


def event(frame: bytes, position: int, chroot: Chroot) -> WatchEvent | None:
    """What happened to a watched node; None for an event about the connection."""
    found, _ = jute.Watch.deserialize(frame, position)
    kind = _KINDS.get(found.type)
    return None if kind is None else WatchEvent(kind, chroot.own(found.path))


def error(code: int, path: str) -> CoordinationError:
    """The error of a response."""
    known = _ERRORS.get(code)
    return UnexpectedError(code, path) if known is None else known(path)


# -- requests -------------------------------------------------------------------------------


def get(path: str, chroot: Chroot, *, watch: bool) -> Request:
    def read(frame: bytes, position: int) -> Znode:
        data, stat = jute.GetData.deserialize(frame, position)
        return Znode(data, _stat(stat))

    return Request(path, _body(jute.GetData(chroot.full(path), watch)), read)


def exists(path: str, chroot: Chroot, *, watch: bool) -> Request:
    def read(frame: bytes, position: int) -> Stat:
        return _stat(jute.Exists.deserialize(frame, position))

    body = _body(jute.Exists(chroot.full(path), watch))
    return Request(path, body, read, missing_is_none=True)


def children(path: str, chroot: Chroot, *, watch: bool) -> Request:
    def read(frame: bytes, position: int) -> list[str]:
        return sorted(jute.GetChildren.deserialize(frame, position))

    return Request(path, _body(jute.GetChildren(chroot.full(path), watch)), read)


def sync() -> Request:
    """After it, reads see all that was committed before it."""
    return Request("/", _body(jute.Sync("/")), lambda frame, position: None)


def close() -> Request:
    return Request("", _body(jute.CloseInstance), lambda frame, position: None)


def write(op: Op, chroot: Chroot) -> Request:
    """One operation; BadArguments for a path that ZooKeeper does not take."""

    def read(frame: bytes, position: int) -> OpResult:
        return _op_result(op, frame, position, chroot)[0]

    return Request(op.path, _body(_operation(op, chroot)), read, (op,))


def multi(ops: Sequence[Op], chroot: Chroot) -> Request:
    """Several operations in one transaction."""

    def read(frame: bytes, position: int) -> list[OpResult]:
        return _multi_results(ops, frame, position, chroot)

    body = _body(jute.Transaction([_operation(op, chroot) for op in ops]))
    return Request(ops[0].path if ops else "", body, read, tuple(ops), is_multi=True)


def set_watches(
    zxid: int, data: Iterable[str], missing: Iterable[str], children: Iterable[str], chroot: Chroot
) -> list[bytes]:
    """Frames that set watches again on a new connection: on the data of nodes, on nodes that did
    not exist, on children. What has changed since `zxid` fires at once."""
    vectors: list[list[bytes]] = [[], [], []]
    frames: list[bytes] = []
    size = 0

    def finish() -> None:
        head = _pack_xid_and_type(SET_WATCHES_XID, _SET_WATCHES) + _pack_long(zxid)
        paths = [_pack_int(len(vector)) + b"".join(vector) for vector in vectors]
        frames.append(_framed(head + b"".join(paths)))

    for vector, watched in zip(range(3), (data, missing, children), strict=True):
        for path in watched:
            encoded = jute.write_string(chroot.full(path))
            if size + len(encoded) > SET_WATCHES_BYTES_MAX:
                finish()
                vectors, size = [[], [], []], 0
            vectors[vector].append(encoded)
            size += len(encoded)
    if size:
        finish()
    return frames


# -- details --------------------------------------------------------------------------------


def _framed(data: bytes | bytearray) -> bytes:
    return _pack_int(len(data)) + data


def _body(request: Any) -> bytes:
    return bytes(_pack_int(request.type) + request.serialize())


def _operation(op: Op, chroot: Chroot) -> Any:
    if isinstance(op, Create) and op.sequential:
        path = chroot.full(op.path + _ANY_NUMBER).removesuffix(_ANY_NUMBER)
    elif isinstance(op, Delete) and op.path == "/":
        raise BadArguments(op.path)
    else:
        path = chroot.full(op.path)
    match op:
        case Create():
            flags = _EPHEMERAL * op.ephemeral | _SEQUENTIAL * op.sequential
            return jute.Create2(path, op.data, chroot.acls(op.path), flags)
        case SetData():
            return jute.SetData(path, op.data, op.version)
        case Delete():
            return jute.Delete(path, op.version)
        case Check():
            return jute.CheckVersion(path, op.version)


def _op_result(op: Op, frame: bytes, position: int, chroot: Chroot) -> tuple[OpResult, int]:
    """The result of an operation, and the position after it."""
    match op:
        case Create():
            path, position = jute.read_string(frame, position)
            stat, position = _read_stat(frame, position)
            return Created(chroot.own(path), stat), position
        case SetData():
            return _read_stat(frame, position)
    return None, position


def _multi_results(
    ops: Sequence[Op], frame: bytes, position: int, chroot: Chroot
) -> list[OpResult]:
    results: list[OpResult] = []
    for index, op in enumerate(ops):
        head, position = jute.MultiHeader.deserialize(frame, position)
        if head.type == _FAILED_OP:
            (code,) = _unpack_int(frame, position)
            position += 4
            if code not in _ROLLED_BACK:
                raise MultiFailed(index, error(code, op.path))
        else:
            result, position = _op_result(op, frame, position, chroot)
            results.append(result)
    return results


def _read_stat(frame: bytes, position: int) -> tuple[Stat, int]:
    found = jute.ZnodeStat._make(jute.stat_struct.unpack_from(frame, position))
    return _stat(found), position + jute.stat_struct.size


def _stat(found: Any) -> Stat:
    return Stat(
        found.czxid,
        found.mzxid,
        found.pzxid,
        found.ctime,
        found.mtime,
        found.version,
        found.cversion,
        found.ephemeralOwner,
        found.dataLength,
        found.numChildren,
    )
