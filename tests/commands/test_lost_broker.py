"""`kavka console-producer` loses and delays no other record where some fail: each is written, or
named on standard error, or (where the broker had it when it was named) both; none is twice there.

kafka-python's producer alone does not: see `kavka.tools.console.producer_recovery`.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import IO, Final

import pytest

from kavka.tools.unacknowledged import WAITING
from kavka.wire.errors import ErrorCode
from support.broker import Kavka, kavka_environment
from support.clients.kafka_python import KafkaPython, create_topic, offsets
from support.dropping_proxy import DroppingProxy
from support.process import running
from support.terminal import Terminal, screen
from support.threaded_proxy import KavkaBehindProxy
from support.wait import eventually

WITHIN_S: Final = 120.0
OPTIONS: Final = "--request-timeout-ms 1000 --timeout 0 --command-property delivery.timeout.ms=3000"
NAMED: Final = re.compile(
    r"Error when sending message to topic t with key: null, value: (\d+) byte"
)


class Lines:
    """A console producer, and what it says on a terminal of its own."""

    def __init__(self, bootstrap: str, more: str = "") -> None:
        self.terminal = Terminal()
        words = f"console-producer --bootstrap-server {bootstrap} --topic t {OPTIONS} {more}"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "kavka", *words.split()],
            stdin=subprocess.PIPE,
            stderr=self.terminal.slave,
            env={**kavka_environment(), "TERM": "xterm", "COLUMNS": "120"},
        )
        os.close(self.terminal.slave)
        assert self.process.stdin is not None
        self.input: IO[bytes] = self.process.stdin

    def write(self, *lines: str) -> None:
        self.input.write("".join(f"{line}\n" for line in lines).encode())
        self.input.flush()

    def until_said(self, pattern: str, times: int = 1) -> None:
        """Read on until that was said so often."""
        while len(re.findall(pattern, self.terminal.written)) < times:
            assert self.terminal.read(), f"{pattern} is said {times} times"

    def end(self) -> int:
        """No more lines; the exit code, when all has been said."""
        self.input.close()
        while self.terminal.read():
            """It goes on."""
        return self.process.wait(WITHIN_S)

    def lengths(self) -> list[int]:
        """Of the values of the records that were named."""
        return [int(number) for number in NAMED.findall(self.terminal.written)]


@contextmanager
def producing(bootstrap: str, more: str = "") -> Iterator[Lines]:
    lines = Lines(bootstrap, more)
    deadline = threading.Timer(WITHIN_S, lines.process.kill)
    deadline.start()
    try:
        yield lines
    finally:
        deadline.cancel()
        lines.process.kill()
        lines.process.wait()
        lines.terminal.close()


def until_written(broker: Kavka, count: int) -> None:
    eventually(
        lambda: offsets(broker.bootstrap, "t", 1)[1] == {0: count},
        within_s=WITHIN_S,
        what=f"{count} records are written",
    )


def written(broker: Kavka) -> list[str]:
    """The values of the topic's records."""
    _, ends = offsets(broker.bootstrap, "t", 1)
    found = KafkaPython().read(broker.bootstrap, "t", ends)[0]
    return [(message.record.value or b"").decode() for message in found]


@contextmanager
def a_broker(
    home: Path,
    configs: Mapping[str, str] = MappingProxyType({}),
    behind: DroppingProxy | None = None,
) -> Iterator[Kavka]:
    """With a topic of one partition, which has these configs."""
    broker = Kavka(home) if behind is None else KavkaBehindProxy(home, behind)
    with running([broker]):
        create_topic(broker.bootstrap, "t", 1, configs)
        yield broker


def send_signal(broker: Kavka, number: int) -> None:
    assert broker.process is not None
    broker.process.send_signal(number)


@pytest.mark.parametrize("memory_bytes", [100_000, 250])
def test_each_record_is_named_where_the_broker_answers_no_more(
    memory_bytes: int, tmp_path: Path
) -> None:
    """Also where there is memory for a line only once another one is answered."""
    with a_broker(tmp_path) as broker:
        with producing(broker.bootstrap, f"--max-memory-bytes {memory_bytes}") as lines:
            lines.write("written")
            until_written(broker, 1)
            send_signal(broker, signal.SIGSTOP)
            lines.write("1")
            lines.until_said(NAMED.pattern)
            lines.write("22", "333")
            assert lines.end() == 0
        found = screen(lines.terminal.written)
        assert lines.lengths() == [1, 2, 3] and len(found) == 3
        assert all("Expiring" in line for line in found)
        assert "waiting for brokers" in lines.terminal.written


