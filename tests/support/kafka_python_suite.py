"""kafka-python's own integration tests, from its source archive, run against a broker.

Its tests of SASL and TLS are left out: they start brokers themselves, with what a checkout of
kafka-python has beside its sources.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Final

from support import installed, junit_report
from support.paths import ROOT, TESTS

PASSED: Final = "passed"
FILES: Final = tuple(f"test_{name}_integration.py" for name in ("admin", "consumer", "producer"))
SPEAKS: Final = "4.3"
"""The version that the tests take the broker for."""

SETTINGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "node.id": "0",  # the tests assign replicas to it
        "num.partitions": "4",  # and count on so many
        "offsets.topic.num.partitions": "2",
        "group.min.session.timeout.ms": "1000",
        "group.initial.rebalance.delay.ms": "0",
    }
)
"""Of the broker, as the tests expect it."""

REQUIREMENTS: Final = TESTS / "foreign" / "kafka_python.txt"
SERVICE: Final = TESTS / "foreign" / "service.py"
SUITE_TIMEOUT_S: Final = 900


@cache
def sources() -> Path:
    """Directory of kafka-python's sources and tests, downloaded when it isn't there yet."""
    pinned, required = REQUIREMENTS.read_text(), version("kafka-python")
    assert f"kafka-python=={required} " in pinned, f"{REQUIREMENTS.name} has another version"
    return installed.once("kafka-python", [REQUIREMENTS, SERVICE], _download)


def _download(into: Path) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "download"]
    command += ["--quiet", "--no-deps", "--no-binary=:all:", "--require-hashes", f"--dest={into}"]
    installed.run([*command, "--requirement", str(REQUIREMENTS)], ROOT, os.environ)
    (archive,) = into.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(into, filter="data")
    (unpacked,) = into.glob("*/test")
    unpacked.rename(into / "test")
    (into / "test" / "__init__.py").touch()
    shutil.copy(SERVICE, into / "test")


def run(bootstrap: str, work_dir: Path, tests: Sequence[str] = FILES) -> dict[str, str]:
    """What became of each test: PASSED, or why not."""
    home, report = sources(), work_dir / "report.xml"
    environment = {
        **os.environ,
        "KAFKA_URI": f"kafka://{bootstrap}",
        "KAFKA_VERSION": SPEAKS,
        "KAFKA_ROOT": str(work_dir),
        "PYTHONPATH": str(home),
    }
    options = ["-p", "no:cacheprovider", "-o", "addopts=", f"--rootdir={home}", "-W", "ignore"]
    paths = [str(home / "test" / "integration" / name) for name in tests]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, f"--junitxml={report}", *paths],
        cwd=work_dir,
        env=environment,
        capture_output=True,
        text=True,
        timeout=SUITE_TIMEOUT_S,
    )
    assert report.exists(), done.stdout + done.stderr
    return {
        case.name: PASSED if case.outcome is None else f"{case.outcome}: {case.why[:300]}"
        for case in junit_report.cases(report)
    }
