"""`kavka reassign-partitions` and `kavka replica-verification` beside Apache Kafka's tools, on
clusters of three brokers of either kind, each with two log directories."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from commands.moves import await_moved
from commands.sessions import Said, apache_kafka, difference, kavka
from kavka.tools.admin import reassign_partitions, replica_verification
from support import java, kraft_cluster
from support.broker import Kavka, kavka_environment
from support.java_tools import Tools
from support.kavka_cluster import KavkaCluster
from support.ports import HOST
from support.process import BrokerProcess
from support.raw import RawConnection
from support.wait import eventually

REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
VERIFICATION = "org.apache.kafka.tools.ReplicaVerificationTool"
RECORDS, RECORD_BYTES = 120, 200_000
DONE_WITHIN_S = 60.0
TOPIC = "moving"
HOME = {0: [1, 2], 1: [2, 3], 2: [3, 1]}
TO = {0: [3, 2], 1: [2, 3, 1]}
LOG_DIRS = re.compile(r'"log_dirs":\[[^]]*\]')
TIME = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}(?=: )", re.MULTILINE)

SESSION = """
    --list
    --verify --reassignment-json-file to.json
    --execute --reassignment-json-file to.json --throttle 1
    await-begun to.json
    --list
    --verify --reassignment-json-file to.json
    --execute --reassignment-json-file home.json
    --execute --reassignment-json-file to.json --additional --throttle 2
    --execute --reassignment-json-file other.json --additional --throttle 2
    --verify --reassignment-json-file to.json --preserve-throttles
    --verify --reassignment-json-file home.json
    --cancel --reassignment-json-file to.json --preserve-throttles
    await-in-any-order home.json
    --list
    --cancel --reassignment-json-file to.json
    --verify --reassignment-json-file to.json
    --execute --reassignment-json-file to.json --throttle 1
    await-begun to.json
    --execute --reassignment-json-file to.json --additional --throttle 1000000000
    await to.json
    --verify --reassignment-json-file to.json
    --execute --reassignment-json-file home.json --disallow-replication-factor-change
    await kept.json
    --execute --reassignment-json-file home.json
    await home.json
    --verify --reassignment-json-file home.json
    --execute --reassignment-json-file fewer.json
    await fewer.json
    --verify --reassignment-json-file fewer.json
    --execute --reassignment-json-file home.json
    await home.json
    --execute --reassignment-json-file dirs.json
    await dirs.json
    --verify --reassignment-json-file dirs.json
    --execute --reassignment-json-file home.json
    await home.json
