"""`kavka topics` and kafka-topics print the same, whichever broker they are pointed at."""

from __future__ import annotations

from pathlib import Path

import pytest

from commands.sessions import APPLIED_WITHIN_S, differences, kavka
from kavka.tools.admin.topics import TOOL
from support import java
from support.broker import Kavka
from support.java_tools import Tools
from support.oracle import ApacheKafka
from support.process import BrokerProcess, running
from support.wait import eventually

TOPIC_COMMAND = "org.apache.kafka.tools.TopicCommand"

LINES = """
    --list
    --describe
    --create --topic orders --partitions 3 --config retention.ms=60000
    --create --topic orders
    --create --topic orders --if-not-exists
    --create --topic a_b.c
    --create --topic a_b.c
    --create --topic a.b --replica-assignment 1:1
    --create --topic a.b --replica-assignment 1:1 --config x
    --create --topic a.b --config nope=1
    --create --topic a.b --config retention.ms=soon
    --create --topic a.b --partitions 0
    --create --topic a.b --replication-factor 3
    --create --topic 'a. b'
    --create --topic x --partitions 0
    --create --topic x --replication-factor 0
    --create --topic x --replication-factor 40000
    --create --topic x --replication-factor 3
    --create --topic placed --replica-assignment 1,1,1
    --create --topic x --replica-assignment 1:1
    --create --topic x --replica-assignment 1:2,1
    --create --topic x --replica-assignment 1:2
    --create --topic x --config foo=bar
    --create --topic x --config retention.ms
    --create --topic x --config retention.ms=
    --create --topic x --config retention.ms=a=b
    --create --topic x --config retention.ms=soon
    --create --topic 'sp ace'
    --create --topic own --config cleanup.policy=compact --config max.message.bytes=2000
    --create --topic kept --config segment.ms=70000 --config min.insync.replicas=2
    --create --topic one --create --topic two
    --create --topic=other --partitions=2
    --create --topic __hidden
    --list
    --list --topic o.*
    --list --topic orders,placed
    --list --topic "'orders , own'"
    --list --exclude-internal
    --list --topic nope
    --describe
    --describe --topic orders
    --describe --topic o.*
    --describe --topic nope
    --describe --topic nope --if-exists
    --describe --topic orders --exclude-internal
    --describe --topic-id AAAAAAAAAAAAAAAAAAAAAA
    --describe --topic-id Ov6wrZoQSVmhZjZYDPhfUw
    --describe --topic-id Ov6wrZoQSVmhZjZYDPhfUw --if-exists
    --describe --topic orders --topic-id Ov6wrZoQSVmhZjZYDPhfUw --if-exists
    --describe --partition-size-limit-per-response 2
    --describe --topics-with-overrides
    --describe --under-replicated-partitions
    --describe --unavailable-partitions
    --describe --under-min-isr-partitions
    --describe --at-min-isr-partitions
    --describe --under-replicated-partitions --at-min-isr-partitions
    --alter --topic orders --partitions 5
    --alter --topic orders --partitions 2
    --alter --topic nope --partitions 2
    --alter --topic nope --partitions 2 --if-exists
    --alter --topic placed --partitions 5 --replica-assignment 1,1,1,1,1
    --describe --topic orders,placed
"""

PLACED = 5
"""So many partitions has the topic of that name by then: before a broker knows of them, the tool
takes the next line's places for theirs."""

MORE_LINES = """
    --alter --topic placed --partitions 7 --replica-assignment 1,1,1,1,1,9,9
    --describe --topic orders,placed
    --delete --topic nope
    --delete --topic nope --if-exists
    --delete --topic placed
    --delete --topic a.*
    --list
    --list --create
    --bootstrap-server
    !--list
    !--bootstrap-server nowhere --create
    --create
    --alter --topic orders
    --list --if-exists
    --list --partitions 3
    --list --replication-factor 3
    --list --under-min-isr-partitions
    --create --topic t --replica-assignment 1 --partitions 1
    --create --topic t --if-exists
    --delete --topic t --if-not-exists
    --describe --topics-with-overrides --under-replicated-partitions
    --describe --if-exists
    --delete --topic t --exclude-internal
    --frobnicate
    --list --topic
"""


@pytest.mark.parametrize("kind", [Kavka, ApacheKafka], ids=lambda kind: kind.kind)
def test_both_tools_say_the_same(kind: type[BrokerProcess], tmp_path: Path) -> None:
    java.program("java")
    brokers = [kind(tmp_path / f"broker-{number}", {}) for number in (1, 2)]
    with running(brokers), Tools(tmp_path / "tools.log") as tools:
        reads = ("--list", "--describe")
        found = [*differences(TOOL, TOPIC_COMMAND, tools, brokers, LINES, reads=reads)]
        for broker in brokers:
            eventually(
                lambda: f"PartitionCount: {PLACED}\t" in _placed(broker),  # noqa: B023 - called here
                within_s=APPLIED_WITHIN_S,
                what=f"{broker.kind} knows of new partitions",
                detail=lambda: _placed(broker),  # noqa: B023 - called here
            )
        found += differences(TOOL, TOPIC_COMMAND, tools, brokers, MORE_LINES, reads=reads)
        assert not found, "\n".join(found)


@pytest.mark.parametrize("form", ["json", "csv"])
def test_programs_find_no_error_where_they_read(form: str, tmp_path: Path) -> None:
    broker = Kavka(tmp_path)
    with running([broker]):
        said = kavka(TOOL, broker, f"--describe --topic nosuch --output {form}")
        assert (said.exit_code, said.stdout) == (1, "")
        assert said.stderr.startswith("Error while executing topic command : ")


def _placed(broker: BrokerProcess) -> str:
    return kavka(TOOL, broker, "--describe --topic placed").stdout
