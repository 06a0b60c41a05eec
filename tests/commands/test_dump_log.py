"""`kavka dump-log` prints what Apache Kafka's DumpLogSegments prints, of whole and damaged files.

Exceptions: checkpoints, `meta.properties`, `partition.metadata` and the files of the coordination
service, which that tool can't read; `--remote-log-metadata-decoder`, as Kavka has no tiered
storage; words that are no options, which that tool passes over; what is no number, which it finds
out after its first line.
"""

from __future__ import annotations

import contextlib
import io
import json
import random
import shlex
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from kavka.compat_tests.raw.codec.message_sets import LOG_APPEND_TIME, message, several, wrapped
from kavka.log.fs import OsFs
from kavka.tools.admin.command import main
from kavka.tools.dump_log.command import TOOL
from kavka.zktree.storage import Storage, read_tree
from support import java
from support.broker import Kavka
from support.clients.kafka_python import create_topic
from support.java_tools import Tools
from support.oracle import ApacheKafka
from support.process import BrokerProcess, running

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
}
CONSUMED_WITHIN_S = 60.0
DAMAGES = 400
DAMAGED_BYTES_MAX = 400_000
"""Larger files are not damaged, to be quick."""

OF_SEGMENTS = """
    --files FILE
    --files FILE --deep-iteration
    --files FILE --print-data-log
    --files FILE --print-data-log --skip-record-metadata
    --files FILE --skip-record-metadata --deep-iteration
    --files FILE --print-data-log --max-bytes 700
    --files FILE --max-bytes 0
    --files FILE --max-bytes -1
    --files FILE --value-decoder-class
    --files FILE --key-decoder-class org.apache.kafka.tools.api.LongDecoder
    --files FILE --value-decoder-class=org.apache.kafka.tools.api.IntegerDecoder
    --files FILE --value-decoder-class no.such.Decoder
    --files FILE --offsets-decoder
    --files FILE --transaction-log-decoder
    --files FILE --share-group-state-decoder
    --files FILE --cluster-metadata-decoder
"""
OF_INDEXES = """
    --files FILE
    --files FILE --index-sanity-check
    --files FILE --verify-index-only
    --files FILE --max-message-size 100
    --files FILE --max-message-size -1
"""
WRONG = """
    --files DIR/00000000000000000077.log
    --files DIR/00000000000000000077.index
    --files DIR/00000000000000000077.timeindex
    --files DIR/00000000000000000077.snapshot
    --files DIR/00000000000000000077.txnindex
    --files DIR/name.log
    --files DIR/name.unknown
    --files DIR/name.
    --files DIR/no-suffix
    --files DIR/name.checkpoint
    --files DIR//00000000000000000000.index,DIR/name.unknown,DIR/00000000000000000000.log,,
    --files ,
    --files ''
    --print-data-log
    --files
    --files a --files b
    --files DIR/00000000000000000000.log --no-such-option
"""


def fill(broker: BrokerProcess) -> None:
    """Records of all codecs and shapes, transactions, and groups of both kinds."""
    address = {"bootstrap.servers": broker.bootstrap}
    small = {"segment.bytes": "1048576", "index.interval.bytes": "1000"}
    create_topic(broker.bootstrap, "orders", 2, small)
    create_topic(broker.bootstrap, "empty", 1)
    create_topic(broker.bootstrap, "by-log", 1, {"message.timestamp.type": "LogAppendTime"})
    for codec in CODECS:
        create_topic(broker.bootstrap, f"codec-{codec}", 1)
        of_codec = Producer(
            {**address, "compression.type": codec, "enable.idempotence": codec != "gzip"}
        )
        for number in range(60):
            of_codec.produce(
                f"codec-{codec}",
                None if number % 9 == 0 else f'vä "{number}"\n\\ \x01'.encode() * 9,
                None if number % 5 == 0 else b"k\xed\xa0\x80\xff%d" % number,
                headers=[] if number % 4 else [("hä", b"x"), ("b", None)],
            )
            if number % 20 == 19:
                of_codec.flush()
    plain = Producer({**address, "enable.idempotence": True})
    for number in range(600):
        plain.produce("orders", b"%d" % number * 300, b"%d" % number, partition=number % 2)
        if number % 15 == 0:
            plain.produce("by-log", b"x")
            plain.flush()
    plain.flush()
    transactions(broker.bootstrap)
    for protocol in ("classic", "consumer"):
        consume(broker.bootstrap, protocol)


