"""Archives of Apache Kafka's classes, with which its brokers and tools start in half the time.

`python -m support.java_archive` makes those that are missing: a broker leaves the classes that it
has loaded behind when it ends, as its JVM maps them into memory (JEP 350).
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from support import java
from support.oracle import ApacheKafka
from support.oracle39 import PROJECT as KAFKA39
from support.oracle39 import ApacheKafka39

STOP_WITHIN_S = 120.0

BROKERS: Final[Mapping[str, type[ApacheKafka] | type[ApacheKafka39]]] = {
    "kafka4": ApacheKafka,
    KAFKA39: ApacheKafka39,
}


def make(project: str) -> None:
    """Make the archive of one project: whole or not at all."""
    archive = java.archive(project)
    with tempfile.TemporaryDirectory(dir=archive.parent) as scratch:
        left = Path(scratch) / "classes.jsa"
        broker = BROKERS[project](Path(scratch))
        broker.more_options = [f"-XX:ArchiveClassesAtExit={left}"]
        try:
            broker.start().stop(within_s=STOP_WITHIN_S)
        finally:
            broker.close()
        left.rename(archive)


def main() -> int:
    """The exit code; where there is no Java, one line says so."""
    if not java.available():
        print("no Java: no archives of its classes")
        return 0
    for project in BROKERS:
        if not java.archive(project).exists():
            print(f"{project} ...", flush=True)
            make(project)
    return 0


if __name__ == "__main__":
    sys.exit(main())
