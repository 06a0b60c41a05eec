"""`kavka transactions` prints what kafka-transactions prints: both about one broker, since ids of
producers, their epochs and times are its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from commands.sessions import differences, kavka
from kavka.tools.admin.transactions import TOOL
from support import java, kafka_transactions
from support.broker import Kavka
from support.java_tools import Tools
from support.oracle import ApacheKafka
from support.played_transactions import SETTINGS, Side
from support.process import BrokerProcess, running

READING = """
    list
    li
    --command-config NO_FILE list
    list --duration-filter 3600000
    list --duration-filter -1
    list --dur=0
    list --transactional-id-pattern .*late
    list --transactional-id-pattern (
    describe --transactional-id FIRST-first
    describe --transactional-id FIRST-late
    describe --transactional-id SECOND-opened
    describe --transactional-id FIRST-first --transactional-id FIRST-open
    describe --transactional-id=FIRST-ä-empty
    describe --transactional-id nobody
    describe --transactional-id ""
    describe-producers --topic TOPIC --partition 0
    describe-producers --topic TOPIC --partition 1
    describe-producers --topic TOPIC --partition 0 --broker-id 1
    --command-config CONFIG describe-producers --topic TOPIC --partition 7
    --command-config CONFIG describe-producers --topic TOPIC --partition 0 --broker-id 9
    --command-config CONFIG describe-producers --topic nosuch --partition 0
    describe-producers --topic bad/name --partition 0
    find-hanging --broker-id 1
    find-hanging --broker-id 9
    find-hanging --topic nosuch
    --command-config CONFIG find-hanging --topic TOPIC --partition 9
    find-hanging --topic HANGS --broker-id 9 --max-transaction-timeout 0
    find-hanging --broker-id 1 --max-transaction-timeout 0
    find-hanging --topic HANGS --max-transaction-timeout 0
    find-hanging --topic HANGS --partition 0 --max-transaction-timeout 0
    find-hanging --topic TOPIC --max-transaction-timeout 0
    abort --topic HANGS --partition 0 --start-offset 7
    --command-config CONFIG abort --topic nosuch --partition 0 --start-offset 0
    --command-config CONFIG abort --topic TOPIC --partition 9 --producer-id 1 --producer-epoch 0 \
--coordinator-epoch 0
    abort --topic HANGS --partition 0 --producer-id 5000000 --producer-epoch 2 \
--coordinator-epoch -1
"""
CHANGING = """
    find-hanging --topic HANGS --max-transaction-timeout 0
    abort --topic HANGS --partition 0 --producer-id 5000000 --producer-epoch 3 \
--coordinator-epoch -1
    forceTerminateTransaction --transactionalId SECOND-opened
    list
"""
REFUSED = """
    find-hanging
    find-hanging --partition 0
    find-hanging --broker-id one
    describe
    describe-producers --topic TOPIC
    abort --topic HANGS --partition 0
    abort --topic HANGS --partition 0 --producer-id 1
    abort --topic HANGS --partition 0 --producer-id 1 --producer-epoch 1
    abort --topic HANGS --partition 0 --producer-id 1 --producer-epoch 40000
    forceTerminateTransaction
    list --topic x
    list extra
    list --duration-filter
    list --duration-filter 1.5
    list --bootstrap-server BROKER
    nothing
    f
    !list
    !
"""

SHORT = "request.timeout.ms=1000\ndefault.api.timeout.ms=1000\n"
"""How long Apache Kafka's tool asks for what does not exist, instead of a minute."""


def alike(text: str) -> str:
    """Without times of now; where there are durations of now, without the widths of columns."""
    text = kafka_transactions.NOW.sub("<now>", text)
    return repr(kafka_transactions.rows(text)) if "Duration" in text else text


@pytest.mark.parametrize("kind", [Kavka, ApacheKafka], ids=lambda kind: kind.kind)
def test_both_tools_say_the_same(kind: type[BrokerProcess], tmp_path: Path) -> None:
    java.program("java")
    config = tmp_path / "client.properties"
    config.write_text(SHORT)
    broker = kind(tmp_path / "broker", SETTINGS)
    with running([broker]), Tools(tmp_path / "tools.log") as tools:
        side = Side(broker)
        listed = json.loads(kavka(TOOL, broker, "list --output json").stdout)["transactions"]

        def both(lines: str) -> list[str]:
            for name, text in (
                ("FIRST", side.names[0]),
                ("SECOND", side.names[1]),
                ("TOPIC", side.topics[0]),
                ("HANGS", side.topics[2]),
                ("CONFIG", str(config)),
                ("NO_FILE", str(tmp_path / "nosuch.properties")),
            ):
                lines = lines.replace(name, text)
            lines = lines.replace("\\\n", " ")
            name, same = kafka_transactions.TOOL, [broker, broker]
            reads = ("list",)  # a transaction that is ended may be on the way to its end
            return [*differences(TOOL, name, tools, same, lines, alike, reads)]

        found = both(READING) + both(REFUSED)
        abort = f"abort --topic {side.topics[2]} --partition 0 --start-offset 0"
        assert kavka(TOOL, broker, abort).exit_code == 0
        found += both(CHANGING)
        assert not found, "\n".join(found)
        assert {transaction["state"] for transaction in listed} >= {
            "Ongoing",
            "Empty",
            "CompleteAbort",
        }
