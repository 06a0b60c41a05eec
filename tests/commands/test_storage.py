"""`kavka storage` prints what kafka-storage prints, but for what is KRaft's own; and brokers start
on what it has formatted."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from commands.exceptions import LEVEL, true_of_kavka
from commands.sessions import Said, difference
from kavka.cli import main
from support import java
from support.broker import Kavka
from support.clients.kafka_python import create_topic
from support.interchange import Stage
from support.process import STOP_WITHIN_S, running

CLUSTER: Final = "MkU3OEVBNTcwNTJENDM2Qk"
KRAFT: Final = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.bootstrap.servers": "localhost:9093",
    "listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
    "controller.listener.names": "CONTROLLER",
}
FILES: Final[Mapping[str, Mapping[str, str]]] = {
    "one": {**KRAFT, "log.dirs": "W/d"},
    "two": {**KRAFT, "log.dirs": "W/b,W/a"},
    "three": {**KRAFT, "log.dirs": "W/e,W/d,W/f"},
    "other": {**KRAFT, "node.id": "2", "log.dirs": "W/d"},
    "minus": {**KRAFT, "node.id": "-1", "log.dirs": "W/d"},
    "file": {**KRAFT, "log.dirs": "W/one.properties"},
    "old": {"node.id": "1", "log.dirs": "W/old"},
    "zookeeper": {
        "node.id": "1",
        "log.dirs": "W/zookeeper",
        "zookeeper.connect": "localhost:2181",
    },
}

SAME: Final = f"""
    random-uuid
    random-uuid more
    version-mapping
    version-mapping --release-version 3.9
    version-mapping -r 4.0-IV3
    version-mapping -r 4.4
    version-mapping -r 4.4-IV0
    version-mapping -r 2.8
    version-mapping -r 3.3-IV3
    version-mapping --release-version
    feature-dependencies
    feature-dependencies -f metadata.version=30
    feature-dependencies -f metadata.version=99
    feature-dependencies -f kraft.version=1
    feature-dep --feat eligible.leader.replicas.version=1 -f group.version=1
    feature-dependencies -f group.version=1 -f group.version=9
    feature-dependencies -f nothing=1
    feature-dependencies -f group.version
    feature-dependencies -f group.version=x
    feature-dependencies -f group.version=-1
    info
    info -c W/missing.properties
    info -c W/one.properties
    info --config=W/two.properties
    info -cW/file.properties
    format
    format -c W/one.properties
    format -t {CLUSTER}
    format -t {CLUSTER} -c W/one.properties -s -N
    format -t {CLUSTER} -c W/minus.properties -s
    format -t {CLUSTER} -c W/one.properties -s --feature metadata.version=7 --release-version 3.9
    format -t {CLUSTER} -c W/one.properties -s --feature metadata.version=6
    format -t {CLUSTER} -c W/one.properties -s --release-version 2.0
    format -t {CLUSTER} -c W/one.properties -s --release-version 4.4-IV0
    format -t {CLUSTER} -c W/one.properties -s --feature nothing=1
    format -t {CLUSTER} -c W/one.properties -s --feature group.version
    format -t {CLUSTER} -c W/one.properties -s --feature group.version=x
    format -t {CLUSTER} -c W/one.properties -s --feature group.version=7
    format -t {CLUSTER} -c W/one.properties -s --add-scram nonsense
    format -t {CLUSTER} -c W/one.properties --initial-controllers nonsense
    format -t {CLUSTER} -c W/file.properties -s
    format -t x -c W/two.properties -s
    info -c W/two.properties
    format -t {CLUSTER} -c W/one.properties -s -f group.version=1 -f group.version=0
    info -c W/one.properties
    format -t {CLUSTER} -c W/one.properties -s
    format -t {CLUSTER} -c W/one.properties -s -g
    format -t {CLUSTER} -c W/three.properties -s
    format -t {CLUSTER} -c W/three.properties -s --ignore-formatted
    info -c W/three.properties
    format -t {CLUSTER}x -c W/three.properties -s -g
    format -t {CLUSTER} -c W/other.properties -s -g
    info -c W/other.properties
    format -t {CLUSTER} -c W/one.properties and more
    nothing
    !
