"""Runs a tool: its options, a connection to the cluster, and what its exit code says.

Exit codes: 0 done, 1 anything else, with one sentence on standard error, as Apache Kafka's tools
(which print their whole usage, or a stack trace, with it). --debug shows where an error comes from.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, TextIO, TypeVar

from kavka import __version__
from kavka.client.broker_client import ClientSettings, Seams
from kavka.server.config.properties import PropertiesError, parse_properties
from kavka.server.runtime.clock import SystemClock
from kavka.server.runtime.sockets import SYSTEM_SIZED, SocketNetwork, TlsNetwork
from kavka.server.runtime.tasks import LoopTasks
from kavka.tools.admin import stops
from kavka.tools.admin.cluster_client import CONTROLLER, SERVER, ClusterClient, Waits
from kavka.tools.admin.errors import Failed, Misused
from kavka.tools.admin.options import (
    CLIENT_CONFIG,
    COMMON,
    GENERAL,
    HELP,
    Given,
    Option,
    SubCommand,
    is_whole,
    parse,
    usage,
)
from kavka.tools.admin.security import Security, security_of
from kavka.tools.admin.stops import STOPPED, Terminated, stopped_by_signals
from kavka.tools.admin.sub_commands import command_usage, parse_command
from kavka.tools.java_numbers import trimmed
from kavka.tools.progress import waiting
from kavka.wire.frame import ArenaPool

if TYPE_CHECKING:
    import ssl

NO_CONFIG: Final[Mapping[str, str]] = {}
T = TypeVar("T")


def _fail(failed: Failed, _: Given) -> int:
    print(failed, file=sys.stderr)
    return 1


class Tool(NamedTuple):
    """A command: its table of options, and what it does."""

    name: str
    summary: str
    options: Sequence[Option]
    check: Callable[[Given], None]
    """Misused if the options don't go together."""
    run: Callable[[ClusterClient, Given], Awaitable[int]]
    """The exit code. Failed."""
    alone: Callable[[Given], int | None] = lambda _: None
    """What it can do without a cluster: the exit code, None if it needs one."""

    fail: Callable[[Failed, Given], int] = _fail
    """Say what could not be done: the exit code."""

    addresses: Sequence[str] = ("bootstrap-server",)
    """The options that name brokers, any of which will do."""

    commands: Sequence[SubCommand] = ()
    """Its sub-commands; then the options that every other tool has are in its tables."""

    old_config: str = ""
    """An older name of --command-config that it takes with a warning."""


class LocalTool(NamedTuple):
    """A command that asks no broker: it reads files."""

    name: str
    summary: str
    options: Sequence[Option]
    check: Callable[[Given], None]
    """Misused if the options don't go together."""
    run: Callable[[Given], int]
    """The exit code. Failed."""


class ClientTool(NamedTuple):
    """A command that brings a client of its own."""

    name: str
    summary: str
    options: Sequence[Option]
    check: Callable[[Given], None]
    """Misused if the options don't go together."""
    run: Callable[[Given], int]
    """The exit code. Failed. KeyboardInterrupt ends it, Ctrl-C's or SIGTERM's."""
    is_explained: bool = False
    """Without any word it prints its help; so it does with -h."""
    read: Callable[[Sequence[str]], Sequence[str]] | None = None
    """Turns the words of an older form into options. Misused."""


class Way(NamedTuple):
    """How a cluster is reached."""

    bootstrap: str
    option: str
    """The one that has named these addresses."""
    settings: ClientSettings
    security: Security


def main(tool: Tool | LocalTool | ClientTool, words: Sequence[str]) -> int:
    """Run a tool with these words; the exit code."""
    if isinstance(tool, ClientTool):
        return _main_of_client(tool, words)
    if isinstance(tool, Tool) and tool.commands:
        return _main_of_commands(tool, words)
    common = GENERAL if isinstance(tool, LocalTool) else COMMON
    given = Given({})

    def run() -> int:
        nonlocal given
        given = parse(words, tool.options, common)
        if printed(given, f"kavka {tool.name}", tool.summary, tool.options, common):
            return 0
        tool.check(given)
        if isinstance(tool, LocalTool):
            return tool.run(given)
        done = tool.alone(given)
        return asyncio.run(_run(tool, given)) if done is None else done

    def fail(failed: Failed) -> int:
        return (_fail if isinstance(tool, LocalTool) else tool.fail)(failed, given)

    return ended(tool.name, words, run, fail)


