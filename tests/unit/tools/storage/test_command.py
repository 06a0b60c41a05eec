"""The two commands with a file as the other place: what they say, and what they leave behind."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from kavka.log.fs import OsFs
from kavka.server.coordination.broker_registration import cluster_id, prepare_tree
from kavka.server.zookeeper_session import zookeeper_session
from kavka.tools.storage import command
from kavka.tools.storage.command import main
from kavka.zktree import paths
from support.embedded_coordination import open_on
from support.logs import TOPIC_ID

TOPIC = paths.encode_topic(paths.TopicAssignment(TOPIC_ID, {0: (1,), 1: (1,)}, {}, {}))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A log directory with a Kavka's metadata, of one topic."""
    directory = tmp_path / "data"
    directory.mkdir()

    async def fill() -> None:
        session = await open_on(OsFs(), directory=str(directory))
        await prepare_tree(session)
        await cluster_id(session, "the-cluster")
        await session.create(paths.topic("t"), TOPIC)
        await session.create(
            paths.config("topics", "t"), paths.encode_config({"retention.ms": "5"})
        )
        await session.close()

    asyncio.run(fill())
    (directory / "t-0").mkdir()
    return directory


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "tree.json"


def run(order: str, data: Path, file: Path, *, replace: bool = False) -> int:
    return main(
        str(file),
        None,
        zookeeper_session,
        is_import=order == "import",
        replace=replace,
        config=None,
        overrides=[f"log.dirs={data}"],
    )


def test_a_tree_moves_to_another_directory(
    data: Path, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("export", data, file) == 0
    out, err = capsys.readouterr()
    assert out.startswith("cluster the-cluster: 1 topics with 2 partitions, ")
    assert out.endswith(f" nodes: from {data} to {file}\n")
    assert err == "kavka: t-1 has no log here and will begin empty\n"
    other = tmp_path / "other"
    other.mkdir()
    assert run("import", other, file) == 0
    assert capsys.readouterr().out.endswith(f": from {file} to {other}\n")
    again = tmp_path / "again.json"
    assert run("export", other, again) == 0
    assert again.read_bytes() == file.read_bytes()


NODE_NAMES = ("state", "partitions", "topics", "config", "brokers", "ids", "changes", "seqid", "0")
"""Names that nodes of the tree have too."""


def test_topics_named_as_nodes_are_move(
    data: Path, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def fill() -> None:
        session = await open_on(OsFs(), directory=str(data))
        for name in NODE_NAMES:
            (data / f"{name}-0").mkdir()
            await session.create(paths.topic(name), TOPIC)
            await session.create(paths.partitions(name), None)
            await session.create(paths.partition(name, 0), None)
            await session.create(
                paths.partition_state(name, 0),
                paths.encode_partition_state(paths.StoredPartitionState(1, 0, (1,), 1)),
            )
            await session.create(
                paths.config("topics", name), paths.encode_config({"retention.ms": "7"})
            )
        await session.close()

    asyncio.run(fill())
    assert run("export", data, file) == 0
    out, _ = capsys.readouterr()
    assert out.startswith(f"cluster the-cluster: {1 + len(NODE_NAMES)} topics with ")
    other = tmp_path / "other"
    other.mkdir()
    assert run("import", other, file) == 0
    again = tmp_path / "again.json"
    assert run("export", other, again) == 0
    assert again.read_bytes() == file.read_bytes()


def test_nothing_is_replaced_without_the_option(
    data: Path, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("export", data, file) == 0
    before = file.read_bytes()
    for order, path in (("export", str(file)), ("import", str(data))):
        assert run(order, data, file) == 1
        err = capsys.readouterr().err
        assert path in err and "--replace" in err
    assert file.read_bytes() == before
    assert run("export", data, file, replace=True) == 0
    assert run("import", data, file, replace=True) == 0


def test_settings_that_kavka_does_not_take_are_refused(
    data: Path, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Apache Kafka 3.9 takes smaller segments than Kafka 4."""
    run("export", data, file)
    document = json.loads(file.read_text())
    path = paths.config("topics", "t")
    document["nodes"][path] = paths.encode_config({"segment.bytes": "14"}).decode()
    file.write_text(json.dumps(document))
    other = tmp_path / "other"
    other.mkdir()
    assert run("import", other, file) == 1
    err = capsys.readouterr().err
    assert "topic t" in err and "segment.bytes" in err
    assert [path.name for path in other.iterdir()] == [".lock"]


def test_errors_are_reported_in_one_line(
    data: Path, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("import", data, tmp_path / "nowhere.json", replace=True) == 1
    assert "nowhere.json" in capsys.readouterr().err
    assert run("export", tmp_path / "nowhere", file) == 1
    assert "no directory" in capsys.readouterr().err
    assert (
        main(
            "x",
            None,
            zookeeper_session,
            is_import=True,
            replace=False,
            config="no.file",
            overrides=[],
        )
        == 1
    )
    err = capsys.readouterr().err
    assert "no.file" in err and "Traceback" not in err
    (data / "not a log").mkdir()
    assert run("export", data, file) == 1
    assert "not a log" in capsys.readouterr().err


def test_log_dirs_are_read_from_apache_kafkas_own_file(
    data: Path, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What it says of ZooKeeper, `kavka start` would refuse."""
    config = tmp_path / "server.properties"
    config.write_text(f"log.dirs={data}\nzookeeper.connect=h:1\nzookeeper.set.acl=true\n")
    location = (str(file), None, zookeeper_session)
    assert main(*location, is_import=False, replace=False, config=str(config), overrides=[]) == 0
    assert "the-cluster" in capsys.readouterr().out
    config.write_text(f"log.dirs={data}\nnum.partitions=x\n")
    assert main(*location, is_import=False, replace=True, config=str(config), overrides=[]) == 1
    assert "num.partitions=x" in capsys.readouterr().err


@pytest.mark.parametrize("order", ["export", "import"])
def test_a_file_that_cannot_be_used_is_named(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], order: str
) -> None:
    assert run(order, data, tmp_path, replace=True) == 1
    err = capsys.readouterr().err
    assert err.startswith(f"kavka: {tmp_path} can't be ") and "Errno" not in err


def test_many_warnings_are_counted(
    data: Path, file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "WARNINGS_MAX", 2)
    for number in range(5):
        (data / f"unknown-{number}").mkdir()
    assert run("export", data, file) == 0
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3 and lines[-1] == "kavka: and 4 more like this"
