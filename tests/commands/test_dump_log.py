"""`kavka dump-log` prints what Apache Kafka's DumpLogSegments prints, of whole and damaged files.

Exceptions: checkpoints, `meta.properties`, `partition.metadata` and the files of the coordination
service, which that tool can't read; words that are no options, which that tool passes over; what is
no number, which it finds out after its first line.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import os
import random
import re
import shlex
import shutil
import struct
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from commands.dump_difference import damaged, difference
from kavka.compat_tests.raw.codec.batches import BASE_TIMESTAMP_MS, Written, build, patch
from kavka.compat_tests.raw.codec.message_sets import LOG_APPEND_TIME, message, several, wrapped
from kavka.log.fs import OsFs
from kavka.tools.admin.command import main
from kavka.tools.dump_log.command import TOOL
from kavka.tools.dump_log.java_values import INT_MAX
from kavka.zktree.api import Create, Delete, SetData
from kavka.zktree.storage import Storage, read_tree
from kavka.zktree.storage_format import (
    encode_node,
    encode_snapshot_start,
    encode_transaction,
)
from kavka.zktree.tree import CloseSession, MultiTransaction, Node, TreeOp
from support import java
from support.broker import Kavka
from support.clients.kafka_python import create_topic
from support.java_tools import Tools
from support.oracle import ApacheKafka
from support.paths import ROOT
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
    --files FILE --value-decoder-class ''
    --files FILE --key-decoder-class=
    --files FILE --offsets-decoder
    --files FILE --transaction-log-decoder
    --files FILE --share-group-state-decoder
    --files FILE --cluster-metadata-decoder
    --files FILE --remote-log-metadata-decoder
"""
SKIPPING = "--files FILE --skip-record-metadata --offsets-decoder"
OF_INDEXES = """
    --files FILE
    --files FILE --index-sanity-check
    --files FILE --verify-index-only
    --files FILE --max-message-size 100
    --files FILE --max-message-size -1
"""
ONLY_KAVKAS = (
    *("coordination.log", "coordination.snapshot", "meta.properties", "partition.metadata"),
    *("leader-epoch-checkpoint", "replication-offset-checkpoint"),
)
DOCS = ROOT / "docs"

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
    --files DIR/00000000000000000005-0000000007.checkpoint
    --files DIR/00000000000000000005_0000000007.more.checkpoint
    --files DIR/99999999999999999999-0000000007.checkpoint
    --files DIR/00000000000000000005-9999999999.checkpoint
    --files DIR/00000000000000000005-7.checkpoint
    --files DIR/00000000000000000003.log
    --files DIR/00000000000000000003.index
    --files DIR/٣.log
    --files DIR//00000000000000000000.index,DIR/name.unknown,DIR/00000000000000000000.log,,
    --files ,
    --files ''
    --print-data-log
    --files
    --files a --files b
    --files DIR/00000000000000000000.log --no-such-option
