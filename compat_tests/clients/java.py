"""Apache Kafka's own client, in several versions: jars by Maven, drivers compiled once."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final

from kavka.compat_tests.clients.installing import DRIVERS, JAVA, MAVEN, found, once, run
from kavka.compat_tests.driver import Program

SOURCES: Final = DRIVERS / "java"

SHORT_RUN: Final = ("-Xmx256M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
"""Options of a Java machine that lives for seconds, beside others."""

COMPILED_AGAINST: Final = {
    "modern": "kafka_2_8",
    "old": "kafka_1_1",
    "streams": "kafka_streams",
    "connect": "kafka_connect",
    "flink": "flink_2",
}
"""The oldest version of which a driver uses all by its types, or the newest of old ones; what other
versions lack is found at run time."""

MAINS: Final = {
    "modern": "ModernDriver",
    "old": "OldDriver",
    "streams": "StreamsDriver",
    "connect": "ConnectDriver",
    "flink": "FlinkDriver",
}


def kafka_clients(version: str, driver: str) -> Callable[[], Program]:
    """A version's driver; `version`: the directory of its pom."""

    def install() -> Program:
        java = found(JAVA)
        path = os.pathsep.join((f"{jars(version)}/*", str(classes(driver))))
        return Program([java, *SHORT_RUN, "-cp", path, MAINS[driver]], os.environ)

    return install


@cache
def jars(project: str) -> Path:
    """The directory of what a pom names. Unavailable."""
    pom = SOURCES / project / "pom.xml"

    def fetch(directory: Path) -> None:
        options = ["-DincludeScope=runtime", f"-DoutputDirectory={directory}"]
        command = [found(MAVEN), "--batch-mode", "--quiet", f"--file={pom}"]
        run([*command, "dependency:copy-dependencies", *options], SOURCES, os.environ)

    return once(f"java-{project}", [pom], fetch)


def classes(driver: str) -> Path:
    """The directory of a compiled driver. Unavailable."""
    sources = sorted(
        path for part in ("shared", driver) for path in (SOURCES / part).glob("*.java")
    )

    def compile_into(directory: Path) -> None:
        (compiler,) = jars("compiler").glob("ecj-*.jar")
        library = os.pathsep.join(map(str, jars(COMPILED_AGAINST[driver]).glob("*.jar")))
        command = [found(JAVA), "-jar", str(compiler), "-source", "17", "-target", "17"]
        command += ["-cp", library, "-d", str(directory), *map(str, sources)]
        run(command, directory, os.environ)

    return once(f"java-{driver}", sources, compile_into)
