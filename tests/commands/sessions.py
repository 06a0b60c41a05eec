"""The same command lines for Apache Kafka's tool and for Kavka's, each on a broker of its own."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

import pytest

from kavka.tools.admin.command import ClientTool, Tool, main
from support import java
from support.process import BrokerProcess
from support.wait import eventually

TOPIC_ID = re.compile(r"\bTopicId: [\w-]{22}(?=\t)")
STDIN = " <<<"
"""Between a command line and what it reads, in which \\n is a line's end."""

APPLIED_WITHIN_S = 60
"""Brokers show by then what they have answered."""

NOTES = re.compile(r"(?m)^Processed a total of .*$")
"""What both say on standard error, beside what they log."""


class Said(NamedTuple):
    """What became of a command line."""

    exit_code: int
    stdout: str
    stderr: str
    """Of a command that failed; "" elsewhere."""
    notes: str = ""
    """Lines of standard error that both have."""


class RunsTools(Protocol):
    """Runs Apache Kafka's tools: `support.java_tools.Tools`; or `support.java` itself, a process
    for each, where a tool ends its process in a way that `Tools` does not survive."""

    def run(self, tool: str, /, *arguments: str, stdin: bytes = b"") -> java.Finished:
        """Run one tool to its end."""
        ...


def apache_kafka(tools: RunsTools, java_class: str, broker: BrokerProcess, line: str) -> Said:
    """What Apache Kafka's tool says."""
    given = words(line, broker)
    done = tools.run(java_class, *given, stdin=stdin(line))
    text = done.stdout.decode(errors="replace")
    return _said(done.exit_code, text, done.stderr, broker)


def kavka(tool: Tool | ClientTool, broker: BrokerProcess, line: str) -> Said:
    """What Kavka's says."""
    out = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)
    err, given = io.StringIO(), io.TextIOWrapper(io.BytesIO(stdin(line)), "utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdin", given)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            exit_code = main(tool, words(line, broker))
    out.seek(0)
    out.reconfigure(errors="replace", newline="")
    return _said(exit_code, out.read(), err.getvalue(), broker)


def words(line: str, broker: BrokerProcess) -> Sequence[str]:
    """A command line's; the address is given at its begin, unless the line begins with a `!` or
    has it elsewhere, as `BROKER`."""
    line = line.partition(STDIN)[0]
    if line.startswith("!") or "BROKER" in line:
        return shlex.split(line.removeprefix("!").replace("BROKER", broker.bootstrap))
    return ["--bootstrap-server", broker.bootstrap, *shlex.split(line)]


def stdin(line: str) -> bytes:
    """What the command line reads."""
    return (
        line.partition(STDIN)[2]
        .removeprefix(" ")
        .encode()
        .decode("unicode_escape")
        .encode("latin-1")
    )


def differences(
    tool: Tool | ClientTool,
    java_class: str,
    tools: RunsTools,
    brokers: Sequence[BrokerProcess],
    lines: str,
    same: Callable[[str], str] = str,
    reads: tuple[str, ...] = (),
) -> Iterator[str]:
    """Where Kavka's tool says something else than Apache Kafka's. `brokers`: one for each, which
    begin alike. `same` takes measured figures out of what is printed. Lines that begin with one of
    `reads` change nothing, so that they can be tried again until brokers have applied what came
    before: Apache Kafka's answer before they do."""
    for line in filter(None, map(str.strip, lines.splitlines())):

        def compare(line: str = line) -> list[str]:
            expected = apache_kafka(tools, java_class, brokers[0], line)
            return [*difference(line, kavka(tool, brokers[1], line), expected, same)]

        yield from settled(compare) if line.startswith(reads) else compare()


def settled(compare: Callable[[], list[str]]) -> list[str]:
    """What differs still once brokers have applied all that they have answered."""
    found: list[str] = []

    def are_alike() -> bool:
        found[:] = compare()
        return not found

    with contextlib.suppress(AssertionError):  # the caller says what differs
        eventually(are_alike, within_s=APPLIED_WITHIN_S, what="both tools say the same")
    return found


def difference(
    line: str, found: Said, expected: Said, same: Callable[[str], str] = str
) -> Iterator[str]:
    """Where Kavka's tool has said something else than Apache Kafka's."""
    alike = same(found.stdout) == same(expected.stdout) and not found.stderr
    if found.exit_code == expected.exit_code and found.notes == expected.notes and alike:
        return
    if not _refused_alike(found, expected):
        yield f"{line}\n  {_short(expected)}\n  {_short(found)}"


def _refused_alike(found: Said, expected: Said) -> bool:
    """What Kavka refuses it says in one line of its own on standard error. Where Apache Kafka finds
    out later it prints its message on standard output."""
    one_line = found.stderr.count("\n") == 1 and found.stderr.endswith("\n")
    begun = expected.stdout.startswith(found.stdout)
    later = begun and found.stderr.partition(". `")[0] in expected.stdout[len(found.stdout) :]
    same = found.exit_code == expected.exit_code != 0 and found.notes in ("", expected.notes)
    return one_line and same and (found.stdout == expected.stdout or later)


def _said(exit_code: int, text: str, errors: str, broker: BrokerProcess) -> Said:
    notes = "\n".join(NOTES.findall(errors))
    errors = NOTES.sub("", errors).lstrip("\n")
    return Said(exit_code, _stable(text, broker), errors if exit_code else "", notes)


def _stable(text: str, broker: BrokerProcess) -> str:
    """Without what differs from broker to broker."""
    text = TOPIC_ID.sub("TopicId: ID", text).replace(broker.bootstrap, "BROKER")
    return text.replace(str(broker.data_dir), "DATA")


def _short(said: Said) -> Said:
    return said._replace(stderr=said.stderr[:200])
