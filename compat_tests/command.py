"""`kavka compat`: runs the suite and writes what it found."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Final, NamedTuple, Protocol, TypeAlias, TypeVar

from kavka.compat_tests import broker, protocol, results
from kavka.compat_tests.broker import Broker
from kavka.compat_tests.clients.table import CLIENTS, Client
from kavka.compat_tests.errors import DriverFailed
from kavka.compat_tests.raw.cases import tables
from kavka.compat_tests.raw.survey import Unsuitable
from kavka.compat_tests.reports import html, markdown
from kavka.compat_tests.results import Cell, ProtocolRow, Results, Status
from kavka.compat_tests.scenario import Scenario
from kavka.compat_tests.scenarios.every import SCENARIOS
from kavka.compat_tests.security import Wanted, wanted_by
from kavka.compat_tests.suite import Suite
from kavka.tools.admin.command import read_client_properties
from kavka.tools.admin.errors import Failed

JOBS: Final = (os.cpu_count() or 1) + 1
"""Most of a scenario is waiting."""

DESCRIPTION: Final = """\
Try with real clients what works against a broker.

Without --bootstrap-server the suite starts a Kavka of its own. Clients are installed on first use
into ~/.cache/kavka/compat; one whose toolchain is missing is left out, by name. Exit code 1 if a
scenario failed."""

MARKS: Final = {
    Status.PASSED: "ok",
    Status.FAILED: "FAILED",
    Status.ABSENT: "-",
    Status.UNAVAILABLE: "unavailable",
    Status.NOT_RUN: "not run",
}


class _HasName(Protocol):
    @property
    def name(self) -> str: ...


_T = TypeVar("_T", bound=_HasName)


class _Named(NamedTuple):
    """A name to choose."""

    name: str


UnderTest: TypeAlias = AbstractAsyncContextManager[Broker]


def main(
    words: Sequence[str],
    own: Callable[[], UnderTest] = broker.own,
    own_cluster: Callable[[], UnderTest] | None = broker.own_cluster,
) -> int:
    """Run the command; its exit code. `own` starts the broker that is tried if no address is
    given, `own_cluster` a cluster of the same kind. SystemExit, as argparse raises it."""
    parser = _parser()
    options = parser.parse_args(words)
    if options.list:
        return _list()
    try:
        if options.compare:
            first, second = (results.load(Path(path)) for path in options.compare)
            print(markdown.comparison(first, second), end="")
            return 0
        plan = _plan(options)
    except (_Unknown, results.NoResults, OSError) as failure:
        parser.error(str(failure))
    try:
        found = asyncio.run(_run(options, plan, own, own_cluster))
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except (Failed, DriverFailed, Unsuitable) as failure:
        print(f"kavka compat: {failure}", file=sys.stderr)
        return 1
    _write(found, options)
    print(_summary(found))
    failed = found.count(Status.FAILED)
    missing = options.no_skips and found.count(Status.UNAVAILABLE)
    different = options.apis and found.different
    return 1 if failed or missing or different else 0


class _Plan(NamedTuple):
    """What to try. `apis`: of the protocol's part, all if None, none if empty."""

    clients: Sequence[Client]
    scenarios: Sequence[Scenario]
    apis: Sequence[str] | None


def _plan(options: argparse.Namespace) -> _Plan:
    """_Unknown."""
    clients = _chosen(CLIENTS, options.clients, quick=options.quick)
    if options.without:
        without = _chosen(CLIENTS, options.without, quick=False)
        clients = [one for one in clients if one not in without]
    scenarios = _chosen(SCENARIOS, options.scenarios, quick=options.quick)
    if options.apis:
        named = [_Named(cases.api) for cases in tables()]
        chosen = named if options.apis == "all" else _chosen(named, options.apis, quick=False)
        return _Plan([], [], [one.name for one in chosen])
    is_part = options.quick or options.clients or options.scenarios
    return _Plan(clients, scenarios, [] if is_part else None)


async def _run(
    options: argparse.Namespace,
    plan: _Plan,
    own: Callable[[], UnderTest],
    own_cluster: Callable[[], UnderTest] | None,
) -> Results:
    async with AsyncExitStack() as stack:
        under_test = await stack.enter_async_context(_broker(options, own))
        cluster = None
        if own_cluster and not options.bootstrap_server and _has_cluster(plan.scenarios):
            cluster = await stack.enter_async_context(own_cluster())
        rows = await _protocol(under_test, plan.apis)
        suite = Suite(under_test, options.jobs, _print_cell, cluster)
        name = options.name or under_test.bootstrap
        found = await suite.run(plan.clients, plan.scenarios, name)
        return replace(found, protocol=rows)


