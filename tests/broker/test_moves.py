"""Replicas that move between log directories of a broker that is in use, and killed at random.

Stock clients write, read and commit meanwhile, in transactions and without, and all records are
compared. MOVE_KILLS (3; `make moves` sets 40) and MOVE_SEED as in the tests of crashes.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka.admin import ConfigResource
from kafka import KafkaAdminClient

from support import java
from support.broker import StartBroker
from support.clients.client import Found
from support.clients.every import CONFLUENT
from support.clients.idempotent import ConfluentWriter, History, KafkaPythonWriter, Writer
from support.clients.kafka_python import create_topic, offsets
from support.dump_log import assert_sound
from support.interchange import (
    BROKER_ID,
    Shown,
    Stage,
    alter,
    assert_same_records,
    look,
    wait_for_leaders,
)
from support.java_tools import Tools
from support.movers import Mover, await_moved, await_placed, copies, move, placed
from support.process import BrokerProcess
from support.transactions.clients import BROKER_SETTINGS, CONFLUENT_CONSUMER
from support.transactions.scenario import Plan, play
from support.wait import eventually, random_moment

KILLS = int(os.environ.get("MOVE_KILLS", "3"))
SEED = int(os.environ.get("MOVE_SEED") or random.SystemRandom().randrange(2**32))
RECORDS = int(os.environ.get("TRANSACTION_RECORDS", "12000"))

PARTITIONS = 3
SMALL = {"segment.bytes": "1048576", "file.delete.delay.ms": "100"}
ACKS_A_ROUND_MAX = 4_000
MOVES_A_ROUND = 3
WITHIN_S = 180.0
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
NO_LIMIT = "9223372036854775807"
LIMIT = "replica.alter.log.dirs.io.max.bytes.per.second"
BUSY = {
    "log.retention.check.interval.ms": "100",
    "log.initial.task.delay.ms": "100",
    "log.cleaner.backoff.ms": "100",
}


@pytest.fixture
def directories(tmp_path: Path) -> list[Path]:
    """Three log directories."""
    return [tmp_path / name for name in ("one", "two", "three")]


@pytest.mark.timeout(480 + 60 * KILLS)
def test_no_record_is_lost_doubled_or_reordered(
    start_broker: StartBroker, directories: list[Path]
) -> None:
    print(f"MOVE_SEED={SEED} MOVE_KILLS={KILLS}")
    chance = random.Random(SEED)
    paths = [str(path) for path in directories]
    broker = start_broker(**BUSY, **{"log.dirs": ",".join(paths)})
    create_topic(broker.bootstrap, "moving", PARTITIONS, SMALL)
    history = History()
    writers: list[Writer] = [
        kind(broker.bootstrap, "moving", PARTITIONS, history)
        for kind in (ConfluentWriter, KafkaPythonWriter)
    ]
    mover = Mover(broker, paths, random.Random(SEED + 1))
    for thread in (*writers, mover):
        thread.start()
    try:
        for _ in range(KILLS):
            acknowledgements = len(history.acknowledged) + chance.randrange(1, ACKS_A_ROUND_MAX)
            await_progress(broker, history, acknowledgements, mover, mover.moved + MOVES_A_ROUND)
            random_moment(chance, 0.2)
            broker.kill()
            broker.start()
        acknowledgements = len(history.acknowledged) + ACKS_A_ROUND_MAX
        await_progress(broker, history, acknowledgements, mover, mover.moved + MOVES_A_ROUND)
    finally:
        for writer in writers:
            writer.finish()
    mover.finish()
    assert not history.failures, history.failures[:10]
    check(broker, history)
    broker.stop()
    if java.available():
        assert_sound(*directories)


def await_progress(
    broker: BrokerProcess, history: History, acks: int, mover: Mover, moves: int
) -> None:
    """Until there are so many acknowledgements and moves."""
    eventually(
        lambda: (
            history.failures or mover.failures or (history.holds(acks) and mover.moved >= moves)
        ),
        within_s=WITHIN_S,
        what="acknowledgements and moves",
        detail=broker.tail,
    )
    assert not history.failures, history.failures[:10]
    assert not mover.failures, mover.failures


def check(broker: BrokerProcess, history: History) -> None:
    """What was acknowledged lies where it was said to, and nothing else is there."""
    _, ends = offsets(broker.bootstrap, "moving", PARTITIONS)
    found: dict[int, list[Found]] = CONFLUENT.read(broker.bootstrap, "moving", ends)
    places = {
        (partition, at): record.value for partition in found for at, record in found[partition]
    }
    print(f"{len(history.acknowledged)} acknowledged, {len(places)} found")
    assert places == history.acknowledged


@pytest.mark.timeout(300 + 60 * KILLS)
def test_transactions_go_on(
    start_broker: StartBroker, directories: list[Path], tmp_path: Path
) -> None:
    """Those of the coordinators' own partitions too, while broker and clients are killed."""
    print(f"MOVE_SEED={SEED} MOVE_KILLS={KILLS}")
    client = CONFLUENT_CONSUMER
    client.start()
    paths = [str(path) for path in directories]
    broker = start_broker(**BROKER_SETTINGS, **{"log.dirs": ",".join(paths)})
    mover = Mover(broker, paths, random.Random(SEED + 1))
    mover.start()
    plan = Plan(RECORDS, broker_kills=KILLS, instance_kills=1, superseded=1)
    play(broker, client, tmp_path, plan, random.Random(SEED))
    mover.finish()
    assert mover.moved > 0


