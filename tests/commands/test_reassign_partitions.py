"""`kavka reassign-partitions` and kafka-reassign-partitions print and do the same, on one broker
with two log directories."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from commands.moves import await_moved
from commands.sessions import Said, apache_kafka, difference, differences, kavka
from kavka.tools.admin.reassign_partitions import TOOL
from support import java
from support.broker import Kavka
from support.clients.kafka_python import create_topic
from support.java_tools import Tools
from support.oracle import ApacheKafka
from support.process import BrokerProcess, running

REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
RECORDS, RECORD_BYTES = 40, 200_000
DONE_WITHIN_S = 60.0

LINES = """
    --list
    --verify --reassignment-json-file here.json
    --verify --reassignment-json-file here.json --preserve-throttles
    --verify --reassignment-json-file bare.json
    --verify --reassignment-json-file dirs.json
    --verify --reassignment-json-file elsewhere.json --preserve-throttles
    --verify --reassignment-json-file no-topic.json
    --verify --reassignment-json-file no-topic.json --preserve-throttles
    --verify --reassignment-json-file beyond.json
    --verify --reassignment-json-file nothing.json
    --execute --reassignment-json-file here.json
    --execute --reassignment-json-file bare.json
    --execute --reassignment-json-file here.json --throttle 1000000
    --verify --reassignment-json-file away.json
    --verify --reassignment-json-file here.json
    --execute --reassignment-json-file here.json --throttle 0 --replica-alter-log-dirs-throttle 5000
    --execute --reassignment-json-file dirs.json --replica-alter-log-dirs-throttle 5000
    --verify --reassignment-json-file dirs.json --preserve-throttles
    --execute --reassignment-json-file here.json --additional --disallow-replication-factor-change
    --execute --reassignment-json-file here.json --timeout 5
    --cancel --reassignment-json-file here.json
    --cancel --reassignment-json-file here.json --preserve-throttles
    --cancel --reassignment-json-file dirs.json --timeout 5
    --cancel --reassignment-json-file beyond.json --preserve-throttles
    --execute --reassignment-json-file elsewhere.json
    --execute --reassignment-json-file unknown-brokers.json
    --execute --reassignment-json-file no-topic.json
    --execute --reassignment-json-file no-topics.json
    --execute --reassignment-json-file beyond.json
    --execute --reassignment-json-file nothing.json
    --execute --reassignment-json-file no-replicas.json
    --execute --reassignment-json-file twice.json
    --execute --reassignment-json-file twice-a-broker.json
    --execute --reassignment-json-file too-few-dirs.json
    --execute --reassignment-json-file version-2.json
    --execute --reassignment-json-file text.json
    --execute --reassignment-json-file list.json
    --execute --reassignment-json-file no-partition.json
    --execute --reassignment-json-file numbers.json
    --execute --reassignment-json-file object.json
    --execute --reassignment-json-file empty
    --verify --reassignment-json-file twice.json
    --generate --topics-to-move-json-file topics.json --broker-list 1
    --generate --topics-to-move-json-file topics.json --broker-list 1 --disable-rack-aware
    --generate --topics-to-move-json-file topics.json --broker-list 1,7
    --generate --topics-to-move-json-file no-topics.json --broker-list 1
    --generate --topics-to-move-json-file missing.json --broker-list 1
    --generate --topics-to-move-json-file topics-twice.json --broker-list 1
    --generate --topics-to-move-json-file topics.json --broker-list 1,1
    --generate --topics-to-move-json-file topics.json --broker-list one
    --generate --topics-to-move-json-file topics.json --broker-list +1
    --generate --topics-to-move-json-file topics.json --broker-list 1,2147483648
    --generate --topics-to-move-json-file empty --broker-list 1
    --generate --topics-to-move-json-file version-2.json --broker-list 1
    --list --verify
    --list --throttle 5
    --list --reassignment-json-file here.json
    --verify
    --verify --reassignment-json-file here.json --additional
    --verify --reassignment-json-file here.json --throttle 5 --timeout 5
    --generate --topics-to-move-json-file topics.json
    --generate --broker-list 1
    --generate --topics-to-move-json-file topics.json --broker-list 1 --preserve-throttles
    --execute
    --execute --reassignment-json-file here.json --throttle 5 --throttle 6
    --execute --reassignment-json-file here.json --broker-list 1
    --cancel
    --cancel --reassignment-json-file here.json --additional
    --execute --reassignment-json-file here.json --preserve-throttles
    --reassignment-json-file here.json
    --list --bootstrap-controller localhost:9
    !--list --zookeeper localhost:2181
    !--list
    !--verify --reassignment-json-file here.json --bootstrap-controller localhost:9
    --zookeeper
    --frobnicate
