"""The driver of Apicurio Registry (see ../README.md), which is a program of its own."""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from brokers import VARIABLE, wanted_security
from serve import Arguments, serve

HOST = "127.0.0.1"
READY_S = 120
RETRY_S = 0.2
REST_S = 30
STOP_S = 20
PREFIX = "apicurio.kafka.common."
"""Of properties that all its clients get."""

SHORT_RUN = ["-Xmx512M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
CONTENT = {"Content-Type": "application/vnd.schemaregistry.v1+json"}


class Registry:
    """At most one process, which keeps its schemas in a topic and none of them on disk."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0

    def hello(self, _: Arguments) -> dict[str, Any]:
        return {"client": "apicurio", "version": os.environ["APICURIO_VERSION"], "can": []}

    def start(self, arguments: Arguments) -> dict[str, Any]:
        self.close()
        self._port = free_port()
        command = [os.environ["APICURIO_JAVA"], *SHORT_RUN, "-jar", os.environ["APICURIO_JAR"]]
        settings = self._settings(arguments) | secured()
        # It stays in this driver's process group, and so ends with it.
        self._process = subprocess.Popen(
            command, env=os.environ | settings, stdin=subprocess.DEVNULL, stdout=sys.stderr
        )
        until = time.monotonic() + READY_S
        while not self._is_ready():
            if self._process.poll() is not None:
                raise RuntimeError(f"it ended with code {self._process.returncode}")
            if time.monotonic() > until:
                raise TimeoutError(f"not ready after {READY_S} s")
            time.sleep(RETRY_S)
        return {}

    def _settings(self, arguments: Arguments) -> dict[str, str]:
        """Not the group: by default each of its two consumers has one of its own, at random; with
        a name for both they are one group, whose rebalances wait for the one that polls no more."""
        return {
            "APICURIO_STORAGE_KIND": "kafkasql",
            "APICURIO_KAFKASQL_BOOTSTRAP_SERVERS": self._bootstrap,
            "APICURIO_KAFKASQL_TOPIC": arguments["journal"],
            "APICURIO_KAFKASQL_SNAPSHOTS_TOPIC": arguments["snapshots"],
            "APICURIO_EVENTS_KAFKA_TOPIC": arguments["events"],
            "QUARKUS_HTTP_HOST": HOST,
            "QUARKUS_HTTP_PORT": str(self._port),
        }

    def _is_ready(self) -> bool:
        """Whether it has read its topic to the end."""
        try:
            return self._exchange("GET", "/health/ready", None)[0] == http.client.OK
        except OSError:
            return False

    def rest(self, arguments: Arguments) -> dict[str, Any]:
        status, content = self._exchange(
            arguments["method"], arguments["path"], arguments.get("body")
        )
        return {"status": status, "body": json.loads(content) if content else None}

    def _exchange(self, method: str, path: str, body: Any) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(HOST, self._port, timeout=REST_S)
        try:
            connection.request(method, path, json.dumps(body) if body else None, CONTENT)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def kill(self, _: Arguments) -> dict[str, Any]:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        return {}

    def stop(self, _: Arguments) -> dict[str, Any]:
        self.close()
        return {}

    def close(self) -> None:
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.kill({})
        self._process = None


def secured() -> dict[str, str]:
    """Settings of its Kafka clients: in a file, for their names are none for an environment."""
    properties = wanted_security().get("properties")
    if not properties:
        return {}
    directory = Path(os.environ[VARIABLE]).parent  # which the suite removes
    with tempfile.NamedTemporaryFile(
        "w", suffix=".properties", dir=directory, delete=False
    ) as file:
        for name, value in properties.items():
            escaped = value.replace("\\", "\\\\").replace("\n", "\\n")
            file.write(f"{PREFIX}{name}={escaped}\n")
    return {"QUARKUS_CONFIG_LOCATIONS": file.name}


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        port: int = taken.getsockname()[1]
        return port


def error_as_json(failure: Exception) -> Mapping[str, Any]:
    return {"name": type(failure).__name__, "message": str(failure)}


def main() -> None:
    registry = Registry(sys.argv[1])
    names = ("hello", "start", "rest", "kill", "stop")
    serve({name: getattr(registry, name) for name in names}, error_as_json, registry.close)


if __name__ == "__main__":
    main()