"""
BOOTSTRAP: Final = (
    "Bootstrap metadata: BootstrapMetadata(records=[ApiMessageAndVersion(FeatureLevelRecord("
    "name='metadata.version', featureLevel=30) at version 0){}], metadataVersionLevel=30, "
    "source=format command)\n"
)
NEWEST: Final = LEVEL.format("group.version", 1) + LEVEL.format("transaction.version", 2)

OTHERWISE: Final[Mapping[str, tuple[str, int]]] = {
    # A broker of Kavka's needs no process.roles, which Apache Kafka 4 misses.
    "info -c W/old.properties": ("Found problem:\n  W/old does not exist\n\n", 1),
    f"format -t {CLUSTER} -c W/old.properties": (
        BOOTSTRAP.format(NEWEST)
        + "Formatting metadata directory W/old with metadata.version 4.3-IV0.\n",
        0,
    ),
    # Metadata and features of a cluster are in ZooKeeper, which Apache Kafka 4 does not know.
    f"format -t {CLUSTER} -c W/zookeeper.properties": (
        "Formatting data directory W/zookeeper with metadata.version 4.3-IV0.\n",
        0,
    ),
    f"format -t {CLUSTER} -c W/zookeeper.properties -g -f group.version=0": ("", 1),
    # The controller is in the broker: there is no choice to be made.
    f"format -t {CLUSTER} -c W/one.properties -g": (
        "All of the log directories are already formatted.\n",
        0,
    ),
    # Its metadata.version is always 30; the levels of other features are those of the release.
    f"format -t {CLUSTER} -c W/more.properties -s -r 3.9 -f group.version=1": (
        BOOTSTRAP.format(LEVEL.format("group.version", 1))
        + "Formatting metadata directory W/more with metadata.version 4.3-IV0.\n",
        0,
    ),
    # It has neither these features, nor SCRAM credentials, nor a KRaft quorum.
    f"format -t {CLUSTER} -c W/last.properties -s -f share.version=1": ("", 1),
    f"format -t {CLUSTER} -c W/last.properties -s -f kraft.version=1": ("", 1),
    f"format -t {CLUSTER} -c W/last.properties -s -S SCRAM-SHA-256=[name=a,password=b]": ("", 1),
    f"format -t {CLUSTER} -c W/last.properties -I 1@localhost:9093:AAAAAAAAQAaAAAAAAAAABA": ("", 1),
}
"""What Kavka says where something else is true of it, with its exit code."""


IDS: Final = re.compile(r"(?<=directory\.id=)[\w-]{22}|^[\w-]{22}$", re.MULTILINE)


def written(home: Path) -> str:
    """Write the settings of all brokers into a directory; its name."""
    home.mkdir(exist_ok=True)
    more = {name: {**KRAFT, "log.dirs": f"W/{name}"} for name in ("more", "last")}
    for name, settings in {**FILES, **more}.items():
        lines = "".join(f"{key}={value}\n" for key, value in settings.items())
        (home / f"{name}.properties").write_text(lines.replace("W/", f"{home}/"))
    return str(home)


def words(line: str, home: str) -> list[str]:
    return line.removeprefix("!").replace("W/", f"{home}/").split()


def stable(text: str, home: str) -> str:
    return IDS.sub("ID", text.replace(home, "W"))


def apache(line: str, home: str) -> Said:
    done = java.run(java.STORAGE, *words(line, home))
    text = true_of_kavka(stable(done.stdout.decode(), home))
    return Said(done.exit_code, text, done.stderr if done.exit_code else "")


def kavka(line: str, home: str) -> Said:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        exit_code = main(["storage", *words(line, home)])
    return Said(exit_code, stable(out.getvalue(), home), stable(err.getvalue(), home))


def lines() -> Iterator[str]:
    return filter(None, map(str.strip, SAME.splitlines()))


def test_both_tools_say_the_same(tmp_path: Path) -> None:
    """At the same paths, as these determine the order in which directories are formatted."""
    java.program("java")
    home = tmp_path / "home"
    theirs = [(line, apache(line, written(home))) for line in lines()]
    home.rename(tmp_path / "theirs")
    found = [
        differing
        for line, said in theirs
        for differing in difference(line, kavka(line, written(home)), said)
    ]
    assert not found, "\n".join(found)


def test_what_is_true_of_kavka(tmp_path: Path) -> None:
    own = written(tmp_path / "own")
    assert not kavka(f"format -t {CLUSTER} -c W/one.properties", own).exit_code
    for line, (text, exit_code) in OTHERWISE.items():
        said = kavka(line, own)
        assert (said.stdout, said.exit_code) == (text, exit_code), line
        assert said.stderr.count("\n") == (0 if text else 1), said


def test_directories_of_kraft_are_named(tmp_path: Path) -> None:
    java.program("java")
    home = written(tmp_path / "home")
    assert not apache(f"format -t {CLUSTER} -c W/one.properties -s", home).exit_code
    said = kavka("info -c W/one.properties", home)
    assert "node.id=1, version=1}" in said.stdout
    assert "W/d is formatted for a cluster in KRaft mode: Kavka can't use it." in said.stdout
    assert said.exit_code == 1
    again = kavka(f"format -t {CLUSTER} -c W/one.properties -g", home)
    assert again.exit_code == 1 and "KRaft mode, which Kavka can't use" in again.stderr
    config = str(tmp_path / "home" / "one.properties")
    broker = Kavka(tmp_path / "broker", {"log.dirs": f"{home}/d"})
    try:
        broker.launch()
        assert broker.process is not None
        assert broker.process.wait(STOP_WITHIN_S) == 1, config
        broker.process = None
    finally:
        broker.close()


def damage(data: Path) -> None:
    (data / "meta.properties").write_text("version=0\n")


def rename(data: Path) -> None:
    (data / "meta.properties").write_text("version=0\nbroker.id=2\ncluster.id=x\n")


@pytest.mark.parametrize(
    ("harm", "problem"),
    [
        (damage, "Error loading W/e/meta.properties: "),
        (rename, "Mismatched cluster IDs between storage directories."),
    ],
)
def test_what_info_finds(harm: Callable[[Path], None], problem: str, tmp_path: Path) -> None:
    own = written(tmp_path / "own")
    kavka(f"format -t {CLUSTER} -c W/three.properties", own)
    harm(tmp_path / "own" / "e")
    said = kavka("info -c W/three.properties", own)
    assert said.exit_code == 1
    assert f"Found problem:\n  {problem}" in said.stdout


@pytest.mark.parametrize(
    ("form", "said"), [("text", "ID\n"), ("json", '{"uuid": "ID"}\n'), ("csv", "uuid\nID\n")]
)
def test_a_random_uuid_in_each_form(form: str, said: str) -> None:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main(["storage", "random-uuid", "--output", form]) == 0
    assert re.sub(r"[\w-]{22}", "ID", out.getvalue()) == said


def rows(broker: Kavka, tool: str, command: str) -> list[list[str]]:
    """The rows that a tool prints."""
    out, server = io.StringIO(), ["--bootstrap-server", broker.bootstrap]
    before, after = (server, []) if tool == "features" else ([], server)
    with contextlib.redirect_stdout(out):
        assert main([tool, *before, command, *after, "--output", "csv"]) == 0
    return [row.split(",") for row in out.getvalue().splitlines()]


def test_a_broker_starts_on_what_was_formatted(tmp_path: Path) -> None:
    broker = Kavka(tmp_path / "broker", {"log.dirs": f"{tmp_path}/a,{tmp_path}/b", "node.id": "7"})
    overrides = [f"--override={key}={value}" for key, value in broker.settings.items()]
    levels = ["-f", "group.version=0", "-f", "transaction.version=1"]
    assert main(["storage", "format", "-t", CLUSTER, *levels, *overrides]) == 0
    before = (tmp_path / "b" / "meta.properties").read_text()
    assert "broker.id=7\n" in before
    with running([broker]):
        assert main(["storage", "format", "-t", CLUSTER, "-g", *overrides]) == 0
        create_topic(broker.bootstrap, "t", 1)
        assert rows(broker, "cluster", "cluster-id") == [["clusterId"], [CLUSTER]]
        assert [row[0] for row in rows(broker, "cluster", "list-endpoints")] == ["id", "7"]
        found = {row[0]: row[3] for row in rows(broker, "features", "describe")}
        assert (found["group.version"], found["transaction.version"]) == ("0", "1")
        broker.stop()
    assert (tmp_path / "b" / "meta.properties").read_text() == before


def test_what_a_running_broker_uses_is_not_formatted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broker = Kavka(tmp_path / "broker")
    with running([broker]):
        (broker.data_dir / "meta.properties").unlink()
        override = f"log.dirs={broker.data_dir}"
        assert main(["storage", "format", "-t", CLUSTER, "--override", override]) == 1
        assert "in use by another broker" in capsys.readouterr().err
        assert not (broker.data_dir / "meta.properties").exists()


def test_metadata_without_its_owner_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broker = Kavka(tmp_path / "broker")
    with running([broker]):
        broker.stop()
        (broker.data_dir / "meta.properties").unlink()
        log = (broker.data_dir / "coordination.log").read_bytes()
        override = f"log.dirs={broker.data_dir}"
        assert main(["storage", "format", "-t", CLUSTER, "--override", override]) == 1
        assert "has the metadata of a Kavka broker" in capsys.readouterr().err
        assert (broker.data_dir / "coordination.log").read_bytes() == log


def test_apache_kafka_with_zookeeper_starts_on_what_was_formatted(tmp_path: Path) -> None:
    java.program("java")
    stage = Stage(tmp_path)
    try:
        directories = ",".join(map(str, stage.directories))
        overrides = ["--override", f"log.dirs={directories}", "--override", "broker.id=1"]
        assert main(["storage", "format", "-t", CLUSTER, *overrides]) == 0
        ids = [(each / "meta.properties").read_text() for each in stage.directories]
        stage.carry("export")  # else it would look for its cluster's id in an empty ZooKeeper
        stage.apache.start()
        create_topic(stage.apache.bootstrap, "t", 1)
        stage.apache.stop()
        for each, before in zip(stage.directories, ids, strict=True):
            after = (each / "meta.properties").read_text()
            assert set(before.split()) <= set(after.split()), after
    finally:
        stage.close()