"""

OWN_WORDS = {
    "--execute --reassignment-json-file broken.json": (
        "--reassignment-json-file is no JSON: Expecting ',' delimiter: line 1 column 15 (char 14)"
    ),
    "--execute --reassignment-json-file no-dir.json": (
        "Failed to alter dir for orders-0-1: LOG_DIR_NOT_FOUND"
    ),
    "--execute --reassignment-json-file here.json --throttle fast": (
        "Cannot parse argument 'fast' of option throttle: it is no number. "
        "`kavka reassign-partitions --help` explains the options."
    ),
    "--verify --reassignment-json-file missing-file.json": (
        "missing-file.json can't be read: No such file or directory"
    ),
    "--verify --reassignment-json-file on-9.json": "no broker 9 is live",
    "--verify --reassignment-json-file minus.json": (
        "orders--1: the number of a partition can't be negative"
    ),
    "--cancel --reassignment-json-file minus.json": (
        "orders--1: the number of a partition can't be negative"
    ),
    "--verify --reassignment-json-file no-name.json": (
        "Topic name is invalid: 'bad/name' is not of 1 to 249 ASCII letters and digits, '.', '_' "
        "and '-', or it is '.' or '..'"
    ),
    "--verify --reassignment-json-file elsewhere.json": "no broker 7 is live",
    "!--list --bootstrap-controller localhost:9": (
        "--bootstrap-controller is for Apache Kafka's controllers, which this command can't ask: "
        "name brokers by --bootstrap-server, any of them will do. "
        "`kavka reassign-partitions --help` explains the options."
    ),
}
"""What Apache Kafka's tool says in other words, some of it after a minute."""


def entry(topic: str, partition: int, replicas: list[int], *log_dirs: str) -> dict[str, Any]:
    found = {"topic": topic, "partition": partition, "replicas": replicas}
    return {**found, "log_dirs": list(log_dirs)} if log_dirs else found


def plan(*entries: Any) -> str:
    return json.dumps({"version": 1, "partitions": entries})


def files(first: Path, second: Path) -> Mapping[str, str]:
    """`first` and `second`: the broker's log directories."""
    here = [entry("orders", number, [1]) for number in range(3)]
    return {
        "here.json": plan(*here),
        "bare.json": '{"partitions": [{"topic":"orders","partition":0,"replicas":[1]}]} trailing',
        "dirs.json": plan(*(entry("orders", number, [1], str(first)) for number in range(3))),
        "elsewhere.json": plan(entry("orders", 0, [7]), entry("plain", 0, [1, 8])),
        "unknown-brokers.json": plan(entry("orders", 0, [40, 17]), entry("orders", 1, [33])),
        "on-9.json": plan(entry("orders", 0, [9], "/data")),
        "no-topic.json": plan(entry("nope", 0, [1]), entry("orders", 0, [1])),
        "away.json": plan(entry("nope", 0, [1], str(first))),
        "minus.json": plan(entry("orders", -1, [1])),
        "no-name.json": plan(entry("bad/name", 0, [1])),
        "no-topics.json": '{"version": 1, "topics": [], "partitions": []}',
        "beyond.json": plan(*here, entry("orders", 17, [1]), entry("orders", 5, [1])),
        "nothing.json": "{}",
        "no-replicas.json": plan(entry("orders", 0, [])),
        "twice.json": plan(*here, *here[1:]),
        "twice-a-broker.json": plan(entry("orders", 0, [1, 2, 2, 1]), entry("orders", 1, [3, 3])),
        "too-few-dirs.json": plan(entry("orders", 0, [1, 2], "any")),
        "no-dir.json": plan(entry("orders", 0, [1], "/nowhere")),
        "version-2.json": json.dumps({"version": 2, "partitions": here, "topics": []}),
        "text.json": '"orders"',
        "list.json": '{"partitions": {"topic": "orders"}}',
        "no-partition.json": plan({"topic": "orders", "replicas": [1]}),
        "numbers.json": plan({"topic": "orders", "partition": 0, "replicas": [1.5]}),
        "object.json": plan({"topic": 7, "partition": 0, "replicas": [1]}),
        "empty": "",
        "broken.json": '{"version": 1 "partitions": []}',
        "topics.json": '{"topics": [{"topic": "orders"}, {"topic": "plain"}], "version": 1}',
        "missing.json": '{"topics": [{"topic": "orders"}, {"topic": "nope"}, {"topic": "no"}]}',
        "topics-twice.json": json.dumps({"topics": [{"topic": n} for n in "cabbage"]}),
        "full-first.json": plan(entry("full", 0, [1], str(first))),
        "full-second.json": plan(entry("full", 0, [1], str(second))),
        "full-any.json": plan(entry("full", 0, [1])),
    }


