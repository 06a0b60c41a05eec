"""`kavka mirror`: the command line."""

from __future__ import annotations

import re
from typing import Final

from kavka.tools.admin.command import ClientTool, read_client_properties
from kavka.tools.admin.errors import Misused
from kavka.tools.admin.options import LINES, Given, Option
from kavka.tools.mirror.mirroring import Mirror
from kavka.tools.mirror.report import Report
from kavka.tools.mirror.task import Task
from kavka.tools.mirror.topic_plan import Choice, is_never_copied
from kavka.tools.patterns import user_pattern
from kavka.tools.perf.client import explained, library

REFRESH_MS: Final = 5_000
MANY: Final = ("topic", "copy-again")
"""Options that may be given many times."""

NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,200}")

OPTIONS: Final = (
    Option("source", "Brokers of the cluster to copy from.", "HOST:PORT,.."),
    Option("target", "Brokers of the cluster to copy to.", "HOST:PORT,.."),
    Option("source-config", "A Java consumer's properties file.", "FILE"),
    Option("target-config", "A Java producer's properties file.", "FILE"),
    Option("topic", "A topic; may be given many times.", "TOPIC"),
    Option("include", "Topics whose whole name matches, new ones too.", "REGEX"),
    Option("exclude", "None of these that --include means.", "REGEX"),
    Option(
        "copy-again",
        "A topic to copy from its start once more, when it was deleted in the target; may be given "
        "many times.",
        "TOPIC",
    ),
    Option("groups", "Consumer groups whose offsets are translated; all by default.", "REGEX"),
    Option("no-groups", "Translate no offsets."),
    Option("name", "Of this mirror; by default the id of the source's cluster.", "NAME"),
    Option("replication-factor", "Of topics that are created.", "N", is_number=True, bits=16),
    Option("refresh-ms", "How often to look for new topics and offsets.", "MS", is_number=True),
    Option("until-caught-up", "End when all is copied that was there at the start."),
    LINES,
)


def check(given: Given) -> None:
    """Refuse what makes no sense."""
    given.needs("source", "target")
    for option in OPTIONS:
        if option.value and option.name not in MANY:
            given.text(option.name)  # Misused if it was given twice
    if not given.has("topic") and not given.has("include"):
        raise Misused("Which topics? Give --topic or --include")
    for name in given.texts("topic"):
        if is_never_copied(name):
            raise Misused(f"--topic {name}: what brokers and mirrors keep in it is never copied")
    given.excludes("no-groups", ["groups"])
    if not NAME.fullmatch(given.text("name") or "_"):
        raise Misused("--name is of ASCII letters, digits, '.', '_' and '-', 200 at most")
    for name in ("refresh-ms", "replication-factor"):
        if (given.number(name) or 1) < 1 or given.text(name) == "0":
            raise Misused(f"--{name} is 1 at least")
    for name in given.texts("copy-again"):
        if not _choice(given).takes(name, is_internal=False):
            raise Misused(f"--copy-again {name}: by the other options it is not copied at all")


@explained
def run(given: Given) -> int:
    """Copy."""
    library()
    groups = None if given.has("no-groups") else _pattern(given, "groups") or re.compile(".*")
    task = Task(
        _properties(given, "source"),
        _properties(given, "target"),
        _choice(given),
        groups,
        given.text("name") or "",
        given.number("replication-factor"),
        given.number("refresh-ms") or REFRESH_MS,
        given.has("until-caught-up"),
        frozenset(given.texts("copy-again")),
    )
    report = Report(given.text("output"))
    try:
        Mirror(task, report).run()
    finally:
        report.end()
    return 0


TOOL: Final = ClientTool(
    "mirror",
    "Copy topics and offsets of groups to another cluster.",
    OPTIONS,
    check,
    run,
)


def _choice(given: Given) -> Choice:
    names = frozenset(given.texts("topic"))
    return Choice(names, _pattern(given, "include"), _pattern(given, "exclude"))


def _pattern(given: Given, name: str) -> re.Pattern[str] | None:
    text = given.text(name)
    return None if text is None else user_pattern(text, f"--{name}")


def _properties(given: Given, side: str) -> dict[str, str]:
    path = given.text(f"{side}-config")
    found = {} if path is None else read_client_properties(path)
    return {**found, "bootstrap.servers": given.text(side) or ""}
