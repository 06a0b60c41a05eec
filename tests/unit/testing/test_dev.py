"""`kavka dev`: a cluster as a process of its own, which ends with a signal and leaves nothing."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from kafka import KafkaProducer

from support.broker import kavka_environment
from support.ports import free_port

ENDS_WITHIN_S = 60


@contextmanager
def running(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """The command as a process, which does not outlive the block."""
    with subprocess.Popen(
        [sys.executable, "-m", "kavka", "dev", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=kavka_environment(),
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_brokers_that_replicate_until_a_signal() -> None:
    port = free_port()
    words = ("--brokers", "1", "--port", str(port), "--override", "num.partitions=2")
    with running(*words) as process:
        assert process.stdout is not None
        ready = process.stdout.readline()
        assert f" ready on 127.0.0.1:{port}: 1 broker, data are removed at the end" in ready
        producer = KafkaProducer(bootstrap_servers=f"127.0.0.1:{port}")
        producer.send("t", b"x").get(timeout=ENDS_WITHIN_S)
        assert producer.partitions_for("t") == {0, 1}
        producer.close()
        process.send_signal(signal.SIGTERM)
        _, output = process.communicate(timeout=ENDS_WITHIN_S)
    assert (process.returncode, output) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--override", "log.dirs=/tmp"], 1, "log.dirs: each broker of the cluster has its own"),
        (["--override", "num.partition=3"], 1, "did you mean num.partitions?"),
        (["--brokers", "0"], 2, "'0' is not a number from 1 on"),
    ],
)
def test_mistakes_are_named(arguments: list[str], code: int, said: str) -> None:
    with running(*arguments) as process:
        _, error = process.communicate(timeout=ENDS_WITHIN_S)
    assert process.returncode == code
    assert said in error
