"""Runs a tool: its options, a connection to the cluster, and what its exit code says.

Exit codes: 0 done, 1 anything else, with one sentence on standard error, as Apache Kafka's tools
(which print their whole usage, or a stack trace, with it). --debug shows where an error comes from.
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from kavka import __version__
from kavka.client.broker_client import ClientSettings, Seams
from kavka.server.config.properties import PropertiesError, parse_properties
from kavka.server.runtime.clock import SystemClock
from kavka.server.runtime.sockets import SYSTEM_SIZED, SocketNetwork
from kavka.server.runtime.tasks import LoopTasks
from kavka.tools.admin.cluster_client import ClusterClient
from kavka.tools.admin.errors import Failed, Misused
from kavka.tools.admin.options import Given, Option, parse, usage
from kavka.wire.frame import ArenaPool

PLAINTEXT: Final = "PLAINTEXT"


class Tool(NamedTuple):
    """A command: its table of options, and what it does."""

    name: str
    summary: str
    options: Sequence[Option]
    check: Callable[[Given], None]
    """Misused if the options don't go together."""
    run: Callable[[ClusterClient, Given], Awaitable[int]]
    """The exit code. Failed."""


def main(tool: Tool, words: Sequence[str]) -> int:
    """Run a tool with these words; the exit code."""
    show = "--debug" in words
    try:
        given = parse(words, tool.options)
        if given.has("version"):
            print(__version__)
            return 0
        if given.has("help"):
            print(usage(f"kavka {tool.name}", tool.summary, tool.options))
            return 0
        tool.check(given)
        return asyncio.run(_run(tool, given))
    except Misused as misused:
        if show:
            raise
        print(f"{misused}. `kavka {tool.name} --help` explains the options.", file=sys.stderr)
        return 1
    except Failed as failed:
        if show:
            raise
        print(failed, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


async def _run(tool: Tool, given: Given) -> int:
    bootstrap = given.text("bootstrap-server")
    if bootstrap is None:
        raise Misused("--bootstrap-server must be specified")
    loop = asyncio.get_running_loop()
    tasks = LoopTasks(loop)
    network = SocketNetwork(loop, backlog=0, receive_bytes=SYSTEM_SIZED, send_bytes=SYSTEM_SIZED)
    seams = Seams(network, SystemClock(), tasks, random.Random(), ArenaPool())
    cluster = ClusterClient(bootstrap, _settings(given.text("command-config")), seams)
    try:
        await cluster.open()
        return await tool.run(cluster, given)
    finally:
        cluster.close()
        await tasks.kill()


def _settings(path: str | None) -> ClientSettings:
    """Those of a Java client's file that count here. Failed if it can't be read."""
    config = {} if path is None else _properties(path)
    protocol = config.get("security.protocol", PLAINTEXT)
    if protocol.upper() != PLAINTEXT:
        raise Failed(f"{path}: security.protocol={protocol} can't be spoken yet, only {PLAINTEXT}")
    settings = ClientSettings(
        client_id=config.get("client.id", "kavka-admin"), software_version=__version__
    )
    timeout_ms = config.get("request.timeout.ms")
    if timeout_ms is None:
        return settings
    if not timeout_ms.isdecimal():
        raise Failed(f"{path}: request.timeout.ms={timeout_ms} is no number of milliseconds")
    return replace(settings, request_timeout_s=int(timeout_ms) / 1000)


def _properties(path: str) -> dict[str, str]:
    try:
        with open(path, "rb") as file:
            content = file.read()
        return {key: value for key, value, _ in parse_properties(content)}
    except OSError as error:
        raise Failed(f"{path} can't be read: {error.strerror}") from error
    except PropertiesError as error:
        raise Failed(f"{path}: {error}") from error
