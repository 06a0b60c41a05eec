"""The same command lines for Apache Kafka's tool and for Kavka's, each on a broker of its own."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kavka.tools.admin.command import Tool, main
from support.java_tools import Tools
from support.process import BrokerProcess

TOPIC_ID = re.compile(r"\bTopicId: [\w-]{22}(?=\t)")


class Said(NamedTuple):
    """What became of a command line."""

    exit_code: int
    stdout: str
    misused: str
    """The first line of standard error where the command line was refused; "" elsewhere."""


def apache_kafka(tools: Tools, java_class: str, broker: BrokerProcess, line: str) -> Said:
    """What Apache Kafka's tool says."""
    done = tools.run(java_class, *words(line, broker))
    misused = done.stderr.partition("\n")[0] if done.exit_code else ""
    return Said(done.exit_code, _stable(done.text, broker), misused)


def kavka(tool: Tool, broker: BrokerProcess, line: str) -> Said:
    """What Kavka's says."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        exit_code = main(tool, words(line, broker))
    misused = err.getvalue().partition(f". `kavka {tool.name} --help`")[0]
    return Said(exit_code, _stable(out.getvalue(), broker), misused)


def words(line: str, broker: BrokerProcess) -> Sequence[str]:
    """A command line's; the address is given unless the line begins with a `!`."""
    if line.startswith("!"):
        return shlex.split(line[1:])
    return ["--bootstrap-server", broker.bootstrap, *shlex.split(line)]


def differences(
    tool: Tool, java_class: str, tools: Tools, brokers: Sequence[BrokerProcess], lines: str
) -> Iterator[str]:
    """Where Kavka's tool says something else than Apache Kafka's. `brokers`: one for each, which
    begin alike."""
    for line in filter(None, map(str.strip, lines.splitlines())):
        wanted = apache_kafka(tools, java_class, brokers[0], line)
        found = kavka(tool, brokers[1], line)
        if found != wanted and not _refused_alike(found, wanted):
            yield f"{line}\n  {wanted}\n  {found}"


def _refused_alike(found: Said, wanted: Said) -> bool:
    """A command line that Kavka refuses on standard error; Apache Kafka may find out later."""
    said = f"{wanted.misused} {wanted.stdout}"
    same = found.stdout in ("", wanted.stdout)
    return same and found.exit_code == wanted.exit_code != 0 and found.misused in said


def _stable(text: str, broker: BrokerProcess) -> str:
    """Without what differs from broker to broker."""
    return TOPIC_ID.sub("TopicId: ID", text).replace(broker.bootstrap, "BROKER")
