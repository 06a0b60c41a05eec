"""Reads and writes a cluster's nodes in ZooKeeper while no broker is running.

The session is opened as a broker's: with TLS, a name and ACLs, where the settings say so.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final, NamedTuple

from kavka.tools.progress import progress
from kavka.tools.storage.errors import Refused
from kavka.tools.storage.nodes import ROOTS, ClusterMetadata, is_exported
from kavka.zktree import paths
from kavka.zktree.api import NO_SESSION, Coordination, CoordinationError, NoNode, Znode

ASKED_MAX: Final = 500
"""Requests that are made before the response to the first is awaited."""

OpenSession = Callable[[str], AbstractAsyncContextManager[Coordination]]
"""Takes a string with the syntax of `zookeeper.connect`. OSError if no server lets it in."""


class ZooKeeperFailed(Exception):
    """ZooKeeper failed while nodes were read or written; the message says what to expect."""


class ZooKeeper(NamedTuple):
    """Where a cluster's nodes are. `connect` has the syntax of `zookeeper.connect`: comma-separated
    HOST:PORT, then an optional chroot path."""

    connect: str
    open: OpenSession

    async def read(self) -> ClusterMetadata:
        """The metadata to import. Refused while the cluster is running. ZooKeeperFailed."""
        hosts, _, root = self.connect.partition("/")
        root = f"/{root.strip('/')}" if root.strip("/") else ""
        async with self._session(hosts) as session:  # not below the path, which that would create
            return await _Znodes(session, root, self.connect).read()

    async def write(self, metadata: ClusterMetadata, *, replace: bool) -> None:
        """Create the nodes; with `replace` existing ones are deleted first.

        Refused when nodes exist, and while the cluster is running. ZooKeeperFailed. The cluster
        id is deleted first and created last, so that no broker starts with half of the nodes.
        """
        async with self._session(self.connect) as session:
            nodes = _Znodes(session, "", self.connect)
            await nodes.check_no_brokers()
            if there := await nodes.roots():
                if not replace:
                    raise Refused(
                        f"there are nodes at {self.connect} already: {', '.join(there)}. Take "
                        "another path, or --replace them"
                    )
                await nodes.clear()
            await nodes.make(metadata)

    @asynccontextmanager
    async def _session(self, connect: str) -> AsyncIterator[Coordination]:
        try:
            async with self.open(connect) as session:
                yield session
        except CoordinationError as error:
            reason = str(error) or type(error).__name__
            raise ZooKeeperFailed(
                f"ZooKeeper at {self.connect} failed, so the move is not complete: {reason}"
            ) from error


class _Znodes:
    """Kafka's znodes of a cluster, in a session with ZooKeeper. Methods raise CoordinationError."""

    def __init__(self, session: Coordination, root: str, connect: str) -> None:
        """`root` is put before each path; `connect` says to the user where that is."""
        self._session = session
        self._root = root
        self._connect = connect

    async def check_no_brokers(self) -> None:
        """Refused while a broker is registered."""
        try:
            brokers = await self._session.children(self._root + paths.BROKER_IDS)
        except NoNode:
            return
        if brokers:
            raise Refused(
                f"brokers are registered at {self._connect}: {', '.join(sorted(brokers))}. Stop "
                "them; the registration of a killed one ends with its session "
                "(zookeeper.session.timeout.ms)"
            )

    async def read(self) -> ClusterMetadata:
        """What is exported. Refused while the cluster is running, and without one."""
        await self.check_no_brokers()
        nodes: dict[str, bytes | None] = {}
        sequence = 0
        async for path, node in self._walk(is_exported):
            if node.stat.ephemeral_owner != NO_SESSION:
                continue
            nodes[path] = node.data
            if path == paths.BROKER_SEQUENCE:
                sequence = node.stat.version
        if not nodes:
            raise Refused(
                f"there is no cluster at {self._connect}; zookeeper.connect of Apache Kafka may "
                "have a path after the ports"
            )
        return ClusterMetadata(nodes, sequence)

    async def roots(self) -> list[str]:
        """Those of Kafka's top nodes that there are."""
        return [root for root in ROOTS if await self._session.exists(self._root + root) is not None]

    async def clear(self) -> None:
        """Delete all of Kafka's nodes: the cluster's id first, then children before parents."""
        found = [path async for path, _ in self._walk(lambda path: True)]
        rest = [path for path in reversed(found) if path != paths.CLUSTER_ID]
        for part in (found.count(paths.CLUSTER_ID) * [paths.CLUSTER_ID], rest):
            await _ask_all(self._session.delete, [(self._root + path,) for path in part])

    async def make(self, metadata: ClusterMetadata) -> None:
        """Create nodes, the cluster's id when all others are there."""
        nodes = {self._root + path: data for path, data in metadata.nodes.items()}
        last = self._root + paths.CLUSTER_ID
        sequence = self._root + paths.BROKER_SEQUENCE
        session = self._session
        await _ask_all(session.create, [(path, nodes[path]) for path in nodes if path != last])
        if sequence in nodes:  # how often it was set is the last generated broker id
            counted = metadata.broker_sequence * [(sequence, nodes[sequence])]
            await _ask_all(session.set, counted)
        if last in nodes:
            await session.create(last, nodes[last])

    async def _walk(self, is_wanted: Callable[[str], bool]) -> AsyncIterator[tuple[str, Znode]]:
        """Path and content of the wanted nodes of Kafka, level by level."""
        level = list(ROOTS)
        while level:
            found = await _ask_all(self._look, [(path,) for path in level])
            below = []
            for path, (node, names) in zip(level, found, strict=True):
                if node is not None:
                    yield path, node
                    below += [f"{path}/{name}" for name in sorted(names)]
            level = [path for path in below if is_wanted(path)]

    async def _look(self, path: str) -> tuple[Znode | None, list[str]]:
        """A node and the names of its children; None and none if it is missing."""
        full = self._root + path
        try:
            return await self._session.get(full), await self._session.children(full)
        except NoNode:
            return None, []


async def _ask_all(
    request: Callable[..., Awaitable[Any]], arguments: Sequence[tuple[Any, ...]]
) -> list[Any]:
    """The results of many requests, which take effect in this order. The first one's error, once
    there is a response to all that were sent."""
    results: list[Any] = []
    with progress("nodes of ZooKeeper", len(arguments)) as step:
        for begin in range(0, len(arguments), ASKED_MAX):
            sent = [request(*args) for args in arguments[begin : begin + ASKED_MAX]]
            results += await asyncio.gather(*sent, return_exceptions=True)
            for result in results[begin:]:
                if isinstance(result, BaseException):
                    raise result
            step(len(sent))
    return results
