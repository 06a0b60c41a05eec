"""`kavka console-producer` ends, and names each record, also where its broker answers no more.

kafka-python asks for a new producer id once a record that was sent again has expired; until it has
one, no other record expires.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Final

import pytest

from support.broker import Kavka, kavka_environment
from support.clients.kafka_python import create_topic, offsets
from support.process import running
from support.terminal import Terminal, screen
from support.wait import eventually

WITHIN_S: Final = 120.0
OPTIONS: Final = "--request-timeout-ms 1000 --timeout 0 --command-property delivery.timeout.ms=3000"
NAMED: Final = re.compile(r"Error when sending message to topic t with key: null, value: (\d) byte")


@pytest.mark.parametrize(
    ("memory_bytes", "exit_code", "last"),
    [
        pytest.param(100_000, 0, [], id="at the end"),
        pytest.param(250, 1, ["no more lines are read: nothing was answered for 8 s"], id="before"),
    ],
)
def test_each_record_is_named_where_the_broker_answers_no_more(
    memory_bytes: int, exit_code: int, last: list[str], tmp_path: Path
) -> None:
    """At the end of the lines with 0, as where records fail otherwise; before it, where there is
    memory for a line only once another one is answered, with 1."""
    broker, terminal = Kavka(tmp_path), Terminal()
    with running([broker]):
        create_topic(broker.bootstrap, "t", 1)
        words = f"console-producer --bootstrap-server {broker.bootstrap} --topic t {OPTIONS}"
        words += f" --max-memory-bytes {memory_bytes}"
        process = subprocess.Popen(
            [sys.executable, "-m", "kavka", *words.split()],
            stdin=subprocess.PIPE,
            stderr=terminal.slave,
            env={**kavka_environment(), "TERM": "xterm", "COLUMNS": "120"},
        )
        os.close(terminal.slave)
        deadline = threading.Timer(WITHIN_S, process.kill)
        deadline.start()
        assert process.stdin is not None
        try:
            process.stdin.write(b"written\n")
            process.stdin.flush()
            eventually(
                lambda: offsets(broker.bootstrap, "t", 1)[1] == {0: 1},
                within_s=WITHIN_S,
                what="a record is written",
            )
            assert broker.process is not None
            broker.process.send_signal(signal.SIGSTOP)
            process.stdin.write(b"1\n")
            process.stdin.flush()
            while not NAMED.search(terminal.written):
                assert terminal.read(), "the first one expires, and is named"
            process.stdin.write(b"22\n333\n")
            process.stdin.close()
            while terminal.read():
                """It goes on."""
            assert process.wait(WITHIN_S) == exit_code
        finally:
            deadline.cancel()
            process.kill()
            process.wait()
            terminal.close()
    lines = screen(terminal.written)
    assert [NAMED.findall(line) for line in lines[:3]] == [["1"], ["2"], ["3"]]
    assert lines[3:] == last
    assert ("waiting for brokers" in terminal.written) is not bool(last)
