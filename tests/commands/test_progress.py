"""On a terminal the tools show how far they are after a second; elsewhere, and on standard output,
nothing of it is seen."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from support.broker import Kavka, kavka_environment
from support.clients.kafka_python import create_topic
from support.process import running
from support.terminal import on_terminal, screen

THROTTLED: Final = "producer-perf-test --topic u --num-records 30 --record-size 10 --throughput 12"
BARS: Final = {
    "e2e-latency --topic t --num-records 8000 --producer-acks 1 --record-size 10": (
        "records .*/8000"
    ),
    "replica-verification --once --fetch-size 1": "records compared .*/8000",
    THROTTLED: "records .*/30",
    "consumer-perf-test --topic t --num-records 8001 --timeout 2500": "records .*8000/8001",
}
"""In this order: a later one reads what the first has written, a record a batch."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kavka]:
    kavka = Kavka(tmp_path_factory.mktemp("broker"), {"group.initial.rebalance.delay.ms": "0"})
    with running([kavka]):
        create_topic(kavka.bootstrap, "t", 1)
        yield kavka


def kavka(line: str) -> list[str]:
    return [sys.executable, "-m", "kavka", *line.split()]


@pytest.mark.parametrize("line", BARS)
def test_a_bar(line: str, broker: Kavka) -> None:
    ran = on_terminal(kavka(f"{line} --bootstrap-server {broker.bootstrap}"), kavka_environment())
    assert ran.exit_code == 0, ran
    assert re.search(BARS[line], ran.terminal), ran
    assert screen(ran.terminal) == [], "it is gone at the end"
    assert "\x1b" not in ran.out and ran.out


def test_no_bar_elsewhere(broker: Kavka) -> None:
    command = kavka(f"{THROTTLED} --bootstrap-server {broker.bootstrap}")
    ran = subprocess.run(command, capture_output=True, text=True, env=kavka_environment())
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "30 records sent" in ran.stdout and "\x1b" not in ran.stdout


def test_lines_are_printed_above_a_bar(broker: Kavka) -> None:
    line = f"{THROTTLED} --reporting-interval 300 --bootstrap-server {broker.bootstrap}"
    ran = on_terminal(kavka(line), kavka_environment(), out=True)
    assert ran.exit_code == 0, ran
    assert re.search("records .*/30", ran.terminal)
    lines = screen(ran.terminal)
    assert len(lines) > 3
    for printed in lines:
        assert re.fullmatch(r"\d+ records sent, .* latency.*", printed), lines


def test_lines_of_a_file_are_counted(broker: Kavka, tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("line\n" * 100_000)
    line = f"console-producer --topic v --bootstrap-server {broker.bootstrap}"
    ran = on_terminal(kavka(line), kavka_environment(), lines=tmp_path / "lines")
    assert (ran.exit_code, ran.out) == (0, "")
    assert re.search(r"\d,\d{3} records", ran.terminal)
    assert screen(ran.terminal) == []


def test_a_broker_that_does_not_answer_is_waited_for(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("request.timeout.ms=2500\n")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        line = f"topics --list --bootstrap-server 127.0.0.1:{silent.getsockname()[1]}"
        command = kavka(f"{line} --command-config {tmp_path / 'config'}")
        ran = on_terminal(command, kavka_environment())
        assert (ran.exit_code, ran.out) == (1, "")
        assert "waiting for brokers" in ran.terminal
        (said,) = screen(ran.terminal)
        assert said.startswith("no broker answers")
        elsewhere = subprocess.run(
            command, capture_output=True, text=True, env=kavka_environment(), check=False
        )
        assert elsewhere.stderr.count("\n") == 1 and "\x1b" not in elsewhere.stderr
