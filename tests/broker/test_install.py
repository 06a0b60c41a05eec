"""What a user has after installing the wheel of `make dist`, in environments with little else."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from support.broker import Kavka
from support.paths import ROOT
from support.process import running

TIMEOUT_S = 300
BROKER_S_MAX = 2.0
"""Processor time for loading, starting and ending the broker; how long that takes depends on
what else the machine does."""

LINKS = [path.name for path in (ROOT / "src" / "kavka").iterdir() if path.is_symlink()]
FILES = ("LICENSE", "README.md", "pyproject.toml", "constraints.txt")
PINS = ("--constraint", ROOT / "constraints.txt")
README_TEST = re.compile(r"^```python\n(from kafka import KafkaProducer\n.*?)^```$", re.M | re.S)

CONFTEST = """
import json, pathlib, time, pytest

spent = {"wall_s": 0.0, "processor_s": 0.0}

def timed():
    wall, processor = time.perf_counter(), time.process_time()
    yield
    spent["wall_s"] += time.perf_counter() - wall
    spent["processor_s"] += time.process_time() - processor

@pytest.hookimpl(hookwrapper=True)
def pytest_fixture_setup(fixturedef, request):
    if not fixturedef.argname.startswith("kavka"):
        yield
    else:
        yield from timed()

@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_teardown(item):
    yield from timed()

def pytest_sessionfinish():
    pathlib.Path("spent.json").write_text(json.dumps(spent))
"""


def run(command: list[str | Path], directory: Path) -> subprocess.CompletedProcess[str]:
    """Run a command without anything of this environment's Python."""
    return subprocess.run(
        command,
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        env=own_environment(),
    )


def own_environment() -> dict[str, str]:
    """Without anything that is for this environment's Python."""
    return {key: value for key, value in os.environ.items() if key[:3] not in ("PYT", "KAV")}


def pip(*arguments: str | Path) -> None:
    """pip of these tests' environment; the tests are skipped where it reaches no index."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "--quiet"]
    done = run([*command, *arguments], ROOT)
    if done.returncode and "CI" not in os.environ and "connection" in done.stderr.lower():
        pytest.skip(f"pip reaches no package index: {done.stderr[-300:]}")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make dist` builds."""
    place = tmp_path_factory.mktemp("wheel")
    source = place / "source"  # a build leaves files beside what it builds
    for name in ("src", *LINKS):
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
        shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=ignored)
    for name in FILES:
        shutil.copy(ROOT / name, source)
    for _ in range(2):  # what the first build leaves behind must not get into the second
        built = run([ROOT / ".ci" / "dist", sys.executable, source / "dist"], source)
        assert built.returncode == 0, built.stdout + built.stderr
    assert not (source / "build").exists()
    (found,) = (source / "dist").iterdir()
    return found


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a new environment with Kavka and pytest."""
    interpreter = environment(tmp_path_factory.mktemp("install"))
    pip("--python", interpreter, "install", *PINS, wheel, "pytest")
    return interpreter


def environment(place: Path) -> Path:
    """The interpreter of a new environment with nothing in it."""
    venv.create(place / "venv", symlinks=True, with_pip=False)
    return place / "venv" / "bin" / "python"


def readme_test() -> str:
    (found,) = README_TEST.findall((ROOT / "README.md").read_text("utf-8"))
    return str(found)


def imported_afterwards(test: str) -> str:
    """The test with its import at the beginning of its body, when the broker runs already."""
    first, _, rest = test.partition("\n")
    head, colon, body = rest.partition("):\n")
    assert first.startswith("from kafka import") and colon
    return f"{head}{colon}    {first}\n{body}"


@pytest.mark.parametrize("kafka_python_is", ["imported first", "imported afterwards"])
def test_the_readmes_test_passes(python: Path, tmp_path: Path, kafka_python_is: str) -> None:
    test = readme_test()
    if kafka_python_is == "imported afterwards":
        test = imported_afterwards(test)
    (tmp_path / "test_readme.py").write_text(test)
    (tmp_path / "conftest.py").write_text(CONFTEST)
    done = run([python, "-m", "pytest", "-rA"], tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^plugins:.*\bkavka-", done.stdout, re.M)
    assert re.search(r"\b1 passed\b", done.stdout)
    spent = json.loads((tmp_path / "spent.json").read_text())
    print(f"the broker's own time, kafka-python {kafka_python_is}: {spent}")
    assert spent["processor_s"] < BROKER_S_MAX


def test_the_command_is_there(python: Path, tmp_path: Path) -> None:
    done = run([python.with_name("kavka"), "--help"], tmp_path)
    assert done.returncode == 0 and "start" in done.stdout, done.stderr


def test_a_broker_starts_and_stops(python: Path, tmp_path: Path) -> None:
    listeners = "listeners=PLAINTEXT://127.0.0.1:0"
    command: list[str | Path] = [python.with_name("kavka"), "start", "--override", listeners]
    with subprocess.Popen(
        [*command, "--override", f"log.dirs={tmp_path}"],
        cwd=tmp_path,
        env=own_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as broker:
        try:
            assert broker.stdout is not None
            assert " ready on 127.0.0.1:" in broker.stdout.readline()
        finally:
            broker.terminate()
        _, said = broker.communicate(timeout=TIMEOUT_S)
    assert broker.returncode == 0, said
    assert (tmp_path / ".kafka_cleanshutdown").exists()


BESIDE = """
import subprocess, sys
import kafka
from kafka import KafkaConsumer, KafkaProducer
from kavka.testing import Broker

