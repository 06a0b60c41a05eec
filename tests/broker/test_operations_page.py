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

TIMEOUT_S = 120
COMMAND = re.compile(r"^kavka (.*--bootstrap-server localhost:9092.*)$", re.MULTILINE)
ADDRESS = "localhost:9092"
WAY = f"--bootstrap-server {ADDRESS}"
READ_TIMEOUT_MS = 30_000


def commands() -> list[str]:
    text = (ROOT / "docs" / "operations.md").read_text("utf-8")
    return COMMAND.findall(text)


def run(broker: BrokerProcess, command: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "kavka", *shlex.split(command.replace(ADDRESS, broker.bootstrap))],
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
        consumer.topics()  # a leader that does not know the topic yet may assign nothing, for ever
        assert consumer.poll(timeout_ms=READ_TIMEOUT_MS)
        consumer.commit()


def test_the_commands_on_the_page_work(broker: BrokerProcess) -> None:
    every_command = commands()
    assert len(every_command) >= 18
    said: dict[str, str] = {}
    for command in every_command:
        if command == f"consumer-groups {WAY} --list":
            fill(broker.bootstrap)
        said[command] = run(broker, command)
    assert "orders" in said[f"topics {WAY} --list"].split()
    assert "PartitionCount: 3" in said[f"topics {WAY} --describe --topic orders"]
    assert "log.cleaner.threads=2" in said[f"configs {WAY} --describe --broker 1"]
    groups = f"consumer-groups {WAY}"
    assert "billing" in said[f"{groups} --list"].split()
    assert "Empty" in said[f"{groups} --describe --group billing --state"]
    assert "orders" in said[f"{groups} --describe --group billing"]
    assert "billing-0" in said[f"transactions {WAY} list"]
    describe = f"transactions {WAY} describe --transactional-id billing-0"
    assert "CompleteCommit" in said[describe]
