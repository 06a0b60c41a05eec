"""`kavka tap`: its options, and the processes that it consists of.

This one passes on what clients and brokers send; another prints it (`kavka.tools.tap.printer`), so
that neither decoding nor a slow terminal delays a client.
"""

from __future__ import annotations

import asyncio
import gc
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import BinaryIO, Final

from kavka import __version__
from kavka.client.broker_client import ClientSettings, Seams
from kavka.tools.admin.cluster_client import ClusterClient, addresses_of
from kavka.tools.admin.command import discard_output, ended, printed, seams
from kavka.tools.admin.errors import Failed, Misused
from kavka.tools.admin.options import LINES, Given, Option, parse
from kavka.tools.patterns import user_pattern
from kavka.tools.tap import printer
from kavka.tools.tap.capture import Damaged
from kavka.tools.tap.filters import ANY_ERROR, Filter
from kavka.tools.tap.listeners import Address, Target
from kavka.tools.tap.outlet import Outlet
from kavka.tools.tap.printing import Form
from kavka.tools.tap.proxy import Proxy
from kavka.tools.tap.rewriting import BrokerAddress
from kavka.wire.errors import ErrorCode
from kavka.wire.known_apis import KEYS, known_api

SUMMARY: Final = "Show what passes between clients and brokers, as a proxy between them."

BACKLOG: Final = 128

OPTIONS: Final = (
    Option(
        "listen",
        "Where clients connect to instead of the bootstrap servers. Brokers get the ports behind "
        "it, one each; with port 0 the system chooses them.",
        "HOST:PORT",
    ),
    Option("api", "Show only these APIs, by name or key.", "API,.."),
    Option("client", "Show only clients whose id is this regular expression.", "PATTERN"),
    Option("topic", "Show only messages with a topic that is this regular expression.", "PATTERN"),
    Option("error", f"Show only responses with these errors, or with {ANY_ERROR}.", "ERROR,.."),
    Option("full", "Print whole messages."),
    Option("records", "Print keys and values of records."),
    Option("write", "Keep everything in this file, shown or not.", "FILE"),
    Option("read", "Print what a file of --write holds, and connect to nothing.", "FILE"),
    LINES,
)


def main(words: Sequence[str]) -> int:
    """Run it with these words; the exit code."""

    def run() -> int:
        given = parse(words, OPTIONS)
        if printed(given, "kavka tap", SUMMARY, OPTIONS):
            return 0
        try:
            return _run(given)
        except BrokenPipeError:  # `kavka tap --read FILE | head`
            discard_output()
            return 0

    return ended("tap", words, run)


def _run(given: Given) -> int:
    if given.has("command-config"):
        raise Misused("--command-config is of no use: clients bring their own settings")
    form = Form(given.text("output") == "json", given.has("full"), given.has("records"))
    message_filter = _filter(given)
    if (path := given.text("read")) is not None:
        for other in ("listen", "bootstrap-server", "write"):
            given.excludes("read", [other])
        return _read(path, form, message_filter)
    given.needs("listen", "bootstrap-server")
    listen = _listen_address(given.text("listen") or "")
    bootstrap = addresses_of(given.text("bootstrap-server") or "")
    capture = None if (path := given.text("write")) is None else _create(path)
    process_id, pipe = printer.start(form, message_filter, capture)
    failed = True
    try:
        asyncio.run(_proxy(pipe, listen, bootstrap))
        failed = False
    finally:
        if failed:
            with suppress(ProcessLookupError):
                os.kill(process_id, signal.SIGKILL)
        exit_code = os.waitstatus_to_exitcode(os.waitpid(process_id, 0)[1])
    return exit_code


def _read(path: str, form: Form, message_filter: Filter) -> int:
    try:
        printer.print_file(path, form, message_filter)
    except Damaged as damaged:
        raise Failed(f"{path} can't be read to its end: {damaged}") from damaged
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Failed(f"{path} can't be read: {error.strerror}") from error
    return 0