"""


class _TwoDirectories(KavkaCluster):
    def new_member(self, home: Path, settings: Mapping[str, str]) -> BrokerProcess:
        return Kavka(home, {**settings, **directories(home)})


def directories(home: Path) -> Mapping[str, str]:
    return {"log.dirs": f"{home}/first,{home}/second"}


@contextmanager
def kavka_members(home: Path) -> Iterator[Sequence[BrokerProcess]]:
    cluster = _TwoDirectories(home, {})
    try:
        cluster.open()
        yield cluster.members
        cluster.check()
    finally:
        cluster.close()


@contextmanager
def apache_members(home: Path) -> Iterator[Sequence[BrokerProcess]]:
    with kraft_cluster.serving(home, directories) as members:
        yield members


@pytest.fixture(scope="module", params=[kavka_members, apache_members], ids=["kavka", "apache"])
def members(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Sequence[BrokerProcess]]:
    java.program("java")
    with request.param(tmp_path_factory.mktemp("cluster")) as found:
        fill(found)
        yield found


def fill(members: Sequence[BrokerProcess]) -> None:
    """Eight megabytes in each partition: no move of one ends by itself while it is throttled."""
    admin = AdminClient({"bootstrap.servers": members[0].bootstrap})
    eventually(
        lambda: len(admin.list_topics(timeout=DONE_WITHIN_S).brokers) == len(members),
        within_s=DONE_WITHIN_S,
        what="all brokers have registered",
    )
    replicas = [HOME[number] for number in sorted(HOME)]
    topic = NewTopic(TOPIC, len(HOME), replica_assignment=replicas)
    admin.create_topics([topic])[TOPIC].result(DONE_WITHIN_S)
    await_replicas(members, HOME)
    producer = Producer({"bootstrap.servers": members[0].bootstrap, "batch.size": RECORD_BYTES})
    for number in range(RECORDS):
        producer.produce(TOPIC, bytes([number]) * RECORD_BYTES, partition=number % len(HOME))
    assert producer.flush(DONE_WITHIN_S) == 0


def await_replicas(
    members: Sequence[BrokerProcess],
    expected: Mapping[int, list[int]],
    *,
    in_order: bool = True,
    in_sync: bool = True,
) -> None:
    """Wait until every broker knows that partitions have these replicas, all in sync
    unless `in_sync` is False. In what order a cancelled reassignment leaves them is the cluster's
    choice."""
    ordered = list if in_order else sorted
    fields = {"topics": [{"name": TOPIC}], "allow_auto_topic_creation": False}
    kinds = ("cluster", "topic")

    def are_there(member: BrokerProcess) -> bool:
        with RawConnection(HOST, member.port) as connection:
            flags = {f"include_{kind}_authorized_operations": False for kind in kinds}
            answer = connection.request("Metadata", 8, **fields, **flags)
        found = {
            partition["partition_index"]: partition
            for partition in answer["topics"][0]["partitions"]
        }
        return all(
            number in found
            and ordered(found[number]["replica_nodes"]) == ordered(replicas)
            and (not in_sync or sorted(found[number]["isr_nodes"]) == sorted(replicas))
            for number, replicas in expected.items()
        )

    for member in members:
        eventually(
            partial(are_there, member),
            within_s=DONE_WITHIN_S,
            what=f"broker {member.home.name} knows of {expected}",
            detail=member.tail,
        )


def files(members: Sequence[BrokerProcess]) -> Mapping[str, list[dict[str, Any]]]:
    def plan(assignment: Mapping[int, list[int]]) -> list[dict[str, Any]]:
        return [
            {"topic": TOPIC, "partition": number, "replicas": replicas}
            for number, replicas in assignment.items()
        ]

    second = f"{members[2].home}/second"
    return {
        "home.json": plan(HOME),
        "to.json": plan(TO),
        "other.json": plan({2: [3, 1]}),
        "kept.json": plan({0: HOME[0], 1: TO[1]}),
        "fewer.json": plan({2: [3]}),
        "dirs.json": [{**plan({0: [3, 2]})[0], "log_dirs": [second, "any"]}],
    }


def test_both_tools_move_partitions_alike(
    members: Sequence[BrokerProcess], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    plans = files(members)
    for name, plan in plans.items():
        Path(name).write_text(json.dumps({"version": 1, "partitions": plan}))
    lines = [line.strip() for line in SESSION.strip().splitlines()]

    def session(is_ours: bool, tools: Tools) -> Iterator[tuple[str, Said]]:
        for line in lines:
            if line.startswith("await"):
                wait, name = line.split()
                expected = {
                    partition["partition"]: partition["replicas"] for partition in plans[name]
                }
                has_begun = wait == "await-begun"
                if has_begun:
                    expected = {
                        number: [
                            *replicas,
                            *(replica for replica in HOME[number] if replica not in replicas),
                        ]
                        for number, replicas in expected.items()
                    }
                await_replicas(members, expected, in_order=wait == "await", in_sync=not has_begun)
                if wait == "await":
                    await_moved(members[0], name)
            elif is_ours:
                yield line, kavka(reassign_partitions.TOOL, members[0], line)
            else:
                yield line, apache_kafka(tools, REASSIGN, members[0], line)

    with Tools(tmp_path / "tools.log") as tools:
        of_theirs = list(session(False, tools))
        of_ours = list(session(True, tools))
    differences = [
        text
        for (line, theirs), (_, ours) in zip(of_theirs, of_ours, strict=True)
        for text in difference(line, _settled(ours), _settled(theirs))
    ]
    assert not differences, "\n".join(differences)
    said = dict(of_theirs)  # the last of each line: a session that did nothing would prove nothing
    assert (
        "still in progress"
        in said["--verify --reassignment-json-file to.json --preserve-throttles"].stdout
    )
    assert "is completed" in said["--verify --reassignment-json-file to.json"].stdout
    assert "completed successfully" in said["--verify --reassignment-json-file dirs.json"].stdout


def _settled(said: Said) -> Said:
    """Without the log directories that replicas are in by chance."""
    return said._replace(stdout=LOG_DIRS.sub('"log_dirs":[]', said.stdout))


@pytest.mark.parametrize("brokers", ["1,2,3", "2,3"])
def test_both_tools_propose_places_alike(
    members: Sequence[BrokerProcess], brokers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The present places are the same; the proposed ones are chance, each broker with as many."""
    monkeypatch.chdir(tmp_path)
    Path("topics.json").write_text(json.dumps({"topics": [{"topic": TOPIC}]}))
    line = f"--generate --topics-to-move-json-file topics.json --broker-list {brokers}"
    with Tools(tmp_path / "tools.log") as tools:
        theirs = apache_kafka(tools, REASSIGN, members[0], line)
    ours = kavka(reassign_partitions.TOOL, members[0], line)
    head, _, proposed = ours.stdout.rpartition("configuration\n")
    assert (0, head) == (theirs.exit_code, theirs.stdout.rpartition("configuration\n")[0])
    plans = [
        json.loads(text) for text in (proposed, theirs.stdout.rpartition("configuration\n")[2])
    ]
    ids = {int(broker_id) for broker_id in brokers.split(",")}
    for plan in plans:
        assert plan["version"] == 1
        assert [partition["partition"] for partition in plan["partitions"]] == sorted(HOME)
        assert all(partition["log_dirs"] == ["any", "any"] for partition in plan["partitions"])
        replicas = [partition["replicas"] for partition in plan["partitions"]]
        assert all(len({*each} & ids) == 2 for each in replicas), replicas
        first = sorted(each[0] for each in replicas)
        assert len({*first}) == len(ids) and len(first) == len(HOME), replicas


