"""Apache Kafka 3.9 in ZooKeeper mode, as a process with a ZooKeeper of its own.

The last line that serves what Kafka 4 dropped: the oracle of the oldest versions of an API.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar

from support import java
from support.ports import HOST
from support.process import BrokerProcess

PROJECT = "kafka39"
READY = "started (kafka.server.KafkaServer)"
ZOOKEEPER_READY = "PrepRequestProcessor (sid:0) started"
"""It is said once the port is bound; "binding to port" is said before."""
SESSION_WITHIN_MS = 60_000
OPTIONS = (
    "-Xms128M",
    "-Xmx512M",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-Djava.awt.headless=true",
    f"-Dlog4j.configuration=file:{java.SERVER_LOGGING_39}",
)
EXIT_CODES: Mapping[int, int] = {  # the JVM's own: 128 + the signal
    signal.SIGTERM: 128 + signal.SIGTERM,
    signal.SIGINT: 128 + signal.SIGINT,
}


class ZooKeeper(BrokerProcess):
    """One standalone ZooKeeper, out of Apache Kafka 3.9's jars."""

    kind: ClassVar[str] = "ZooKeeper"
    ready_within_s: ClassVar[float] = 120.0
    exit_codes: ClassVar[Mapping[int, int]] = EXIT_CODES
    more_options: Sequence[str] = ()
    """Of its JVM."""
    more_lines: Sequence[str] = ()
    """Of its settings."""

    def prepare(self) -> None:
        self.port = self.ports.take()
        lines = (
            f"dataDir={self.data_dir}",
            f"clientPort={self.port}",
            f"clientPortAddress={HOST}",
            "maxClientCnxns=0",
            "admin.enableServer=false",
            "tickTime=2000",
            *self.more_lines,
        )
        self._settings_path.write_text("\n".join(lines) + "\n")

    def command(self) -> list[str]:
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        options = [*OPTIONS, *java.shared_classes(PROJECT), *self.more_options]
        return java.command_line(main, [str(self._settings_path)], options, PROJECT)

    def environment(self) -> dict[str, str]:
        return dict(java.environment())

    def ready_port(self, output: str) -> int | None:
        return self.port if ZOOKEEPER_READY in output else None

    @property
    def _settings_path(self) -> Path:
        return self.home / "zoo.cfg"


class ApacheKafka39(BrokerProcess):
    """The older oracle. Its settings are Kafka's defaults, but for one node's replication."""

    kind: ClassVar[str] = "Apache Kafka 3.9"
    options: ClassVar[Sequence[str]] = OPTIONS
    more_options: Sequence[str] = ()
    """Of its JVM."""
    ready_within_s: ClassVar[float] = 180.0
    exit_codes: ClassVar[Mapping[int, int]] = EXIT_CODES

    def __init__(
        self,
        home: Path,
        settings: Mapping[str, str] = MappingProxyType({}),
        zookeeper: ZooKeeper | None = None,
    ) -> None:
        """With a `zookeeper` it uses that one, which the caller has started and ends."""
        super().__init__(home, settings)
        self._has_own = zookeeper is None
        self.zookeeper = zookeeper or ZooKeeper(home / "zookeeper")

    def prepare(self) -> None:
        self.port = self.ports.take()
        if self._has_own:
            self.zookeeper.launch()  # the broker's client waits for it
        lines = [f"{key}={value}" for key, value in self._properties().items()]
        self._properties_path.write_text("\n".join(lines) + "\n")

    def command(self) -> list[str]:
        options = [*self.options, *java.shared_classes(PROJECT), *self.more_options]
        return java.command_line("kafka.Kafka", [str(self._properties_path)], options, PROJECT)

    def environment(self) -> dict[str, str]:
        return dict(java.environment())

    def ready_port(self, output: str) -> int | None:
        return self.port if READY in output else None

    def close(self) -> None:
        try:
            super().close()
        finally:
            if self._has_own:
                self.zookeeper.close()

    @property
    def _properties_path(self) -> Path:
        return self.home / "server.properties"

    def _properties(self) -> dict[str, str]:
        clients = f"{HOST}:{self.port}"
        return {
            "broker.id": "1",
            "listeners": f"PLAINTEXT://{clients}",
            "advertised.listeners": f"PLAINTEXT://{clients}",
            "log.dirs": str(self.data_dir),
            "zookeeper.connect": f"{HOST}:{self.zookeeper.port}",
            "zookeeper.connection.timeout.ms": str(SESSION_WITHIN_MS),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            **self.settings,
        }
