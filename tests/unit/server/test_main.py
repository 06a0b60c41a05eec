"""The broker as a process of its own: exit codes and what it says. More in tests/broker."""

from __future__ import annotations

import gc
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from kavka.server.connections.dispatch import LAZY_MODULES
from kavka.server.instance import Instance
from kavka.server.main import main, ready_line
from support.broker import Kavka, kavka_environment

READY = re.compile(
    r"Kavka [\w.+]+ ready on 127\.0\.0\.1:(\d+), data in (\S+), (\d+) ms", re.MULTILINE
)


FIRST_WRITE = """
import sys
from kafka import KafkaProducer
from kavka.testing import Broker
import kavka.server.main
from kavka.server.runtime import lazy_imports
lazy_imports.BEGIN_AFTER_S = 3600
with Broker() as broker:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
    assert producer.send("t", b"v").get(timeout=60).offset == 0
    print(*sorted(name for name in sys.modules if name.startswith("kavka.")))
"""

COLLECTED = """
import gc, sys
from types import SimpleNamespace
from kavka.server.main import GC_THRESHOLDS, _tune_gc

class Ring:
    def __init__(self):
        self.itself = self
    def __del__(self):
        print("collected", flush=True)

gc.disable()
Ring()
grown = [[] for _ in range(100_000)]
looked_at = []
gc.callbacks.append(lambda phase, info: looked_at.append(phase))
groups = SimpleNamespace(is_loading=sys.argv[1] == "loading", on_replayed=None)
_tune_gc(groups)
assert gc.isenabled() and gc.get_threshold() == GC_THRESHOLDS
assert gc.get_freeze_count() > 100_000
more = [[] for _ in range(GC_THRESHOLDS[0] - 500)]
frozen = gc.get_freeze_count()
groups.on_replayed()
assert gc.get_freeze_count() - frozen >= len(more)
print(looked_at.count("start"), "collections", flush=True)
gc.disable()
"""

FOR_LATER = (
    *LAZY_MODULES,
    "kavka.log.compaction.candidates",
    "kavka.log.compaction.order",
    "kavka.log.compaction.run",
    "kavka.log.compaction.swap",
    "kavka.log.memfs",
    "kavka.server.config.docs",
    "kavka.server.config.unsupported_rows",
    "kavka.server.monitoring.http_server",
    "kavka.server.monitoring.metrics.table",
    "kavka.server.monitoring.pages",
    "kavka.server.runtime.processes",
    "kavka.server.handlers.common.down_conversion",
    "kavka.wire.down_conversion",
    "kavka.wire.old_lz4",
    "kavka.wire.up_conversion",
)
"""What most brokers never need, or only minutes after their start."""


@pytest.fixture(autouse=True)
def as_before(own_log: None) -> Iterator[None]:
    """What a process sets for itself is undone for the next test."""
    yield
    gc.enable()


def test_the_first_write_imports_nothing_that_is_for_later() -> None:
    command = [sys.executable, "-c", FIRST_WRITE]
    done = subprocess.run(command, capture_output=True, text=True, env=kavka_environment())
    imported = frozenset(done.stdout.split())
    assert "kavka.server.main" in imported, done.stderr
    assert imported.isdisjoint(FOR_LATER)
    for name in FOR_LATER:
        assert find_spec(name) is not None, "there is no such module any more"


@pytest.mark.parametrize(
    ("when", "said"),
    [("settled", "collected\n1 collections\n"), ("loading", "0 collections\n")],
)
def test_the_collector_looks_at_nothing_that_stays(when: str, said: str) -> None:
    """What is garbage after the start goes, but not while groups are being loaded: to look for it
    would hold them, and who waits for them, up."""
    command = [sys.executable, "-c", COLLECTED, when]
    done = subprocess.run(command, capture_output=True, text=True, env=kavka_environment())
    assert done.stdout.startswith(said), done.stderr
    assert not done.returncode, done.stderr


@pytest.mark.parametrize(
    ("override", "reason"),
    [
        ("num.partitions=none", "num.partitions=none"),
        ("listeners=nonsense", "listeners=nonsense"),
        ("log.dirs=", "log.dirs"),
    ],
)
def test_bad_settings_are_named(
    capsys: pytest.CaptureFixture[str], override: str, reason: str
) -> None:
    assert main(None, [override]) == 1
    output = capsys.readouterr()
    assert output.err.startswith("kavka: ") and reason in output.err
    assert output.err.count("\n") == 1 and not output.out


def test_a_file_that_cannot_be_read_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = str(tmp_path / "missing.properties")
    assert main(path, []) == 1
    assert path in capsys.readouterr().err


def test_a_start_that_fails_leaves_one_line_and_exit_code_1(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "meta.properties").write_text("version=0\ncluster.id=x\nbroker.id=9\n")
    overrides = [f"log.dirs={tmp_path}", "listeners=PLAINTEXT://127.0.0.1:0"]
    assert main(None, overrides) == 1
    last_line = capsys.readouterr().err.splitlines()[-1]
    assert last_line.startswith("kavka: ") and "cluster x" in last_line
    assert not (tmp_path / ".kafka_cleanshutdown").exists()


@pytest.mark.parametrize("path", ["/proc/kavka/data", "/dev/null/data"])
def test_a_directory_that_cannot_be_made_is_named(
    capsys: pytest.CaptureFixture[str], path: str
) -> None:
    assert main(None, [f"log.dirs={path}", "listeners=PLAINTEXT://127.0.0.1:0"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("kavka: ") and path.rpartition("/")[0] in line


@pytest.mark.parametrize(
    ("bound", "advertised", "said"),
    [
        ({"P": ("h", 1)}, {"P": ("h", 1)}, "ready on h:1, data in d,"),
        ({"P": ("*", 1)}, {"P": ("mine", 1)}, "ready on *:1 (advertised as mine:1), data in d,"),
        ({"P": ("::1", 1), "Q": ("*", 2)}, {"P": ("::1", 1), "Q": ("*", 2)}, "on [::1]:1,*:2, "),
    ],
)
def test_the_ready_line_has_the_addresses(
    bound: dict[str, tuple[str, int]], advertised: dict[str, tuple[str, int]], said: str
) -> None:
    broker = SimpleNamespace(
        bound=bound, addresses=advertised, settings=SimpleNamespace(log_dirs=("d",))
    )
    assert said in ready_line(cast(Instance, broker))


def test_a_process_from_start_to_stop(tmp_path: Path) -> None:
    broker = Kavka(tmp_path).start()
    try:
        ready = READY.search(broker.output())
        assert ready is not None, broker.output()
        assert int(ready[1]) == broker.port
        assert ready[2] == str(broker.data_dir)
        assert 0 < int(ready[3]) < 60_000
        broker.stop()  # asserts exit code 0
        assert (broker.data_dir / ".kafka_cleanshutdown").exists()
    finally:
        broker.close()