def written(broker: BrokerProcess, topic: str, count: int = 3000) -> History:
    """Some MB in a topic of one partition."""
    history = History()
    writer = ConfluentWriter(broker.bootstrap, topic, 1, history)
    writer.start()
    eventually(lambda: history.holds(count), within_s=WITHIN_S, what="acknowledgements")
    writer.finish()
    assert not history.failures
    return history


def test_the_admin_client_of_kafka_python(
    start_broker: StartBroker, directories: list[Path], topic: str
) -> None:
    broker = start_broker(**{"log.dirs": ",".join(map(str, directories))})
    create_topic(broker.bootstrap, topic, 1, SMALL)
    written(broker, topic)
    here = placed(broker)[topic, 0]
    there = next(str(path) for path in directories if str(path) != here)
    with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap)) as admin:
        (code,) = admin.alter_replica_log_dirs({(topic, 0, 1): there}).values()
        assert not getattr(code, "errno", code), code
        (code,) = admin.alter_replica_log_dirs({(topic, 0, 1): "/no/such"}).values()
        assert getattr(code, "__name__", "") == "LogDirNotFoundError"
    await_placed(broker, (topic, 0), there)
    assert [path.name for path in Path(there).glob(f"{topic}-*")] == [f"{topic}-0"]


def test_the_tools_of_apache_kafka(
    start_broker: StartBroker, directories: list[Path], topic: str, tmp_path: Path
) -> None:
    """kafka-reassign-partitions with log_dirs and a throttle, and kafka-log-dirs."""
    java.libs("kafka4")
    broker = start_broker(**{"log.dirs": ",".join(map(str, directories))})
    create_topic(broker.bootstrap, topic, 1, SMALL)
    history = written(broker, topic, 20_000)  # so that it is copied for more than half a minute
    here = placed(broker)[topic, 0]
    there = next(str(path) for path in directories if str(path) != here)
    plan = tmp_path / "plan.json"
    reassigned = {"topic": topic, "partition": 0, "replicas": [1], "log_dirs": [there]}
    plan.write_text(json.dumps({"version": 1, "partitions": [reassigned]}))
    common = ["--bootstrap-server", broker.bootstrap]
    file = ["--reassignment-json-file", str(plan)]
    with Tools(tmp_path / "tools.log") as tools:
        slow = ["--replica-alter-log-dirs-throttle", "100000"]
        ran = tools.run(REASSIGN, *common, *file, "--execute", *slow)
        assert ran.exit_code == 0, ran
        ran = tools.run(REASSIGN, *common, *file, "--verify", "--preserve-throttles")
        assert f"Reassignment of replica {topic}-0-1 is still in progress" in ran.text, ran
        ran = tools.run(LOG_DIRS, *common, "--describe", "--topic-list", topic)
        described = json.loads(ran.text.splitlines()[-1])
        found = {
            directory["logDir"]: [
                (partition["partition"], partition["isFuture"])
                for partition in directory["partitions"]
            ]
            for directory in described["brokers"][0]["logDirs"]
        }
        assert (found[here], found[there]) == (
            [(f"{topic}-0", False)],
            [(f"{topic}-0", True)],
        )
        fast = ["--replica-alter-log-dirs-throttle", "100000000", "--additional"]
        ran = tools.run(REASSIGN, *common, *file, "--execute", *fast)
        assert ran.exit_code == 0, ran
        await_moved(broker)
        ran = tools.run(REASSIGN, *common, *file, "--verify")
        assert f"Reassignment of replica {topic}-0-1 completed successfully" in ran.text, ran
    assert placed(broker)[topic, 0] == there
    assert history.holds(1)


