"""`kavka mirror`: nothing lost or doubled, in order, whatever is killed; groups go on exactly.

MIRROR_RECORDS (20,000; `make mirror` sets 1,000,000), MIRROR_TOPICS (5; there 20) and MIRROR_KILLS
(1; there 3), how often each of source, target and mirror is killed, set the size; MIRROR_SEED
replays a run's moments.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from commands import mirroring
from commands.mirroring import MirrorProcess, Watch
from kavka.compat_tests.raw.codec.batches import Written, build, patch
from kavka.tools.admin.command import main
from kavka.tools.admin.configs import TOOL as CONFIGS_TOOL
from kavka.tools.admin.delete_records import TOOL as DELETE_RECORDS
from kavka.tools.mirror import looks as looks_module
from kavka.tools.mirror import mirroring as mirroring_module
from kavka.tools.mirror.clusters import Clusters
from kavka.tools.mirror.look import Look
from kavka.tools.mirror.mirror import TOOL
from kavka.tools.mirror.topic_plan import Choice
from kavka.tools.mirror.unsent import Unsent
from support.broker import Kavka
from support.clients.kafka_python import create_topic
from support.oracle import ApacheKafka
from support.ports import HOST
from support.process import BrokerProcess, running
from support.raw import RawConnection
from support.spark import delete_topic
from support.wait import eventually, random_moment

RECORDS = int(os.environ.get("MIRROR_RECORDS", "20000"))
TOPICS = int(os.environ.get("MIRROR_TOPICS", "5"))
KILLS = int(os.environ.get("MIRROR_KILLS", "1"))
SEED = int(os.environ.get("MIRROR_SEED") or random.SystemRandom().randrange(2**32))
MOMENT_S = 0.3
CONFIGS = {"retention.ms": "-1", "segment.bytes": "1048576"}
MUCH = 70_000_000
"""More than 64 MiB opened is refused by Kavka; twice as much by librdkafka as it is."""

DELETED = "were deleted in the source before they were copied"
OTHER_GROUPS: Mapping[str, tuple[int, Mapping[str, Any]]] = {
    "Share": (1, {"rack_id": None, "subscribed_topic_names": ["t"]}),
    "Streams": (
        0,
        {
            "endpoint_information_epoch": 0,
            "instance_id": None,
            "rack_id": None,
            "rebalance_timeout_ms": 60_000,
            "topology": {
                "epoch": 1,
                "subtopologies": [
                    {
                        "subtopology_id": "0",
                        "source_topics": ["t"],
                        "source_topic_regex": [],
                        "state_changelog_topics": [],
                        "repartition_sink_topics": [],
                        "repartition_source_topics": [],
                        "copartition_groups": [],
                    }
                ],
            },
            "active_tasks": [],
            "standby_tasks": [],
            "warmup_tasks": [],
            "process_id": str(UUID(int=1)),
            "user_endpoint": None,
            "client_tags": [],
            "task_offsets": None,
            "task_end_offsets": None,
            "shutdown_application": False,
        },
    ),
}
"""The first heartbeat of a member makes such a group."""

PAIRS = {
    "Kavka to Kavka": (Kavka, Kavka),
    "Apache Kafka to Kavka": (ApacheKafka, Kavka),
    "Kavka to Apache Kafka": (Kavka, ApacheKafka),
}


@pytest.fixture(params=PAIRS)
def pair(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[tuple[BrokerProcess, BrokerProcess]]:
    kinds = PAIRS[request.param]
    source, target = (
        kind(tmp_path / side, mirroring.SETTINGS)
        for side, kind in zip(("source", "target"), kinds, strict=True)
    )
    with running([source, target]):
        yield source, target


@pytest.fixture
def mirror(pair: tuple[BrokerProcess, BrokerProcess], tmp_path: Path) -> Iterator[MirrorProcess]:
    process = MirrorProcess(*pair, tmp_path)
    try:
        yield process
    finally:
        process.close()


def kill(victim: str, source: BrokerProcess, target: BrokerProcess, mirror: MirrorProcess) -> None:
    """SIGKILL, and a new start."""
    if victim == "mirror":
        mirror.kill()
        mirror.start()
    else:
        broker = source if victim == "source" else target
        broker.kill()
        broker.start()


@pytest.mark.timeout(900 + RECORDS // 500)
def test_each_record_is_there_once_whatever_is_killed(
    pair: tuple[BrokerProcess, BrokerProcess], mirror: MirrorProcess
) -> None:
    print(f"MIRROR_SEED={SEED} MIRROR_RECORDS={RECORDS} MIRROR_KILLS={KILLS}")
    chance = random.Random(SEED)
    source, target = pair
    topics = mirroring.topic_names(TOPICS)
    for topic in topics[:-1]:
        create_topic(source.bootstrap, topic, mirroring.PARTITIONS, CONFIGS)
    mirror.start()
    victims = ["source", "target", "mirror"] * KILLS
    chance.shuffle(victims)
    watch = Watch(target, topics)
    share = RECORDS // (len(victims) + 1)
    for number, victim in enumerate(victims):
        mirroring.fill(source.bootstrap, topics[:-1], share, number * share)
        sent = share * number + chance.randrange(share) // 2
        watch.await_offsets(sent * 4 // 5, mirror)  # what was aborted does not come
        random_moment(chance, MOMENT_S)
        kill(victim, source, target, mirror)
    create_topic(source.bootstrap, topics[-1], mirroring.PARTITIONS, CONFIGS)
    mirroring.fill(source.bootstrap, topics, share, RECORDS)
    here = mirroring.read(source.bootstrap, topics)
    watch.await_offsets(sum(map(len, here.values())), mirror)
    offsets = mirroring.places_to_commit(here, chance)
    mirroring.commit(source.bootstrap, "readers", offsets)
    assert mirror.end() == 128 + signal.SIGINT, mirror.output()
    mirror.start("--until-caught-up")
    assert mirror.end(None) == 0, mirror.output()
    there = mirroring.read(target.bootstrap, topics)
    found = [*mirroring.differences(here, there)]
    translated = mirroring.committed(target.bootstrap, "readers", topics)
    found += mirroring.misplaced(here, there, offsets, translated)
    assert not found, "\n".join([*found[:20], mirror.output()])


@pytest.mark.parametrize("pair", ["Kavka to Kavka"], indirect=True)
def test_offsets_of_the_target_s_own_consumers_stay(
    pair: tuple[BrokerProcess, BrokerProcess], mirror: MirrorProcess
) -> None:
    source, target = pair
    create_topic(source.bootstrap, "t0", mirroring.PARTITIONS)
    mirroring.fill(source.bootstrap, ["t0", "t0"], 300)
    place = ("t0", 0)

    def translated(offset: int) -> int:
        mirroring.commit(source.bootstrap, "readers", {place: offset})
        assert mirror.start("--until-caught-up").end(None) == 0, mirror.output()
        return mirroring.committed(target.bootstrap, "readers", ["t0"])[place][0]

    assert translated(20) == 20
    assert translated(10) == 10  # it follows the source, backwards too
    assert '"offsets": 1, "foreign": 0' in mirror.output()
    mirroring.commit(target.bootstrap, "readers", {place: 20})  # the mirror's own, the last but one
    assert translated(12) == 20
    mirroring.commit(target.bootstrap, "readers", {place: 30})
    assert translated(13) == 30
    assert '"offsets": 0, "foreign": 1' in mirror.output()


@pytest.mark.parametrize("pair", ["Kavka to Kavka"], indirect=True)
def test_it_says_once_what_was_deleted_before_it_was_copied(
    pair: tuple[BrokerProcess, BrokerProcess], mirror: MirrorProcess, tmp_path: Path
) -> None:
    """A transaction's marker alone is nothing that was to be copied."""
    source, _ = pair
    for topic in ("t0", "t1"):
        create_topic(source.bootstrap, topic, mirroring.PARTITIONS)

    def delete_all() -> None:
        places = [("t1", at) for at in range(mirroring.PARTITIONS)]
        partitions = [{"topic": topic, "partition": at, "offset": -1} for topic, at in places]
        path = tmp_path / "deleted.json"
        path.write_text(json.dumps({"partitions": partitions, "version": 1}))
        words = f"--bootstrap-server {source.bootstrap} --offset-json-file {path}"
        assert main(DELETE_RECORDS, words.split()) == 0

    def said() -> int:
        before = mirror.output().count(DELETED) if mirror.has_run else 0
        assert mirror.start("--until-caught-up").end(None) == 0, mirror.output()
        return mirror.output().count(DELETED) - before

    mirroring.fill(source.bootstrap, ["t0", "t1"], 300)
    assert said() == 0
    delete_all()
    assert said() == 0, mirror.output()
    mirroring.fill(source.bootstrap, ["t0", "t1"], 300)
    delete_all()
    assert said() == mirroring.PARTITIONS, mirror.output()
    assert said() == 0, mirror.output()