def _main_of_commands(tool: Tool, words: Sequence[str]) -> int:
    def run() -> int:
        given = parse_command(words, tool.options, tool.commands)
        name = f"kavka {tool.name}"
        text = partial(command_usage, name, tool.summary, tool.options, tool.commands)
        if given.asks_for_help:
            print(__version__ if given.has("version") else text(given.command))
            return 0
        tool.check(given)
        if given.command is not None and given.command.run is not None:
            return given.command.run(given)
        return asyncio.run(_run(tool, given))

    return ended(tool.name, words, run)


def _main_of_client(tool: ClientTool, words: Sequence[str]) -> int:
    def run() -> int:
        read = words if tool.read is None else tool.read(words)
        if tool.is_explained:
            read = ["--help" if word == "-h" else word for word in read or ["-h"]]
        given = parse(read, tool.options, HELP, keeps_empty=True)
        short = ["help"] if tool.is_explained else []
        if printed(given, f"kavka {tool.name}", tool.summary, tool.options, HELP, short):
            return 0
        tool.check(given)
        with stopped_by_signals():
            return tool.run(given)

    return ended(tool.name, words, run)


def printed(
    given: Given,
    command: str,
    summary: str,
    table: Sequence[Option],
    common: Sequence[Option] = COMMON,
    short: Sequence[str] = (),
) -> bool:
    """Print the version or the usage, if that is what was asked for."""
    if given.has("version"):
        print(__version__)
    elif given.has("help"):
        print(usage(command, summary, table, common, short))
    return given.asks_for_help


def ended(
    name: str,
    words: Sequence[str],
    run: Callable[[], int],
    fail: Callable[[Failed], int] = lambda failed: _fail(failed, Given({})),
) -> int:
    """The exit code of `run`; what it fails with is printed in one sentence."""
    show = "--debug" in words
    try:
        return run()
    except Misused as misused:
        if show:
            raise
        print(f"{misused}. `kavka {name} --help` explains the options.", file=sys.stderr)
        return 1
    except Failed as failed:
        if show:
            raise
        return fail(failed)
    except UnicodeEncodeError as error:  # in what was to be sent
        if show:
            raise
        return fail(Failed(f"{error.object!r} can't be sent: it is no text in UTF-8"))
    except Terminated:
        return STOPPED + signal.SIGTERM
    except KeyboardInterrupt:
        return STOPPED + signal.SIGINT


def nowhere() -> TextIO:
    """An output that reaches nobody."""
    return open(os.devnull, "w", encoding="utf-8")


