"""Where the broker's time goes during one stage: perf for C and kernel, cProfile for Python."""

from __future__ import annotations

import io
import os
import pstats
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.peers import Kavka
from bench.run import Run

TOP_LINES: Final = 30
TOP_PARTS: Final = 8
SAMPLES_PER_S: Final = 4999
WAIT_S: Final = 10.0
REPORT_TIMEOUT_S: Final = 60


def profiled(home: Path) -> Kavka:
    """A Kavka that can be profiled; until then it runs as always."""
    return Kavka(home, ["-m", "bench.profile_broker", str(_figures(home))])


def profile(run: Run, act: Callable[[Run], None]) -> str:
    """Run a stage once under perf, where there is one, and once under cProfile: the top lines.

    cProfile slows each Python call several times over: read its shares, not its seconds.
    """
    parts = []
    if shutil.which("perf"):
        samples = run.peer.home / "perf.data"
        with _perf(run.peer.pid, samples):
            act(run)
        parts.append(_perf_report(samples))
    with _cprofile(run.peer.pid, _figures(run.peer.home)):
        act(run)
    parts.append(_cprofile_report(_figures(run.peer.home)))
    return "\n".join(parts)


def _figures(home: Path) -> Path:
    return home / "cprofile.figures"


@contextmanager
def _perf(pid: int, samples: Path) -> Iterator[None]:
    command = ["perf", "record", "-q", "-F", str(SAMPLES_PER_S), "-p", str(pid), "-o", str(samples)]
    recorder = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        recorder.send_signal(signal.SIGINT)
        recorder.wait(WAIT_S)


def _perf_report(samples: Path) -> str:
    by_part = _perf_lines(samples, "dso")[:TOP_PARTS]
    by_function = _perf_lines(samples, "dso,symbol")[:TOP_LINES]
    heading = "perf, share of the broker's CPU by part, and by function:"
    return "\n".join([heading, *by_part, "", *by_function])


def _perf_lines(samples: Path, key: str) -> list[str]:
    command = ["perf", "report", "--stdio", "-i", str(samples), "--sort", key]
    done = subprocess.run(command, capture_output=True, text=True, timeout=REPORT_TIMEOUT_S)
    lines = done.stdout.splitlines()
    found = [line.rstrip(" -") for line in lines if "%" in line and not line.startswith("#")]
    return found or [f"perf gave nothing: {done.stderr[-300:]}"]


@contextmanager
def _cprofile(pid: int, figures: Path) -> Iterator[None]:
    os.kill(pid, signal.SIGUSR1)
    yield
    os.kill(pid, signal.SIGUSR2)
    end_s = time.monotonic() + WAIT_S
    while not figures.exists():
        if time.monotonic() > end_s:
            raise RuntimeError("the broker wrote no profile")
        time.sleep(0.05)


def _cprofile_report(figures: Path) -> str:
    text = io.StringIO()
    pstats.Stats(str(figures), stream=text).sort_stats("tottime").print_stats(TOP_LINES)
    return "cProfile, by time in the function itself:\n" + text.getvalue().strip()
