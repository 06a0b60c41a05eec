"""`kavka doctor DIRECTORY` finds nothing in a healthy log directory, Kavka's and Apache Kafka's,
and each fault that is made there by its name, and nothing else. It changes nothing; and what it
says of a start is what `kavka start` then does."""

from __future__ import annotations

import hashlib
import random
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from commands.directory_faults import FAULTS, RECORD_BYTES, UNCLEAN, Fault
from commands.examining import Examined, examined_files
from kavka.log import dir_names
from kavka.log.checkpoint import decode_offsets
from kavka.log.fs import OsFs, Volume
from kavka.tools.doctor.at_rest.reading import ReadOnlyFs
from support import java
from support.broker import Kavka
from support.clients.kafka_python import create_topic
from support.oracle import ApacheKafka
from support.process import STOP_WITHIN_S, BrokerProcess, running
from support.wait import eventually

PARTITION: Final = TopicPartition("t", 0)
SETTINGS: Final = {
    "broker.id": "1",
    "log.segment.bytes": str(1 << 20),
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
ENDS_AT: Final = re.compile(r"to end at offset (\d+)")


def use(bootstrap: str) -> None:
    """Some segments with transactions, of which some were aborted, and a compacted topic."""
    create_topic(bootstrap, "t", 2)
    create_topic(bootstrap, "compacted", 1, {"cleanup.policy": "compact"})
    producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id="x")
    producer.init_transactions()
    for number in range(16):
        producer.begin_transaction()
        for part in range(20):
            producer.send("t", bytes(RECORD_BYTES), partition=part % 2).get(timeout=60)
            producer.send("compacted", b"v", key=b"%d" % (part % 3))
        (producer.commit_transaction if number % 2 else producer.abort_transaction)()
    producer.close()
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, group_id="g", auto_offset_reset="earliest"
    )
    consumer.assign([PARTITION])
    eventually(lambda: consumer.poll(timeout_ms=1000), within_s=60, what="a record is read")
    consumer.commit()
    consumer.close()


class Made(NamedTuple):
    """A broker's directory after a clean shutdown, and one after SIGKILL; not to be changed."""

    clean: Path
    killed: Path
    live: Examined
    """What was found while the broker ran."""


def make(kind: type[BrokerProcess], home: Path) -> Made:
    broker = kind(home / "broker", SETTINGS)
    if isinstance(broker, ApacheKafka):
        del broker.settings["broker.id"]
    with running([broker]):
        use(broker.bootstrap)
        live = examined_files(str(broker.data_dir))
        broker.stop()
        shutil.copytree(broker.data_dir, home / "clean")
        broker.start()
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
        for _ in range(20):
            producer.send("t", bytes(RECORD_BYTES), partition=0).get(timeout=60)
        producer.close()
        broker.kill()
        shutil.copytree(broker.data_dir, home / "killed")
    return Made(home / "clean", home / "killed", live)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    yield make(Kavka, tmp_path_factory.mktemp("made"))


def test_nothing_is_found_where_all_is_well(made: Made) -> None:
    assert not examined_files(str(made.clean)).problems
    assert not made.live.problems
    assert "directory/in-use" in made.live.notes
    assert examined_files(str(made.killed)).problems == {UNCLEAN}


def test_nothing_is_found_where_apache_kafka_has_written(tmp_path: Path) -> None:
    java.program("java")
    made = make(ApacheKafka, tmp_path)
    clean = examined_files(str(made.clean))
    assert not clean.problems, clean.findings
    assert not made.live.problems, made.live.findings
    assert {"directory/kraft", "start/other-metadata"} <= clean.notes
    killed = examined_files(str(made.killed))
    assert killed.problems == {UNCLEAN}, killed.findings


KINDS: Final = [Kavka, ApacheKafka]
BUSY: Final = {
    "log.cleaner.backoff.ms": "100",
    "log.segment.bytes": str(1 << 20),
    "log.initial.task.delay.ms": "100",
    "log.retention.check.interval.ms": "300",
    "file.delete.delay.ms": "100",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}