def transactions(bootstrap: str) -> None:
    """Some that commit, some that abort, and one that stays open."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "an-id"})
    producer.init_transactions()
    for number in range(5):
        producer.begin_transaction()
        for partition in (0, 1):
            producer.produce("orders", b"in a transaction", partition=partition)
        producer.flush()
        if number < 4:
            (producer.commit_transaction if number % 2 else producer.abort_transaction)()


def consume(bootstrap: str, protocol: str) -> None:
    """A member of a group, which commits offsets and leaves."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"group-{protocol}",
            "group.protocol": protocol,
            "group.instance.id": "an-instance",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(["orders", "by-log"])
    until = time.monotonic() + CONSUMED_WITHIN_S
    while (found := consumer.poll(1.0)) is None or found.error():
        assert time.monotonic() < until, "nothing was consumed"
    committed = [TopicPartition("orders", 0, 7, 'a "note", ä'), TopicPartition("orders", 1, 8)]
    consumer.commit(offsets=committed, asynchronous=False)
    consumer.close()


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The log directories of Kavka and of Apache Kafka."""
    java.program("java")
    home = tmp_path_factory.mktemp("dump-log")
    brokers = [Kavka(home / "kavka", SETTINGS), ApacheKafka(home / "kafka", SETTINGS)]
    with running(brokers):
        for broker in brokers:
            fill(broker)
            broker.stop()
    return [broker.data_dir for broker in brokers]


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tools]:
    java.program("java")
    with Tools(tmp_path_factory.mktemp("tools") / "tools.log") as tools:
        yield tools


def files(directories: Sequence[Path]) -> list[Path]:
    """What Apache Kafka's tool can read."""
    suffixes = (".log", ".index", ".timeindex", ".snapshot", ".txnindex", ".checkpoint")
    found = [path for directory in directories for path in sorted(directory.rglob("*"))]
    return [path for path in found if path.suffix in suffixes and path.stem != "coordination"]


def lines_for(path: Path) -> list[str]:
    if path.suffix in (".log", ".checkpoint"):
        return OF_SEGMENTS.strip().splitlines()
    return OF_INDEXES.strip().splitlines() if "index" in path.suffix else ["--files FILE"]