def _create(path: str) -> BinaryIO:
    """A file for what may hold passwords."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Failed(f"{path} can't be written: {error.strerror}") from error
    return open(descriptor, "wb")


# -- options -----------------------------------------------------------------------------------


def _filter(given: Given) -> Filter:
    apis = [name.strip().lower() for name in (given.text("api") or "").split(",") if name.strip()]
    known = (
        {api.name.lower() for key in KEYS if (api := known_api(key)) is not None} if apis else ()
    )
    for name in apis:
        if name not in known and not name.isdecimal():
            raise Misused(f"--api: there is no API {name!r}")
    errors = [name.strip() for name in (given.text("error") or "").split(",") if name.strip()]
    errors = [name if name == ANY_ERROR else name.upper() for name in errors]
    for name in errors:
        if name not in ErrorCode.__members__ and name != ANY_ERROR:
            raise Misused(f"--error: there is no error {name!r}")
    return Filter(tuple(apis), _pattern(given, "client"), _pattern(given, "topic"), tuple(errors))


def _pattern(given: Given, name: str) -> re.Pattern[str] | None:
    text = given.text(name)
    return None if text is None else user_pattern(text, f"--{name}")


def _listen_address(text: str) -> Address:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise Misused(f"--listen: {text!r} is not HOST:PORT")
    return host.strip("[]"), int(port)


# -- the proxy's process -----------------------------------------------------------------------


async def _proxy(pipe: int, listen: Address, bootstrap: Sequence[Address]) -> None:
    """Pass on until a signal, or until nobody reads what is printed. Failed."""
    loop = asyncio.get_running_loop()
    async with seams(backlog=BACKLOG) as opened:
        outlet = Outlet(loop, pipe)
        stopped = outlet.lost
        proxy = Proxy(opened.network, opened.tasks, outlet, _now_us, listen, _said(listen[0]))
        try:
            brokers = await _brokers(opened, bootstrap)
            try:
                await proxy.start(bootstrap, brokers)
            except OSError as error:
                where = f"{listen[0]}:{listen[1]}"
                raise Failed(f"can't listen on {where}: {error.strerror}") from error
            print("kavka tap: ready", file=sys.stderr, flush=True)
            gc.collect()
            gc.freeze()
            _stop_on_signals(loop, stopped)
            await stopped
            proxy.close()
            _kill_on_signals(loop)
            await outlet.drain()
        finally:
            proxy.close()
            outlet.close()


async def _brokers(opened: Seams, bootstrap: Sequence[Address]) -> list[BrokerAddress]:
    """Those of the cluster. Failed if none of the bootstrap servers answers."""
    settings = ClientSettings(client_id="kavka-tap", software_version=__version__)
    text = ",".join(f"{host}:{port}" for host, port in bootstrap)
    cluster = ClusterClient(text, settings, opened)
    try:
        await cluster.open()
        return [
            BrokerAddress(broker.node_id, broker.host, broker.port) for broker in cluster.brokers
        ]
    finally:
        cluster.close()


def _now_us() -> int:
    return time.time_ns() // 1000


def _said(host: str) -> Callable[[Target, int], None]:
    """Tells where a port leads to."""

    def say(target: Target, port: int) -> None:
        where = ", ".join(f"{name}:{number}" for name, number in target.addresses)
        whose = "bootstrap" if target.node is None else f"broker {target.node}"
        print(f"kavka tap: {host}:{port} leads to {where} ({whose})", file=sys.stderr, flush=True)

    return say


def _stop_on_signals(loop: asyncio.AbstractEventLoop, stopped: asyncio.Future[None]) -> None:
    def stop() -> None:
        if not stopped.done():
            stopped.set_result(None)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)


def _kill_on_signals(loop: asyncio.AbstractEventLoop) -> None:
    """A second signal ends it at once, though not all is printed."""
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.remove_signal_handler(number)