with Broker() as broker:
    broker.create_topic("orders")
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
    producer.send("orders", b"apples").get(timeout=30)
    producer.close()
    consumer = KafkaConsumer(
        "orders", bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest"
    )
    print(kafka.__version__, next(consumer).value, flush=True)
    consumer.close()

    def run(tool, *words):
        way = ["--bootstrap-server", broker.bootstrap_servers, "--topic", "orders"]
        command = [sys.executable, "-m", "kavka", tool, *way, *words]
        subprocess.run(command, input=b"pears", check=True)

    run("console-producer")
    run("console-consumer", "--from-beginning", "--max-messages", "2")
"""


def test_beside_kafka_python_2(wheel: Path, tmp_path: Path) -> None:
    """By the commands on the page about tests, of which the last one is in the refusal too."""
    python = environment(tmp_path)
    pip("--python", python, "install", "kafka-python<3")
    page = (ROOT / "docs" / "testing.md").read_text("utf-8")
    (shown,) = re.findall(r"```sh\n(pip install --no-deps dist.*?)```", page, re.S)
    own, others, copy = shown.replace("\\\n", "").splitlines()
    assert own == "pip install --no-deps dist/kavka-*.whl"
    pip("--python", python, "install", "--no-deps", wheel)
    pip("--python", python, "install", *PINS, *others.removeprefix("pip install ").split())
    refused = run([python, "-m", "kavka", "start"], tmp_path)
    assert refused.returncode == 1
    (target, requirement) = re.findall(r"--target '(.+?)' '(.+?)'$", refused.stderr, re.M)[0]
    assert f"'{requirement}'" in copy and target.endswith("/kavka/codec")
    where = re.search(r"\"\$\(python -c '(.+?)'\)/codec\"", copy)
    assert where is not None
    assert run([python, "-c", where[1]], tmp_path).stdout == f"{Path(target).parent}\n"
    pip("install", *PINS, "--no-deps", "--target", target, requirement)
    done = run([python, "-c", BESIDE], tmp_path)
    assert re.fullmatch(r"2\.[\d.]+ b'apples'\napples\npears\n", done.stdout), done.stderr


def test_the_compatibility_suite_runs_without_a_checkout(wheel: Path, tmp_path: Path) -> None:
    """A client with a scenario, and an API by its recorded answers, against a broker that runs."""
    python = environment(tmp_path)
    pip("--python", python, "install", *PINS, f"{wheel}[compat]")
    compat: list[str | Path] = [python.with_name("kavka"), "compat", "--bootstrap-server"]
    broker = Kavka(tmp_path / "broker")
    with running([broker]):
        compat.append(broker.bootstrap)
        chosen = ["--clients", "aiokafka", "--scenarios", "plain", "--no-skips"]
        done = run([*compat, *chosen, "--json", "found.json"], tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
        (cell,) = json.loads((tmp_path / "found.json").read_text())["cells"]
        assert (cell["client"], cell["status"]) == ("aiokafka", "passed")
        done = run([*compat, "--apis", "DescribeCluster"], tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "DescribeCluster v0-2: passed, 71 cases" in done.stdout.splitlines()
