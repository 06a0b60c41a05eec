"""The tests of Spark's own Kafka connector, compiled by its project, on a broker that is there.

They start a broker in their own JVM, through one class; a class of that name in
`tests/java/spark/connector` stands before it and hands them the broker under test.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final, NamedTuple
from zipfile import ZipFile

from support import java, java_compiler, junit_report
from support.paths import JAVA

PACKAGE: Final = "org.apache.spark.sql.kafka010"
UTILITIES: Final = JAVA / "spark" / "connector"
SUITE_WITHIN_S: Final = 2400.0

OPENED: Final = (
    *("java.io", "java.lang", "java.lang.invoke", "java.lang.reflect", "java.net", "java.nio"),
    *("java.util", "java.util.concurrent", "java.util.concurrent.atomic", "sun.nio.ch"),
    *("sun.nio.cs", "sun.security.action", "sun.util.calendar"),
)
"""What Spark starts each of its JVMs with (its JavaModuleOptions)."""

OPTIONS: Final = (
    "-Xmx2G",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    f"-Dlog4j2.configurationFile=file:{java.TOOLS_LOGGING}",
    "--add-modules=jdk.incubator.vector",
    *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED),
    "-Djdk.reflect.useDirectMethodHandle=false",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dspark.testing=1",
    "-Dspark.ui.enabled=false",
    "-Dspark.driver.host=127.0.0.1",
    "-Dspark.driver.bindAddress=127.0.0.1",
)


class Outcome(NamedTuple):
    """What became of a suite's tests: their names, and why those failed that did."""

    passed: frozenset[str]
    failed: dict[str, str]


def run(suite: str, bootstrap: str, home: Path) -> Outcome:
    """Run a suite of the connector in `home` on the broker there, whose topics it deletes."""
    reports, tests = home / "reports", home / "tests"
    reports.mkdir(parents=True)
    [jar] = java.libs("spark").glob("spark-sql-kafka-*-tests.jar")
    with ZipFile(jar) as packed:  # tests take files out of it, which they open by their paths
        packed.extractall(tests)
    command = [
        java.program("java"),
        *OPTIONS,
        f"-Djava.io.tmpdir={home}",
        f"-Dspark.test.home={home}",
        f"-Doutside.broker={bootstrap}",
        *("-cp", _class_path(tests), "org.scalatest.tools.Runner"),
        *("-R", str(tests), "-s", f"{PACKAGE}.{suite}", "-oW", "-u", str(reports)),
    ]
    output = home / "output"
    with output.open("wb") as file:
        subprocess.run(
            command,
            cwd=home,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            timeout=SUITE_WITHIN_S,
            env=java.environment(),
        )
    found = [case for path in reports.glob("*.xml") for case in _cases(path)]
    assert found, f"{suite} has run no test\n{output.read_text(errors='replace')[-8000:]}"
    return Outcome(
        frozenset(name for name, why in found if why is None),
        {name: why for name, why in found if why is not None},
    )


def _cases(report: Path) -> list[tuple[str, str | None]]:
    """The tests of a report in JUnit's form, and why each failed; those left out are left out."""
    return [
        (case.name, None if case.outcome is None else case.why)
        for case in junit_report.cases(report)
        if case.outcome != junit_report.SKIPPED
    ]


def _class_path(tests: Path) -> str:
    """The stand-in first, then the connector's tests and jars, then PySpark's, and the others'."""
    from kavka.spark_it import jars

    utilities = java_compiler.classes(UTILITIES, java.libs("spark"))
    connector = ":".join(map(str, jars.fetch(jars.CONNECTOR)))
    own = jars.pyspark_directory() / "jars"
    return f"{utilities}:{tests}:{connector}:{own}/*:{java.libs('spark')}/*"
