"""A cluster's nodes in ZooKeeper, read and written while no broker is at work on them.

kazoo is imported when it is needed. Nodes are made open to everybody: ACLs are not carried.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Final, Self

from kavka.tools.storage.errors import Refused
from kavka.tools.storage.nodes import ROOTS, Carried, is_carried
from kavka.zktree import paths

CONNECT_WITHIN_S: Final = 15.0
ANSWER_WITHIN_S: Final = 30.0
IN_FLIGHT_MAX: Final = 500
"""Requests that ZooKeeper is sent before the answer to the first is awaited."""


class Broken(Exception):
    """ZooKeeper failed while nodes were read or written; the message says what that means."""


class ZooKeeper:
    """A connection. `connect` is what Apache Kafka's `zookeeper.connect` is: HOST:PORT, more of
    them after commas, and a path below which the cluster lives. A context manager."""

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
        # what it tells of every attempt to connect would go to stderr
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

    def check_quiet(self) -> None:
        """Refused while a broker is registered."""
        brokers = self._call(self._children, paths.BROKER_IDS)
        if brokers:
            raise Refused(
                f"brokers are registered at {self._connect}: {', '.join(brokers)}. Stop them; the "
                "registration of a killed one ends with its session (zookeeper.session.timeout.ms)"
            )

    def read(self) -> Carried:
        """What is carried of the tree. Refused for a cluster that is running. Broken."""
        self.check_quiet()
        nodes: dict[str, bytes | None] = {}
        sequence = 0
        for path, data, stat in self._call(self._walk, is_carried):
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
        return Carried(nodes, sequence)

    def _children(self, path: str) -> list[str]:
        try:
            found: list[str] = self._client.get_children(self._root + path)
        except self._kazoo.exceptions.NoNodeError:
            return []
        return sorted(found)

    def _walk(self, is_wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes | None, Any]]:
        """Path, data and Stat of every node of Kafka's that is wanted, level by level."""
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

    def write(self, carried: Carried, *, replace: bool) -> None:
        """Make the nodes; what is there already goes away first, if `replace`.

        Refused when something is there, and for a cluster that is running. Broken. The cluster id
        is the first to go and the last to come, so no broker takes half of the nodes for all.
        """
        self.check_quiet()
        there = self._call(self._existing_roots)
        if there and not replace:
            raise Refused(
                f"there are nodes at {self._connect} already: {', '.join(there)}. Take another "
                "path, or --replace them"
            )
        if there:
            self._call(self._clear)
        self._call(self._make, carried)

    def _existing_roots(self) -> list[str]:
        return [root for root in ROOTS if self._client.exists(self._root + root) is not None]

    def _clear(self) -> None:
        found = [path for path, _, _ in self._walk(lambda path: True)]
        rest = [path for path in reversed(found) if path != paths.CLUSTER_ID]  # children first
        for part in (found.count(paths.CLUSTER_ID) * [paths.CLUSTER_ID], rest):
            self._send([partial(self._client.delete_async, self._root + path) for path in part])

    def _make(self, carried: Carried) -> None:
        if self._root:
            self._client.ensure_path(self._root)
        rest = [path for path in carried.nodes if path != paths.CLUSTER_ID]
        sequence = [path for path in rest if path == paths.BROKER_SEQUENCE]
        last = [path for path in carried.nodes if path == paths.CLUSTER_ID]
        create, count = self._client.create_async, self._client.set_async
        for do, part in (
            (create, rest),
            (count, sequence * carried.broker_sequence),
            (create, last),  # when all others have been answered
        ):
            self._send([partial(do, self._root + path, carried.nodes[path]) for path in part])

    def _send(self, requests: Sequence[Callable[[], Any]]) -> None:
        """In this order, as ZooKeeper keeps that of one session."""
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
            raise Broken(
                f"ZooKeeper at {self._connect} failed, so the move is not complete: {error!r}"
            ) from error
