"""The jars that Spark's Kafka source and sink need beside PySpark's own, by name, version and
checksum.

They are fetched once from Maven Central, into a directory in the user's cache, by the Ivy that
PySpark carries: no Maven is needed. `spark.jars.packages` would also fetch them, but it resolves
the whole tree anew for each session and fetches 60 MB that PySpark has already.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple
from xml.sax.saxutils import quoteattr

from kavka.spark_it.errors import SparkError
from kavka.spark_it.java import find_java, trust_store_options

PYSPARK: Final = "4.0.0"
"""The PySpark whose connector is in Maven Central with all that it needs."""

INSTALL: Final = "pip install 'kavka[spark]'"


class Jar(NamedTuple):
    """One jar of Maven Central."""

    organisation: str
    name: str
    version: str
    sha256: str

    @property
    def file(self) -> str:
        return f"{self.name}-{self.version}.jar"


CONNECTOR: Final = (
    Jar(
        "org.apache.spark",
        "spark-sql-kafka-0-10_2.13",
        "4.0.0",
        "33a3b8b04df4a2e43c9d5bf8ca5972936a1ac662f2714e014d00ef6f27468bf3",
    ),
    Jar(
        "org.apache.spark",
        "spark-token-provider-kafka-0-10_2.13",
        "4.0.0",
        "f2be3b76f9e6cbe63379d4e4e0dc14f59dbf056ae2ad16ff15ac108004c86767",
    ),
    Jar(
        "org.apache.kafka",
        "kafka-clients",
        "3.9.0",
        "15c1e137f2c2c94398e27abc4060a03b6bde10bf9fac15e8f70c02320b202f18",
    ),
    Jar(
        "org.apache.commons",
        "commons-pool2",
        "2.12.0",
        "6d3bd18df8410f3e31b031aca582cc109342358a62a2759ebd0c4cdf30d06f8b",
    ),
)
"""Spark's Kafka source and sink, and the versions that its pom names."""

AVRO: Final = (
    Jar(
        "org.apache.spark",
        "spark-avro_2.13",
        "4.0.0",
        "083fb13d7a1091025b135eff216e2009b42c9724bb8bc597d2f28b1207ef4709",
    ),
)
"""`from_avro`, `to_avro` and files of Avro."""

DELTA: Final = (
    Jar(
        "io.delta",
        "delta-spark_2.13",
        "4.0.0",
        "538511702aae0ef6973a6a70af3d4543c9009f8edbed786a00737e2d3cd7f04e",
    ),
    Jar(
        "io.delta",
        "delta-storage",
        "4.0.0",
        "9bdb9fb450f1e119eba53feb427f331b0d09072d26485b8273883ad72c9a2e1d",
    ),
)
"""Tables of Delta Lake."""

ALL: Final = (*CONNECTOR, *AVRO, *DELTA)

SETTINGS: Final = """\
<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers><ibiblio name="central" m2compatible="true" useMavenMetadata="false"/></resolvers>
</ivysettings>
"""
"""Ivy's: Maven Central, as Ivy itself knows it."""

FETCHED: Final = "[SUCCESSFUL ] "
"""Begins Ivy's line about a jar that it has fetched, behind a tab."""

SHOWN_LINES_MAX: Final = 20
"""Of Ivy's output, in an error."""


def directory() -> Path:
    """Where the jars are kept: KAVKA_SPARK_JARS, else a directory in the user's cache."""
    chosen = os.environ.get("KAVKA_SPARK_JARS")
    if chosen:
        return Path(chosen)
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache, "kavka", f"spark-{PYSPARK}")


def check_pyspark() -> None:
    """Raise SparkError unless the PySpark is installed that these jars belong to."""
    try:
        installed = version("pyspark")
    except PackageNotFoundError:
        raise SparkError(f"PySpark is not installed: {INSTALL}") from None
    if installed != PYSPARK:
        raise SparkError(
            f"PySpark {installed} is installed, and Kavka knows the Kafka connector of {PYSPARK}: "
            f"{INSTALL}, or give the jars of your Spark's connector yourself "
            "(session(jars=[...]), --jars)"
        )


