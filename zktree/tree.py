"""ZooKeeper's znode tree in memory: executes transactions, and nothing else.

Pure: no clock, no disk, no session timeouts. A transaction carries its own zxid, time and session,
so executing the same transactions again gives the same tree; the embedded service's log is
replayed that way. Versions, counters and errors are those of ZooKeeper 3.8.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias, TypeVar

from kavka.zktree.api import (
    ANY_VERSION,
    NO_SESSION,
    BadArguments,
    BadVersion,
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
    SetData,
    Stat,
    Watch,
    WatchEvent,
    WatchKind,
    Znode,
)

ROOT: Final = "/"

PATH_CHARACTERS_MAX: Final = 16_000
"""Far longer than Kafka's paths, and short enough for the log's two-byte length."""

_component = r"(?!\.{1,2}(?:/|\Z))[^/\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff]+"
_is_path = re.compile(rf"/(?:{_component}(?:/{_component})*)?").fullmatch

K = TypeVar("K")


def parent_of(path: str) -> str:
    """The path of the parent; the root is its own."""
    return path[: path.rindex("/")] or ROOT


def split_path(path: str) -> tuple[str, str]:
    """Parent and name."""
    slash = path.rindex("/")
    return path[:slash] or ROOT, path[slash + 1 :]


def join_path(parent: str, name: str) -> str:
    """The path of a child."""
    return f"/{name}" if parent == ROOT else f"{parent}/{name}"


class Node(NamedTuple):
    """One node without its children. Immutable: a change replaces it."""

    data: bytes | None
    czxid: int
    mzxid: int
    pzxid: int
    ctime: int
    mtime: int
    version: int
    children_created: int
    """In all; numbers sequential children and is half of `Stat.cversion`."""
    ephemeral_owner: int


class CloseSession(NamedTuple):
    """Remove every ephemeral node of a session."""

    session_id: int


TreeOp: TypeAlias = Op | CloseSession


class MultiTransaction(NamedTuple):
    """The argument of `Tree.execute`; atomic."""

    zxid: int
    time_ms: int
    session_id: int
    ops: Sequence[TreeOp]


@dataclass(slots=True)
class _Execution:
    """A transaction in progress: how to revert it, and its watch events."""

    by: MultiTransaction
    quiet: bool
    """Whether results and events are not needed: the tree is being loaded."""
    undo: list[tuple[str, Node | None]] = field(default_factory=list)
    """Each node before it was changed, None if it did not exist."""
    events: list[WatchEvent] = field(default_factory=list)


class TransactionResult(NamedTuple):
    """One result per operation, and the events for watches, in order."""

    results: list[OpResult]
    events: list[WatchEvent]


class Tree:
    """The nodes. `zxid` is the number of the last transaction that changed them."""

    def __init__(self, zxid: int = 0) -> None:
        self.zxid = zxid
        self._nodes: dict[str, Node] = {ROOT: Node(None, 0, 0, 0, 0, 0, 0, 0, 0)}
        self._children: dict[str, dict[str, None]] = {}
        self._ephemerals: dict[int, dict[str, None]] = {}

    def __len__(self) -> int:
        return len(self._nodes)

    def get(self, path: str) -> Znode:
        """Data and Stat, or NoNode."""
        node = self._node(path)
        return Znode(node.data, self._stat(path, node))

    def exists(self, path: str) -> Stat | None:
        """Stat, or None where there is no node."""
        node = self._nodes.get(path)
        return None if node is None else self._stat(path, node)

    def children(self, path: str) -> list[str]:
        """Names of the children, sorted, or NoNode."""
        self._node(path)
        return sorted(self._children.get(path, ()))

    def ephemerals(self) -> list[int]:
        """Sessions that own ephemeral nodes, in the order of their first one."""
        return list(self._ephemerals)

    def copy_nodes(self) -> dict[str, Node]:
        """A copy of all nodes, which later changes do not affect."""
        return self._nodes.copy()

    def restore(self, path: str, node: Node) -> None:
        """Restore a node of `copy_nodes`; the order of nodes does not matter."""
        self._nodes[path] = node
        if path != ROOT:
            self._attach(path, node)

    def execute(self, transaction: MultiTransaction, *, quiet: bool = False) -> TransactionResult:
        """Execute all operations or none. MultiFailed says which one failed and why.

        If `quiet`, the results are None and events are left out.
        """
        step = _Execution(transaction, quiet)
        results: list[OpResult] = []
        for index, op in enumerate(transaction.ops):
            try:
                results.append(self._do(op, step))
            except CoordinationError as error:
                self._revert(step.undo)
                raise MultiFailed(index, error) from error
        self.zxid = transaction.zxid
        return TransactionResult(results, step.events)

    def _do(self, op: TreeOp, step: _Execution) -> OpResult:
        if isinstance(op, SetData):
            return self._set(op, step)
        if isinstance(op, Create):
            return self._create(op, step)
        if isinstance(op, CloseSession):
            for path in list(self._ephemerals.get(op.session_id, ())):
                self._remove(path, step)
            return None
        self._expect(op.path, op.version)
        if isinstance(op, Delete):
            if op.path == ROOT:
                raise BadArguments(op.path)
            if op.path in self._children:
                raise NotEmpty(op.path)
            self._remove(op.path, step)
        return None

    def _set(self, op: SetData, step: _Execution) -> Stat | None:
        before, by = self._expect(op.path, op.version), step.by
        node = Node(
            op.data,
            before.czxid,
            by.zxid,
            before.pzxid,
            before.ctime,
            by.time_ms,
            before.version + 1,
            before.children_created,
            before.ephemeral_owner,
        )
        self._put(op.path, node, step)
        if step.quiet:
            return None
        step.events.append(WatchEvent(WatchKind.DATA_CHANGED, op.path))
        return self._stat(op.path, node)

    def _create(self, op: Create, step: _Execution) -> Created | None:
        if not step.quiet:
            _check_path(op)
        parent_path = parent_of(op.path)
        parent = self._nodes.get(parent_path)
        if parent is None:
            raise NoNode(op.path)
        path = f"{op.path}{parent.children_created:010d}" if op.sequential else op.path
        if path in self._nodes:
            raise NodeExists(path)
        if parent.ephemeral_owner != NO_SESSION:
            raise NoChildrenForEphemerals(path)
        zxid, now_ms, session_id, _ = step.by
        owner = session_id if op.ephemeral else NO_SESSION
        node = Node(op.data, zxid, zxid, zxid, now_ms, now_ms, 0, 0, owner)
        self._put(path, node, step)
        self._update_parent(parent_path, step, created=1)
        if step.quiet:
            return None
        step.events.append(WatchEvent(WatchKind.CREATED, path))
        step.events.append(WatchEvent(WatchKind.CHILDREN_CHANGED, parent_path))
        return Created(path, self._stat(path, node))

    def _remove(self, path: str, step: _Execution) -> None:
        step.undo.append((path, self._detach(path)))
        parent_path = parent_of(path)
        self._update_parent(parent_path, step, created=0)
        step.events.append(WatchEvent(WatchKind.DELETED, path))
        step.events.append(WatchEvent(WatchKind.CHILDREN_CHANGED, parent_path))

    def _update_parent(self, path: str, step: _Execution, *, created: int) -> None:
        """Update the parent of a created child (`created` is 1) or a deleted one (0)."""
        node = self._nodes[path]
        self._put(
            path,
            Node(
                node.data,
                node.czxid,
                node.mzxid,
                step.by.zxid,
                node.ctime,
                node.mtime,
                node.version,
                node.children_created + created,
                node.ephemeral_owner,
            ),
            step,
        )

    def _stat(self, path: str, node: Node) -> Stat:
        data, czxid, mzxid, pzxid, ctime, mtime, version, children_created, owner = node
        children = self._children.get(path)
        count = 0 if children is None else len(children)
        # +1 for each creation and each deletion; created - count children were deleted
        cversion = 2 * children_created - count
        size = 0 if data is None else len(data)
        return Stat(czxid, mzxid, pzxid, ctime, mtime, version, cversion, owner, size, count)

    def _node(self, path: str) -> Node:
        node = self._nodes.get(path)
        if node is None:
            raise NoNode(path)
        return node

    def _expect(self, path: str, version: int) -> Node:
        node = self._node(path)
        if version not in (ANY_VERSION, node.version):
            raise BadVersion(path)
        return node

    def _put(self, path: str, node: Node, step: _Execution) -> None:
        before = self._nodes.get(path)
        step.undo.append((path, before))
        if before is None:
            self._attach(path, node)
        self._nodes[path] = node

    def _attach(self, path: str, node: Node) -> None:
        """Add a node to its parent's children and its owner's ephemerals."""
        parent, name = split_path(path)
        self._children.setdefault(parent, {})[name] = None
        if node.ephemeral_owner != NO_SESSION:
            self._ephemerals.setdefault(node.ephemeral_owner, {})[path] = None

    def _detach(self, path: str) -> Node:
        node = self._nodes.pop(path)
        parent, name = split_path(path)
        _drop(self._children, parent, name)
        if node.ephemeral_owner != NO_SESSION:
            _drop(self._ephemerals, node.ephemeral_owner, path)
        return node

    def _revert(self, undo: list[tuple[str, Node | None]]) -> None:
        for path, before in reversed(undo):
            if before is None:
                self._detach(path)
                continue
            if path not in self._nodes:
                self._attach(path, before)
            self._nodes[path] = before

    def check_invariants(self) -> None:
        """Assert what must hold between nodes, children and ephemerals; for tests."""
        assert ROOT in self._nodes
        for path, node in self._nodes.items():
            assert path == ROOT or _is_path(path)
            assert node.czxid <= node.mzxid <= self.zxid and node.czxid <= node.pzxid <= self.zxid
            if path != ROOT:
                parent, name = split_path(path)
                assert name in self._children[parent]
                assert self._nodes[parent].ephemeral_owner == NO_SESSION
        assert all(self._children.values()) and all(self._ephemerals.values())
        family = {(above, name) for above, names in self._children.items() for name in names}
        assert {join_path(above, name) for above, name in family} == self._nodes.keys() - {ROOT}
        owned = {(path, owner) for owner, paths in self._ephemerals.items() for path in paths}
        owners = {(path, node.ephemeral_owner) for path, node in self._nodes.items()}
        assert owned == {(path, owner) for path, owner in owners if owner != NO_SESSION}


def _check_path(op: Create) -> None:
    check_path(op.path + "1" if op.sequential else op.path)


def check_path(path: str) -> None:
    """BadArguments if ZooKeeper does not accept the path."""
    if len(path) > PATH_CHARACTERS_MAX or not _is_path(path):
        raise BadArguments(path)


def _drop(table: dict[K, dict[str, None]], key: K, name: str) -> None:
    names = table[key]
    del names[name]
    if not names:
        del table[key]


class Watches:
    """The watches that are set: at most one for each path, kind and callable."""

    def __init__(self) -> None:
        self._on_data: dict[str, dict[Watch, None]] = {}
        self._on_children: dict[str, dict[Watch, None]] = {}

    def add_data(self, path: str, watch: Watch) -> None:
        """Fire on the node's creation, deletion or next set."""
        self._on_data.setdefault(path, {})[watch] = None

    def add_children(self, path: str, watch: Watch) -> None:
        """Fire on the node's deletion, or when a child is created or deleted."""
        self._on_children.setdefault(path, {})[watch] = None

    def trigger(self, events: Sequence[WatchEvent]) -> list[tuple[Watch, WatchEvent]]:
        """Remove the watches that `events` trigger; the calls to make for them, in order.

        A callable that watches both the data and the children of a deleted node is called once.
        """
        calls: list[tuple[Watch, WatchEvent]] = []
        if not self._on_data and not self._on_children:
            return calls
        for event in events:
            watches: dict[Watch, None] = {}
            if event.kind is not WatchKind.CHILDREN_CHANGED:
                watches |= self._on_data.pop(event.path, {})
            if event.kind in (WatchKind.CHILDREN_CHANGED, WatchKind.DELETED):
                watches |= self._on_children.pop(event.path, {})
            calls.extend((watch, event) for watch in watches)
        return calls
