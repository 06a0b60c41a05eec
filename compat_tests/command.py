"""`kavka compat`: runs the suite and writes what it found."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Final, NamedTuple, Protocol, TypeAlias, TypeVar

from kavka.compat_tests import broker, protocol, results, stopping
from kavka.compat_tests.broker import Broker
from kavka.compat_tests.clients.table import CLIENTS, Client
from kavka.compat_tests.errors import DriverFailed
from kavka.compat_tests.raw.cases import tables
from kavka.compat_tests.raw.survey import Unsuitable
from kavka.compat_tests.reports import beside, html, markdown
from kavka.compat_tests.reports.marks import not_tried
from kavka.compat_tests.results import Cell, ProtocolRow, Results, Status
from kavka.compat_tests.scenario import Scenario
from kavka.compat_tests.scenarios.every import SCENARIOS
from kavka.compat_tests.security import Required, required_by
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

REASON_CHARS: Final = 160
"""Of why something was not tried, in the line of each scenario; the last lines have all of it."""

MARKS: Final = {
    Status.PASSED: "ok",
    Status.FAILED: "FAILED",
    Status.ABSENT: "-",
    Status.BROKEN: "broken in the client",
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
    own_for_protocol: Callable[[], UnderTest] | None = broker.own_for_protocol,
) -> int:
    """Run the command; its exit code. `own` starts the broker that is tried if no address is
    given, `own_cluster` a cluster of the same kind, and `own_for_protocol` another broker of it for
    the part without clients. SystemExit, as argparse raises it."""
    parser = _parser()
    options = parser.parse_args(words)
    if options.list:
        return _list()
    try:
        if options.compare:
            return _compare(options)
        plan = _plan(options)
    except (_Unknown, results.NoResults, OSError) as failure:
        parser.error(str(failure))
    try:
        found = stopping.run(_run(options, plan, _Own(own, own_cluster, own_for_protocol)))
    except stopping.Stopped as stopped:
        return stopped.exit_code
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
        clients = [client for client in clients if client not in without]
    scenarios = _chosen(SCENARIOS, options.scenarios, quick=options.quick)
    if options.apis:
        named = [_Named(cases.api) for cases in tables()]
        chosen = named if options.apis == "all" else _chosen(named, options.apis, quick=False)
        return _Plan([], [], [api.name for api in chosen])
    is_part = options.quick or options.clients or options.scenarios
    return _Plan(clients, scenarios, [] if is_part else None)


class _Own(NamedTuple):
    """What starts the suite's own brokers."""

    alone: Callable[[], UnderTest]
    cluster: Callable[[], UnderTest] | None
    for_protocol: Callable[[], UnderTest] | None


class _Protocol(NamedTuple):
    """The part without clients; `lack`: why it could not be tried."""

    rows: Sequence[ProtocolRow] = ()
    lack: str = ""


async def _run(options: argparse.Namespace, plan: _Plan, own: _Own) -> Results:
    """The part without clients runs beside the others on a broker of its own, as it deletes topics
    and changes settings. Where there is none it comes first: restarts of a broker raise the epochs
    of its coordinators."""
    began, began_s = datetime.now(UTC), time.monotonic()
    async with AsyncExitStack() as stack:
        start = stack.enter_async_context
        is_own = options.bootstrap_server is None
        separate = own.for_protocol if is_own and (plan.apis is None or plan.apis) else None
        protocol_broker = await start(separate()) if separate else None
        if protocol_broker is None or plan.clients:
            under_test = await start(_broker(options, own.alone))
        else:
            under_test = protocol_broker
        cluster = None
        if own.cluster and is_own and any(scenario.of_cluster for scenario in plan.scenarios):
            cluster = await start(own.cluster())
        suite = Suite(under_test, options.jobs, _print_cell, cluster)
        name = options.name or under_test.bootstrap
        checking = asyncio.ensure_future(_protocol(protocol_broker or under_test, plan.apis))
        try:
            if protocol_broker is None:
                await checking
            found = await suite.run(plan.clients, plan.scenarios, name)
            part = await checking
        finally:
            checking.cancel()
            await asyncio.gather(checking, return_exceptions=True)
    return replace(
        found,
        began=began.isoformat(timespec="seconds"),
        seconds=round(time.monotonic() - began_s, 1),
        protocol=part.rows,
        without_protocol=part.lack,
    )


async def _protocol(under_test: Broker, apis: Sequence[str] | None) -> _Protocol:
    """The part without clients. Unsuitable, if it was asked for by name."""
    if apis is not None and not apis:
        return _Protocol()
    try:
        if required_by(under_test.properties) != Required():
            raise Unsuitable("the protocol without clients is tried without TLS and login only")
        return _Protocol(
            await protocol.rows(under_test.bootstrap, apis, _print_line, under_test.judges)
        )
    except Unsuitable as lack:
        if apis is not None:
            raise
        _print_line(f"The part without clients is left out: {lack}")
        return _Protocol(lack=str(lack))


def _compare(options: argparse.Namespace) -> int:
    """results.NoResults, OSError."""
    both = beside.of(*(results.load(Path(path)) for path in options.compare))
    if options.json:
        results.write(both.as_json, Path(options.json))
    _write_pages(options, lambda: html.comparison(both), lambda: markdown.comparison(both))
    if not (options.json or options.html or options.markdown):
        print(markdown.comparison(both), end="")
    return 0


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
        help="show two results (JSON) side by side instead, and where they differ: as Markdown, "
        "or in the files that --json, --html and --markdown name",
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
    for name in (word.strip() for word in names.split(",")):
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


def _print_cell(cell: Cell, left: int) -> None:
    line = f"{cell.client:24} {cell.scenario:24} {MARKS[cell.status]}"
    if cell.status == Status.FAILED:
        about = f" ({', '.join(cell.apis)})" if cell.apis else ""
        line += f": {cell.step}{about}: {cell.reason}"
    elif cell.reason:
        line += f": {_short(cell.reason)}"
    print(f"[{left:4} left] {line}", flush=True)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= REASON_CHARS else f"{line[:REASON_CHARS]}..."


def _print_line(line: str) -> None:
    print(line, flush=True)


def _write(found: Results, options: argparse.Namespace) -> None:
    if options.json:
        results.save(found, Path(options.json))
    _write_pages(options, lambda: html.page(found), lambda: markdown.page(found))


def _write_pages(
    options: argparse.Namespace, as_html: Callable[[], str], as_markdown: Callable[[], str]
) -> None:
    for path, page in ((options.html, as_html), (options.markdown, as_markdown)):
        if path:
            Path(path).write_text(page(), encoding="utf-8")


def _summary(found: Results) -> str:
    """What is said last. Why something could not be tried, in full."""
    lines = [
        f"{subject}: {' '.join(reason.split())}" for subject, reason in not_tried(found).items()
    ]
    return "\n".join([*lines, _counted(found)])


def _counted(found: Results) -> str:
    counts = ", ".join(
        f"{found.count(status)} {status}" for status in Status if found.count(status)
    )
    said = f"{found.broker}: {counts or 'no scenario'}; {found.seconds:.0f} s"
    if found.protocol:
        said += (
            f"; of {found.tried} versions of APIs {found.different} are answered otherwise than by "
            "Apache Kafka"
        )
    if found.different:
        said += f", {found.unexplained} of them without a known reason"
    return said
