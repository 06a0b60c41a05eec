"""The commands on the page for operators do what it says, with nothing but what Kavka installs."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from contextlib import closing

from kafka import KafkaConsumer, KafkaProducer

from support.broker import kavka_environment
from support.paths import ROOT
from support.process import BrokerProcess

TIMEOUT_S = 60
COMMAND = re.compile(r"^python -m kafka\.admin -b localhost:9092 (.*)$", re.MULTILINE)
READ_TIMEOUT_MS = 30_000


def commands() -> list[str]:
    text = (ROOT / "docs" / "operations.md").read_text("utf-8")
    return [found for found in COMMAND.findall(text) if "..." not in found]


def run(broker: BrokerProcess, command: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "kafka.admin", "-b", broker.bootstrap, *shlex.split(command)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        env=kavka_environment(),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout


def fill(address: str) -> None:
    """A transaction and a group as the page has them; no client is left in either."""
    with KafkaProducer(bootstrap_servers=address, transactional_id="billing-0") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("orders", b"apples", partition=0)
        producer.commit_transaction()
    with closing(
        KafkaConsumer(
            "orders",
            bootstrap_servers=address,
            group_id="billing",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
    ) as consumer:
        assert consumer.poll(timeout_ms=READ_TIMEOUT_MS)
        consumer.commit()


def test_the_commands_on_the_page_work(broker: BrokerProcess) -> None:
    asked = commands()
    assert len(asked) >= 18
    said: dict[str, str] = {}
    for command in asked:
        if command == "groups list":
            fill(broker.bootstrap)
        said[command] = run(broker, command)
    assert "orders" in said["topics list"]
    assert "billing" in said["groups list"]
    assert "'Empty'" in said["groups describe -g billing"]
    assert "orders" in said["groups list-offsets -g billing"]
    assert "billing-0" in said["transactions list"]
    assert "CompleteCommit" in said["transactions describe --transactional-id billing-0"]
