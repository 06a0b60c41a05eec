"""Runs `kavka doctor`.

Exit codes: 0 nothing is wrong, 2 something needs attention, 3 clients can't work or data are lost;
1 the doctor could not do its work, or was called wrongly.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from kavka.tools.admin.cluster_client import addresses_of
from kavka.tools.admin.command import ended, printed, read_client_properties, seams
from kavka.tools.admin.errors import Failed, Misused
from kavka.tools.admin.options import Given, Option, parse
from kavka.tools.doctor.approach import PROTOCOL_KEY, client_of
from kavka.tools.doctor.asks_tls import trust_of
from kavka.tools.doctor.findings import EXIT_CODES, Finding, worst
from kavka.tools.doctor.printing import print_findings, print_one, print_summary
from kavka.tools.doctor.rounds import Wishes
from kavka.tools.doctor.walk import Examination, Tell, examine

if TYPE_CHECKING:
    from kavka.tools.doctor.at_rest.rehearsal import Kind

NAME: Final = "doctor"
SUMMARY: Final = "Find out why clients can't work with a cluster, or what is wrong in a directory."
DIRECTORY: Final = "DIRECTORY"
CONFIG: Final = "config"
OVERRIDE: Final = "override"
TIMEOUT_MS: Final = 5_000
WATCH_SECONDS: Final = 6

OPTIONS: Final = (
    Option(
        "timeout-ms",
        f"How long an address may take to answer; {TIMEOUT_MS} by default.",
        "MS",
        is_number=True,
    ),
    Option(
        "watch-seconds",
        f"How long groups with members are watched; {WATCH_SECONDS} by default.",
        "SECONDS",
        is_number=True,
    ),
    Option(
        "write-test",
        "Create a topic for a moment and write a record to each broker: shows whether they take "
        "records, and how far their clocks are from this machine's.",
    ),
    Option(
        CONFIG,
        "Instead of directories: the server.properties of a broker that does not run. Its "
        "log.dirs are examined, and its settings count for what a start would do.",
        "FILE",
    ),
    Option(OVERRIDE, "A setting, as for `kavka start`; may be given many times.", "KEY=VALUE"),
)


def main(words: Sequence[str], kind: Callable[[], Kind]) -> int:
    """Run it with these words; the exit code. `kind`: the brokers whose start is tried in memory;
    only called to examine directories."""

    def run() -> int:
        given = parse(words, OPTIONS, plain=DIRECTORY)
        if printed(given, f"kavka {NAME} {DIRECTORY}.. | kavka {NAME}", SUMMARY, OPTIONS):
            return 0
        if given.has(DIRECTORY) or given.has(CONFIG) or given.has(OVERRIDE):
            for name in (DIRECTORY, CONFIG, OVERRIDE):
                given.excludes(name, ["bootstrap-server", "command-config", "write-test"])
            for name in (CONFIG, OVERRIDE):
                given.excludes(DIRECTORY, [name])
            return _of_directories(given, kind())
        return _of_cluster(given)

    return ended(NAME, words, run)


def _of_directories(given: Given, kind: Kind) -> int:
    """What is wrong in the log directories of a broker that does not run. Failed."""
    from kavka.server.config import ConfigError, gather
    from kavka.tools.doctor.at_rest.examine import broker_of, configured_broker
    from kavka.tools.doctor.at_rest.examine import examine as examine_directories
    from kavka.tools.doctor.at_rest.reading import ReadOnlyFs

    fs = ReadOnlyFs()
    directories, path = given.texts(DIRECTORY), given.text(CONFIG)
    if directories:
        broker = broker_of(fs, directories)
    else:
        try:
            content = b"" if path is None else fs.read_bytes(path)
            settings = gather(content, path or "", os.environ, given.texts(OVERRIDE))
        except ConfigError as failed:
            raise Failed(str(failed)) from failed
        except OSError as failed:
            raise Failed(f"{path} can't be read: {failed.strerror}") from failed
        broker = configured_broker(fs, settings)
    return _told(examine_directories(fs, broker, kind), given)


def _told(findings: Iterable[Finding], given: Given) -> int:
    """Print findings as they come: the exit code."""
    found: list[Finding] = []
    is_text = given.text("output") in (None, "text")
    for finding in findings:
        found.append(finding)
        if is_text:
            print_one(finding)
    if is_text:
        print_summary(found)
    else:
        print_findings(found, given.text("output"))
    return EXIT_CODES[worst(found)]


def _of_cluster(given: Given) -> int:
    bootstrap = given.text("bootstrap-server")
    if bootstrap is None:
        raise Misused("--bootstrap-server or a directory must be given")
    path = given.text("command-config")
    config = {} if path is None else read_client_properties(path)
    found: list[Finding] = []
    is_text = given.text("output") in (None, "text")

    def tell(findings: Iterable[Finding]) -> None:
        for finding in findings:
            found.append(finding)
            if is_text:
                print_one(finding)

    asyncio.run(_examine(addresses_of(bootstrap), config, given, tell))
    if is_text:
        print_summary(found)
    else:
        print_findings(found, given.text("output"))
    return EXIT_CODES[worst(found)]


async def _examine(
    found: Sequence[tuple[str, int]], config: Mapping[str, str], given: Given, tell: Tell
) -> None:
    speaks_tls = config.get(PROTOCOL_KEY, "").upper().endswith("SSL")
    trust = trust_of(config) if speaks_tls else None
    client = client_of(config, trust)
    watch_s = given.number("watch-seconds")
    examination = Examination(
        found,
        client,
        config,
        (given.number("timeout-ms") or TIMEOUT_MS) / 1000,
        Wishes(WATCH_SECONDS if watch_s is None else watch_s, given.has("write-test")),
    )
    lenient = None if trust is None else trust.lenient
    async with seams(lenient if client.login is None else client.secured_by) as opened:
        await examine(examination, opened, tell)