def stop(broker: BrokerProcess) -> None:
    broker.stop()


def kill(broker: BrokerProcess) -> None:
    broker.kill()


@pytest.mark.parametrize("end", [stop, kill])
def test_apache_kafka_goes_on_with_a_move_and_kavka_with_its(
    tmp_path: Path, end: Callable[[BrokerProcess], None]
) -> None:
    """A move that is under way when one broker ends is completed by the other."""
    stage = Stage(tmp_path)
    try:
        go_on(stage, end)
    finally:
        stage.close()


def go_on(stage: Stage, end: Callable[[BrokerProcess], None]) -> None:
    apache, kavka = stage.apache, stage.kavka.start()
    create_topic(kavka.bootstrap, "moving", 1, SMALL)
    written(kavka, "moving", 60_000)  # more than what comes meanwhile in spite of the limit
    look(kavka)  # which has the coordinators' topics made
    shown = look(kavka)
    there = other(stage, kavka)
    begin_slowly(kavka, there, "1000000")
    end(kavka)
    assert list(Path(there).glob("moving-0.*-future"))
    stage.carry("export")
    apache.start()
    wait_for_leaders(apache, len(shown.topics))
    limit(apache, NO_LIMIT)
    await_placed(apache, ("moving", 0), there)
    assert_same_content(look(apache), shown)

    there = other(stage, apache)
    begin_slowly(apache, there, "1")  # it begins with a whole fetch, and then looks at the limit
    end(apache)
    assert list(Path(there).glob("moving-0.*-future"))
    stage.carry("import")
    kavka.start()
    limit(kavka, NO_LIMIT)
    await_placed(kavka, ("moving", 0), there)
    assert_same_content(look(kavka), shown)
    kavka.stop()
    stage.assert_sound()


def assert_same_content(found: Shown, expected: Shown) -> None:
    assert_same_records(found.records, expected.records)
    assert_same_records(found.committed, expected.committed)
    assert found.producers == expected.producers


def limit(broker: BrokerProcess, bytes_per_s: str) -> None:
    alter(broker, ConfigResource.Type.BROKER, BROKER_ID, LIMIT, bytes_per_s)


def other(stage: Stage, broker: BrokerProcess) -> str:
    """The directory that the partition is not in."""
    here = placed(broker)["moving", 0]
    return next(str(path) for path in stage.directories if str(path) != here)


def begin_slowly(broker: BrokerProcess, there: str, bytes_per_s: str) -> None:
    """Begin a move that does not end by itself; come some way."""
    limit(broker, bytes_per_s)
    assert set(move(broker, [("moving", 0)], there).values()) == {0}
    eventually(
        lambda: copies(broker).get(("moving", 0), 0) > 50_000,
        within_s=WITHIN_S,
        what="something is copied",
        detail=broker.tail,
    )
    limit(broker, "1")