def discard_output() -> None:
    """What is printed from now on, and at the end of the process, reaches nobody."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def reach(bootstrap: str, config: Mapping[str, str] = NO_CONFIG) -> None:
    """Failed unless a broker answers there, and lets in a client with these properties: that would
    try for ever, or for a minute."""

    async def nothing(_: ClusterClient) -> None:
        """It is reached, that is all."""

    ask_cluster(bootstrap, config, nothing)


def ask_cluster(
    bootstrap: str, config: Mapping[str, str], ask: Callable[[ClusterClient], Awaitable[T]]
) -> T:
    """What `ask` finds out of the cluster that a client with these properties reaches there. For
    tools that bring a client of their own. Failed."""

    async def answer() -> T:
        async with reached(way, waiting) as cluster:
            return await ask(cluster)

    way = way_of(bootstrap, SERVER, config)
    return stops.run(answer())


async def _run(tool: Tool, given: Given) -> int:
    named = (name for name in (CONTROLLER, *tool.addresses) if given.has(name))
    option = next(named, SERVER)
    bootstrap = given.text(option)
    if bootstrap is None:
        raise Misused(f"--{SERVER} must be specified")
    path = _client_config(tool, given)
    config = NO_CONFIG if path is None else read_client_properties(path)
    try:
        way = way_of(bootstrap, option, config)
    except Failed as failed:
        raise Failed(f"{path}: {failed}") from failed
    async with reached(way, waiting) as cluster:
        return await tool.run(cluster, given)


def _client_config(tool: Tool, given: Given) -> str | None:
    """The properties file, by either name. Misused with both."""
    name = CLIENT_CONFIG.name
    if not tool.old_config or not given.has(tool.old_config):
        return given.text(name)
    given.excludes(tool.old_config, [name])
    print(
        f"Option --{tool.old_config} has been deprecated and will be removed in a future version. "
        f"Use --{name} instead."
    )
    return given.text(tool.old_config)


def way_of(bootstrap: str, option: str, config: Mapping[str, str]) -> Way:
    """By these properties of a Java client. Failed."""
    security = security_of(config)
    return Way(bootstrap, option, _settings(config, security), security)


@asynccontextmanager
async def reached(way: Way, waits: Waits = nullcontext) -> AsyncIterator[ClusterClient]:
    """A connection to the cluster. `waits`: see `ClusterClient`. Failed."""
    async with seams(way.security.tls) as opened:
        explained = _explained(opened, way.security)
        cluster = ClusterClient(
            way.bootstrap, way.settings, explained, option=way.option, waits=waits
        )
        try:
            await cluster.open()
            yield cluster
        finally:
            cluster.close()


@asynccontextmanager
async def seams(
    secured_by: ssl.SSLContext | None = None, *, backlog: int = 0
) -> AsyncIterator[Seams]:
    """Those of the running loop; with TLS if there is a context for it. `backlog` is of a tool that
    listens."""
    loop = asyncio.get_running_loop()
    tasks = LoopTasks(loop)
    plain = SocketNetwork(
        loop, backlog=backlog, receive_bytes=SYSTEM_SIZED, send_bytes=SYSTEM_SIZED
    )
    network = plain if secured_by is None else TlsNetwork(plain, loop, secured_by)
    try:
        yield Seams(network, SystemClock(), tasks, random.SystemRandom(), ArenaPool())
    finally:
        await tasks.kill()


def _explained(opened: Seams, security: Security) -> Seams:
    if security.tls is None:
        return opened
    from kavka.tools.admin.tls import ExplainedNetwork  # only with TLS

    return replace(opened, network=ExplainedNetwork(opened.network))


def _settings(config: Mapping[str, str], security: Security) -> ClientSettings:
    """Those of a Java client's properties that count here. Failed."""
    settings = ClientSettings(
        client_id=config.get("client.id", "kavka-admin"),
        software_version=__version__,
        login=security.login,
    )
    timeout_ms = config.get("request.timeout.ms")
    if timeout_ms is None:
        return settings
    if not is_whole(timeout_ms, 32) or int(timeout_ms) < 0:
        raise Failed(f"request.timeout.ms={timeout_ms} is no number of milliseconds")
    return replace(settings, request_timeout_s=int(timeout_ms) / 1000)


def read_client_properties(path: str) -> dict[str, str]:
    """Of a Java client, for which blanks around a value do not count. Failed if the file can't be
    read."""
    return {name: trimmed(text) for name, text in read_properties(path).items()}


def read_properties(path: str) -> dict[str, str]:
    """A Java properties file, in UTF-8, or else in Latin-1, as Java has it. Failed if it can't be
    read."""
    try:
        with open(path, "rb") as file:
            content = file.read()
        try:
            content.decode()
        except UnicodeDecodeError:
            content = content.decode("latin-1").encode()
        return {key: value for key, value, _ in parse_properties(content)}
    except OSError as error:
        raise Failed(f"{path} can't be read: {error.strerror}") from error
    except PropertiesError as error:
        raise Failed(f"{path}: {error}") from error
