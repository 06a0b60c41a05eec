"""What a user has after `pip install kavka pytest`, in an environment with nothing else in it."""

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

from support.paths import ROOT

TIMEOUT_S = 300
BROKER_S_MAX = 1.0
"""Processor time for loading, starting and ending the broker; how long that takes depends on
what else the machine does."""

LINKS = [path.name for path in (ROOT / "src" / "kavka").iterdir() if path.is_symlink()]
FILES = ("LICENSE", "README.md", "pyproject.toml")
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
        env={key: value for key, value in os.environ.items() if key[:3] not in ("PYT", "KAV")},
    )


def pip(*arguments: str | Path) -> None:
    """pip of these tests' environment; the tests are skipped where it reaches no index."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "--quiet"]
    done = run([*command, *arguments], ROOT)
    if done.returncode and "CI" not in os.environ and "connection" in done.stderr.lower():
        pytest.skip(f"pip reaches no package index: {done.stderr[-300:]}")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a new environment with Kavka, as a wheel, and pytest."""
    place = tmp_path_factory.mktemp("install")
    source = place / "source"  # a build leaves files beside what it builds
    for name in ("src", *LINKS):
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
        shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=ignored)
    for name in FILES:
        shutil.copy(ROOT / name, source)
    pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", place, source)
    (wheel,) = place.glob("kavka-*.whl")
    venv.create(place / "venv", symlinks=True, with_pip=False)
    interpreter = place / "venv" / "bin" / "python"
    pins = ("--constraint", ROOT / "constraints.txt")
    pip("--python", interpreter, "install", *pins, wheel, "pytest")
    return interpreter


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
