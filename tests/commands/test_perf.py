"""The perf tests and verifiable clients print what Apache Kafka's print, but for what they measure.

What --print-metrics prints are librdkafka's figures, so it is not compared. Apache Kafka's consumer
test prints the names of its columns before it finds that a number is none; Kavka's does not.
"""

from __future__ import annotations

import builtins
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from commands.sessions import apache_kafka, differences, kavka
from kavka.tools.admin.command import main
from kavka.tools.perf import (
    consumer_perf_test,
    e2e_latency,
    producer_perf_test,
    verifiable_consumer,
    verifiable_producer,
)
from kavka.tools.perf.java_dates import java_date
from support import java
from support.broker import Kavka
from support.clients.kafka_python import create_topic
from support.java_tools import Tools
from support.oracle import ApacheKafka
from support.process import BrokerProcess, running

TOOLS = "org.apache.kafka.tools"
FIGURES = re.compile(r"\d+\.\d+(E-?\d+)?|\d+(?= ms )|(?<=th = )\d+|(?<=time, )\d+|NaN|Infinity")
DATES = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d:\d{3}")
COUNTED = re.compile(r", \d+, \d+, (?=F, F$)", re.MULTILINE)
"""Milliseconds of a consumer: of its rebalance, and of reading."""

SUMMED_UP = "--reporting-interval 600000"
"""By default a run that takes longer than five seconds prints more lines."""

SIZED = "--record-size 10 --throughput -1"
TEN = f"{SIZED} {SUMMED_UP}"
NINE = f"--num-records 9 {TEN}"
PAYLOADS = r"""
    many --payload-delimiter '\t'
    many --payload-delimiter '[,;]'
    many --payload-delimiter '|'
    many --payload-delimiter ''
    many --payload-delimiter '|a'
    many --payload-delimiter '\n+'
    many --payload-delimiter '(?=c)'
    many --payload-delimiter '(?<=,)'
    many --payload-delimiter '['
    many
    odd
    ends
    begins
    newline
"""
SPLIT = "\n".join(
    f"--topic perf --num-records 1 --throughput -1 --payload-file CONFIG/{payloads} {SUMMED_UP}"
    for payloads in map(str.strip, PAYLOADS.strip().splitlines())
)
"""Where the records of a file begin and end."""

PRODUCED = f"""
    --topic perf --num-records 2000 --record-size 100 --throughput -1 {SUMMED_UP}
    --topic perf --num-records 10 --payload-monotonic --throughput 1000 {SUMMED_UP}
    --topic perf --num-records 10 --payload-file CONFIG/lines --throughput -1 {SUMMED_UP}
    --topic perf --num-records 10 --payload-file CONFIG/lines --payload-delimiter , \
--throughput -1 {SUMMED_UP}
    --topic perf --num-records 10 --payload-file CONFIG/none --throughput -1
    --topic perf --num-records 100 {TEN} --warmup-records 50
    --topic perf {NINE} --command-property acks=1 linger.ms=1
    --topic perf {NINE} --producer-props acks=1 linger.ms=1
    --topic perf {NINE} --command-config CONFIG/client
    --topic perf {NINE} --producer.config CONFIG/client
    --topic perf {NINE} --transactional-id t
    --topic perf {NINE} --transaction-duration-ms 100
    --topic perf --num-records 9 {SIZED} --reporting-interval 100000
    --topic perf --num-records 0 {TEN}
    --topic perf --num-records 9 --record-size 0 --throughput -1 {SUMMED_UP}
    --topic perf --num-records 9 --throughput -1
    --topic perf --num-records 9 --record-size 10 --payload-monotonic --throughput -1
    --topic perf --num-records 9 --record-size 10
    --topic perf {TEN}
    {NINE}
    --topic perf --num-records 9 --record-size 10 --throughput fast
    --topic perf --num-records few {TEN}
    --topic perf {NINE} --warmup-records 9
    --topic perf --num-records 9 {SIZED} --reporting-interval 0
    --topic perf {NINE} --transaction-duration-ms 0
    --topic perf {NINE} --command-property acks
    --topic perf {NINE} --command-config CONFIG/none
    --topic perf {NINE} --producer-props a=b --command-property c=d
    --frobnicate
    !--topic perf {NINE}
    !--topic perf {NINE} --command-property bootstrap.servers=BROKER
"""

ALL_READ = "--topic read --num-records 300 --timeout 60000"
"""By default a test ends when nothing has come for ten seconds."""

