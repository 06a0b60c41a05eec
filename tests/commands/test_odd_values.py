"""Numbers that no request can hold, words that are no text, output that takes nothing: one line."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest
from kafka import KafkaConsumer, TopicPartition
from kafka.structs import OffsetAndMetadata

from kavka.cli import main
from kavka.compat_tests.raw.codec.batches import Written, build
from support.broker import Kavka, kavka_environment
from support.clients.kafka_python import create_topic
from support.process import running

DIGITS: Final = "1" * 5000
INVALID: Final = os.fsdecode(b"\xff")
GROUP: Final = "gr\u00fc\u00dfe \u65e5"

REFUSED: Final = {
    ("topics", "--create", "--topic", "x", "--partitions", DIGITS): "it is no number of 32 bits",
    ("topics", "--create", "--topic", "x", "--replica-assignment", "99999999999"): "is not ID:ID",
    ("topics", "--create", "--topic", INVALID): "it is no text in UTF-8",
    ("topics", "--create", "--topic", "x", "--config", f"a={INVALID}"): "it is no text in UTF-8",
    ("get-offsets", "--time", "99999999999999999999"): "Malformed time argument",
    (
        *("consumer-groups", "--delete-offsets", "--group", "g"),
        *("--topic", "t:99999999999"),
    ): "Invalid partition '99999999999'",
    ("delete-records", "--offset-json-file", "DEEP"): "is not valid JSON",
    ("delete-records", "--offset-json-file", "SURROGATE"): "it is no text in UTF-8",
    (
        *("reassign-partitions", "--verify", "--reassignment-json-file", "DEEP"),
    ): "is no JSON: too deep",
}
"""Command lines that end with 1, and what is said of them."""

RESET: Final = {
    "--to-offset 99999999999999999999": "Cannot parse argument",
    "--shift-by 99999999999999999999": "Cannot parse argument",
    "--from-file PLAN": "line 1 is not TOPIC,PARTITION,OFFSET",
}
"""Of consumer-groups --reset-offsets, which ends with 0, as Apache Kafka's."""

ADDRESSES: Final = ("..:9", "a..b:9", f"{'x' * 300}:9", f"{INVALID}:9")
"""Names that none of the Internet can have."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kavka]:
    kavka = Kavka(tmp_path_factory.mktemp("broker"))
    with running([kavka]):
        create_topic(kavka.bootstrap, "t", 1)
        reader = KafkaConsumer(bootstrap_servers=kavka.bootstrap, group_id=GROUP)
        with contextlib.closing(reader):
            reader.commit({TopicPartition("t", 0): OffsetAndMetadata(0, "", -1)})
        yield kavka


def words(given: Sequence[str], broker: Kavka, place: Path) -> list[str]:
    """With the broker's address, and the files that are named."""
    for name, text in (
        ("DEEP", "[" * 100_000),
        ("PLAN", "t,0,99999999999999999999\n"),
        (
            "SURROGATE",
            json.dumps({"partitions": [{"topic": "\ud800", "partition": 0, "offset": 0}]}),
        ),
    ):
        (place / name).write_text(text)
    files = {path.name: str(path) for path in place.iterdir()}
    name, *rest = (files.get(word, word) for word in given)
    return [name, "--bootstrap-server", broker.bootstrap, *rest]


@pytest.mark.parametrize("given", REFUSED, ids=lambda given: " ".join(given)[:70])
def test_one_line_says_what_is_wrong(
    given: Sequence[str], broker: Kavka, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(words(given, broker, tmp_path)) == 1
    said = capfd.readouterr()
    assert REFUSED[tuple(given)] in (said.err or said.out).splitlines()[-1]


@pytest.mark.parametrize("given", RESET)
def test_offsets_that_are_none_are_not_committed(
    given: str, broker: Kavka, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    topic = () if "PLAN" in given else ("--topic", "t")
    line = ["consumer-groups", "--reset-offsets", "--group", "new", *topic, *given.split()]
    assert main(words(line, broker, tmp_path)) == 0
    said = capfd.readouterr().out.splitlines()[-1]
    assert said.startswith("Error: ") and RESET[given] in said


@pytest.mark.parametrize("address", ADDRESSES)
def test_an_address_that_is_none(address: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["topics", "--bootstrap-server", address, "--list"]) == 1
    assert "is not HOST:PORT" in capfd.readouterr().err


FULL = "kavka: what it prints can't be written: No space left on device\n"


def printed(broker: Kavka, redirection: str, encoding: str = "utf-8") -> tuple[int, str]:
    """The exit code of a listing in a shell with this redirection, and what it prints to either
    output."""
    done = subprocess.run(
        [
            *("sh", "-c", f'exec "$@" {redirection}', "sh", sys.executable, "-m", "kavka"),
            *("consumer-groups", "--bootstrap-server", broker.bootstrap, "--list"),
        ],
        env={**kavka_environment(), "PYTHONIOENCODING": encoding},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    return done.returncode, done.stdout.decode(encoding)


@pytest.mark.parametrize(
    ("encoding", "shown"),
    [("utf-8", GROUP), ("latin-1", "gr\u00fc\u00dfe ?"), ("ascii", "gr??e ?")],
)
def test_a_terminal_without_the_letters_shows_question_marks(
    broker: Kavka, encoding: str, shown: str
) -> None:
    assert printed(broker, "", encoding) == (0, f"{shown}\n")


def test_a_full_disk_is_said_in_one_line(broker: Kavka) -> None:
    assert printed(broker, "2>&1 >/dev/full") == (1, FULL)


@pytest.mark.parametrize("words", ["--help", "--version", "start --help", "topics --help"])
def test_help_that_can_t_be_written_is_an_error(words: str) -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "kavka", *words.split()]
        done = subprocess.run(command, env=kavka_environment(), stdout=full, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr.decode()) == (1, FULL)


def test_closed_output_is_no_error(broker: Kavka) -> None:
    assert printed(broker, ">&-") == (0, "")


def test_a_closed_standard_error_takes_nothing(tmp_path: Path) -> None:
    """Neither does standard output, in its place."""

    def ran(words: str) -> tuple[int, str]:
        command = f"{sys.executable} -m kavka {words} 2>&-"
        done = subprocess.run(
            command, shell=True, capture_output=True, env=kavka_environment(), check=False
        )
        return done.returncode, done.stdout.decode()

    assert ran("topics --list") == (1, "")
    log = tmp_path / "00000000000000000000.log"
    log.write_bytes(bytes(build([Written()])))
    code, said = ran(f"dump-log --files {log}")
    assert code == 0
    assert "baseOffset: 0" in said