def fill(broker: BrokerProcess) -> None:
    """Eight megabytes in one topic: a move of it doesn't end by itself while it is throttled."""
    for topic, partitions in ("orders", 3), ("plain", 1), ("full", 1):
        create_topic(broker.bootstrap, topic, partitions)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "batch.size": RECORD_BYTES})
    for number in range(RECORDS):
        producer.produce("full", bytes([number]) * RECORD_BYTES, partition=0)
    assert producer.flush(DONE_WITHIN_S) == 0


@pytest.mark.parametrize("kind", [Kavka, ApacheKafka], ids=lambda kind: kind.kind)
def test_both_tools_say_the_same(
    kind: type[BrokerProcess], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java.program("java")
    first, second = tmp_path / "first", tmp_path / "second"
    for name, text in files(first, second).items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    broker = kind(tmp_path / "broker", {"log.dirs": f"{first},{second}"})
    with running([broker]), Tools(tmp_path / "tools.log") as tools:
        fill(broker)
        settle(broker, "dirs.json", "full-first.json")
        found = [
            *differences(TOOL, REASSIGN, tools, [broker, broker], LINES),
            *moved_alike(tools, broker),
        ]
        assert not found, "\n".join(found)
        for line, why in OWN_WORDS.items():
            said = kavka(TOOL, broker, line)
            assert (said.exit_code, said.stderr) == (1, why + "\n")
        line = "--verify --reassignment-json-file no-topic.json --output json"
        said = kavka(TOOL, broker, line)
        states = {
            partition["topic"]: partition["state"]
            for partition in json.loads(said.stdout)["partitions"]
        }
        assert (said.exit_code, states) == (1, {"nope": "not active", "orders": "completed"})


def settle(broker: BrokerProcess, *names: str) -> None:
    """Carry plans out, and wait until that is done."""
    for name in names:
        begun = kavka(TOOL, broker, f"--execute --reassignment-json-file {name}")
        assert begun.exit_code == 0, begun
        await_moved(broker, name)


MOVE = """
    --execute --reassignment-json-file full-second.json --replica-alter-log-dirs-throttle 1
    --verify --reassignment-json-file full-second.json
    --verify --reassignment-json-file full-first.json
    --verify --reassignment-json-file full-any.json --preserve-throttles
    --cancel --reassignment-json-file full-second.json --preserve-throttles
    --cancel --reassignment-json-file full-second.json
    --verify --reassignment-json-file full-second.json
    --execute --reassignment-json-file full-second.json
"""


def moved_alike(tools: Tools, broker: BrokerProcess) -> Iterator[str]:
    """Both do the same to a replica: move it slowly to the second directory, cancel that, move it
    there."""
    said: list[list[Said]] = []
    lines = [line.strip() for line in MOVE.strip().splitlines()]
    for is_ours in (False, True):
        settle(broker, "full-first.json")
        said.append([])
        for line in lines:
            done = (
                kavka(TOOL, broker, line)
                if is_ours
                else apache_kafka(tools, REASSIGN, broker, line)
            )
            said[-1].append(done)
        await_moved(broker, "full-second.json")
    for line, theirs, ours in zip(lines, *said, strict=True):
        yield from difference(line, ours, theirs)
