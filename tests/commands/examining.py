"""What `kavka doctor` finds, for tests."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kavka.cli import main
from kavka.server.runtime.clock import SystemClock
from support.wait import eventually

PATIENT_MS = 30_000
"""A broker on a busy machine may be held up for seconds, and is well nevertheless."""

SOON_MS = 3_000
"""For what never answers: there is no more to be learnt after that."""

KNOWN_WITHIN_S = 60.0

LEVELS = {"ok": 0, "note": 0, "warning": 2, "error": 3}


class Examined(NamedTuple):
    """What a run said."""

    exit_code: int
    findings: list[dict[str, Any]]

    @property
    def problems(self) -> set[str]:
        """What needs attention, as step/problem."""
        return {
            f"{finding['step']}/{finding['problem']}"
            for finding in self.findings
            if finding["level"] in ("warning", "error")
        }

    @property
    def notes(self) -> set[str]:
        """What is only to be known, as step/problem."""
        return {
            f"{finding['step']}/{finding['problem']}"
            for finding in self.findings
            if finding["level"] == "note"
        }

    def of(self, problem: str) -> dict[str, Any]:
        """The one finding of a problem."""
        (found,) = [finding for finding in self.findings if finding["problem"] == problem]
        return found


def examined(bootstrap: str, *words: str, timeout_ms: int = PATIENT_MS) -> Examined:
    """Examine a cluster."""
    options = ("--timeout-ms", str(timeout_ms), "--watch-seconds", "1", "--output", "json")
    return run("--bootstrap-server", bootstrap, *options, *words)


def await_problems(bootstrap: str, *problems: str) -> Examined:
    """Examine a cluster until just these are found: the broker that is asked hears of a change a
    moment later than its controller."""
    last: list[Examined] = []

    def are_found() -> bool:
        last[:] = [examined(bootstrap)]
        return last[0].problems == set(problems)

    eventually(
        are_found,
        within_s=KNOWN_WITHIN_S,
        what=f"{problems} are found, and nothing else",
        detail=lambda: json.dumps(last[0].findings, indent=1),
    )
    return last[0]


def examined_files(*words: str) -> Examined:
    """Examine log directories."""
    return run("--output", "json", *words)


def run(*words: str) -> Examined:
    """Run it; its exit code must fit what it found."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        exit_code = main(["doctor", *words])
    assert not err.getvalue()
    said = json.loads(out.getvalue())
    found = Examined(exit_code, said["findings"])
    assert (
        exit_code
        == max(LEVELS[finding["level"]] for finding in found.findings)
        == LEVELS[said["level"]]
    )
    return found


def config_file(directory: Path, settings: Mapping[str, object]) -> str:
    """A client's properties file."""
    path = directory / "client.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    return str(path)


def shift_clock(monkeypatch: pytest.MonkeyPatch, by_ms: int) -> None:
    """Let this process have another time than brokers in other processes."""
    own = SystemClock.now_ms
    monkeypatch.setattr(SystemClock, "now_ms", lambda clock: own(clock) + by_ms)
