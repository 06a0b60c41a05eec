"""Records again what both Apache Kafkas answer: `python -m compat.recording`.

The compatibility suite carries these answers. Each release is recorded on two brokers that know
nothing before, so that what is not the same both times is noted.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from differential.brokers import JUDGES, PROJECTS
from kavka.compat_tests.broker import RECORDED_WITH
from kavka.compat_tests.raw.record import main
from support import java
from support.process import running


def record(judge: str, home: Path) -> int:
    """One release; the exit code of the recorder."""
    brokers = [JUDGES[judge](home / str(number), RECORDED_WITH) for number in (1, 2)]
    with running(brokers):
        first, second = (broker.bootstrap for broker in brokers)
        return main(["--judge", judge, "--bootstrap", first, "--again", second])


if __name__ == "__main__":
    for project in PROJECTS:
        java.libs(project)
    with TemporaryDirectory(prefix="kavka-recording-") as directory:
        sys.exit(max(record(judge, Path(directory) / judge) for judge in JUDGES))
