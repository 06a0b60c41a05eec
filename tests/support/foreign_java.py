"""Apache Kafka's own tests, as its project has published them, on clusters that are started here.

They start a cluster in their own JVM, through one class; a class of that name in
`tests/java/foreign/clusters` stands before it and asks `support.foreign_clusters` for one.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Final

from support import foreign_clusters, java, java_compiler, junit_report
from support.paths import JAVA

PROJECT: Final = "foreign"
EXTENSION: Final = JAVA / "foreign" / "clusters"
LAUNCHER: Final = "org.junit.platform.console.ConsoleLauncher"
WITHIN_S: Final = 600.0

PASSES: Final = "passes"
ABORTED: Final = "org.opentest4j.TestAbortedException: "


def run(suite: str, starter: foreign_clusters.Starter, home: Path) -> dict[str, str]:
    """What became of each test of a class, `method[number of the run]`: `PASSES`, or why not."""
    reports = home / "reports"
    reports.mkdir(parents=True)
    kafka, tests = java.kafka_libs(), java.libs(PROJECT)
    stand_in = java_compiler.classes(EXTENSION, kafka, tests)
    with foreign_clusters.listening(starter, home) as port:
        command = java.command_line(
            LAUNCHER,
            [
                "execute",
                f"--select-class={suite}",
                f"--reports-dir={reports}",
                "--disable-banner",
                "--disable-ansi-colors",
            ],
            [
                *java.SHORT_RUN,
                *java.shared_classes(),
                f"-Dforeign.clusters={port}",
                "-Djunit.jupiter.extensions.autodetection.enabled=true",
            ],
            more_classes=[stand_in, tests / "*"],
        )
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=WITHIN_S, env=java.environment()
        )
    print(done.stdout + done.stderr)
    found = dict(
        _outcome(case) for path in reports.glob("TEST-*.xml") for case in junit_report.cases(path)
    )
    assert found, f"{suite} has run no test\n{done.stdout}{done.stderr}"
    return found


def _outcome(case: junit_report.Case) -> tuple[str, str]:
    """A test, and what became of it."""
    name = re.sub(r"\(.*?\)", "", case.name)
    if case.outcome is None:
        return name, PASSES
    if case.outcome != junit_report.SKIPPED:
        return name, f"fails: {case.why}"
    [first, *_] = case.why.splitlines()
    return name, f"not applicable: {first.removeprefix(ABORTED)}"