def has_joined(client: RawConnection, name: str, version: int, **values: Any) -> bool:
    """Whether a new member could join a group of this kind."""
    client.request("FindCoordinator", 2, key=name, key_type=0)
    joined = client.request(
        f"{name}GroupHeartbeat",
        version,
        group_id=name.lower(),
        member_id=str(uuid4()),
        member_epoch=0,
        **values,
    )
    return int(joined["error_code"]) == 0


def test_groups_that_are_no_consumer_groups_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = ApacheKafka(tmp_path / "source", mirroring.SETTINGS)
    target = Kavka(tmp_path / "target", mirroring.SETTINGS)
    with running([source, target]):
        create_topic(source.bootstrap, "t", 1)
        with RawConnection(HOST, source.port) as client:
            for name, (version, values) in OTHER_GROUPS.items():
                eventually(
                    partial(has_joined, client, name, version, **values),
                    within_s=60,
                    what="the coordinator has the topic of the groups",
                )
        way = f"--source {source.bootstrap} --target {target.bootstrap} --until-caught-up"
        assert main(TOOL, [*way.split(), "--topic", "t"]) == 0
    found = capsys.readouterr().err
    assert "group share is a share group, whose offsets are not translated" in found
    assert "group streams is a streams group, whose offsets are not translated" in found


