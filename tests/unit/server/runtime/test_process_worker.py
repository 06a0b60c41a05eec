"""The process at the other end of a pipe, by what is agreed with `processes`."""

from __future__ import annotations

import io
import os
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import kavka
from kavka.log.compaction.run import compact
from kavka.log.fs import OsFs
from kavka.server.runtime.process_worker import NICENESS, ProcessWorker
from support import logs
from support.compaction import order

COMMAND = [
    sys.executable,
    "-c",
    f"from kavka.server.runtime.process_worker import main; main({os.getpid()})",
]
SOURCES = str(Path(kavka.__file__).parent.parent)
WITHIN_S = 60


def start() -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": SOURCES}
    pipe = subprocess.PIPE
    return subprocess.Popen(COMMAND, stdin=pipe, stdout=pipe, env=environment)


def test_news_are_pickled_in_a_row() -> None:
    out = io.BytesIO()
    worker = ProcessWorker(out)
    worker.report({"a": 1})
    worker.send("done", 7)
    out.seek(0)
    assert (pickle.load(out), pickle.load(out)) == (("progress", {"a": 1}), ("done", 7))
    assert worker.monotonic_s() <= worker.monotonic_s()
    worker.sleep(0)


def test_an_order_is_done_with_less_claim_on_the_cpu() -> None:
    with start() as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(pickle.dumps((nice_of_worker(), (0,))))
        child.stdin.flush()
        kind, value = pickle.load(child.stdout)
        assert child.wait(WITHIN_S) == 0
    assert (kind, value) == ("failed", value)
    assert isinstance(value, TypeError)
    assert NICENESS > 0


def nice_of_worker() -> Any:
    """A function that can be named in any process, and takes no worker."""
    return os.getpriority


def test_it_ends_when_the_broker_does(tmp_path: Path) -> None:
    """Whose end of the pipe is closed then, however it dies."""
    settings = logs.settings(cleanup_policy=("compact",), segment_bytes=20_000)
    log = logs.Broker(OsFs(), str(tmp_path), log_settings=settings).log()
    logs.fill(log, 300)
    compaction_order = order(log)
    compaction_order = replace(
        compaction_order, limits=replace(compaction_order.limits, bytes_per_s=1.0)
    )
    with start() as child:
        assert child.stdin is not None
        child.stdin.write(pickle.dumps((compact, (OsFs(), compaction_order))))
        child.stdin.flush()
        child.stdin.close()
        assert child.wait(WITHIN_S) == 1
