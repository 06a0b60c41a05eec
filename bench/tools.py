"""How long `kafka-topics --list` takes from the start of its process to the end, and its CPU time.

Kavka's and Apache Kafka's, each beside its own broker. Apache Kafka's has the JVM flags that its
scripts give tools.
"""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Final

from bench import procs
from bench.peers import ANY_JVM, ApacheKafka
from bench.raw import HOST
from bench.run import Run
from support import java

TOOL_JVM: Final = (
    "-Xmx256M",
    *ANY_JVM,
    f"-Dlog4j2.configurationFile=file:{java.TOOLS_LOGGING}",
)


def stage(run: Run) -> None:
    """List the topics of the broker once."""
    arguments = ["--bootstrap-server", f"{HOST}:{run.peer.port}", "--list"]
    command = [sys.executable, "-m", "kavka", "topics", *arguments]
    if isinstance(run.peer, ApacheKafka):
        command = java.command_line(java.TOPICS, arguments, TOOL_JVM)
    before_s, started_s = procs.own_cpu_s(), time.monotonic()
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=run.peer.environment()
    )
    said, errors = process.communicate()
    took_s = time.monotonic() - started_s
    if process.returncode:
        raise RuntimeError(f"{command[:4]} ended with {process.returncode}: {said!r}{errors!r}")
    run.add("tool.time", took_s * 1e3)
    run.add("tool.cpu", (procs.own_cpu_s() - before_s) * 1e3)