async def _protocol(under_test: Broker, apis: Sequence[str] | None) -> Sequence[ProtocolRow]:
    """The part without clients. It comes before restarts of the broker, which raise the epochs of
    its coordinators."""
    if apis is not None and not apis:
        return ()
    if wanted_by(under_test.properties) == Wanted():
        return await protocol.rows(under_test.bootstrap, apis, _print_line)
    if apis is not None:
        raise Unsuitable("--apis needs a listener without TLS and login")
    _print_line("The protocol without clients is left out: it connects without TLS and login.")
    return ()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="kavka compat",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    option = parser.add_argument
    option(
        *("--bootstrap-server", "--bootstrap"),
        metavar="HOST:PORT",
        help="the broker to try; without it a Kavka that the suite starts",
    )
    option(
        "--command-config",
        metavar="FILE",
        help="properties of a Java client: TLS and the login of all clients, and the suite's own",
    )
    option("--name", metavar="TEXT", help="what to call the broker in the results")
    option("--clients", metavar="NAME,..", help="only these clients")
    option("--without", metavar="NAME,..", help="not these clients")
    option("--scenarios", metavar="NAME,..", help="only these scenarios")
    option(
        "--apis",
        metavar="NAME,..",
        help="instead of clients: whether these APIs (or `all`) are answered as by Apache Kafka",
    )
    option("--quick", action="store_true", help="a quick subset: one client a language")
    option("--jobs", metavar="N", type=_jobs, default=JOBS, help=f"scenarios at once ({JOBS})")
    option("--no-skips", action="store_true", help="a client that can't be tried is a failure")
    option("--json", metavar="FILE", help="write the results as JSON")
    option("--html", metavar="FILE", help="write them as one page")
    option("--markdown", metavar="FILE", help="write them as Markdown")
    option(
        "--compare",
        metavar="FILE",
        nargs=2,
        help="show two results (JSON) side by side instead, and where they differ",
    )
    option("--list", action="store_true", help="list clients and scenarios instead")
    return parser


def _jobs(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 on")
    return int(text)


class _Unknown(Exception):
    """A name that is in no table."""


def _chosen(table: Iterable[_T], names: str | None, *, quick: bool) -> list[_T]:
    """The rows that were asked for: by name, or the quick ones, or all. _Unknown."""
    rows = {row.name: row for row in table}
    if names is None:
        return [row for row in rows.values() if not quick or getattr(row, "quick", False)]
    chosen = []
    for name in (one.strip() for one in names.split(",")):
        if name not in rows:
            near = get_close_matches(name, rows, 1)
            hint = f"; did you mean {near[0]}?" if near else "; --list has the names"
            raise _Unknown(f"there is no {name!r}{hint}")
        chosen.append(rows[name])
    return chosen


def _list() -> int:
    print("Clients:")
    for client in CLIENTS:
        print(f"  {client.name:24} {client.title} ({client.language})")
    print("Scenarios:")
    for scenario in SCENARIOS:
        print(f"  {scenario.name:24} {scenario.title}")
    return 0


def _broker(options: argparse.Namespace, own: Callable[[], UnderTest]) -> UnderTest:
    if options.bootstrap_server is None:
        return own()
    path = options.command_config
    config = {} if path is None else read_client_properties(path)
    return broker.given(options.bootstrap_server, config)


def _has_cluster(scenarios: Iterable[Scenario]) -> bool:
    return any(scenario.of_cluster for scenario in scenarios)


def _print_cell(cell: Cell, left: int) -> None:
    line = f"{cell.client:24} {cell.scenario:24} {MARKS[cell.status]}"
    if cell.status == Status.FAILED:
        about = f" ({', '.join(cell.apis)})" if cell.apis else ""
        line += f": {cell.step}{about}: {cell.reason}"
    print(f"[{left:4} left] {line}", flush=True)


def _print_line(line: str) -> None:
    print(line, flush=True)


def _write(found: Results, options: argparse.Namespace) -> None:
    if options.json:
        results.save(found, Path(options.json))
    if options.html:
        Path(options.html).write_text(html.page(found), encoding="utf-8")
    if options.markdown:
        Path(options.markdown).write_text(markdown.page(found), encoding="utf-8")


def _summary(found: Results) -> str:
    counts = ", ".join(
        f"{found.count(status)} {status}" for status in Status if found.count(status)
    )
    said = f"{found.broker}: {counts or 'no scenario'}; {found.seconds:.0f} s"
    if found.protocol:
        said += (
            f"; of {len(found.protocol)} versions of APIs {found.different} are answered otherwise "
            "than by Apache Kafka"
        )
    return said
