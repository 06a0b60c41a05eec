"""The brokers that are measured, as processes: Kavka and Apache Kafka, started the same way."""

from __future__ import annotations

import base64
import os
import signal
import subprocess
import sys
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Final

from bench import ROOT, procs
from bench.raw import HOST
from support import java
from support.ports import free_port

STOP_WITHIN_S: Final = 40.0
STOP_POLL_S: Final = 0.002

DELETE_DELAY: Final = ("log.segment.delete.delay.ms", "1000")
"""For both: what a run wrote leaves the page cache soon, and not during a later run."""

ANY_JVM: Final = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)
"""What kafka-run-class.sh of Apache Kafka 4.3 gives the JVMs of the broker and of all tools."""

SERVER_JVM: Final = ("-Xms1G", "-Xmx1G", *ANY_JVM)
"""The same with what kafka-server-start.sh adds."""


SHIPPED: Final[Mapping[str, str]] = {
    "num.network.threads": "3",
    "num.io.threads": "8",
    "socket.send.buffer.bytes": "102400",
    "socket.receive.buffer.bytes": "102400",
}
"""What is in Apache Kafka's own config/server.properties, and not its default."""


class Peer(ABC):
    """One broker with a directory and a port of its own; a context manager that ends it."""

    name: ClassVar[str]

    def __init__(self, home: Path) -> None:
        self.home = home
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        home.mkdir(parents=True)

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self.stop()

    @property
    def pid(self) -> int:
        """Process id of the running broker."""
        assert self._process is not None
        return self._process.pid

    @property
    def data_dir(self) -> Path:
        """Where it keeps its partitions."""
        return self.home / "data"

    def rss_mb(self) -> float:
        """Resident memory of the broker and its children, MB."""
        return procs.rss_mb(procs.tree(self.pid))

    def prepare(self) -> None:
        """What must be done once before the first start; not part of any measure."""
        self.data_dir.mkdir()

    @abstractmethod
    def command(self) -> list[str]:
        """How to start it in the foreground."""

    @abstractmethod
    def environment(self) -> dict[str, str]:
        """Its environment."""

    def start(self) -> float:
        """Start the process without waiting for anything; the monotonic time just before."""
        assert self._process is None
        command, environment = self.command(), self.environment()
        with self._log_path.open("ab") as log:
            started_s = time.monotonic()
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                cwd=ROOT,
                start_new_session=True,  # a Ctrl-C at the bench is not one for the broker
            )
        return started_s

    def stop(self) -> float:
        """SIGTERM, and SIGKILL after STOP_WITHIN_S; the seconds that it took."""
        process = self._process
        assert process is not None
        started_s = time.monotonic()
        process.send_signal(signal.SIGTERM)
        while process.poll() is None:
            if time.monotonic() - started_s > STOP_WITHIN_S:
                process.kill()
                process.wait()
            time.sleep(STOP_POLL_S)
        self._process = None
        return time.monotonic() - started_s

    def kill(self) -> None:
        """SIGKILL."""
        process = self._process
        assert process is not None
        process.kill()
        process.wait()
        self._process = None

    def alive(self) -> bool:
        """Whether the process that was started still runs."""
        return self._process is not None and self._process.poll() is None

    def output_tail(self, lines: int = 20) -> str:
        """The last lines that the broker printed."""
        if not self._log_path.exists():
            return ""
        return "\n".join(self._log_path.read_text(errors="replace").splitlines()[-lines:])

    @property
    def _log_path(self) -> Path:
        return self.home / "output.log"


class Kavka(Peer):
    """`python -m kavka start` of this tree; `wrapper` goes between the interpreter and it."""

    name = "Kavka"

    def __init__(self, home: Path, wrapper: Sequence[str] = ()) -> None:
        super().__init__(home)
        self._wrapper = list(wrapper)
        compile_sources()

    def command(self) -> list[str]:
        overrides = {
            "listeners": f"PLAINTEXT://{HOST}:{self.port}",
            "log.dirs": str(self.data_dir),
            DELETE_DELAY[0]: DELETE_DELAY[1],
        }
        command = [sys.executable, *(self._wrapper or ["-m", "kavka"]), "start"]
        for key, value in overrides.items():
            command += ["--override", f"{key}={value}"]
        return command

    def environment(self) -> dict[str, str]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith("KAVKA_")}
        return {**kept, "PYTHONPATH": str(ROOT / "src")}


def compile_sources() -> None:
    """Write Kavka's bytecode, which an installed package has. Without it (PYTHONDONTWRITEBYTECODE,
    or a first start) the sources are compiled at each start, for 0.15 s."""
    package = ROOT / "src" / "kavka"
    links = [str(path) for path in sorted(package.iterdir()) if path.is_symlink()]
    command = [sys.executable, "-m", "compileall", "-q", str(package), *links]
    subprocess.run(command, check=True)


class ApacheKafka(Peer):
    """One KRaft node, broker and controller, with the settings and JVM flags it ships with."""

    name = "Apache Kafka"

    def prepare(self) -> None:
        self._properties.write_text(self._settings(controller_port=free_port()))
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        formatted = java.run(
            java.STORAGE,
            "format",
            "--standalone",
            f"--cluster-id={cluster_id}",
            f"--config={self._properties}",
        )
        if formatted.exit_code:
            raise RuntimeError(f"kafka-storage format: {formatted.text}{formatted.stderr}")

    def command(self) -> list[str]:
        options = (
            *SERVER_JVM,
            f"-Dkafka.logs.dir={self.home}",
            f"-Xlog:gc*:file={self.home}/gc.log:time,tags:filecount=10,filesize=100M",
            f"-Dlog4j2.configurationFile=file:{java.SERVER_LOGGING}",
        )
        return java.command_line("kafka.Kafka", [str(self._properties)], options)

    def environment(self) -> dict[str, str]:
        return dict(java.environment())

    @property
    def _properties(self) -> Path:
        return self.home / "server.properties"

    def _settings(self, controller_port: int) -> str:
        client, controller = f"{HOST}:{self.port}", f"{HOST}:{controller_port}"
        listeners = f"PLAINTEXT://{client},CONTROLLER://{controller}"
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.bootstrap.servers": controller,
            "listeners": listeners,
            "advertised.listeners": listeners,
            "inter.broker.listener.name": "PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": str(self.data_dir),
            **SHIPPED,
            "offsets.topic.replication.factor": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            DELETE_DELAY[0]: DELETE_DELAY[1],
        }
        return "".join(f"{key}={value}\n" for key, value in settings.items())
