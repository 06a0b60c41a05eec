"""Each tool takes all options that Apache Kafka's tool of its name takes, under their old names and
under their new ones."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from commands.players import JAVA_CLASSES, TOOLS
from kavka.cli import CLIENT_TOOLS, FILE_TOOLS, main
from kavka.cli import TOOLS as TOOLS_ASKING
from support import java
from support.class_file import texts_of_class
from support.java_tools import Tools

CLASSES: Final[Mapping[str, str]] = {
    **{name.removeprefix("kafka-"): java_class for name, java_class in JAVA_CLASSES.items()},
    "delegation-tokens": f"{TOOLS}.DelegationTokenCommand",
    "replica-verification": f"{TOOLS}.ReplicaVerificationTool",
}

COMMANDS: Final[Mapping[str, tuple[str, ...]]] = {
    "cluster": ("cluster-id", "list-endpoints", "unregister"),
    "features": (
        *("describe", "upgrade", "downgrade", "disable"),
        *("version-mapping", "feature-dependencies"),
    ),
    "storage": ("info", "format", "random-uuid", "version-mapping", "feature-dependencies"),
    "transactions": (
        *("list", "describe", "describe-producers", "abort", "find-hanging"),
        "forceTerminateTransaction",
    ),
}
"""The sub-commands of tools that have some."""

UNASKED: Final = ("cluster", "verifiable-consumer", "verifiable-producer")
"""Tools whose --help ends their process: the options are texts in their classes."""

ASKED: Final[Mapping[str, tuple[str, ...]]] = {
    "e2e-latency": ("--bootstrap-server", "localhost:9092", "--help"),
}
"""What a tool has to be asked instead of --help alone."""

SHOWN: Final = re.compile(r"^ {0,2}(-{1,2}[A-Za-z].*(?:\n  [<[])?)", re.MULTILINE)
"""The line of an option; the value that it takes may be in the next one."""

NAMES: Final = re.compile(r"--?[A-Za-z][\w.-]*(?:(?: [A-Z_]+)?, --?[A-Za-z][\w.-]*)*")
NAME: Final = re.compile(r"(?:^|, )(--?[A-Za-z][\w.-]*)")
WORD: Final = re.compile(r"--?[A-Za-z][\w.-]*")
LISTED: Final = re.compile(r"\{([\w,-]+)\}\s+\.\.\.|^    ([a-zA-Z-]+)(?=  |$)", re.MULTILINE)


class Options(NamedTuple):
    """The options of a tool or of a sub-command."""

    names: set[str]
    valued: set[str]
    """Those of them that take a value, or may take one."""


def shown(text: str) -> Options:
    """The options that a help explains, each in lines of its own."""
    names, valued = set(), set()
    for line in SHOWN.findall(text):
        head = NAMES.match(line)
        assert head, line
        found = NAME.findall(head[0])
        names.update(found)
        if re.match(r" [^ ]", line[head.end() :]) or line.endswith(("\n  <", "\n  [")):
            valued.update(found)
    assert names, text
    return Options(names, valued)


def of_kavka(*words: str) -> Options:
    """Those of Kavka's tool, or of its sub-command."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main([*words, "--help"]) == 0
    return shown(out.getvalue())


def help_of(tools: Tools, name: str, *command: str) -> str:
    """What Apache Kafka's tool says of its options, or of its sub-command's."""
    done = tools.run(CLASSES[name], *command, *ASKED.get(name, ("--help",)))
    return done.text + done.stderr


def differences(tools: Tools, name: str) -> Iterator[str]:
    """What Kavka's tool of this name lacks."""
    commands = COMMANDS.get(name, ())
    if commands:
        listed = LISTED.findall(help_of(tools, name))
        found = {word for many, single in listed for word in (*many.split(","), single) if word}
        assert found == {*commands}, (name, found)
    for command in ((), *((word,) for word in commands)):
        theirs, ours = shown(help_of(tools, name, *command)), of_kavka(name, *command)
        words = " ".join((name, *command))
        yield from (
            f"{words}: {missing} is missing" for missing in sorted(theirs.names - ours.names)
        )
        for option in sorted(theirs.names & ours.names):
            if (option in theirs.valued) != (option in ours.valued):
                yield f"{words}: {option} {'takes' if option in theirs.valued else 'has no'} value"


def test_no_option_is_missing(tmp_path: Path) -> None:
    with Tools(tmp_path / "tools.log") as tools:
        names = sorted(CLASSES.keys() - set(UNASKED))
        found = [difference for name in names for difference in differences(tools, name)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", UNASKED)
def test_no_option_of_the_class_is_missing(name: str) -> None:
    theirs = {
        text for text in texts_of_class(java.kafka_libs(), CLASSES[name]) if WORD.fullmatch(text)
    }
    assert {"--bootstrap-server", "--command-config"} <= theirs
    ours = of_kavka(name).names.union(
        *(of_kavka(name, command).names for command in COMMANDS.get(name, ()))
    )
    assert theirs <= ours


@pytest.mark.parametrize("name", ["producer-perf-test", *UNASKED[1:]])
def test_a_letter_asks_for_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """As in Apache Kafka's tools whose command lines argparse4j reads."""
    assert main([name, "-h"]) == 0
    assert "-h, --help" in capsys.readouterr().out


def test_every_tool_of_apache_kafka_s_name_is_compared() -> None:
    assert {name for name, *_ in TOOLS_ASKING} | {name for name, _ in FILE_TOOLS} <= CLASSES.keys()
    named = {name for package, name, _ in CLIENT_TOOLS if package != "mirror"}
    assert named | {"storage"} <= CLASSES.keys()