COMPACTED: Final = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "100",
    "segment.ms": "500",
}
COMPACTED_UPTO: Final = 1500
COMPACTED_WITHIN_S: Final = 240


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_nothing_is_found_where_logs_were_compacted_and_deleted(
    kind: type[BrokerProcess], tmp_path: Path
) -> None:
    java.program("java")
    chance = random.Random(1)
    broker = kind(tmp_path / "broker", BUSY)
    with running([broker]):
        create_topic(broker.bootstrap, "c", 1, COMPACTED)
        create_topic(broker.bootstrap, "d", 1, {"retention.bytes": "1500000"})
        for number in range(40):
            write_transaction(broker.bootstrap, number, chance)
        checkpoint = broker.data_dir / dir_names.CLEANER_OFFSETS_FILE
        eventually(
            lambda: checkpoint.exists() and compacted_upto(checkpoint) >= COMPACTED_UPTO,
            within_s=COMPACTED_WITHIN_S,
            what="the topic is compacted",
        )
        live = examined_files(str(broker.data_dir))
        assert not live.problems, live.findings
        broker.stop()
        clean = examined_files(str(broker.data_dir))
        assert not clean.problems, clean.findings
        broker.start()
        write_transaction(broker.bootstrap, 0, chance)
        broker.kill()
        eventually(
            lambda: is_let_go(broker.data_dir),
            within_s=STOP_WITHIN_S,
            what="the cleaner's process, which holds the lock as well, has ended",
        )
        shutil.copytree(broker.data_dir, tmp_path / "killed")
        killed = examined_files(str(tmp_path / "killed"))
        assert killed.problems == {UNCLEAN}, killed.findings


def write_transaction(bootstrap: str, number: int, chance: random.Random) -> None:
    codec = ("gzip", None, "lz4")[number % 3]
    producer = KafkaProducer(
        bootstrap_servers=bootstrap, transactional_id=f"x{number % 3}", compression_type=codec
    )
    producer.init_transactions()
    producer.begin_transaction()
    for _ in range(60):
        producer.send("c", chance.randbytes(3000), key=b"%d" % chance.randrange(50))
        producer.send("d", chance.randbytes(3000))
    producer.send("c", None, key=b"%d" % (number % 7))
    producer.flush()
    (producer.abort_transaction if number % 4 == 3 else producer.commit_transaction)()
    producer.close()


def is_let_go(directory: Path) -> bool:
    """Whether no process has a log directory's lock."""
    try:
        OsFs().lock(str(directory / dir_names.LOCK_FILE)).release()
    except BlockingIOError:
        return False
    return True


def compacted_upto(checkpoint: Path) -> int:
    found = decode_offsets(checkpoint.read_bytes(), str(checkpoint))
    return found.get(("c", 0), 0)


# --- faults


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.name for fault in FAULTS])
def test_each_fault_is_named_and_a_start_does_what_was_said(
    fault: Fault, made: Made, tmp_path: Path
) -> None:
    broker = Kavka(tmp_path, SETTINGS | dict(word.split("=") for word in fault.words))
    data = broker.data_dir
    shutil.copytree(made.killed if fault.is_killed else made.clean, data)
    if fault.was_here:
        broker.start()
        broker.stop()
    fault.harm(data)
    before = content(data)
    settings = {"log.dirs": str(data), **broker.settings}
    words = [f"--override={key}={value}" for key, value in settings.items()]
    found = examined_files(*words)
    assert content(data) == before
    assert found.problems == fault.problems, found.findings
    assert fault.notes <= found.notes
    if not fault.words and fault.name != "missing metadata":  # with the defaults just the same
        assert examined_files(str(data)).problems == fault.problems
    try:
        check_start(broker, found)
    finally:
        broker.close()


def check_start(broker: Kavka, found: Examined) -> None:
    """What was said of a start is so."""
    said = [finding for finding in found.findings if finding["step"] == "start"]
    failing = [finding["found"] for finding in said if finding["problem"] == "start-fails"]
    broker.launch()
    if failing:
        assert broker.process is not None
        assert broker.process.wait(STOP_WITHIN_S) == 1
        broker.process = None
        assert failing[0].removeprefix("would fail: ") in broker.output()
        return
    broker.await_ready(broker.ready_within_s)
    lines = [finding["found"] for finding in said if finding["problem"] == "start-says"]
    for line in lines:
        assert line.removeprefix("would log: ") in broker.output()
    others = [
        line for line in broker.output().splitlines() if re.search(r" (WARNING|ERROR) ", line)
    ]
    cuts = [
        other for other in others if "no valid batch follows" in other or "damaged part" in other
    ]
    assert len(others) - len(cuts) == len(lines), others
    ends = [int(match[1]) for finding in said if (match := ENDS_AT.search(finding["found"]))]
    assert bool(cuts) == bool(ends)
    if ends:
        consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap)
        assert consumer.end_offsets([PARTITION]) == {PARTITION: ends[0]}
        consumer.close()
    broker.stop()


