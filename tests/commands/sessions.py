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
    stderr: str
    """Of a command that failed; "" elsewhere."""


def apache_kafka(tools: Tools, java_class: str, broker: BrokerProcess, line: str) -> Said:
    """What Apache Kafka's tool says."""
    done = tools.run(java_class, *words(line, broker))
    return Said(done.exit_code, _stable(done.text, broker), done.stderr if done.exit_code else "")


def kavka(tool: Tool, broker: BrokerProcess, line: str) -> Said:
    """What Kavka's says."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        exit_code = main(tool, words(line, broker))
    return Said(exit_code, _stable(out.getvalue(), broker), err.getvalue() if exit_code else "")


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
        same = found[:2] == wanted[:2] and not found.stderr
        if not same and not _refused_alike(found, wanted):
            yield f"{line}\n  {_short(wanted)}\n  {_short(found)}"


def _refused_alike(found: Said, wanted: Said) -> bool:
    """What Kavka refuses it says in one line of its own on standard error. Where Apache Kafka finds
    out later it prints its message on standard output."""
    one_line = found.stderr.count("\n") == 1 and found.stderr.endswith("\n")
    later = not found.stdout and found.stderr.partition(". `")[0] in wanted.stdout
    same = found.exit_code == wanted.exit_code != 0
    return one_line and same and (found.stdout == wanted.stdout or later)


def _stable(text: str, broker: BrokerProcess) -> str:
    """Without what differs from broker to broker."""
    text = TOPIC_ID.sub("TopicId: ID", text).replace(broker.bootstrap, "BROKER")
    return text.replace(str(broker.data_dir), "DATA")


def _short(said: Said) -> Said:
    return said._replace(stderr=said.stderr[:200])
