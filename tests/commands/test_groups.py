"""`kavka consumer-groups` and `kavka groups` print what Apache Kafka's tools print."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path

import pytest

from commands.sessions import apache_kafka, differences, kavka
from commands.some_groups import FIRST_MS, LONG, SETTINGS, SMILING, Groups, fill
from kavka.tools.admin import consumer_groups, groups
from kavka.tools.admin.times import time_ms
from support import java
from support.broker import Kavka
from support.java_tools import Tools
from support.oracle import ApacheKafka
from support.process import BrokerProcess, running

CONSUMER_GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
GROUPS = "org.apache.kafka.tools.GroupsCommand"
BETWEEN = "2023-11-14T22:13:20.030"
"""Half of the records are older: FIRST_MS and 30 ms."""

READING = f"""
    --list
    --list --state
    --list --type
    --list --state --type
    --list --type --state
    --list --state empty,Stable
    --list --state=Assigning --type=consumer
    --list --type Classic,consumer
    --list --state dead
    --list --state bogus
    --list --type share
    --list --timeout 90000
    --list --timeout soon
    --describe --group nope
    --describe --group nope --state
    --describe --group simple
    --describe --group simple --offsets
    --describe --group {SMILING}
    --describe --group {SMILING} --state
    --describe --group simple --verbose
    --describe --group 'with spaces, and a comma'
    --describe --group empty --group simple --group next
    --describe --group empty --group nope
    --describe --group empty --members
    --describe --group empty --members --verbose
    --describe --group empty --state
    --describe --group next-empty
    --describe --group next-empty --state --verbose
    --describe --group classic
    --describe --group classic --verbose
    --describe --group classic --members
    --describe --group classic --members --verbose
    --describe --group classic --state --verbose
    --describe --group joining
    --describe --group joining --members --verbose
    --describe --group joining --state
    --describe --group connected
    --describe --group next --verbose
    --describe --group next --members --verbose
    --describe --group next --state --verbose
    --describe --group moving
    --describe --group moving --members
    --describe --group moving --members --verbose
    --describe --group moving --state
    --describe --group mixed
    --describe --group mixed --members
    --describe --group mixed --members --verbose
    --describe --group mixed --state --verbose
    --describe --all-groups
    --describe --all-groups --members
    --describe --all-groups --state --timeout 100000
    --describe
    --describe --group simple --all-groups
    --describe --group simple --members --state
    --describe --group simple --state stable
    --describe --group simple --topic orders
    --describe --group simple --type
    --list --members
    --list --group simple
    --list --describe
    --list --topic orders
    --list --validate-regex a
    --group simple
    --frobnicate
    !--list
    !--validate-regex a.*
    !--validate-regex a[
    !--validate-regex (a
    !--validate-regex a**
    !--validate-regex
    !--bootstrap-server
"""

CHANGING = f"""
    --reset-offsets --group simple --to-earliest --topic orders
    --reset-offsets --group simple --to-earliest --topic orders --dry-run
    --reset-offsets --group simple --to-latest --topic orders:0,5,10 --topic plain --execute
    --describe --group simple
    --reset-offsets --group {SMILING} --to-latest --topic plain:0
    --reset-offsets --group simple --shift-by -1 --all-topics --execute
    --reset-offsets --group simple --shift-by 100 --topic plain:0 --execute
    --reset-offsets --group simple --shift-by -9999999999999999 --topic plain:1 --execute
    --reset-offsets --group simple --shift-by 1 --topic orders:1
    --describe --group simple --verbose
    --reset-offsets --group empty --to-offset 2 --topic orders --execute
    --reset-offsets --group empty --to-current --topic orders --topic plain --execute
    --reset-offsets --group empty --to-datetime {BETWEEN} --all-topics --execute
    --reset-offsets --group empty --to-datetime {BETWEEN}Z --topic plain
    --reset-offsets --group empty --to-datetime {BETWEEN}+01:00 --topic plain
    --reset-offsets --group empty --to-datetime {BETWEEN}-01 --topic plain
    --reset-offsets --group empty --to-datetime 2040-01-01T00:00:00.000 --topic orders:1,11
    --reset-offsets --group empty --to-datetime 2023-13-14T22:13:20.030 --topic plain
    --reset-offsets --group empty --to-datetime 2023-11-14T22:13:20 --topic plain
    --reset-offsets --group empty --to-datetime soon --topic plain
    --reset-offsets --group empty --to-datetime 2024T --topic plain
    --reset-offsets --group empty --by-duration PT1H --topic plain
    --reset-offsets --group empty --by-duration P20000DT1H2M3.5S --topic plain
    --reset-offsets --group empty --by-duration -P1D --topic plain:0
    --reset-offsets --group empty --by-duration P --topic plain
    --reset-offsets --group empty --by-duration 1h --topic plain
    --reset-offsets --group next-empty --to-latest --all-topics --execute
    --describe --group next-empty
    --reset-offsets --group not-yet --to-latest --topic plain --execute
    --describe --group not-yet
    --reset-offsets --group simple --to-earliest --all-topics --export
    --reset-offsets --group g-{LONG} --to-latest --all-topics --export
    --reset-offsets --group simple --from-file ONE --export
    --reset-offsets --group simple --from-file ONE --execute
    --reset-offsets --group simple --from-file MANY
    --reset-offsets --group simple --group 'with spaces, and a comma' --from-file MANY --execute
    --reset-offsets --group gone --from-file MANY
    --reset-offsets --group simple --from-file NONE
    --describe --group simple --group 'with spaces, and a comma'
    --reset-offsets --group simple --to-earliest --topic nope
    --reset-offsets --group simple --to-earliest --topic nope:0
    --reset-offsets --group simple --to-earliest --topic plain:7
    --reset-offsets --group simple --to-earliest --topic plain:a
    --reset-offsets --group simple --to-earliest --topic a:b:c
    --reset-offsets --group connected --to-earliest --all-topics
    --reset-offsets --group classic --to-earliest --all-topics --execute
    --reset-offsets --group joining --group next --to-earliest --all-topics
    --reset-offsets --group simple --to-earliest
    --reset-offsets --group simple --all-topics
    --reset-offsets --group simple --to-earliest --to-latest --all-topics
    --reset-offsets --group simple --to-earliest --all-topics --dry-run --execute
    --reset-offsets --to-earliest --all-topics
    --reset-offsets --group simple --to-offset --all-topics
    --reset-offsets --group simple --to-offset x --all-topics
    --delete-offsets --group nope --topic orders
    --delete-offsets --group classic --topic orders --topic plain:0,1 --topic zzz
    --delete-offsets --group simple --topic orders:0,99
    --delete-offsets --group simple --topic plain
    --delete-offsets --group next --topic plain
    --delete-offsets --group simple --topic a:b:c
    --delete-offsets --group simple
    --delete-offsets --topic plain
    --describe --group simple
    --delete --group nope
    --delete --group nope --group classic --group gone
    --delete --group gone
    --delete --group empty --group next-empty
    --delete --group simple --topic orders
    --delete
    --list
"""

ALL_KINDS = """
    --list
    --list --consumer
    --list --share
    --list --streams
    --list --group-type classic
    --list --group-type Consumer
    --list --group-type consumer --protocol consumer
    --list --group-type classic --protocol connect
    --list --group-type bogus
    --list --protocol connect
    --list --protocol nope
    --list --consumer --share
    --list --consumer --protocol connect
    --list --frobnicate
    --consumer
    !--list
"""


@pytest.mark.parametrize("kind", [Kavka, ApacheKafka], ids=lambda kind: kind.kind)
def test_both_tools_say_the_same(kind: type[BrokerProcess], tmp_path: Path) -> None:
    java.program("java")
    assert FIRST_MS + 30 == time_ms(BETWEEN)
    of_one, of_many = tmp_path / "one.csv", tmp_path / "many.csv"
    of_one.write_text("orders,1,2\norders,2,9999\nplain,0,0\n")
    of_many.write_text(
        f'simple,orders,3,1\n"with spaces, and a comma","{LONG}",0,0\nsimple,plain,1,4\n'
    )
    files = {" ONE": f" {of_one}", " MANY": f" {of_many}", " NONE": f" {tmp_path / 'none.csv'}"}
    changing = CHANGING
    for name, path in files.items():
        changing = changing.replace(name, path)
    brokers = [kind(tmp_path / f"broker-{number}", SETTINGS) for number in (1, 2)]
    with running(brokers), Tools(tmp_path / "tools.log") as tools, ExitStack() as stack:
        for broker in brokers:
            fill(broker)
            Groups(broker, stack).with_members()
        read = [brokers[0]] * 2
        reads = ("--list", "--describe")
        found = [
            *differences(consumer_groups.TOOL, CONSUMER_GROUPS, tools, read, READING, reads=reads),
            *differences(groups.TOOL, GROUPS, tools, read, ALL_KINDS, reads=reads),
            *differences(
                consumer_groups.TOOL, CONSUMER_GROUPS, tools, brokers, changing, reads=reads
            ),
        ]
        assert not found, "\n".join(found)
        line = "--reset-offsets --group simple --topic plain --to-earliest --export --output json"
        said = kavka(consumer_groups.TOOL, brokers[0], line)
        keys = {field for partition in json.loads(said.stdout)["partitions"] for field in partition}
        assert keys == {"group", "topic", "partition", "newOffset"}


def test_without_a_broker_each_says_so_with_its_own_exit_code(tmp_path: Path) -> None:
    """Apache Kafka's words name only a request; Kavka's name the addresses that it has tried."""
    java.program("java")
    nobody = "!--bootstrap-server 127.0.0.1:1 --list"
    broker = Kavka(tmp_path / "never-started")
    with Tools(tmp_path / "tools.log") as tools:
        for tool, java_class in (
            (consumer_groups.TOOL, CONSUMER_GROUPS),
            (groups.TOOL, GROUPS),
        ):
            theirs = apache_kafka(tools, java_class, broker, nobody)
            said = kavka(tool, broker, nobody)
            opening = theirs.stdout[: theirs.stdout.index(" : " if tool is groups.TOOL else "due")]
            assert said.exit_code == theirs.exit_code
            assert said.stdout.startswith(opening) and "127.0.0.1:1" in said.stdout, said
