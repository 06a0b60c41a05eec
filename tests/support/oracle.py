"""Apache Kafka as a process: one KRaft node, broker and controller in one, out of its jars."""

from __future__ import annotations

import base64
import signal
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Final

from support import java, java_compiler
from support.paths import JAVA
from support.ports import HOST
from support.process import BrokerProcess

READY = "Kafka Server started"
OPTIONS = (
    "-Xms256M",
    "-Xmx512M",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-Djava.awt.headless=true",
    f"-Dlog4j2.configurationFile=file:{java.SERVER_LOGGING}",
)

REPORTER: Final = JAVA / "telemetry" / "TakeTelemetry.java"


class ApacheKafka(BrokerProcess):
    """The oracle. Its settings are Kafka's defaults, but for one node's replication factors."""

    kind: ClassVar[str] = "Apache Kafka"
    more_options: Sequence[str] = ()
    """Of its JVM."""
    ready_within_s: ClassVar[float] = 180.0
    exit_codes: ClassVar[Mapping[int, int]] = {  # the JVM's own: 128 + the signal
        signal.SIGTERM: 128 + signal.SIGTERM,
        signal.SIGINT: 128 + signal.SIGINT,
        signal.SIGHUP: 128 + signal.SIGHUP,
    }

    def prepare(self) -> None:
        self.port, self.controller_port = self.ports.take(), self.ports.take()
        self.cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        self._format(self._properties(self.controller_port), "--standalone")

    def _format(self, properties: Mapping[str, str], *options: str) -> None:
        """Write its properties, and format its directories."""
        lines = [f"{key}={value}" for key, value in properties.items()]
        self._properties_path.write_text("\n".join(lines) + "\n")
        cluster, config = f"--cluster-id={self.cluster_id}", f"--config={self._properties_path}"
        formatted = java.run(java.STORAGE, "format", *options, cluster, config)
        assert formatted.exit_code == 0, formatted.text + formatted.stderr

    def command(self) -> list[str]:
        options = [*OPTIONS, *java.shared_classes(), *self.more_options]
        return java.command_line(
            "kafka.Kafka", [str(self._properties_path)], options, more_classes=self.more_classes()
        )

    def more_classes(self) -> Sequence[Path]:
        """Directories of classes beside Apache Kafka's own."""
        return ()

    def environment(self) -> dict[str, str]:
        return dict(java.environment())

    def ready_port(self, output: str) -> int | None:
        return self.port if READY in output else None

    @property
    def _properties_path(self) -> Path:
        return self.home / "server.properties"

    def _properties(self, controller_port: int) -> dict[str, str]:
        clients, controller = f"{HOST}:{self.port}", f"{HOST}:{controller_port}"
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.bootstrap.servers": controller,
            "listeners": f"PLAINTEXT://{clients},CONTROLLER://{controller}",
            "advertised.listeners": f"PLAINTEXT://{clients},CONTROLLER://{controller}",
            "inter.broker.listener.name": "PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": str(self.data_dir),
            "offsets.topic.replication.factor": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            **self.settings,
        }


class AskingApacheKafka(ApacheKafka):
    """It asks its clients for metrics: it has a reporter that takes them (KIP-714)."""

    def more_classes(self) -> Sequence[Path]:
        return (java_compiler.classes(REPORTER, java.kafka_libs()),)

    def _properties(self, controller_port: int) -> dict[str, str]:
        return {**super()._properties(controller_port), "metric.reporters": REPORTER.stem}
