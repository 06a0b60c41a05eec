from __future__ import annotations

import subprocess
import sys

import pytest

from kavka.server.config.table import base_name, broker_row, broker_rows, broker_synonyms


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("listener.name.internal.ssl.key.password", "ssl.key.password"),
        ("listener.name.a.scram-sha-256.sasl.jaas.config", "sasl.jaas.config"),
        ("listener.name.a", "listener.name.a"),
        ("num.partitions", "num.partitions"),
    ],
)
def test_base_name(name: str, base: str) -> None:
    assert base_name(name) == base


def test_synonyms_strongest_first() -> None:
    hours = broker_synonyms("log.retention.hours")
    assert hours == ("log.retention.ms", "log.retention.minutes", "log.retention.hours")
    assert broker_synonyms("log.roll.jitter.hours")[0] == "log.roll.jitter.ms"
    assert broker_synonyms("log.flush.interval.ms")[1] == "log.flush.scheduler.interval.ms"
    assert broker_synonyms("log.flush.scheduler.interval.ms") == (
        "log.flush.scheduler.interval.ms",
    )
    assert broker_synonyms("listener.name.a.max.connections")[1] == "max.connections"


def test_rows_are_found_by_name() -> None:
    for row in broker_rows():
        assert broker_row(row.name) is row
    assert broker_row("what") is None


def test_names_are_there_once() -> None:
    names = [row.name for row in broker_rows()]
    assert len(names) == len(set(names))


def test_a_start_does_not_load_what_it_does_not_need() -> None:
    code = (
        "import sys; from kavka.server.config import BrokerSettings; "
        "BrokerSettings.load(overrides=['log.dirs=d', 'listeners=PLAINTEXT://127.0.0.1:0']); "
        "print([m for m in sys.modules if m.endswith(('unsupported_rows', 'describe', 'docs'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
