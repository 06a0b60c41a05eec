"""Reads and writes a cluster's nodes in ZooKeeper while no broker is running.

kazoo is imported lazily. Nodes are created with open ACLs: ZooKeeper ACLs are not exported.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Final, Self

from kavka.tools.storage.errors import Refused
from kavka.tools.storage.nodes import ROOTS, ClusterMetadata, is_exported
from kavka.zktree import paths

CONNECT_WITHIN_S: Final = 15.0
ANSWER_WITHIN_S: Final = 30.0
IN_FLIGHT_MAX: Final = 500
"""Requests sent to ZooKeeper before the response to the first is awaited."""


class ZooKeeperFailed(Exception):
    """ZooKeeper failed while nodes were read or written; the message says what to expect."""


class ZooKeeper:
    """A connection, as a context manager. `connect` has the syntax of `zookeeper.connect`:
    comma-separated HOST:PORT, then an optional chroot path."""

    def __init__(self, connect: str) -> None:
        hosts, _, root = connect.partition("/")
        self._connect = connect
        self._hosts = hosts
        self._root = f"/{root.strip('/')}" if root.strip("/") else ""
        self._client: Any = None
        self._kazoo: Any = None

    def __enter__(self) -> Self:
        try:
            import kazoo.client
            import kazoo.exceptions
        except ImportError as error:
            raise Refused("ZooKeeper needs kazoo: pip install kazoo") from error
        self._kazoo = kazoo
        # otherwise it logs every connection attempt to stderr
        logging.getLogger("kazoo").addHandler(logging.NullHandler())
        try:
            client = self._client = kazoo.client.KazooClient(self._hosts)
        except ValueError as error:
            raise Refused(f"{self._connect!r} is not HOST:PORT[/PATH]: {error}") from error
        try:
            client.start(timeout=CONNECT_WITHIN_S)
        except client.handler.timeout_exception as error:
            client.close()
            raise Refused(
                f"no ZooKeeper answers at {self._hosts} within {CONNECT_WITHIN_S:.0f} s"
            ) from error
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._client.stop()
        self._client.close()

    # --- reading

    def check_no_brokers(self) -> None:
        """Refused while a broker is registered."""
        brokers = self._call(self._children, paths.BROKER_IDS)
        if brokers:
            raise Refused(
                f"brokers are registered at {self._connect}: {', '.join(brokers)}. Stop them; the "
                "registration of a killed one ends with its session (zookeeper.session.timeout.ms)"
            )

    def read(self) -> ClusterMetadata:
        """The metadata to import. Refused while the cluster is running. ZooKeeperFailed."""
        self.check_no_brokers()
        nodes: dict[str, bytes | None] = {}
        sequence = 0
        for path, data, stat in self._call(self._walk, is_exported):
            if stat.ephemeralOwner:
                continue
            nodes[path] = data
            if path == paths.BROKER_SEQUENCE:
                sequence = stat.version
        if not nodes:
            raise Refused(
                f"there is no cluster at {self._connect}; zookeeper.connect of Apache Kafka may "
                "have a path after the ports"
            )
        return ClusterMetadata(nodes, sequence)

    def _children(self, path: str) -> list[str]:
        try:
            found: list[str] = self._client.get_children(self._root + path)
        except self._kazoo.exceptions.NoNodeError:
            return []
        return sorted(found)

    def _walk(self, is_wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes | None, Any]]:
        """Path, data and Stat of the wanted nodes of Kafka, level by level."""
        level = list(ROOTS)
        while level:
            below = []
            for begin in range(0, len(level), IN_FLIGHT_MAX):
                asked = [(path, *self._ask(path)) for path in level[begin : begin + IN_FLIGHT_MAX]]
                for path, getting, listing in asked:
                    try:
                        data, stat = getting.get(timeout=ANSWER_WITHIN_S)
                        names = listing.get(timeout=ANSWER_WITHIN_S)
                    except self._kazoo.exceptions.NoNodeError:
                        continue
                    yield path, data, stat
                    below += [f"{path}/{name}" for name in sorted(names)]
            level = [path for path in below if is_wanted(path)]

    def _ask(self, path: str) -> tuple[Any, Any]:
        full = self._root + path
        return self._client.get_async(full), self._client.get_children_async(full)

    # --- writing

    def write(self, metadata: ClusterMetadata, *, replace: bool) -> None:
        """Create the nodes; with `replace` existing ones are deleted first.

        Refused when nodes exist, and while the cluster is running. ZooKeeperFailed. The cluster
        id is deleted first and created last, so that no broker starts with half of the nodes.
        """
        self.check_no_brokers()
        there = self._call(self._existing_roots)
        if there and not replace:
            raise Refused(
                f"there are nodes at {self._connect} already: {', '.join(there)}. Take another "
                "path, or --replace them"
            )
        if there:
            self._call(self._clear)
        self._call(self._make, metadata)

    def _existing_roots(self) -> list[str]:
        return [root for root in ROOTS if self._client.exists(self._root + root) is not None]

    def _clear(self) -> None:
        found = [path for path, _, _ in self._walk(lambda path: True)]
        rest = [path for path in reversed(found) if path != paths.CLUSTER_ID]  # children first
        for part in (found.count(paths.CLUSTER_ID) * [paths.CLUSTER_ID], rest):
            self._send([partial(self._client.delete_async, self._root + path) for path in part])

    def _make(self, metadata: ClusterMetadata) -> None:
        if self._root:
            self._client.ensure_path(self._root)
        rest = [path for path in metadata.nodes if path != paths.CLUSTER_ID]
        sequence = [path for path in rest if path == paths.BROKER_SEQUENCE]
        last = [path for path in metadata.nodes if path == paths.CLUSTER_ID]
        create, count = self._client.create_async, self._client.set_async
        for do, part in (
            (create, rest),
            (count, sequence * metadata.broker_sequence),
            (create, last),  # after the responses to all others
        ):
            self._send([partial(do, self._root + path, metadata.nodes[path]) for path in part])

    def _send(self, requests: Sequence[Callable[[], Any]]) -> None:
        """Send in this order, which ZooKeeper keeps within a session."""
        for begin in range(0, len(requests), IN_FLIGHT_MAX):
            sent = [request() for request in requests[begin : begin + IN_FLIGHT_MAX]]
            for answer in sent:
                answer.get(timeout=ANSWER_WITHIN_S)

    def _call(self, function: Callable[..., Any], *args: Any) -> Any:
        failures = (self._kazoo.exceptions.KazooException, self._client.handler.timeout_exception)
        try:
            found = function(*args)
            return list(found) if isinstance(found, Iterator) else found
        except failures as error:
            raise ZooKeeperFailed(
                f"ZooKeeper at {self._connect} failed, so the move is not complete: {error!r}"
            ) from error