def difference(tools: Tools, words: Sequence[str]) -> str:
    """Where the two tools differ; "" where they don't. Of what fails, only Kavka's message is
    another: one line. Kavka's runs first, since Apache Kafka's changes damaged indexes."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(TOOL, words)
    done = tools.run(java.DUMP_LOG, *words)
    same = code == done.exit_code and out.getvalue() == done.text
    stderr = err.getvalue()
    agrees = stderr.count("\n") == 1 if code else stderr == done.stderr
    if same and agrees:
        return ""
    pairs = zip(done.text.splitlines(), out.getvalue().splitlines(), strict=False)
    first = next((pair for pair in pairs if pair[0] != pair[1]), ("", ""))
    return (
        f"{shlex.join(words)}: exit code {done.exit_code} and {code}\n  {first[0][:500]}\n"
        f"  {first[1][:500]}\n  {done.stderr[:300]}\n  {stderr[:300]}"
    )


def test_whole_files(data: list[Path], tools: Tools) -> None:
    found = [
        difference(tools, shlex.split(line.replace("FILE", str(path))))
        for path in files(data)
        for line in lines_for(path)
    ]
    assert len(found) > 500
    assert not [one for one in found if one]


def test_damaged_files(data: list[Path], tools: Tools, tmp_path: Path) -> None:
    chance = random.Random(1)
    all_files = [path for path in files(data) if path.stat().st_size < DAMAGED_BYTES_MAX]
    found = []
    for number in range(DAMAGES):
        path = chance.choice(all_files)
        copy = tmp_path / str(number)
        copy.mkdir()
        for one in filter(Path.is_file, path.parent.iterdir()):
            shutil.copy(one, copy)
        victim = copy / path.name
        if path.suffix == ".timeindex" and chance.random() < 0.3:
            victim = victim.with_suffix(".index")
        elif "index" in path.suffix and chance.random() < 0.3:
            victim = victim.with_suffix(".log")
        if not victim.exists():
            continue
        victim.write_bytes(damaged(chance, victim.read_bytes()))
        line = chance.choice(lines_for(path)).replace("FILE", str(copy / path.name))
        found.append(difference(tools, shlex.split(line)))
        shutil.rmtree(copy)
    assert len(found) > DAMAGES // 2
    assert not [one for one in found if one]


def damaged(chance: random.Random, sound: bytes) -> bytes:
    """A copy that is cut, longer, or different somewhere, mostly near its start."""
    kind, data = chance.randrange(5), bytearray(sound or b"\0")
    at = chance.randrange(min(len(data), chance.choice([30, 80, 2000, len(data)])))
    if kind == 0:
        return sound[:at]
    if kind == 1:
        return sound + bytes(chance.randrange(1, 80))
    if kind == 2:
        return sound + chance.randbytes(80)
    if kind == 3:
        data[at] ^= 1 << chance.randrange(8)
    else:
        data[at : at + 4] = chance.randbytes(4)
    return bytes(data)


def test_what_can_not_be_done(data: list[Path], tools: Tools, tmp_path: Path) -> None:
    for path in (data[0] / "by-log-0").iterdir():
        shutil.copy(path, tmp_path)
    for name in ("name.log", "name.unknown", "no-suffix", "name.checkpoint"):
        (tmp_path / name).write_bytes(b"")
    lines = WRONG.replace("DIR", str(tmp_path)).strip().splitlines()
    found = [difference(tools, shlex.split(line)) for line in lines]
    assert not [one for one in found if one]


def test_old_message_sets(tools: Tools, tmp_path: Path) -> None:
    """Of magic 0 and 1, as clusters that were upgraded from before 0.11 have them."""
    found = []
    for magic in (0, 1):
        for name, content in old_segments(magic).items():
            path = tmp_path / f"{magic}-{name}" / f"{0:020}.log"
            path.parent.mkdir()
            path.write_bytes(content)
            for option in ("--deep-iteration", "--print-data-log", "--offsets-decoder"):
                found.append(difference(tools, ["--files", str(path), option]))
    assert not [one for one in found if one]


def test_damaged_message_sets(tools: Tools, tmp_path: Path) -> None:
    chance = random.Random(2)
    found = []
    for number in range(DAMAGES):
        name, content = chance.choice(list(old_segments(number % 2).items()))
        path = tmp_path / f"{number}-{name}" / f"{0:020}.log"
        path.parent.mkdir()
        path.write_bytes(damaged(chance, content))
        option = chance.choice(["--deep-iteration", "--print-data-log", "--skip-record-metadata"])
        found.append(difference(tools, ["--files", str(path), option]))
    # within a compressed set the tools may meet the damage after another record, and a damaged size
    # may be more than Java's heap has
    spared = ("exit code 1 and 1", "OutOfMemoryError")
    assert not [one for one in found if one and not any(words in one for words in spared)]


def old_segments(magic: int) -> dict[str, bytes]:
    messages = several(12, magic=magic)
    segments = {"plain": b"".join(messages), "crc": message(magic=magic, crc=7)}
    for codec in ("gzip", "snappy", "lz4"):
        segments[codec] = wrapped(messages, codec, magic=magic, offset=11)
        segments[f"{codec}-moved"] = wrapped(messages, codec, magic=magic, offset=111)
        segments[f"{codec}-zero"] = wrapped(messages, codec, magic=magic, offset=0)
    if magic:
        segments["by-log"] = wrapped(
            messages, "gzip", magic=magic, offset=11, attributes=LOG_APPEND_TIME
        )
    return segments


def test_json_has_what_the_text_has(data: list[Path]) -> None:
    """One object a line, each with its file and its kind."""
    for path in files(data):
        text, entries = printed(path, "--deep-iteration"), printed(path, "--output json")
        found = [json.loads(line) for line in entries.splitlines()]
        assert all(one["file"] == str(path) and one["kind"] for one in found)
        if path.suffix == ".log":
            assert len(found) == text.count("isvalid: "), path


def test_files_that_only_kavka_reads(data: list[Path]) -> None:
    """The nodes and transactions of the two coordination files make the tree that is loaded from
    them; checkpoints are printed line by line."""
    directory = data[0]
    storage = Storage(OsFs(), str(directory))
    nodes = read_tree(storage).copy_nodes()
    storage.close()
    created = set()
    for name in ("coordination.snapshot", "coordination.log"):
        if not (directory / name).exists():
            continue
        for line in printed(directory / name, "--print-data-log --output json").splitlines():
            entry = json.loads(line)
            created.add(entry.get("path") or entry.get("create"))
    assert {path for path in nodes if path != "/"} <= created
    for directory in data:
        text = printed(directory / "replication-offset-checkpoint")
        lines = (directory / "replication-offset-checkpoint").read_text().splitlines()[2:]
        assert len(lines) > 5
        assert sorted(text.splitlines()[1:]) == sorted(
            "topic: {} partition: {} offset: {}".format(*line.split()) for line in lines
        )
        log = directory / "orders-0"
        assert "epoch: 0 startOffset: 0\n" in printed(log / "leader-epoch-checkpoint")
        topic_id = (log / "partition.metadata").read_text().rpartition(" ")[2]
        assert f"topicId: {topic_id}\n" in printed(log / "partition.metadata")


def printed(path: Path, options: str = "") -> str:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        assert main(TOOL, ["--files", str(path), *shlex.split(options)]) == 0, err.getvalue()
    return out.getvalue()