def test_records_are_written_once_the_broker_answers_again(tmp_path: Path) -> None:
    with a_broker(tmp_path) as broker:
        with producing(broker.bootstrap) as lines:
            lines.write("before")
            until_written(broker, 1)
            send_signal(broker, signal.SIGSTOP)
            lines.write("1")
            lines.until_said(NAMED.pattern)
            lines.write("22")  # it waits for a producer id
            lines.until_said(NAMED.pattern, 2)
            send_signal(broker, signal.SIGCONT)
            lines.write("after")
            assert lines.end() == 0
        assert lines.lengths() == [1, 2]
        assert written(broker) in (["before", "after"], ["before", "1", "after"])


def test_records_that_the_broker_refuses_fail_alone(tmp_path: Path) -> None:
    """Wherever they were in their batches, which are split."""
    values = [f"{number} " + "x" * (number % 10 == 5 and 2000) for number in range(30)]
    refused = [value for value in values if len(value) > 1000]
    with a_broker(tmp_path, {"max.message.bytes": "1000"}) as broker:
        with producing(broker.bootstrap) as lines:
            lines.write(*values)
            assert lines.end() == 0
        assert lines.lengths() == [len(value) for value in refused]
        assert written(broker) == [value for value in values if value not in refused]


def test_a_producer_id_is_asked_for_again_where_that_was_not_answered(tmp_path: Path) -> None:
    with DroppingProxy({"InitProducerId": 1}) as proxy:
        with a_broker(tmp_path, behind=proxy) as broker:
            with producing(broker.bootstrap) as lines:
                lines.write("1", "22")
                assert lines.end() == 0
            assert len(proxy.dropped["InitProducerId"]) == 1
            assert written(broker) == ["1", "22"] and not lines.lengths()


@pytest.mark.parametrize(
    "code", [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE]
)
def test_a_producer_id_is_asked_for_every_100_ms_where_it_is_refused(
    code: ErrorCode, tmp_path: Path
) -> None:
    with DroppingProxy({"InitProducerId": 6}, {"InitProducerId": {"error_code": code}}) as proxy:
        with a_broker(tmp_path, behind=proxy) as broker:
            with producing(broker.bootstrap) as lines:
                lines.write("1")
                assert lines.end() == 0
            assert written(broker) == ["1"] and not lines.lengths()
    first, *_, last = proxy.dropped["InitProducerId"]
    assert len(proxy.dropped["InitProducerId"]) == 6 and last - first >= 0.45


def test_records_are_written_after_one_that_is_sent_no_more(tmp_path: Path) -> None:
    """Its three retries are used up; the broker has seen none of its attempts."""
    with DroppingProxy({"Produce": 4}) as proxy:
        with a_broker(tmp_path, behind=proxy) as broker:
            more = "--command-property delivery.timeout.ms=120000"
            with producing(broker.bootstrap, more) as lines:
                lines.write("1")
                lines.until_said(NAMED.pattern)
                lines.write("22", "333")
                assert lines.end() == 0
            assert len(proxy.dropped["Produce"]) == 4
            assert written(broker) == ["22", "333"] and lines.lengths() == [1]


def test_ctrl_c_twice_ends_a_producer_that_waits_for_each_record(tmp_path: Path) -> None:
    with DroppingProxy({"Produce": 1_000}) as proxy:
        with a_broker(tmp_path, behind=proxy) as broker:
            more = "--sync --command-property delivery.timeout.ms=600000"
            with producing(broker.bootstrap, more) as lines:
                lines.write("1")
                eventually(
                    lambda: bool(proxy.dropped["Produce"]),
                    within_s=WITHIN_S,
                    what="it is in flight",
                )
                lines.process.send_signal(signal.SIGINT)
                lines.until_said("waiting for brokers")
                lines.process.send_signal(signal.SIGINT)
                assert lines.end() == 130
    said = " ".join(screen(lines.terminal.written))
    assert said == f"{WAITING} 1 record(s) may not be written."


def test_ctrl_c_at_the_end_says_how_many_records_may_not_be_written(tmp_path: Path) -> None:
    with a_broker(tmp_path) as broker:
        with producing(broker.bootstrap, "--command-property delivery.timeout.ms=600000") as lines:
            lines.write("written")
            until_written(broker, 1)
            send_signal(broker, signal.SIGSTOP)
            lines.write("1", "22")
            lines.input.close()
            lines.until_said("waiting for brokers")
            lines.process.send_signal(signal.SIGINT)
            assert lines.end() == 130
        assert "2 record(s) may not be written." in lines.terminal.written
