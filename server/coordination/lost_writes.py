"""Finds out the results of writes whose responses were lost with a connection. ZooKeeper does not
keep them, so they are derived from the nodes as they are now.

The transactions of such writes have higher numbers (zxid) than all that the session had seen when
the connection was lost, and take effect in the order in which they were sent. So if a node has the
written data, from a transaction with a higher number, then that write took effect, and all writes
before it were processed. From the last such write we go backwards, undoing one write after the
other in a model of the nodes' versions: it shows the versions that the earlier writes met and left.

The result can be wrong only if another session wrote to the same nodes at the same time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from kavka.zktree.api import (
    ANY_VERSION,
    BadVersion,
    Check,
    CoordinationError,
    Create,
    Created,
    Delete,
    MultiFailed,
    NodeExists,
    NoNode,
    NotEmpty,
    Op,
    OpResult,
    SetData,
    Stat,
    Znode,
)

Outcome: TypeAlias = list[OpResult] | MultiFailed

_MISSING: Final = -1
"""As a data version: there was no such node."""

_UNKNOWN: Final = -2
"""As a data version: it can't be known."""

_NO_STAT: Final = Stat(0, 0, 0, 0, 0, 0, 0, 0, 0, 0)


@dataclass(frozen=True)
class Sight:
    """Reads the nodes as they are now; and what the session knew when the connection was lost."""

    session_id: int
    since_zxid: int
    get: Callable[[str], Awaitable[Znode | None]]
    children: Callable[[str], Awaitable[list[str]]]
    """Names; empty if there is no such node."""


async def settle(writes: Sequence[Sequence[Op]], sight: Sight) -> list[Outcome | None]:
    """The results of transactions, given in the order in which they were sent; None for those that
    were not processed: these are the last ones, and can be sent again.

    If later writes have changed a node, only the data version of its Stat is exact.
    """
    outcomes: list[Outcome | None] = [None] * len(writes)
    past = _Past(sight)
    for number in reversed(range(await _count_processed(writes, sight))):
        outcomes[number] = await past.take_back(writes[number], _created_by(writes[:number]))
    return outcomes


async def _count_processed(writes: Sequence[Sequence[Op]], sight: Sight) -> int:
    """How many transactions were processed: up to the last one that has visibly taken effect. Once
    the first ones are known to be processed, more may be known of the next, so this is repeated."""
    count, before = 0, -1
    while count != before:
        before = count
        for number in reversed(range(before, len(writes))):
            own = _created_by(writes[:number])
            if await _is_seen(writes[number], sight, own, _created_by(writes[before:number])):
                count = number + 1
                break
    return count


def _created_by(writes: Iterable[Sequence[Op]]) -> frozenset[str]:
    return frozenset(op.path for ops in writes for op in ops if isinstance(op, Create))


async def _is_seen(
    ops: Sequence[Op], sight: Sight, own: frozenset[str], unsure: frozenset[str]
) -> bool:
    """Whether the nodes show that a transaction took effect. `own`: nodes that earlier writes were
    to create. `unsure`: those of them that may never have been created, so that their absence does
    not prove a deletion."""
    changes = [op for op in ops if not isinstance(op, Check)]
    for op in changes:
        if isinstance(op, Delete) and op.path in unsure:
            return False
        if not await _has_effect(op, sight, own):
            return False
    return bool(changes)


async def _has_effect(op: Create | SetData | Delete, sight: Sight, own: frozenset[str]) -> bool:
    if isinstance(op, Create) and op.sequential:
        return await _in_sequence(op, sight) is not None
    node = await sight.get(op.path)
    match op:
        case Create():
            return node is not None and _is_created(op, node, sight)
        case SetData():
            return node is not None and _is_set(op, node, sight)
    # One that another session has created since is another node: to delete again would be wrong.
    return node is None or (op.path not in own and node.stat.czxid > sight.since_zxid)


def _is_created(op: Create, node: Znode, sight: Sight) -> bool:
    owner = sight.session_id if op.ephemeral else 0
    is_new = node.stat.czxid > sight.since_zxid and node.stat.ephemeral_owner == owner
    return is_new and (node.stat.version > 0 or node.data == op.data)


def _is_set(op: SetData, node: Znode, sight: Sight) -> bool:
    if node.stat.mzxid <= sight.since_zxid or node.data != op.data:
        return False
    return op.version in (ANY_VERSION, node.stat.version - 1)