@pytest.mark.parametrize("pair", ["Kavka to Kavka"], indirect=True)
def test_a_topic_that_is_not_there_is_named(
    pair: tuple[BrokerProcess, BrokerProcess],
    mirror: MirrorProcess,
    capsys: pytest.CaptureFixture[str],
) -> None:
    source, target = pair
    create_topic(source.bootstrap, "t0", 1)
    way = f"--source {source.bootstrap} --target {target.bootstrap} --topic t0 --topic tyop"
    assert main(TOOL, [*way.split(), "--until-caught-up"]) == 1
    assert capsys.readouterr().err == "the source has no topic tyop to copy\n"
    mirror.start("--topic", "typo")
    assert mirror.end() == 128 + signal.SIGINT
    assert "the source has no topic typo to copy: waits for it" in mirror.output()


@pytest.mark.parametrize("pair", ["Kavka to Kavka"], indirect=True)
def test_a_second_mirror_of_the_name_ends_the_first(
    pair: tuple[BrokerProcess, BrokerProcess], mirror: MirrorProcess, tmp_path: Path
) -> None:
    source, target = pair
    create_topic(source.bootstrap, "t0", mirroring.PARTITIONS)
    mirroring.fill(source.bootstrap, ["t0", "t0"], 300)
    watch = Watch(target, ["t0"])
    mirror.start()
    watch.await_offsets(200, mirror)
    second = MirrorProcess(source, target, tmp_path / "source").start()
    try:

        def is_fenced() -> bool:
            """By the second one's first transaction; it hears of it in its own next one."""
            mirroring.fill(source.bootstrap, ["t0", "t0"], 30)
            return not mirror.runs

        eventually(is_fenced, within_s=60, what="the first mirror ends", detail=mirror.output)
        assert mirror.end(None) == 1, mirror.output()
        assert "another mirror of the name" in mirror.output()
        here = mirroring.read(source.bootstrap, ["t0"])
        watch.await_offsets(sum(map(len, here.values())), second)
        assert second.end() == 128 + signal.SIGINT, second.output()
    finally:
        second.close()
    assert not [*mirroring.differences(here, mirroring.read(target.bootstrap, ["t0"]))]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", 'Missing required argument "[source]"'),
        ("--target h:1 --topic t", 'Missing required argument "[source]"'),
        ("--source h:1 --target h:1", "Which topics? Give --topic or --include"),
        ("--source h:1 --target h:1 --include (", "--include ( is no regular expression"),
        ("--source h:1 --target h:1 --topic t --name a/b", "--name is of ASCII letters"),
        ("--source h:1 --target h:1 --topic t --refresh-ms 0", "--refresh-ms is 1 at least"),
        ("--source h --target h:1 --topic t", "--source: 'h' is not HOST:PORT"),
        ("--source 127.0.0.1:1 --target 127.0.0.1:1 --topic t", "no broker answers"),
        ("--source h:1 --target h:1 --topic t --no-groups --groups g", "can't be used with"),
        ("--source h:1 --target h:1 --topic __consumer_offsets", "keep in it is never copied"),
        (
            "--source h:1 --target h:1 --topic t --topic kavka-mirror-x",
            "--topic kavka-mirror-x: wh",
        ),
        ("--source h:1 --target h:1 --include t. --exclude tt --copy-again tt", "it is not copied"),
        ("--frobnicate", "frobnicate is not a recognized option"),
    ],
)
def test_what_makes_no_sense_is_said_in_a_line(
    line: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(TOOL, line.split()) == 1
    printed = capsys.readouterr()
    assert said in printed.err and printed.err.count("\n") == 1
    assert printed.out == ""


def set_config(broker: BrokerProcess, topic: str, config: str) -> None:
    """From now on."""
    words = f"--bootstrap-server {broker.bootstrap} --alter --topic {topic}"
    assert main(CONFIGS_TOOL, [*words.split(), "--add-config", config]) == 0


def test_what_it_can_t_copy_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = (Kavka(tmp_path / side, mirroring.SETTINGS) for side in ("source", "target"))
    Unsent().add([Message(topic="t", partition=0, headers=[("k", b"")])] * 100)  # as hot as it gets
    with running([source, target]):
        for topic in ("big", "odd", "keyless", "much"):
            create_topic(source.bootstrap, topic, 1)
        with RawConnection(HOST, source.port) as client:
            text = random.Random(1).randbytes(800_000).hex().encode()  # lz4 gains nothing here
            client.produce("big", 0, bytes(build([Written(value=text)], codec="zstd")))
            odd = build([Written(headers=[("kk", b"")])])
            client.produce("odd", 0, bytes(patch(odd.replace(b"kk", b"\xff\xfe"))))
            keyless = [Written(key=b"k"), Written(key=None), Written(key=b"k")]
            client.produce("keyless", 0, bytes(build(keyless)))
            for value in (b"before", bytes(MUCH), b"behind"):
                written = [Written(key=b"k", value=value)]
                client.produce("much", 0, bytes(build(written, codec="zstd")))
        for topic in ("keyless", "much"):
            set_config(source, topic, "cleanup.policy=compact")
        way = f"--source {source.bootstrap} --target {target.bootstrap} --until-caught-up"
        monkeypatch.setattr(mirroring_module, "RETRY_S", 0.05)
        for topic, why in {
            "big": "give the topic a larger max.message.bytes in the target (it stays so), or the",
            "odd": "the record of odd-0 at offset 0 has a header whose key is not UTF-8",
            "keyless": (
                "the target refuses the record of keyless-0 at offset 1 of the source: "
                "INVALID_RECORD: Broker: Broker failed to validate record, 2 times now; it has no "
                "key"
            ),
            "much": (
                "the target refuses the record of much-0 at offset 1 of the source: UNKNOWN: "
                "Unknown broker error, 5 times now; leave the topic out"
            ),
        }.items():
            assert main(TOOL, [*way.split(), "--topic", topic, "--name", topic]) == 1
            assert why in capsys.readouterr().err
        set_config(target, "big", "max.message.bytes=2000000")
        assert main(TOOL, [*way.split(), "--topic", "big", "--name", "big"]) == 0


@pytest.mark.parametrize("pair", ["Kavka to Kavka", "Apache Kafka to Kavka"], indirect=True)
def test_a_batch_that_unpacks_to_more_than_librdkafka_takes_by_default(
    pair: tuple[BrokerProcess, BrokerProcess], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = pair
    create_topic(source.bootstrap, "much", 1)
    producer = Producer(
        {
            "bootstrap.servers": source.bootstrap,
            "compression.type": "zstd",
            "message.max.bytes": 4 * MUCH,
        }
    )
    for value in (b"before", bytes(2 * MUCH), b"behind"):
        producer.produce("much", value)
        assert producer.flush(60) == 0
    way = f"--source {source.bootstrap} --target {target.bootstrap} --until-caught-up --topic much"
    narrow = tmp_path / "narrow.properties"
    narrow.write_text("receive.message.max.bytes=100000000\n")
    assert main(TOOL, [*way.split(), "--source-config", str(narrow)]) == 1
    said = capsys.readouterr()
    assert "1 records copied, 2 offsets behind" in said.out
    assert "much-0 can't be read from offset 1 on: _BAD_COMPRESSION" in said.err
    assert main(TOOL, way.split()) == 0
    assert "2 records copied, 0 offsets behind" in capsys.readouterr().out


@pytest.mark.parametrize("codec", ["none", "lz4"])
@pytest.mark.parametrize("pair", ["Kavka to Kavka", "Apache Kafka to Kavka"], indirect=True)
def test_a_damaged_batch_is_not_copied(
    pair: tuple[BrokerProcess, BrokerProcess], codec: str, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = pair
    create_topic(source.bootstrap, "t", 1)
    with RawConnection(HOST, source.port) as client:
        for value in (b"before", b"damaged", b"behind"):
            batch = build([Written(value=value * 100)], codec=codec)
            client.produce("t", 0, bytes(batch))
    source.stop()
    (log,) = source.data_dir.glob("t-0/*.log")
    data = bytearray(log.read_bytes())
    second = 12 + int.from_bytes(data[8:12])
    third = second + 12 + int.from_bytes(data[second + 8 : second + 12])
    data[third - 2 if codec == "none" else (second + third) // 2 + 30] ^= 0x10
    log.write_bytes(data)
    source.start()
    reader = Consumer({"bootstrap.servers": source.bootstrap, "group.id": "g"})
    eventually(
        lambda: reader.get_watermark_offsets(TopicPartition("t", 0), mirroring.WITHIN_S)[1] == 3,
        within_s=mirroring.WITHIN_S,
        what="the source has its high watermark again",
    )
    reader.close()
    way = f"--source {source.bootstrap} --target {target.bootstrap} --until-caught-up --topic t"
    assert main(TOOL, way.split()) == 1
    said = capsys.readouterr()
    assert "1 records copied, 2 offsets behind" in said.out
    assert "t-0 can't be read from offset 1 on: _BAD_MSG" in said.err


@pytest.mark.parametrize("pair", ["Kavka to Kavka"], indirect=True)
def test_a_source_that_has_lost_what_was_copied_is_found_by_its_leader_epochs(
    pair: tuple[BrokerProcess, BrokerProcess], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has as many records as before: others, at the offsets of those that it has lost."""
    source, target = pair
    create_topic(source.bootstrap, "t", 1)
    way = f"--source {source.bootstrap} --target {target.bootstrap} --until-caught-up --topic t"

    def write(count: int, value: bytes) -> None:
        with RawConnection(HOST, source.port) as client:
            for _ in range(count):
                client.produce("t", 0, bytes(build([Written(value=value)])))

    write(10, b"stays")
    shutil.copytree(source.data_dir, tmp_path / "copy")
    write(10, b"lost")
    assert main(TOOL, way.split()) == 0
    source.kill()
    shutil.rmtree(source.data_dir)
    shutil.copytree(tmp_path / "copy", source.data_dir)
    source.start()
    write(30, b"other")
    capsys.readouterr()
    assert main(TOOL, way.split()) == 1
    said = capsys.readouterr().err
    assert "t-0: records up to offset 19 were copied, but the source has lost those from 10" in said


@pytest.mark.parametrize("pair", ["Kavka to Kavka"], indirect=True)
def test_a_topic_that_is_deleted_before_all_is_copied_is_named(
    pair: tuple[BrokerProcess, BrokerProcess],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source, target = pair
    for topic in ("t0", "t1"):
        create_topic(source.bootstrap, topic, mirroring.PARTITIONS)
    mirroring.fill(source.bootstrap, ["t0", "t1"], 300)
    way = f"--source {source.bootstrap} --target {target.bootstrap} --until-caught-up"
    words = [*way.split(), "--include", "t.*", "--refresh-ms", "500"]
    assert main(TOOL, words) == 0
    mirroring.fill(source.bootstrap, ["t0", "t1"], 300, 300)
    look = Clusters.look

    def looked(clusters: Clusters, choice: Choice) -> Look:
        found = look(clusters, choice)
        if "t0" in found.source:
            delete_topic(source.bootstrap, "t0")
        return found

    monkeypatch.setattr(Clusters, "look", looked)
    monkeypatch.setattr(looks_module, "GONE_MS", 1_000)
    capsys.readouterr()
    assert main(TOOL, words) == 1
    said = capsys.readouterr()
    assert "t0 was deleted in the source: nothing more of it is copied" in said.err
    assert "topic t0: deleted in the source before all records were copied" in said.err
    here, there = (mirroring.read(broker.bootstrap, ["t1"]) for broker in pair)
    assert not [*mirroring.differences(here, there)]


@pytest.mark.parametrize("pair", ["Kavka to Kavka", "Kavka to Apache Kafka"], indirect=True)
def test_a_topic_of_small_batches_is_copied(pair: tuple[BrokerProcess, BrokerProcess]) -> None:
    """Its records don't compress; many together would be too large for it."""
    source, target = pair
    create_topic(source.bootstrap, "small", mirroring.PARTITIONS, {"max.message.bytes": "20000"})
    producer = Producer({"bootstrap.servers": source.bootstrap, "batch.size": 10_000})
    chance = random.Random(SEED)
    for _ in range(300):
        producer.produce("small", chance.randbytes(1_500), partition=0)
    assert producer.flush(60) == 0
    way = f"--source {source.bootstrap} --target {target.bootstrap} --until-caught-up"
    assert main(TOOL, [*way.split(), "--topic", "small"]) == 0
    here, there = (mirroring.read(broker.bootstrap, ["small"]) for broker in pair)
    assert len(here["small", 0]) == 300
    assert not [*mirroring.differences(here, there)]


@pytest.mark.parametrize("pair", ["Kavka to Kavka"], indirect=True)
def test_a_config_that_has_not_followed_yet_ends_nothing(
    pair: tuple[BrokerProcess, BrokerProcess],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As when it was changed in the source since the last look."""
    source, target = pair
    create_topic(source.bootstrap, "t", mirroring.PARTITIONS)
    producer = Producer({"bootstrap.servers": source.bootstrap})
    producer.produce("t", random.Random(SEED).randbytes(5_000), partition=0)
    assert producer.flush(60) == 0
    look, looks = Clusters.look, []

    def looked(clusters: Clusters, choice: Choice) -> Look:
        looks.append(look(clusters, choice))
        if len(looks) == 1:
            set_config(target, "t", "max.message.bytes=1000")
        return looks[-1]

    monkeypatch.setattr(Clusters, "look", looked)
    monkeypatch.setattr(mirroring_module, "RETRY_S", 0.05)
    way = f"--source {source.bootstrap} --target {target.bootstrap} --until-caught-up"
    assert main(TOOL, [*way.split(), "--topic", "t"]) == 0
    assert "begins anew: the target refuses the record of t-0" in capsys.readouterr().err
    here, there = (mirroring.read(broker.bootstrap, ["t"]) for broker in pair)
    assert len(here["t", 0]) == 1
    assert not [*mirroring.differences(here, there)]


def test_a_cluster_is_not_mirrored_to_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broker = Kavka(tmp_path, mirroring.SETTINGS)
    with running([broker]):
        words = f"--source {broker.bootstrap} --target {broker.bootstrap} --topic t"
        assert main(TOOL, words.split()) == 1
    assert capsys.readouterr().err == "--source and --target are of the same cluster\n"
