"""The jars of the connector: checked, and what is said when they cannot be had."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from kavka.spark_it import jars
from kavka.spark_it.errors import SparkError
from kavka.spark_it.java import find_java

CONTENT = b"a jar"
JAR = jars.Jar("org.example", "one", "1.0", hashlib.sha256(CONTENT).hexdigest())


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KAVKA_SPARK_JARS", str(tmp_path))
    return tmp_path


def test_what_is_there_is_not_fetched(directory: Path) -> None:
    (directory / "one-1.0.jar").write_bytes(CONTENT)
    said: list[str] = []
    assert jars.fetch([JAR], report=said.append) == [directory / "one-1.0.jar"]
    assert not said


def test_a_wrong_checksum_is_refused(directory: Path) -> None:
    (directory / "one-1.0.jar").write_bytes(CONTENT + b"!")
    with pytest.raises(SparkError, match="is not one 1.0: its SHA-256 is"):
        jars.fetch([JAR])


def test_the_directory_is_in_the_user_s_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KAVKA_SPARK_JARS", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert jars.directory() == tmp_path / "kavka" / f"spark-{jars.PYSPARK}"


def test_no_java_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SparkError, match="has no bin/java.*apt-get install openjdk-17"):
        find_java()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SparkError, match="no java on the PATH.*apt-get install openjdk-17"):
        find_java()


@pytest.mark.parametrize(
    ("says", "error"),
    [
        ('openjdk version "11.0.2" 2019-01-15', "is Java 11"),
        ('java version "1.8.0_292"', "is Java 8"),
        ("what?", "is Java 0"),
    ],
)
def test_an_old_java_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, says: str, error: str
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SparkError, match=error):
        find_java()


def test_each_jar_is_there_once_with_a_checksum() -> None:
    files = [jar.file for jar in jars.ALL]
    assert len(set(files)) == len(files) == 7
    assert all(len(jar.sha256) == 64 for jar in jars.ALL)
