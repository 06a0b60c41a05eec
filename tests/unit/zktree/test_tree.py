"""The tree against a model of it that copies everything and so has no bookkeeping to get wrong."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kavka.zktree.api import (
    ANY_VERSION,
    BadArguments,
    BadVersion,
    Check,
    CoordinationError,
    Create,
    Delete,
    MultiFailed,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    SetData,
    Stat,
    WatchEvent,
    WatchKind,
)
from kavka.zktree.tree import (
    PATH_CHARACTERS_MAX,
    CloseSession,
    MultiTransaction,
    Tree,
    TreeOp,
    join_path,
    parent_of,
    split_path,
)

SESSIONS = (7, 8)

names = st.sampled_from(["a", "b", "c"])
paths = st.lists(names, min_size=1, max_size=3).map(lambda parts: "/" + "/".join(parts))
data = st.one_of(st.none(), st.binary(max_size=3))
versions = st.sampled_from([ANY_VERSION, ANY_VERSION, 0, 1, 2])
operations: st.SearchStrategy[TreeOp] = st.one_of(
    st.builds(Create, paths, data, st.booleans(), st.booleans()),
    st.builds(SetData, paths, data, versions),
    st.builds(Delete, paths, versions),
    st.builds(Check, paths, versions),
)


@dataclass
class ModelNode:
    data: bytes | None
    owner: int
    zxids: list[int]
    """Of the creation, the last set and the last change of children."""
    version: int = 0
    created: int = 0
    deleted: int = 0


@dataclass
class Model:
    """What ZooKeeper's documentation says, done the slow way."""

    nodes: dict[str, ModelNode] = field(
        default_factory=lambda: {"/": ModelNode(None, 0, [0, 0, 0])}
    )

    def below(self, path: str) -> list[str]:
        prefix = path.rstrip("/") + "/"
        rest = [other[len(prefix) :] for other in self.nodes if other.startswith(prefix)]
        return sorted(name for name in rest if name and "/" not in name)

    def execute(self, ops: Sequence[TreeOp], session: int, zxid: int) -> type | None:
        """Do all, or none and say why."""
        before = copy.deepcopy(self.nodes)
        for op in ops:
            failure = self.do(op, session, zxid)
            if failure is not None:
                self.nodes = before
                return failure
        return None

    def do(self, op: TreeOp, session: int, zxid: int) -> type[CoordinationError] | None:
        match op:
            case CloseSession():
                for path in [
                    path for path, node in self.nodes.items() if node.owner == op.session_id
                ]:
                    self.remove(path, zxid)
                return None
            case Create():
                return self.create(op, session, zxid)
        node = self.nodes.get(op.path)
        if node is None:
            return NoNode
        if op.version not in (ANY_VERSION, node.version):
            return BadVersion
        match op:
            case SetData():
                node.data, node.version, node.zxids[1] = op.data, node.version + 1, zxid
            case Delete():
                if self.below(op.path):
                    return NotEmpty
                self.remove(op.path, zxid)
        return None

    def create(self, op: Create, session: int, zxid: int) -> type[CoordinationError] | None:
        parent = self.nodes.get(op.path[: op.path.rindex("/")] or "/")
        if parent is None:
            return NoNode
        path = op.path + (str(parent.created).zfill(10) if op.sequential else "")
        if path in self.nodes:
            return NodeExists
        if parent.owner:
            return NoChildrenForEphemerals
        parent.created += 1
        parent.zxids[2] = zxid
        self.nodes[path] = ModelNode(op.data, session if op.ephemeral else 0, [zxid] * 3)
        return None

    def remove(self, path: str, zxid: int) -> None:
        del self.nodes[path]
        parent = self.nodes[path[: path.rindex("/")] or "/"]
        parent.deleted += 1
        parent.zxids[2] = zxid


class TreeMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.tree = Tree()
        self.model = Model()
        self.done: list[MultiTransaction] = []

    @rule(ops=st.lists(operations, min_size=1, max_size=4), session=st.sampled_from(SESSIONS))
    def multi(self, ops: list[TreeOp], session: int) -> None:
        self.execute(ops, session)

    @rule(session=st.sampled_from(SESSIONS))
    def close_session(self, session: int) -> None:
        self.execute([CloseSession(session)], session)

    def execute(self, ops: list[TreeOp], session: int) -> None:
        zxid = self.tree.zxid + 1
        transaction = MultiTransaction(zxid, 1000 * zxid, session, ops)
        expected = self.model.execute(ops, session, zxid)
        try:
            outcome = self.tree.execute(transaction)
        except MultiFailed as failed:
            assert type(failed.cause) is expected
            assert self.tree.zxid == zxid - 1
        else:
            assert expected is None
            assert len(outcome.results) == len(ops)
            self.done.append(transaction)

    @invariant()
    def they_agree(self) -> None:
        self.tree.check_invariants()
        assert set(self.tree.copy_nodes()) == set(self.model.nodes)
        for path, node in self.model.nodes.items():
            children = self.model.below(path)
            created, changed, children_changed = node.zxids
            assert self.tree.children(path) == children
            assert self.tree.get(path) == (
                node.data,
                Stat(
                    *(created, changed, children_changed, 1000 * created, 1000 * changed),
                    node.version,
                    node.created + node.deleted,
                    node.owner,
                    len(node.data or b""),
                    len(children),
                ),
            )

    @invariant()
    def replaying_gives_the_same_tree(self) -> None:
        replayed = Tree()
        for transaction in self.done:
            replayed.execute(transaction)
        assert replayed.copy_nodes() == self.tree.copy_nodes()
        assert replayed.zxid == self.tree.zxid

    @invariant()
    def restoring_gives_the_same_tree(self) -> None:
        restored = Tree(self.tree.zxid)
        for path, node in reversed(self.tree.copy_nodes().items()):
            restored.restore(path, node)
        restored.check_invariants()
        assert restored.copy_nodes() == self.tree.copy_nodes()
        assert sorted(restored.ephemerals()) == sorted(self.tree.ephemerals())


TestTreeMachine = TreeMachine.TestCase
TestTreeMachine.settings = settings(max_examples=60, stateful_step_count=25)


@given(paths)
def test_paths_split_and_join(path: str) -> None:
    parent, name = split_path(path)
    assert parent_of(path) == parent
    assert join_path(parent, name) == path
    assert "/" not in name


def test_the_root_is_its_own_parent() -> None:
    assert parent_of("/") == "/"


def execute(tree: Tree, *ops: TreeOp, session: int = 7) -> list[WatchEvent]:
    return tree.execute(MultiTransaction(tree.zxid + 1, 0, session, ops)).events


def test_the_length_of_paths_is_bounded() -> None:
    tree = Tree()
    longest = "/" + "a" * (PATH_CHARACTERS_MAX - 1)
    execute(tree, Create(longest))
    for too_long in (Create(longest + "a"), Create(longest, sequential=True)):
        with pytest.raises(MultiFailed) as failure:
            execute(tree, too_long)
        assert type(failure.value.cause) is BadArguments
    assert len(tree) == 2


def test_events_in_order() -> None:
    tree = Tree()
    assert execute(tree, Create("/a"), Create("/a/b"), SetData("/a", b"x")) == [
        (WatchKind.CREATED, "/a"),
        (WatchKind.CHILDREN_CHANGED, "/"),
        (WatchKind.CREATED, "/a/b"),
        (WatchKind.CHILDREN_CHANGED, "/a"),
        (WatchKind.DATA_CHANGED, "/a"),
    ]
    assert execute(tree, Check("/a"), Delete("/a/b")) == [
        (WatchKind.DELETED, "/a/b"),
        (WatchKind.CHILDREN_CHANGED, "/a"),
    ]


def test_closing_a_session_deletes_what_it_owns_and_nothing_else() -> None:
    tree = Tree()
    execute(tree, Create("/mine", ephemeral=True), Create("/kept"))
    execute(tree, Create("/theirs", ephemeral=True), session=8)
    assert tree.ephemerals() == [7, 8]
    assert execute(tree, CloseSession(7)) == [
        (WatchKind.DELETED, "/mine"),
        (WatchKind.CHILDREN_CHANGED, "/"),
    ]
    assert tree.children("/") == ["kept", "theirs"]
    assert tree.ephemerals() == [8]


def test_a_copy_of_the_nodes_does_not_change() -> None:
    tree = Tree()
    execute(tree, Create("/a", b"1"))
    before = tree.copy_nodes()
    execute(tree, SetData("/a", b"2"), Create("/b"))
    assert sorted(before) == ["/", "/a"]
    assert before["/a"].data == b"1"


def test_a_failed_transaction_names_the_operation() -> None:
    tree = Tree()
    with pytest.raises(MultiFailed) as failure:
        execute(tree, Create("/a"), Delete("/a"), Delete("/a"))
    assert (failure.value.index, type(failure.value.cause)) == (2, NoNode)
    assert str(failure.value) == "operation 2: NoNode /a"
    assert tree.exists("/a") is None