"""
EMPTY = (
    "name.log",
    "name.unknown",
    "no-suffix",
    "name.checkpoint",
    "00000000000000000005-0000000007.checkpoint",
    "00000000000000000005_0000000007.more.checkpoint",
    "99999999999999999999-0000000007.checkpoint",
    "00000000000000000005-9999999999.checkpoint",
    "00000000000000000005-7.checkpoint",
    "٣.log",
)


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


def test_whole_files(data: list[Path], tools: Tools) -> None:
    found = [
        difference(tools, shlex.split(line.replace("FILE", str(path))))
        for path in files(data)
        for line in lines_for(path)
    ]
    assert len(found) > 500
    assert not [differing for differing in found if differing]


def test_damaged_files(data: list[Path], tools: Tools, tmp_path: Path) -> None:
    chance = random.Random(1)
    all_files = [path for path in files(data) if path.stat().st_size < DAMAGED_BYTES_MAX]
    found = []
    for number in range(DAMAGES):
        path = chance.choice(all_files)
        copy = tmp_path / str(number)
        copy.mkdir()
        for file in filter(Path.is_file, path.parent.iterdir()):
            shutil.copy(file, copy)
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
    assert not [differing for differing in found if differing]


def test_what_can_not_be_done(data: list[Path], tools: Tools, tmp_path: Path) -> None:
    for path in (data[0] / "by-log-0").iterdir():
        shutil.copy(path, tmp_path)
    for name in EMPTY:
        (tmp_path / name).write_bytes(b"")
    shutil.copy(tmp_path / f"{0:020}.log", tmp_path / f"{3:020}.log")
    os.truncate(tmp_path / f"{3:020}.log", INT_MAX + 1)
    (tmp_path / f"{3:020}.index").write_bytes(b"")
    lines = WRONG.replace("DIR", str(tmp_path)).strip().splitlines()
    found = [difference(tools, shlex.split(line)) for line in lines]
    assert not [differing for differing in found if differing]


def test_complaints_of_many_files(tools: Tools, tmp_path: Path) -> None:
    """They come in the order of a map of Java's, which grows with the 14th file, or with the 13th
    if that has two."""
    batches = b"".join(patch(build([Written()]), base_offset=offset) for offset in (5, 7, 100))
    found = []
    for count, gaps in ((2, 3), (13, 1), (13, 3), (14, 1), (40, 2)):
        paths = [tmp_path / f"{count}-{gaps}" / f"{number:020}.log" for number in range(count)]
        paths[0].parent.mkdir()
        for path in paths:
            path.write_bytes(batches[: len(batches) // 3 * gaps])
            path.with_suffix(".index").write_bytes(struct.pack(">iiii", 1, 0, 6, 0)[: gaps * 8])
            path.with_suffix(".timeindex").write_bytes(struct.pack(">qiqi", 9, 5, 8, 7))
        for suffix in (".log", ".index", ".timeindex"):
            names = ",".join(str(path.with_suffix(suffix)) for path in paths)
            found.append(difference(tools, ["--files", names, "--deep-iteration"]))
    assert not [differing for differing in found if differing]


def test_a_time_index_of_batches_whose_magic_is_damaged(tools: Tools, tmp_path: Path) -> None:
    """Of an old message only the timestamp is looked at, whatever the rest of it is."""
    found = []
    for magic in (0, 1, -1, -2, 3):
        batches = [patch(build(), base_offset=offset) for offset in (0, 3, 6)]
        batches[1] = patch(batches[1], magic=magic)
        path = tmp_path / str(magic) / f"{0:020}.timeindex"
        path.parent.mkdir()
        path.with_suffix(".log").write_bytes(b"".join(batches))
        path.with_suffix(".index").write_bytes(b"")
        entries = [(BASE_TIMESTAMP_MS, 2), (1, 3), (BASE_TIMESTAMP_MS, 5)]
        path.write_bytes(b"".join(struct.pack(">qi", *entry) for entry in entries))
        found.append(difference(tools, ["--files", str(path)]))
    assert not [differing for differing in found if differing]


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
    assert not [differing for differing in found if differing]


def test_damaged_message_sets(tools: Tools, tmp_path: Path) -> None:
    chance = random.Random(2)
    found = []
    for number in range(DAMAGES):
        name, content = chance.choice(list(old_segments(number % 2).items()))
        path = tmp_path / f"{number}-{name}" / f"{0:020}.log"
        path.parent.mkdir()
        path.write_bytes(damaged(chance, content))
        line = chance.choice([*lines_for(path), SKIPPING]).replace("FILE", str(path))
        found.append(difference(tools, shlex.split(line)))
    # a damaged size may be more than Java's heap has
    assert not [
        differing for differing in found if differing and "OutOfMemoryError" not in differing
    ]


def old_segments(magic: int) -> dict[str, bytes]:
    messages = several(12, magic=magic)
    segments = {"plain": b"".join(messages), "crc": message(magic=magic, crc=7)}
    for codec in ("gzip", "snappy", "lz4"):
        segments[codec] = wrapped(messages, codec, magic=magic, offset=11)
        segments[f"{codec}-moved"] = wrapped(messages, codec, magic=magic, offset=111)
        segments[f"{codec}-zero"] = wrapped(messages, codec, magic=magic, offset=0)
    others = several(12, magic=1 - magic)
    segments["other-magic"] = wrapped(others, "gzip", magic=magic, offset=11)
    segments["within"] = wrapped(
        [*messages, wrapped(messages, "gzip", magic=magic, offset=12)],
        "gzip",
        magic=magic,
        offset=12,
    )
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
        assert all(entry["file"] == str(path) and entry["kind"] for entry in found)
        if path.suffix == ".log":
            assert len(found) == text.count("isvalid: "), path


def coordination_files(directory: Path) -> Path:
    """A directory with a snapshot of the coordination service, and operations of every kind."""
    directory.mkdir()
    storage = Storage(OsFs(), str(directory))
    node = Node(b"x", 1, 1, 1, 5, 5, 0, 0, 0)
    storage.replace_log([encode_snapshot_start(1, 1), encode_node("/a", node)])
    ops: list[TreeOp] = [Create("/a/b"), SetData("/a", b"y"), Delete("/a/b"), CloseSession(7)]
    storage.append([encode_transaction(MultiTransaction(2, 5, 7, ops))])
    storage.close()
    return directory


def test_the_page_names_every_field(data: list[Path], tmp_path: Path) -> None:
    """Of every kind of entry, all that it may have and no more."""
    readable = (
        content for name, content in old_segments(1).items() if name not in ("within", "crc")
    )
    (old := tmp_path / f"{0:020}.log").write_bytes(b"".join(readable) + b"cut")
    index = next(path for path in files(data) if path.suffix == ".index" and path.stat().st_size)
    dumps = [
        printed(old, "--print-data-log --output json"),
        printed(index, "--index-sanity-check --output json"),
        *(printed(path, "--print-data-log --output json") for path in files(data)),
        *(
            printed(path, "--deep-iteration --print-data-log --output json")
            for directory in (*data, coordination_files(tmp_path / "metadata"))
            for path in sorted(directory.rglob("*"))
            if path.name in ONLY_KAVKAS and path.stat().st_size
        ),
    ]
    found: defaultdict[str, set[str]] = defaultdict(set)
    for line in itertools.chain.from_iterable(map(str.splitlines, dumps)):
        entry = json.loads(line)
        found[entry.pop("kind")].update(entry.keys() - {"file"})
    page = (DOCS / "tools.md").read_text().partition("### dump-log\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| .* \| (.*) \|$", page, re.MULTILINE)
    assert {kind: set(re.findall(r"`(\w+)`", fields)) for kind, fields in rows} == found


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
