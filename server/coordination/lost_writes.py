"""What came of writes whose responses were lost with a connection: ZooKeeper keeps no results.

It is read off the nodes. The transactions of such writes have higher numbers (zxid) than all that
the session had seen when the connection was lost, and take effect in the order in which they were
sent. So a node that says what was written, in a transaction with a higher number, shows that its
write took effect, and that all before it were processed. From there the writes are followed
backwards: what a node's version was before the later ones says what came of the earlier ones.

Only what another session wrote to the same nodes at the same time can mislead.
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
    """How nodes look now, and what the session knew when the connection was lost."""

    session_id: int
    since_zxid: int
    get: Callable[[str], Awaitable[Znode | None]]
    children: Callable[[str], Awaitable[list[str]]]
    """Names; empty if there is no such node."""


async def settle(writes: Sequence[Sequence[Op]], sight: Sight) -> list[Outcome | None]:
    """What came of transactions that were sent in this order; None of those that did not take
    effect: the last ones, which can be sent again.

    Of a Stat only the data version is exact, where later writes have changed the node.
    """
    outcomes: list[Outcome | None] = [None] * len(writes)
    past = _Past(sight)
    for number in reversed(range(await _count_processed(writes, sight))):
        outcomes[number] = await past.take_back(writes[number], _created_by(writes[:number]))
    return outcomes


async def _count_processed(writes: Sequence[Sequence[Op]], sight: Sight) -> int:
    """How many were processed, up to the last one that is seen to have taken effect. What is known
    of the first ones may say more of the next."""
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
    """Whether the nodes show that a transaction took effect. Earlier writes were to create the
    nodes `own`; as to `unsure`, it is not known whether they did: such a node may not have been
    deleted but never created."""
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
    """Numbers rise with transactions: the search ends at a node that was known before."""
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
    """The nodes as they were before the writes that were taken back."""

    def __init__(self, sight: Sight) -> None:
        self._sight = sight
        self._versions: dict[str, int] = {}
        """Of the nodes that those writes changed."""

    async def take_back(self, ops: Sequence[Op], own: frozenset[str]) -> Outcome:
        """The outcome of a transaction that was processed; the nodes are then as before it.
        Earlier ones were to create the nodes `own`."""
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
        """What a node's data version was then."""
        if path in self._versions:
            return self._versions[path]
        node = await self._sight.get(path)
        return _MISSING if node is None else node.stat.version

    async def _result(self, op: Op, own: frozenset[str]) -> _Result | None:
        """The result of an operation that had an effect; None if it cannot have had one."""
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
        """Why an operation fails on the nodes as they are; None if it does not."""
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
        """Let an operation of a transaction have its effect, for those behind it."""
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
    """The result of an operation of which the nodes say nothing any more."""
    match op:
        case Create():
            return Created(op.path, _NO_STAT)
        case SetData():
            return _with_version(_NO_STAT, max(op.version + 1, 0))
    return None


def _with_version(stat: Stat, version: int) -> Stat:
    return stat._replace(version=version)
