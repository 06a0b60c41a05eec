"""The Java that Spark runs on: the machine's own, 17 or newer."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

from kavka.spark_it.errors import SparkError

OLDEST: Final = 17
"""Spark 4 needs Java 17 or newer."""

INSTALL: Final = "apt-get install openjdk-17-jre-headless"
VERSION_WITHIN_S: Final = 60.0

SYSTEM_TRUST_STORE: Final = Path("/etc/ssl/certs/java/cacerts")
"""Debian's: it has the authorities that this machine's administrator trusts."""


def find_java() -> str:
    """The path of the `java` program: of JAVA_HOME, else the first on the PATH.

    Raises SparkError when there is none, or one older than 17.
    """
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if found is None or not Path(found).exists():
        where = f"JAVA_HOME is {home}, which has no bin/java" if home else "no java on the PATH"
        raise SparkError(f"Spark needs Java {OLDEST} or newer ({where}). On Debian: {INSTALL}")
    version = _major_version(found)
    if version < OLDEST:
        raise SparkError(
            f"Spark needs Java {OLDEST} or newer, and {found} is Java {version}. "
            f"On Debian: {INSTALL}, or set JAVA_HOME to a newer one"
        )
    return found


def _major_version(java: str) -> int:
    """The major version of a `java` program; "1.8.0" is 8. 0 when it does not say."""
    try:
        output = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=VERSION_WITHIN_S
        ).stderr
    except (OSError, subprocess.TimeoutExpired) as failure:
        raise SparkError(f"{java} does not run: {failure}. On Debian: {INSTALL}") from failure
    version = re.search(r'version "(?:1\.)?(\d+)', output)
    return int(version.group(1)) if version else 0


def trust_store_options() -> list[str]:
    """JVM options for a program that fetches over TLS: the system's trust store, if it has one.

    A JDK that was not installed by the system brings its own, without the system's authorities.
    """
    if SYSTEM_TRUST_STORE.exists():
        return [f"-Djavax.net.ssl.trustStore={SYSTEM_TRUST_STORE}"]
    return []
