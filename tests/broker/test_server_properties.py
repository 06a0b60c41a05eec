"""Apache Kafka's own server.properties, mended by what one refused start says, starts a broker."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.broker import Kavka, broker_kind, finish, kavka_environment
from support.clients.every import KAFKA_PYTHON
from support.ports import HOST
from support.server_properties import followed, read, without

REFUSES_WITHIN_S = 60.0

pytestmark = pytest.mark.skipif(broker_kind() is not Kavka, reason="what Kavka makes of a file")


class FromFile(Kavka):
    """Started with a file of settings, on a port and with data of its own."""

    def command(self) -> list[str]:
        self.settings["advertised.listeners"] = f"PLAINTEXT://{HOST}:{self.port}"
        return [*super().command(), "--config", "server.properties"]


def complaints(home: Path, *options: str) -> list[str]:
    """What a start with the file says is wrong with it."""
    done = subprocess.run(
        [sys.executable, "-m", "kavka", "start", "--config", "server.properties", *options],
        cwd=home,
        env=kavka_environment(),
        capture_output=True,
        text=True,
        timeout=REFUSES_WITHIN_S,
    )
    assert done.returncode == 1
    first, *more = [line for line in done.stderr.splitlines() if not line.startswith("[")]
    assert first.startswith("kavka: ")
    return [line.strip() for line in more] or [first.removeprefix("kavka: ")]


def test_the_file_of_apache_kafka_4_starts_a_broker(tmp_path: Path) -> None:
    (tmp_path / "server.properties").write_bytes(read("stock-4.3"))
    serves(tmp_path)


def test_the_file_of_apache_kafka_3_9_needs_zookeeper_or_one_line_less(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_bytes(read("stock-3.9"))
    (said,) = complaints(tmp_path, "--override", "zookeeper.connection.timeout.ms=300")
    assert said.startswith("no ZooKeeper answers at localhost:2181 within 0.3 s: ")
    assert "remove it if the broker is alone" in said
    file.write_bytes(without(read("stock-3.9"), b"zookeeper.connect="))
    serves(tmp_path)


def serves(home: Path) -> None:
    """A broker with the file there creates a topic."""
    broker = FromFile(home)
    try:
        broker.start()
        KAFKA_PYTHON.create_topic(broker.bootstrap, "orders", 1)
    finally:
        finish(broker)


def test_a_secured_file_is_refused_once(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_bytes(read("secured-3.9"))
    said = complaints(tmp_path)
    assert len(said) > 5
    file.write_bytes(followed(read("secured-3.9"), said) + b"\nlisteners=nowhere")
    (left,) = complaints(tmp_path)
    assert left.startswith("listeners=nowhere ")