def content(directory: Path) -> dict[str, tuple[int, str]]:
    """Every file with the time of its last change."""
    return {
        str(path): (path.stat().st_mtime_ns, hashlib.sha256(path.read_bytes()).hexdigest())
        for path in directory.rglob("*")
        if path.is_file()
    }


# --- what needs more than one directory, or another disk


def test_a_log_in_two_directories(made: Made, tmp_path: Path) -> None:
    first, second = tmp_path / "one", tmp_path / "two"
    shutil.copytree(made.clean, first)
    shutil.copytree(made.clean / "t-0", second / "t-0")
    shutil.copy(made.clean / dir_names.CLEAN_SHUTDOWN_FILE, second)
    meta = (made.clean / dir_names.META_FILE).read_text()
    changed = re.sub(r"directory\.id=.*", "directory.id=AAAAAAAAQAaAAAAAAAAABA", meta)
    (second / dir_names.META_FILE).write_text(changed)
    broker = Kavka(tmp_path, {**SETTINGS, "log.dirs": f"{first},{second}"})
    found = examined_files(str(second), str(first))
    assert found.problems == {"directory/log-twice", "start/start-fails"}
    try:
        check_start(broker, found)
    finally:
        broker.close()


def test_a_directory_of_several_is_not_given(made: Made, tmp_path: Path) -> None:
    dirs = [tmp_path / name for name in ("one", "two")]
    broker = Kavka(tmp_path, {**SETTINGS, "log.dirs": ",".join(map(str, dirs))})
    with running([broker]):
        create_topic(broker.bootstrap, "t", 2)
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
        for index in (0, 1):
            producer.send("t", b"x", partition=index).get(timeout=60)
        producer.close()
        broker.stop()
        assert not examined_files(*map(str, dirs)).problems
        found = examined_files(str(dirs[0]))
        assert found.problems == {
            "metadata/missing-log",
            "start/offline-directory",
            "start/start-says",
        }
        broker.settings["log.dirs"] = str(dirs[0])
        broker.start()
        assert "is not in log.dirs any more" in broker.output()
        broker.stop()


def test_a_directory_of_a_cluster(made: Made, tmp_path: Path) -> None:
    """No ZooKeeper is asked."""
    broker = Kavka(tmp_path, {**SETTINGS, "zookeeper.connect": "127.0.0.1:1"})
    shutil.copytree(made.clean, broker.data_dir)
    words = [f"--override=log.dirs={broker.data_dir}", "--override=zookeeper.connect=127.0.0.1:1"]
    found = examined_files(*words, "--override=broker.id=1")
    assert found.problems == {"start/start-fails"}
    try:
        check_start(broker, found)
        (broker.data_dir / "coordination.log").unlink()
        assert not examined_files(*words, "--override=broker.id=1").problems
        assert examined_files(*words, "--override=broker.id=2").problems == {"start/start-fails"}
    finally:
        broker.close()


def test_a_full_disk(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ReadOnlyFs, "volume", lambda *_: Volume(1 << 30, 0))
    found = examined_files(str(made.clean))
    assert found.problems == {"directory/disk-full", "start/start-fails", "start/start-says"}
    assert "No space left on device" in found.of("start-fails")["found"]


def test_wrong_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from kavka.cli import main

    config = tmp_path / "server.properties"
    config.write_text("no.such.setting\n")
    for words, wrong in (
        ((str(tmp_path / "none"),), f"there is no directory {tmp_path}/none"),
        (("--config", str(tmp_path / "none")), "none can't be read: No such file or directory"),
        (("--config", str(config), str(tmp_path)), "can't be used with option"),
        ((str(tmp_path), "--bootstrap-server", "x:1"), "can't be used with option"),
        (("--override", "log.dirs"), "--override log.dirs is not of the form key=value"),
    ):
        assert main(["doctor", *words]) == 1
        said = capsys.readouterr()
        assert wrong in said.err and not said.out and said.err.count("\n") == 1