def fetch(jars: Sequence[Jar] = ALL, *, report: Callable[[str], None] | None = None) -> list[Path]:
    """The paths of `jars`, in this order; those that are missing are fetched first.

    `report` is called with a line for the start and for each jar that has come; without it they
    are printed on standard error. Jars there already are only checked. Raises SparkError without
    Java or PySpark, if a jar cannot be fetched, and for one whose checksum is wrong.
    """
    report = report if report is not None else _print_line
    target = directory()
    missing = [jar for jar in jars if not (target / jar.file).exists()]
    if missing:
        check_pyspark()
        target.mkdir(parents=True, exist_ok=True)
        report(f"fetching {len(missing)} jars into {target}")
        with tempfile.TemporaryDirectory(dir=target, prefix=".fetch-") as scratch:
            _run_ivy(missing, Path(scratch), report)
            for jar in missing:
                fetched = Path(scratch, jar.file)
                _check(jar, fetched)
                fetched.replace(target / jar.file)  # whole or not at all, also beside another fetch
    for jar in jars:
        _check(jar, target / jar.file)
    return [target / jar.file for jar in jars]


def _print_line(line: str) -> None:
    print(f"kavka spark: {line}", file=sys.stderr, flush=True)


def _check(jar: Jar, path: Path) -> None:
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as failure:
        raise SparkError(f"{path} cannot be read: {failure}") from failure
    if digest != jar.sha256:
        raise SparkError(
            f"{path} is not {jar.name} {jar.version}: its SHA-256 is {digest}, not {jar.sha256}. "
            "Remove it and fetch it again (kavka spark fetch-jars)"
        )


def _run_ivy(jars: Iterable[Jar], scratch: Path, report: Callable[[str], None]) -> None:
    """Fetch `jars` into `scratch` with the Ivy that PySpark carries."""
    module = scratch / "ivy.xml"
    module.write_text(_module(jars))
    settings = os.environ.get("KAVKA_IVY_SETTINGS")
    if not settings:
        settings = str(scratch / "ivysettings.xml")
        Path(settings).write_text(SETTINGS)
    options = {
        "-settings": settings,
        "-cache": str(scratch / "ivy"),
        "-ivy": str(module),
        "-confs": "default",
        "-retrieve": str(scratch / "[artifact]-[revision].[ext]"),
    }
    command = [find_java(), *trust_store_options(), "-jar", str(_ivy())]
    command += [word for option in options.items() for word in option] + ["-types", "jar"]
    output: list[str] = []
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as ivy:
        assert ivy.stdout is not None
        for line in ivy.stdout:
            output.append(line)
            if line.lstrip().startswith(FETCHED):  # ... organisation#name;version!file (time)
                name = line.partition("#")[2].partition("!")[0].replace(";", " ")
                report(f"fetched {name}")
    if ivy.returncode:
        last = "".join(output[-SHOWN_LINES_MAX:])
        raise SparkError(
            "the jars of Spark's Kafka connector could not be fetched from Maven Central. Behind "
            "a mirror, name an Ivy settings file in KAVKA_IVY_SETTINGS; without a network, put "
            f"the jars into {directory()}. Ivy said:\n{last}"
        )


def _module(jars: Iterable[Jar]) -> str:
    rows = "".join(
        f"<dependency org={quoteattr(jar.organisation)} name={quoteattr(jar.name)} "
        f'rev={quoteattr(jar.version)} transitive="false"/>'
        for jar in jars
    )
    return (
        '<ivy-module version="2.0"><info organisation="kavka" module="spark"/>'
        f'<dependencies defaultconf="default">{rows}</dependencies></ivy-module>'
    )


def pyspark_directory() -> Path:
    """Where PySpark is installed. Raises SparkError if it is not."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise SparkError(f"PySpark is not installed: {INSTALL}")
    return Path(spec.origin).parent


def _ivy() -> Path:
    """The Ivy jar among PySpark's."""
    found = sorted((pyspark_directory() / "jars").glob("ivy-*.jar"))
    if not found:
        raise SparkError(f"this PySpark has no Ivy among its jars: {INSTALL}")
    return found[-1]