CONSUMED = f"""
    {ALL_READ}
    --topic read --messages 300 --hide-header --timeout 60000
    {ALL_READ} --group some --fetch-size 1000 --socket-buffer-size 10000
    --topic read --num-records 900 --timeout 15000
    --topic read --num-records 5 --from-latest --timeout 3000 --show-detailed-stats
    --include re.d --num-records 300 --timeout 60000 --command-property client.id=me
    {ALL_READ} --date-format yy/M/d'T'HH --hide-header
    {ALL_READ} --command-config CONFIG/client
    {ALL_READ} --consumer.config CONFIG/client
    {ALL_READ} --consumer.config CONFIG/client --command-config CONFIG/client
    {ALL_READ} --command-config CONFIG/none
    {ALL_READ} --date-format bbb
    {ALL_READ} --reporting-interval 0
    {ALL_READ} --reporting-interval soon --hide-header
    --topic read --num-records 3 --messages 3
    --topic read --include re.d --num-records 3
    --num-records 3
    --topic read
    --topic read --num-records few --hide-header
    --frobnicate
    !--topic read --num-records 3
"""

MEASURED = """
    --topic made --num-records 3 --producer-acks all --record-size 10
    --topic read --num-records 3 --producer-acks 1 --record-size 0
    --topic read --num-records 1001 --producer-acks 1 --record-size 10
    --topic read --num-records 3 --producer-acks 1 --record-size 10 --record-key-size 5
    --topic read --num-records 3 --producer-acks 1 --record-size 10 --num-headers 2
    --topic read --num-records 3 --producer-acks 1 --record-size 10 --num-headers 2 \
--record-header-size 4 --record-header-key-size 3
    --topic read --num-records 3 --producer-acks 1 --record-size 10 --num-headers 1 \
--record-header-size -1
    --topic read --num-records 3 --producer-acks 1 --record-size 10 --command-config CONFIG/client
    !BROKER read 3 all 10
    !BROKER read 3 all 10 CONFIG/client
    !BROKER read 3 all
    --topic read --num-records 3 --producer-acks 0 --record-size 10
    --topic read --num-records 0 --producer-acks 1 --record-size 10
    --topic read --num-records 3 --producer-acks 1 --record-size -1
    --topic read --num-records 3 --producer-acks 1 --record-size 10 --record-key-size -1
    --topic read --num-records 3 --producer-acks 1 --record-size 10 --record-header-size -2
    --topic read --num-records 3 --producer-acks 1 --record-size 10 --num-headers -1
    --topic read --num-records 3 --producer-acks 1
    --topic read --num-records few --producer-acks 1 --record-size 10
    --topic read --num-records 3 --producer-acks 1 --record-size 10 --command-config CONFIG/none
    --frobnicate
"""

VERIFIED_BY_PRODUCER = (
    "--topic numbers --max-messages 3",
    "--topic numbers --max-messages 3 --repeating-keys 2 --value-prefix 7 --acks 1",
    "--topic numbers --max-messages 2 --throughput 1000 --message-create-time 1700000000000",
    "--topic compacted --max-messages 2",
    "--topic numbers --max-messages 1 --producer.config CONFIG/client",
    "--topic numbers --max-messages 1 --acks 5",
    "--max-messages 1",
)
VERIFIED_BY_CONSUMER = (
    "--topic numbers --group-id a --max-messages 3",
    "--topic numbers --group-id a --max-messages 2 --verbose --group-instance-id me",
    "--topic numbers --group-id b --max-messages 2 --enable-autocommit --session-timeout 45000",
    "--topic numbers --group-id c --max-messages 2 --group-protocol consumer",
    "--topic numbers --max-messages 2",
    "--topic numbers --group-id d --group-protocol none --max-messages 1",
)
EVENTS = re.compile(r'(?<="timestamp":)\d+|(?<="avg_throughput":)[\d.E]+|(?<="message":)"[^"]*"')
"""Times, and messages of errors, which are librdkafka's."""

TAKEN = re.compile(r'(?<="name":"records_consumed","count":)\d+')
"""How many records a poll found, beyond those that were wanted."""

CONFIGS = {
    "lines": b"one\ntwo,three\nfour",
    "many": b"a\tb,c;d|e\r\nf\n\n\ng\n\n",
    "odd": b"gr\xc3\xbc\xc3\x9fe \xff\n\xed\xa0\x80",
    "ends": b"\na\n",
    "begins": b"\n\na",
    "newline": b"\n",
    "client": b"client.id=somebody\n",
}


