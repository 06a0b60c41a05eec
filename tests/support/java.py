"""Apache Kafka's jars and tools, run by the machine's Java.

The jars are fetched once by Maven into `.cache/java/<project>-<hash of its pom>`. A machine without
Java or Maven skips the tests that need them, naming what to install; where CI is set in the
environment that is a failure, since there a skip would go unnoticed.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import NamedTuple, NoReturn

import pytest

from support.paths import CACHE, JAVA

FETCH_TIMEOUT_S = 600
TOOL_TIMEOUT_S = 300
TOOLS_AT_ONCE = 2
JAVA_VERSION_MIN = 17
CONSUMER_WAITS_MS = 60_000
"""How long the console consumer waits for what there is."""

INSTALL = {
    "java": "a Java runtime, 17 or newer (Debian: apt-get install openjdk-17-jre-headless)",
    "mvn": "Maven (Debian: apt-get install maven)",
}

TOOLS_LOGGING = JAVA / "log4j2-tools.properties"
SERVER_LOGGING = JAVA / "log4j2-server.properties"
SERVER_LOGGING_39 = JAVA / "log4j-server.properties"

# Short runs: no second compiler, no parallel collector, nothing shared through /tmp.
SHORT_RUN = (
    "-Xmx256M",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-Djava.awt.headless=true",
    "-Dfile.encoding=UTF-8",
    "-Dsun.stdout.encoding=UTF-8",
    "-Dstdout.encoding=UTF-8",
    f"-Dlog4j2.configurationFile=file:{TOOLS_LOGGING}",
)

TOPICS = "org.apache.kafka.tools.TopicCommand"
CONFIGS = "kafka.admin.ConfigCommand"
CONSOLE_PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
FORMATTERS = "org.apache.kafka.tools.consumer"
DUMP_LOG = "org.apache.kafka.tools.DumpLogSegments"
STORAGE = "kafka.tools.StorageTool"

BETWEEN_RECORDS = re.compile(r'(?<=})(?={"key":)')
"""In what the console consumer prints, where a formatter begins no line."""


class Run(NamedTuple):
    """One tool to run: its class, its arguments and what it reads."""

    tool: str
    arguments: Sequence[str]
    stdin: bytes = b""


class Finished(NamedTuple):
    """What a tool left behind."""

    exit_code: int
    stdout: bytes
    stderr: str

    @property
    def text(self) -> str:
        """Standard output as text."""
        return self.stdout.decode()


def missing(what: str) -> NoReturn:
    """Skip the test for lack of `what`; on CI, fail it."""
    message = f"needs {what}"
    if os.environ.get("CI"):
        pytest.fail(message, pytrace=False)
    pytest.skip(message)


def available() -> bool:
    """Whether Java's tools can run here; where CI is set they must."""
    return bool(os.environ.get("CI")) or all(find(name) for name in INSTALL)


def find(name: str) -> str | None:
    """Path of `java` or `mvn`; JAVA_HOME wins over PATH."""
    home = os.environ.get("JAVA_HOME")
    if name == "java" and home and (Path(home) / "bin" / "java").exists():
        return str(Path(home) / "bin" / "java")
    return shutil.which(name)


@cache
def program(name: str) -> str:
    """Path of `java` (new enough) or `mvn`; without it the test is skipped."""
    path = find(name) or missing(INSTALL[name])
    if name == "java":
        output = version(path)
        number = re.search(r'version "(\d+)', output)
        if number is None or int(number[1]) < JAVA_VERSION_MIN:
            missing(f"{INSTALL[name]}; found {output.splitlines()[:1]}")
    return path


@cache
def version(path: str) -> str:
    """What a Java says that it is."""
    return subprocess.run([path, "-version"], capture_output=True, text=True).stderr


def kafka_libs() -> Path:
    """Directory of Apache Kafka 4's jars, fetched when it isn't there yet."""
    return libs("kafka4")


