"""Clusters for Apache Kafka's own tests, of Kavka or of Apache Kafka, started as each of them asks.

The tests run in a JVM of their own (`support.foreign_java`), which connects here for each cluster;
`tests/java/foreign/clusters/OutsideCluster.java` is the other side.
"""

from __future__ import annotations

import json
import socketserver
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from support import java, kavka_cluster
from support.broker import Kavka, finish
from support.kraft_cluster import KraftBroker
from support.oracle import ApacheKafka
from support.ports import HOST
from support.process import BrokerProcess, running

EXPORTER: Final = "metric.reporters"
"""Tests name a class of theirs there that takes clients' metrics, and does nothing with them."""

KNOWN: Final = frozenset({"brokers", "metadataVersion", "serverProperties"})
"""Attributes of @ClusterTest that are done here. `types` is not among them: it is about
which processes are controllers, which clients do not see."""


class NotApplicableError(Exception):
    """Why there is no such cluster."""


class Asked(NamedTuple):
    """What a test asks for."""

    brokers: int
    properties: Mapping[str, str]
    metadata_version: Mapping[str, Any] | None
    """`name` and `level`; None for the latest that the cluster has."""

    latest: str
    """The name of the latest that Apache Kafka's tests have."""

    @classmethod
    def read(cls, request: Mapping[str, Any]) -> Asked:
        """What is asked for; NotApplicableError for what neither side does."""
        requested = request["asked"]
        others = [f"{name} {requested[name]}" for name in sorted(requested.keys() - KNOWN)]
        if others:
            raise NotApplicableError(f"it asks for {', '.join(others)}")
        return cls(
            requested.get("brokers") or 1,
            requested.get("serverProperties", {}),
            requested.get("metadataVersion"),
            request["metadataVersion"]["name"],
        )


class Starter(NamedTuple):
    """Gives clusters of one kind: each, in a directory of its own, while the context lasts."""

    kind: str
    cluster: Callable[[Asked, Path], AbstractContextManager[str]]
    """Of what was asked and the directory, the cluster's addresses; NotApplicableError."""


@contextmanager
def listening(starter: Starter, home: Path) -> Iterator[int]:
    """The port at which JVMs ask for clusters, one at a time."""
    with _Server(starter, home) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


class _Server(socketserver.TCPServer):
    def __init__(self, starter: Starter, home: Path) -> None:
        super().__init__((HOST, 0), _Handler)
        self.starter = starter
        self._home = home
        self._given = 0

    def new_home(self) -> Path:
        self._given += 1
        return self._home / f"cluster-{self._given}"


class _Handler(socketserver.StreamRequestHandler):
    """One cluster, as long as its test is connected."""

    def handle(self) -> None:
        server = cast(_Server, self.server)
        try:
            requested = Asked.read(json.loads(self.rfile.readline()))
            with server.starter.cluster(requested, server.new_home()) as bootstrap:
                self._answer(bootstrap=bootstrap)
                self.rfile.read()  # until the test has ended
            self._answer(closed=True)
        except NotApplicableError as reason:
            self._answer(reason=str(reason))
        except Exception:  # it fails the test, there
            self._answer(failure=traceback.format_exc())

    def _answer(self, **found: str | bool) -> None:
        self.wfile.write(json.dumps(found).encode() + b"\n")


# -- Kavka ----------------------------------------------------------------------------------


@contextmanager
def _of_kavka(requested: Asked, home: Path) -> Iterator[str]:
    if requested.metadata_version is not None:
        raise NotApplicableError(
            f"it asks for a cluster at metadata.version {requested.metadata_version['level']}, and "
            "Kavka's stays at 30"
        )
    settings = dict(requested.properties)
    if settings.pop(EXPORTER, None) is not None:
        settings["kavka.http.listener"] = f"{HOST}:0"  # where it shows clients' metrics
    if requested.brokers == 1:
        broker = Kavka(home, settings)
        try:
            yield broker.start().bootstrap
        finally:
            finish(broker)
    elif requested.brokers == kavka_cluster.MEMBERS:
        with kavka_cluster.serving(home, settings) as cluster:
            yield cluster.bootstrap
    else:
        raise NotApplicableError(f"it asks for {requested.brokers} brokers")


KAVKA: Final = Starter("Kavka", _of_kavka)


# -- Apache Kafka ---------------------------------------------------------------------------


class _WithTests(ApacheKafka):
    """It finds the tests' classes: they have reporters that it is to use."""

    def more_classes(self) -> Sequence[Path]:
        return (java.libs("foreign") / "*",)


class _Alone(_WithTests):
    """One at any level of metadata.version; its quorum is fixed, which all of them allow."""

    def __init__(self, home: Path, settings: Mapping[str, str], level: str) -> None:
        super().__init__(home, settings)
        self._level = level

    def _format(self, properties: Mapping[str, str], *options: str) -> None:
        super()._format(properties, f"--release-version={self._level}")

    def _properties(self, controller_port: int) -> dict[str, str]:
        properties = super()._properties(controller_port)
        del properties["controller.quorum.bootstrap.servers"]
        return {
            "controller.quorum.voters": f"1@{HOST}:{controller_port}",
            "unstable.feature.versions.enable": "true",  # as in Apache Kafka's clusters for tests
            **properties,
        }


class _Member(_WithTests, KraftBroker):
    """Not the first of several."""


@contextmanager
def _of_apache_kafka(requested: Asked, home: Path) -> Iterator[str]:
    if requested.brokers == 1:
        version = requested.metadata_version
        alone = _Alone(
            home, requested.properties, requested.latest if version is None else version["name"]
        )
        with running([alone]):
            yield alone.bootstrap
    elif requested.metadata_version is None:
        first = _WithTests(home / "broker-1", requested.properties)
        with running([first]):
            others: list[BrokerProcess] = [
                _Member(home / f"broker-{number}", requested.properties, number, first)
                for number in range(2, requested.brokers + 1)
            ]
            with running(others):
                yield ",".join(broker.bootstrap for broker in (first, *others))
    else:
        raise NotApplicableError("several brokers start at the level of a release alone")


APACHE_KAFKA: Final = Starter("Apache Kafka", _of_apache_kafka)
