"""What came of a write whose response was lost with the connection: ZooKeeper keeps no results.

It is read off the nodes. The transaction of such a write has a higher number (zxid) than all that
the session had seen when the connection was lost. So a node that the write creates or sets has had
its effect if it says what was written, in a transaction with a higher number. Only the same write
by another session at the same time can be taken for one's own, and has the same effect.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container, Sequence
from dataclasses import dataclass
from typing import Final

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

_UNKNOWN: Final = Stat(0, 0, 0, 0, 0, 0, 0, 0, 0, 0)


@dataclass(frozen=True)
class Sight:
    """How nodes look now, and what the session knew when the connection was lost."""

    session_id: int
    since_zxid: int
    get: Callable[[str], Awaitable[Znode | None]]
    children: Callable[[str], Awaitable[list[str]]]
    """Names; empty if there is no such node."""


async def results_of(
    ops: Sequence[Op], sight: Sight, maybe_created: Container[str]
) -> list[OpResult] | None:
    """The results of operations that were one transaction; None if they did not take effect, or
    cannot be known to have. A node that is not there may not have been deleted but never created,
    if earlier writes whose outcome is not known were to create it."""
    results: list[OpResult] = []
    has_effect = False
    for op in ops:
        if isinstance(op, Check):
            results.append(None)
            continue
        if isinstance(op, Delete) and op.path in maybe_created:
            return None
        found = await _result_of(op, sight)
        if found is None:
            return None
        has_effect = True
        results.append(found.result)
    return results if has_effect else None


async def processed_results(
    ops: Sequence[Op], sight: Sight, written_later: Container[str]
) -> list[OpResult]:
    """The results of a transaction that was processed, as a later one of the session took effect;
    the paths that later ones wrote are known.

    MultiFailed if it cannot have taken effect itself. Otherwise it did, and the nodes have changed
    since: what cannot be read any more is 0; a data version is exact where the write named the one
    before.
    """
    results: list[OpResult] = []
    for index, op in enumerate(ops):
        if isinstance(op, Check):
            results.append(None)
            continue
        found = await _result_of(op, sight)
        if found is not None:
            results.append(found.result)
            continue
        node = await sight.get(op.path)
        cause = None if op.path in written_later else _failure(op, node, sight)
        if cause is not None:
            raise MultiFailed(index, cause)
        results.append(_overwritten(op, _UNKNOWN if node is None else node.stat))
    return results


def _failure(
    op: Create | SetData | Delete, node: Znode | None, sight: Sight
) -> CoordinationError | None:
    """Why an operation without a visible effect failed; None if it had one that is gone."""
    if node is None:
        return NoNode(op.path) if isinstance(op, SetData) else None
    was_there = node.stat.czxid <= sight.since_zxid
    match op:
        case Create():
            return NodeExists(op.path) if was_there or node.stat.version == 0 else None
        case SetData():
            is_older = op.version != ANY_VERSION and node.stat.version <= op.version
            return BadVersion(op.path) if is_older else None
        case Delete(version=version):
            return NotEmpty(op.path) if version == ANY_VERSION else BadVersion(op.path)


def _overwritten(op: Create | SetData | Delete, stat: Stat) -> OpResult:
    """The result of an operation that had its effect, with the node's present Stat."""
    match op:
        case Create():
            return Created(op.path, stat)
        case SetData(version=version) if version != ANY_VERSION:
            return stat._replace(version=version + 1)
        case SetData():
            return stat
    return None


@dataclass(frozen=True)
class _Effect:
    """The write is there; None instead of it says that it is not."""

    result: OpResult


async def _result_of(op: Create | SetData | Delete, sight: Sight) -> _Effect | None:
    match op:
        case Create(sequential=True):
            return await _created_in_sequence(op, sight)
        case Create():
            node = await sight.get(op.path)
            return _created(op, op.path, node, sight)
        case SetData():
            node = await sight.get(op.path)
            if node is None or not _is_set(op, node, sight):
                return None
            return _Effect(node.stat)
        case Delete():
            node = await sight.get(op.path)
            # One that has been created since is another node: to delete again would be wrong.
            is_gone = node is None or node.stat.czxid > sight.since_zxid
            return _Effect(None) if is_gone else None


def _created(op: Create, path: str, node: Znode | None, sight: Sight) -> _Effect | None:
    if node is None or node.stat.czxid <= sight.since_zxid:
        return None
    owner = sight.session_id if op.ephemeral else 0
    if node.stat.ephemeral_owner != owner or (node.stat.version == 0 and node.data != op.data):
        return None
    return _Effect(Created(path, node.stat))


def _is_set(op: SetData, node: Znode, sight: Sight) -> bool:
    if node.stat.mzxid <= sight.since_zxid or node.data != op.data:
        return False
    return op.version in (ANY_VERSION, node.stat.version - 1)


async def _created_in_sequence(op: Create, sight: Sight) -> _Effect | None:
    """Numbers rise with transactions: the search ends at a node that was known before."""
    parent, _, prefix = op.path.rpartition("/")
    names = [name for name in await sight.children(parent or "/") if name.startswith(prefix)]
    for name in sorted(names, reverse=True):
        path = f"{parent}/{name}"
        node = await sight.get(path)
        if node is not None and node.stat.czxid <= sight.since_zxid:
            return None
        if (effect := _created(op, path, node, sight)) is not None:
            return effect
    return None