def test_replicas_that_are_alike(members: Sequence[BrokerProcess]) -> None:
    await_replicas(members, HOME)
    said = kavka(replica_verification.TOOL, members[0], f"--topics-include {TOPIC} --once")
    assert said.exit_code == 0, said
    per_partition = RECORDS // len(HOME)
    assert TIME.sub("TIME", said.stdout) == (
        "TIME: verification process is started\n"
        f"TIME: max lag is 0 for partition {TOPIC}-0 at offset {per_partition} among 3 partitions\n"
    )


def test_both_verifications_report_alike(members: Sequence[BrokerProcess], tmp_path: Path) -> None:
    """They go on for ever: each is stopped when it has reported that all is compared."""
    await_replicas(members, HOME)
    words = [
        *("--broker-list", members[0].bootstrap, "--topics-include", TOPIC),
        *("--time", "-2", "--report-interval-ms", "100", "--max-wait-ms", "100"),
    ]
    java_command = java.command_line(VERIFICATION, words, java.SHORT_RUN)
    ours = [sys.executable, "-m", "kavka", "replica-verification", *words]
    theirs = until_compared(java_command, dict(java.environment()), tmp_path / "theirs")
    found = until_compared(ours, kavka_environment(), tmp_path / "ours")
    assert found == theirs


def until_compared(
    command: Sequence[str], environment: Mapping[str, str], output: Path
) -> tuple[str, str]:
    """The first and the last line, without times; stopped by SIGINT."""
    with output.open("wb") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=subprocess.DEVNULL, env=environment, start_new_session=True
        )
    try:
        return eventually(
            lambda: _lines(output),
            within_s=DONE_WITHIN_S,
            what="all is compared",
            detail=output.read_text,
        )
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(DONE_WITHIN_S)
        finally:
            process.kill()  # nothing is there any more, unless it went on


def _lines(output: Path) -> tuple[str, str] | None:
    text = TIME.sub("TIME", output.read_text())
    done = re.search(r"^TIME: max lag is 0 .*$", text, re.MULTILINE)
    return (text.partition("\n")[0], done[0]) if done else None