async def _in_sequence(op: Create, sight: Sight) -> Created | None:
    """The node that a sequential create has made; None if there is none. Sequence numbers increase,
    so the search, from the highest, ends at a node that existed before."""
    parent, _, prefix = op.path.rpartition("/")
    names = [name for name in await sight.children(parent or "/") if name.startswith(prefix)]
    for name in sorted(names, reverse=True):
        path = f"{parent}/{name}"
        node = await sight.get(path)
        if node is not None and node.stat.czxid <= sight.since_zxid:
            return None
        if node is not None and _is_created(op, node, sight):
            return Created(path, node.stat)
    return None


class _Past:
    """A model of the nodes as they were before the writes that were undone in it."""

    def __init__(self, sight: Sight) -> None:
        self._sight = sight
        self._versions: dict[str, int] = {}
        """Data versions of the nodes that those writes changed."""

    async def take_back(self, ops: Sequence[Op], own: frozenset[str]) -> Outcome:
        """The result of a transaction that was processed; undoes it in the model. `own`: nodes that
        earlier transactions were to create."""
        before = self._versions.copy()
        results: list[OpResult] = []
        for op in reversed(ops):
            found = await self._result(op, own)
            if found is None:
                break
            results.append(found.result)
        if len(results) == len(ops):
            return results[::-1]
        self._versions = before
        for index, op in enumerate(ops):  # it failed, so that the nodes were the same before it
            cause = await self._failure(op)
            if cause is not None:
                self._versions = before
                return MultiFailed(index, cause)
            await self._foresee(op)
        self._versions = before
        return [_presumed(op) for op in ops]

    async def _version(self, path: str) -> int:
        """A node's data version in the model."""
        if path in self._versions:
            return self._versions[path]
        node = await self._sight.get(path)
        return _MISSING if node is None else node.stat.version

    async def _result(self, op: Op, own: frozenset[str]) -> _Result | None:
        """The result of an operation if it took effect, which is undone in the model; None if it
        can't have taken effect."""
        if isinstance(op, Check):
            is_right = await self._version(op.path) in (op.version, _UNKNOWN)
            is_there = op.version == ANY_VERSION and await self._version(op.path) != _MISSING
            return _Result(None) if is_right or is_there else None
        if isinstance(op, Create) and op.sequential:
            created = await _in_sequence(op, self._sight)
            return None if created is None else _Result(created)
        if op.path not in self._versions and not await _has_effect(op, self._sight, own):
            return None
        version = await self._version(op.path)
        node = await self._sight.get(op.path)
        stat = (_NO_STAT if node is None else node.stat)._replace(version=max(version, 0))
        match op:
            case Create():
                if version not in (0, _UNKNOWN):
                    return None
                self._versions[op.path] = _MISSING
                return _Result(Created(op.path, stat))
            case SetData():
                if version not in (op.version + 1, _UNKNOWN) and op.version != ANY_VERSION:
                    return None
                if version in (0, _MISSING):
                    return None
                self._versions[op.path] = _UNKNOWN if version == _UNKNOWN else version - 1
                known = stat if op.version == ANY_VERSION else _with_version(stat, op.version + 1)
                return _Result(known)
        if op.path in self._versions and version not in (_MISSING, _UNKNOWN):
            return None
        self._versions[op.path] = _UNKNOWN if op.version == ANY_VERSION else op.version
        return _Result(None)

    async def _failure(self, op: Op) -> CoordinationError | None:
        """Why an operation fails on the nodes of the model; None if it succeeds."""
        version = await self._version(op.path)
        if isinstance(op, Create):
            is_there = version != _MISSING and not op.sequential
            return NodeExists(op.path) if is_there else None
        if version == _MISSING:
            return NoNode(op.path)
        if op.version not in (ANY_VERSION, version) and version != _UNKNOWN:
            return BadVersion(op.path)
        if isinstance(op, Delete) and await self._sight.children(op.path):
            return NotEmpty(op.path)
        return None

    async def _foresee(self, op: Op) -> None:
        """Apply an operation to the model, for the later ones of its transaction."""
        match op:
            case Create():
                self._versions[op.path] = 0
            case SetData():
                version = await self._version(op.path)
                self._versions[op.path] = version + (version != _UNKNOWN)
            case Delete():
                self._versions[op.path] = _MISSING


@dataclass(frozen=True)
class _Result:
    result: OpResult


def _presumed(op: Op) -> OpResult:
    """The probable result of an operation of which the nodes show nothing any more."""
    match op:
        case Create():
            return Created(op.path, _NO_STAT)
        case SetData():
            return _with_version(_NO_STAT, max(op.version + 1, 0))
    return None


def _with_version(stat: Stat, version: int) -> Stat:
    return stat._replace(version=version)