def stable(text: str) -> str:
    """Without measured figures."""
    return COUNTED.sub(", ", FIGURES.sub("F", DATES.sub("DATE", text)))


def stable_events(text: str) -> list[object]:
    """Without times. Of JSON objects the order of names does not count: Java's, which is that of
    the methods that reflection finds, differs from run to run."""
    lines = TAKEN.sub("0", EVENTS.sub("0", text)).splitlines()
    return [json.loads(line) if line.startswith("{") else line for line in lines]


@pytest.fixture(params=[Kavka, ApacheKafka], ids=lambda kind: kind.kind)
def brokers(request: pytest.FixtureRequest, tmp_path: Path) -> Sequence[BrokerProcess]:
    java.program("java")
    for name, content in CONFIGS.items():
        (tmp_path / name).write_bytes(content)
    settings: Mapping[str, str] = {"group.initial.rebalance.delay.ms": "0"}
    return [request.param(tmp_path / f"broker-{number}", settings) for number in (1, 2)]


def lines(text: str, place: Path) -> str:
    return text.replace("\\\n", " ").replace("CONFIG", str(place))


def test_perf_tests_say_the_same(brokers: Sequence[BrokerProcess], tmp_path: Path) -> None:
    fill = "--topic read --num-records 300 --record-size 20 --throughput -1"
    with running(brokers), Tools(tmp_path / "tools.log") as tools:
        for broker in brokers:
            create_topic(broker.bootstrap, "perf", 1)
            create_topic(broker.bootstrap, "read", 1)
            assert kavka(producer_perf_test.TOOL, broker, fill).exit_code == 0
        found = [
            difference
            for tool, name, text in (
                (producer_perf_test.TOOL, "ProducerPerformance", PRODUCED + SPLIT),
                (consumer_perf_test.TOOL, "ConsumerPerformance", CONSUMED),
                (e2e_latency.TOOL, "EndToEndLatency", MEASURED),
            )
            for difference in differences(
                tool, f"{TOOLS}.{name}", tools, brokers, lines(text, tmp_path), stable
            )
        ]
        assert not found, "\n".join(found)


class OneByOne:
    """Tools that end their process by themselves: each in one of its own."""

    def run(self, tool: str, *arguments: str, stdin: bytes = b"") -> java.Finished:
        return java.run(tool, *arguments, stdin=stdin)


def test_verifiable_clients_say_the_same(brokers: Sequence[BrokerProcess], tmp_path: Path) -> None:
    with running(brokers):
        for broker in brokers:
            create_topic(broker.bootstrap, "numbers", 1)
            create_topic(broker.bootstrap, "compacted", 1, {"cleanup.policy": "compact"})
        found = []
        for tool, name, texts in (
            (verifiable_producer.TOOL, "VerifiableProducer", VERIFIED_BY_PRODUCER),
            (verifiable_consumer.TOOL, "VerifiableConsumer", VERIFIED_BY_CONSUMER),
        ):
            for line in texts:
                line = lines(line, tmp_path)
                theirs = apache_kafka(OneByOne(), f"{TOOLS}.{name}", brokers[0], line)
                ours = kavka(tool, brokers[1], line)
                same = ours.exit_code == theirs.exit_code
                if not same or stable_events(ours.stdout) != stable_events(theirs.stdout):
                    found.append(f"{line}\n  {theirs}\n  {ours}")
        assert not found, "\n".join(found)


def test_without_confluent_kafka_one_line_says_where_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = builtins.__import__

    def refuse(name: str, *rest: Any) -> Any:
        if name == "confluent_kafka":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return plain(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    words = "--bootstrap-server localhost:1 --topic t --max-messages 1".split()
    assert main(verifiable_producer.TOOL, words) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == "This needs confluent-kafka: pip install 'kavka[tools]'\n"


@pytest.mark.parametrize(
    ("pattern", "shown"),
    [
        ("yyyy-MM-dd HH:mm:ss:SSS", "2023-11-14 22:13:20:007"),
        ("yy.M.d 'at' h a, EEE MMM X", "23.11.14 at 10 PM, Tue Nov Z"),
        ("''K k D u Z", "'10 22 318 2 +0000"),
    ],
)
def test_dates_are_java_s(pattern: str, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    assert java_date(pattern, 1_700_000_000_007) == shown