@cache
def libs(project: str) -> Path:
    """Directory of the jars that `tests/java/<project>/pom.xml` names."""
    program("java")
    pom = JAVA / project / "pom.xml"
    digest = hashlib.sha256(pom.read_bytes()).hexdigest()[:12]
    found = CACHE / "java" / f"{project}-{digest}"
    if not found.exists():
        found.parent.mkdir(parents=True, exist_ok=True)
        with (found.parent / f"{found.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # one of several test processes fetches
            if not found.exists():
                fetch(pom, found)
    return found


def fetch(pom: Path, into: Path) -> None:
    """Copy what `pom` names, and all that it needs, into `into`: whole or not at all."""
    partial = into.with_name(f"{into.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    command = [program("mvn"), "-B", "-q", "-f", str(pom), "dependency:copy-dependencies"]
    command += ["-DincludeScope=runtime", f"-DoutputDirectory={partial}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S)
    if done.returncode != 0:
        pytest.fail(f"Maven could not fetch the jars of {pom}:\n{done.stdout}{done.stderr}")
    partial.rename(into)


def archive(project: str) -> Path:
    """Where the classes of a project's jars lie as this Java maps them into memory, once
    `support.java_archive` has put them there."""
    jars = libs(project)
    of_java = hashlib.sha256(version(program("java")).encode()).hexdigest()[:12]
    return jars.with_name(f"{jars.name}-{of_java}.jsa")


def shared_classes(project: str = "kafka4") -> list[str]:
    """Options to take classes from the archive, if there is one. Then the class path must begin
    with the project's jars; where Java finds it unfit, it says nothing and does without."""
    found = archive(project)
    return [f"-XX:SharedArchiveFile={found}", "-Xlog:disable"] if found.exists() else []


def command_line(
    main: str,
    arguments: Iterable[str],
    options: Iterable[str] = SHORT_RUN,
    project: str = "kafka4",
    more_classes: Iterable[Path] = (),
) -> list[str]:
    """How to run class `main` with a project's jars, and directories of classes behind them, on
    the class path."""
    path = ":".join([f"{libs(project)}/*", *map(str, more_classes)])
    return [program("java"), *options, "-cp", path, main, *arguments]


def run(tool: str, *arguments: str, stdin: bytes = b"") -> Finished:
    """Run one tool to its end. Its exit code is the caller's to judge."""
    done = subprocess.run(
        command_line(tool, arguments, [*SHORT_RUN, *shared_classes()]),
        input=stdin,
        capture_output=True,
        timeout=TOOL_TIMEOUT_S,
        env=environment(),
    )
    return Finished(done.returncode, done.stdout, done.stderr.decode(errors="replace"))


def formatted(bootstrap: str, topic: str, formatter: str, count: int) -> str:
    """What the console consumer prints of the first `count` records in partition 0 of a topic, each
    in a line."""
    done = run(
        CONSOLE_CONSUMER,
        f"--bootstrap-server={bootstrap}",
        f"--topic={topic}",
        "--partition=0",
        "--offset=earliest",
        f"--max-messages={count}",
        f"--timeout-ms={CONSUMER_WAITS_MS}",
        f"--formatter={FORMATTERS}.{formatter}",
    )
    assert done.text, done.stderr
    return BETWEEN_RECORDS.sub("\n", done.text)


def run_all(runs: Sequence[Run]) -> list[Finished]:
    """Run tools, a few at once; results in the order of `runs`."""
    kafka_libs()
    with ThreadPoolExecutor(TOOLS_AT_ONCE) as pool:
        return list(
            pool.map(
                lambda tool_run: run(tool_run.tool, *tool_run.arguments, stdin=tool_run.stdin), runs
            )
        )


def environment() -> Mapping[str, str]:
    """The environment of a Java process: nothing that would change its options."""
    ignored = ("JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS")
    return {key: value for key, value in os.environ.items() if key not in ignored}
