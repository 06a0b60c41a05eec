"""Apicurio Registry: an application in Java that its driver starts as a process of its own."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

from kavka.compat_tests.clients import python
from kavka.compat_tests.clients.installing import JAVA, MAVEN, found, once, run
from kavka.compat_tests.driver import Program

VERSION: Final = "3.0.9"
"""Of those in Maven Central as a whole program, the newest that runs with Java 17."""

ARTIFACT: Final = f"io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all"
PLUGIN: Final = "org.apache.maven.plugins:maven-dependency-plugin:2.8"
"""This release needs no pom: the artifact's own pom has a parent that is not published."""


def program() -> Program:
    """Its driver, which finds what to start in its environment. Unavailable."""

    def fetch(directory: Path) -> None:
        command = [found(MAVEN), "--batch-mode", "--quiet", f"{PLUGIN}:unpack"]
        command += [f"-Dartifact={ARTIFACT}", f"-DoutputDirectory={directory}"]
        run(command, directory, os.environ)

    directory = once(f"apicurio-{VERSION}", [], fetch)
    driver = python.program(Path(sys.executable), "apicurio_driver.py")
    known = {
        "APICURIO_VERSION": VERSION,
        "APICURIO_JAVA": found(JAVA),
        "APICURIO_JAR": str(directory / f"apicurio-registry-app-{VERSION}-runner.jar"),
    }
    return driver._replace(environment={**driver.environment, **known})
