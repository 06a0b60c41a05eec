"""What came of writes whose responses were lost is read from the nodes."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

import pytest

from kavka.server.coordination.lost_writes import Outcome, Sight, settle
from kavka.zktree.api import (
    ANY_VERSION,
    Check,
    Create,
    Created,
    Delete,
    MultiFailed,
    NoNode,
    Op,
    OpResult,
    SetData,
    Stat,
    Znode,
)
from kavka.zktree.tree import MultiTransaction, Tree

SESSION = 77


class Service:
    """A tree, and the sessions that write to it."""

    def __init__(self) -> None:
        self.tree = Tree()

    def write(self, ops: Sequence[Op], session: int = SESSION) -> Outcome:
        zxid = self.tree.zxid + 1
        try:
            return self.tree.execute(MultiTransaction(zxid, zxid, session, ops)).results
        except MultiFailed as failed:
            self.tree.zxid = zxid  # ZooKeeper numbers those that fail too
            return failed

    def sight(self, since_zxid: int) -> Sight:
        async def get(path: str) -> Znode | None:
            try:
                return self.tree.get(path)
            except NoNode:
                return None

        async def children(path: str) -> list[str]:
            return self.tree.children(path)

        return Sight(SESSION, since_zxid, get, children)

    def nodes(self) -> dict[str, tuple[bytes | None, int, int]]:
        """Data, data version and owner, by path; names of a sequence without their number."""
        return {
            _without_number(path) + f" {node.data!r}": (
                node.data,
                node.version,
                node.ephemeral_owner,
            )
            for path, node in self.tree.copy_nodes().items()
        }


def _without_number(path: str) -> str:
    """What is sent again gets another number in its sequence."""
    return path[:3] if path.startswith("/s-") else path


def said(outcome: Outcome) -> object:
    """Of an outcome what callers go by: which operation failed and why, paths, data versions."""
    if isinstance(outcome, MultiFailed):
        return outcome.index, type(outcome.cause)
    return [_said(result) for result in outcome]


def _said(result: OpResult) -> object:
    match result:
        case Created(path):
            return _without_number(path)
        case Stat():
            return result.version
    return None


def random_write(chance: random.Random, tree: Tree, number: int) -> list[Op]:
    """Of what a session may well write, given how the tree will then be; one in ten fails."""
    nodes = {
        path: node for path, node in tree.copy_nodes().items() if path != "/" and path[:3] != "/s-"
    }
    fresh = f"/n{number}"
    data = b"%d" % number
    if not nodes or chance.random() < 0.25:
        return [Create(fresh, data, ephemeral=chance.random() < 0.3)]
    path = chance.choice(list(nodes))
    version = nodes[path].version + (chance.random() < 0.1)
    match chance.randrange(6):
        case 0:
            return [Create("/s-", data, sequential=True)]
        case 1:
            return [Delete(path, version)]
        case 2:
            return [SetData(path, data)]
        case 3:
            return [Check(path, version), Create(fresh, None), SetData(fresh, data, 0)]
        case 4:
            return [Check("/", ANY_VERSION), SetData(path, data, version)]
    return [SetData(path, data, version)]


@pytest.mark.parametrize("seed", range(60))
def test_each_write_takes_effect_once_and_is_told_so(seed: int) -> None:
    """The writes that did not take effect are sent again; then all is as without a loss. The
    session did not know the outcome of one before it sent the next."""
    chance = random.Random(seed)
    ideal, real = Service(), Service()
    before = [random_write(chance, ideal.tree, -1 - number) for number in range(6)]
    for ops in before:
        ideal.write(ops)
        real.write(ops)
    since_zxid = real.tree.zxid
    writes, expected = [], []
    for number in range(chance.randrange(1, 11)):
        writes.append(random_write(chance, ideal.tree, number))
        expected.append(ideal.write(writes[-1]))
    for ops in writes[: chance.randrange(len(writes) + 1)]:
        real.write(ops)
    outcomes = asyncio.run(settle(writes, real.sight(since_zxid)))
    found = [
        real.write(ops) if outcome is None else outcome
        for ops, outcome in zip(writes, outcomes, strict=True)
    ]
    assert [said(outcome) for outcome in found] == [said(outcome) for outcome in expected]
    assert real.nodes() == ideal.nodes()
