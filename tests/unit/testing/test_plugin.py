"""The pytest plug-in, in pytest runs of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

from support.broker import kavka_environment
from support.paths import ROOT

ENDS_WITHIN_S = 600

CONFTEST = """
import os, pathlib, pytest

@pytest.fixture(scope="session")
def kavka_broker_settings():
    return {"num.partitions": 5}

@pytest.fixture(scope="session", autouse=True)
def noted(kavka_broker):
    yield
    pathlib.Path(f"left-{os.getpid()}").write_text(" ".join(kavka_broker.topics()))
    pathlib.Path(f"directory-{os.getpid()}").write_text(str(kavka_broker.data_dir))
"""

TESTS = """
import pytest

seen = []

def test_a_topic_is_there_and_empty(kavka_broker, kavka_topic):
    assert kavka_broker.topics() == [kavka_topic]
    assert kavka_broker.end_offsets(kavka_topic) == {0: 0}
    kavka_broker.produce(kavka_topic, b"x")

@pytest.mark.parametrize("what", ["a b/c", "ä" * 300])
def test_names_are_made_of_the_tests(kavka_broker, kavka_topic, what):
    assert kavka_broker.topics() == [kavka_topic]
    assert kavka_topic.startswith("test_names_are_made_of_the_tests-")
    assert kavka_topic not in seen
    seen.append(kavka_topic)

@pytest.mark.kavka_topic(partitions=3, configs={"max.message.bytes": 300})
def test_several_partitions(kavka_broker, kavka_topic):
    assert list(kavka_broker.end_offsets(kavka_topic)) == [0, 1, 2]
    with pytest.raises(Exception, match="MESSAGE_TOO_LARGE"):
        kavka_broker.produce(kavka_topic, bytes(400), partition=2)

def test_settings_are_those_of_the_conftest(kavka_broker):
    kavka_broker.create_topic("mine")
    assert list(kavka_broker.end_offsets("mine")) == [0, 1, 2, 3, 4]
    kavka_broker.delete_topic("mine")

def test_that_deletes_its_topic(kavka_broker, kavka_topic):
    kavka_broker.delete_topic(kavka_topic)

def test_that_restarts_the_broker(kavka_broker, kavka_topic):
    kavka_broker.produce(kavka_topic, b"x")
    kavka_broker.kill()
    kavka_broker.start()
    assert len(kavka_broker.read(kavka_topic)) == 1
"""


def pytest_run(directory: Path, *arguments: str) -> str:
    """Run pytest in `directory` with the plug-in and no others; what it says."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "kavka.testing.plugin", *arguments],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=ENDS_WITHIN_S,
        env={**kavka_environment(), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_one_broker_for_all_and_a_topic_for_each(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_it.py").write_text(TESTS, encoding="utf-8")
    assert re.search(r"\b7 passed\b", pytest_run(tmp_path))
    (left,) = tmp_path.glob("left-*")
    assert left.read_text() == "", "topics go with their tests"
    (directory,) = tmp_path.glob("directory-*")
    assert not os.path.exists(directory.read_text()), "and the data with the broker"


def test_each_xdist_worker_has_its_own(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_it.py").write_text(TESTS, encoding="utf-8")
    output = pytest_run(tmp_path, "-p", "xdist", "-n", "2", "--dist", "each")
    assert re.search(r"\b14 passed\b", output)
    directories = {path.read_text() for path in tmp_path.glob("directory-*")}
    assert len(directories) == 2
    assert not any(map(os.path.exists, directories))


def test_a_cluster_for_each_test(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import pytest\n"
        "directories = set()\n"
        "def test_one(kavka_cluster): assert list(kavka_cluster.addresses) == [1, 2, 3]\n"
        "@pytest.mark.kavka_cluster(brokers=2, settings={'num.partitions': 4})\n"
        "def test_two(kavka_cluster):\n"
        "    kavka_cluster.create_topic('t')\n"
        "    kavka_cluster.kill(2)\n"
        "    for one in range(4):\n"
        "        kavka_cluster.produce('t', b'x', partition=one)\n"
        "        assert kavka_cluster.leader_of('t', one) == 1\n"
        "@pytest.mark.kavka_cluster(2)\n"
        "@pytest.mark.xfail(raises=TypeError, strict=True)\n"
        "def test_three(kavka_cluster): pass\n"
    )
    assert re.search(r"\b2 passed, 1 xfailed\b", pytest_run(tmp_path))


def test_a_topic_stays_where_deleting_is_switched_off(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        "import pytest\n"
        '@pytest.fixture(scope="session")\n'
        "def kavka_broker_settings():\n"
        '    return {"delete.topic.enable": False}\n'
    )
    (tmp_path / "test_it.py").write_text(
        "def test_one(kavka_topic): pass\n"
        "def test_two(kavka_broker, kavka_topic): assert len(kavka_broker.topics()) == 2\n"
        "def test_three(kavka_broker, kavka_topic): kavka_broker.stop()\n"
    )
    assert re.search(r"\b3 passed\b", pytest_run(tmp_path))


def test_a_run_that_uses_no_fixture_loads_no_broker(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import sys\n"
        "def test_it():\n"
        "    ours = sorted(name for name in sys.modules if name.split('.')[0] == 'kavka')\n"
        "    assert ours == ['kavka', 'kavka.testing', 'kavka.testing.plugin']\n"
        "    assert 'asyncio' not in sys.modules\n"
    )
    assert re.search(r"\b1 passed\b", pytest_run(tmp_path))


def test_pytest_finds_it_by_its_entry_point() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    (module,) = project["entry-points"]["pytest11"].values()
    assert hasattr(import_module(module), "kavka_broker")
