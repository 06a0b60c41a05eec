"""Sockets of the machine: bound first, accepting later; and connecting to others."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import socket
import struct
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

import kavka.server.runtime.sockets
from kavka.server.runtime.sockets import SYSTEM_SIZED, SocketNetwork
from support.asynchronous import ran_by

HOST = "127.0.0.1"


class Greeter(asyncio.Protocol):
    """Says hello and hangs up."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        transport.write(b"hello")
        transport.close()


def run(
    story: Callable[[SocketNetwork], Awaitable[None]],
    *,
    receive_bytes: int = SYSTEM_SIZED,
    send_bytes: int = SYSTEM_SIZED,
) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        network = SocketNetwork(loop, backlog=5, receive_bytes=receive_bytes, send_bytes=send_bytes)
        await story(network)

    asyncio.run(main())


with_network = ran_by(run)


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop run until `condition` holds; the test's own timeout ends it."""
    while not condition():
        await asyncio.sleep(0.001)


async def greeting(host: str, port: int) -> bytes:
    reader, writer = await asyncio.open_connection(host, port)
    data = await reader.read()
    writer.close()
    await writer.wait_closed()
    return data


class Listener(asyncio.Protocol):
    """Keeps what it is sent."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.is_over = False

    def data_received(self, data: bytes) -> None:
        self.received += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_over = True


@with_network
async def test_connects_to_a_listener(network: SocketNetwork, /) -> None:
    bound = await network.bind(HOST, 0)
    await bound.accept(lambda _: Greeter())
    listener = Listener()
    await network.connect(HOST, bound.port, lambda: listener)
    await until(lambda: listener.is_over)
    assert listener.received == b"hello"
    bound.close()


@pytest.mark.parametrize("host", [HOST, "localhost", ""])
@with_network
async def test_connections_wait_until_they_are_accepted(
    network: SocketNetwork, /, host: str
) -> None:
    bound = await network.bind(host, 0)
    assert bound.port > 0, "the kernel's choice"
    reader, writer = await asyncio.open_connection(HOST, bound.port)
    await bound.accept(lambda _: Greeter())
    assert await reader.read() == b"hello"
    writer.close()
    assert await greeting(HOST, bound.port) == b"hello"
    bound.close()
    with pytest.raises(ConnectionRefusedError):
        await greeting(HOST, bound.port)


@with_network
async def test_a_taken_port_is_refused(network: SocketNetwork, /) -> None:
    first = await network.bind(HOST, 0)
    with pytest.raises(OSError):
        await network.bind(HOST, first.port)
    first.close()
    (await network.bind(HOST, first.port)).close()


@with_network
async def test_what_was_never_let_in_can_be_closed(network: SocketNetwork, /) -> None:
    bound = await network.bind(HOST, 0)
    bound.close()
    (await network.bind(HOST, bound.port)).close()


@with_network
async def test_a_closed_port_is_free_though_a_forked_child_has_it_open(
    network: SocketNetwork, /
) -> None:
    bound = await network.bind(HOST, 0)
    await bound.accept(lambda _: Greeter())
    child = bound._socket.dup()  # what a fork does with each descriptor
    bound.close()
    again = await network.bind(HOST, bound.port)
    await again.accept(lambda _: Greeter())
    assert await greeting(HOST, bound.port) == b"hello"
    again.close()
    child.close()


@with_network
async def test_the_factory_is_given_the_peers_host_and_may_refuse(
    network: SocketNetwork, /
) -> None:
    received: list[str] = []

    def factory(address: str) -> Greeter | None:
        received.append(address)
        return None if len(received) == 2 else Greeter()

    for host in (HOST, ""):  # the second for IPv6 as well, where there is any
        received.clear()
        bound = await network.bind(host, 0)
        await bound.accept(factory)
        greetings = [await greeting(HOST, bound.port) for _ in range(3)]
        assert greetings == [b"hello", b"", b"hello"]
        assert received == [HOST] * 3
        bound.close()


def _are_done(tasks: list[asyncio.Task[bytes]], count: int) -> bool:
    return sum(task.done() for task in tasks) == count


@with_network
async def test_a_paused_listener_accepts_no_connection(network: SocketNetwork, /) -> None:
    bound = await network.bind(HOST, 0)
    accepted: list[str] = []

    def factory(address: str) -> Greeter:
        accepted.append(address)
        if len(accepted) % 2 == 0:
            bound.pause()
        return Greeter()

    bound.pause()
    await bound.accept(factory)
    clients = [asyncio.create_task(greeting(HOST, bound.port)) for _ in range(5)]
    other = await network.bind(HOST, 0)
    await other.accept(lambda _: Greeter())
    assert await greeting(HOST, other.port) == b"hello", "others are not kept waiting"
    assert accepted == []
    for count in (2, 4, 5):
        bound.resume()
        await until(partial(_are_done, clients, count))
        assert len(accepted) == count
    bound.close()
    other.close()


@with_network
async def test_a_connection_that_is_lost_before_it_is_accepted(network: SocketNetwork, /) -> None:
    class Watched(asyncio.Protocol):
        lost = 0

        def connection_lost(self, exc: Exception | None) -> None:
            Watched.lost += 1

    bound = await network.bind(HOST, 0)
    bound.pause()
    await bound.accept(lambda _: Watched())
    for _ in range(3):
        with socket.create_connection((HOST, bound.port)) as client:
            # Linger for no time: the close is a reset.
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    bound.resume()
    await until(lambda: Watched.lost == 3)
    bound.close()


@with_network
async def test_without_room_it_tries_again(
    network: SocketNetwork, /, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(kavka.server.runtime.sockets, "EXHAUSTED_RETRY_S", 0.01)

    class NoRoom:
        """A socket that has room at the third time."""

        def __init__(self, real: socket.socket) -> None:
            self._real = real
            self._tries = 0

        def accept(self) -> tuple[socket.socket, Any]:
            self._tries += 1
            if self._tries < 3:
                raise OSError(errno.EMFILE, "Too many open files")
            return self._real.accept()

        def __getattr__(self, name: str) -> Any:
            return getattr(self._real, name)

    bound = await network.bind(HOST, 0)
    bound._socket = NoRoom(bound._socket)  # type: ignore[assignment]
    await bound.accept(lambda _: Greeter())
    assert await greeting(HOST, bound.port) == b"hello"
    bound.close()
    assert [line.split(":")[0] for line in caplog.messages] == ["can't accept connections"] * 2


def test_connections_leave_some_descriptors(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(kavka.server.runtime.sockets, "EXHAUSTED_RETRY_S", 0.01)
    kept = kavka.server.runtime.sockets.RESERVED_DESCRIPTORS_MAX
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)

    async def story(network: SocketNetwork) -> None:
        bound = await network.bind(HOST, 0)
        await bound.accept(lambda _: Greeter())
        free = os.dup(0)
        os.close(free)
        # The lowest numbers are taken first: the client's own end is one more.
        resource.setrlimit(resource.RLIMIT_NOFILE, (free + kept, limits[1]))
        try:
            assert free + kept >= 4 * kept, "else it is a share of them"
            waiting = asyncio.ensure_future(greeting(HOST, bound.port))
            await until(lambda: bool(caplog.messages))
            assert not waiting.done()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        assert await waiting == b"hello"
        bound.close()

    held = [os.dup(0) for _ in range(3 * kept)]
    try:
        run(story)
    finally:
        for descriptor in held:
            os.close(descriptor)
    assert "can't accept connections: connections may use no more" in caplog.text


@with_network
async def test_hosts_are_resolved_to_addresses(network: SocketNetwork, /) -> None:
    assert await network.resolve(HOST) == HOST
    assert await network.resolve("::ffff:10.0.0.1") == "10.0.0.1"
    assert await network.resolve("0:0:0:0:0:0:0:1") == "::1"
    assert await network.resolve("localhost") in (HOST, "::1")
    with pytest.raises(OSError):
        await network.resolve("no-such-host.invalid")


def test_of_a_host_with_both_kinds_of_address_ipv4_counts() -> None:
    async def story(network: SocketNetwork) -> None:
        async def both(*_: object, **__: object) -> list[Any]:
            return [
                (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("fd00::1", 0, 0, 0)),
                (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.0.0.1", 0)),
                (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.0.0.2", 0)),
            ]

        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", both)
        assert await network.resolve("office") == "10.0.0.1"

    with pytest.MonkeyPatch.context() as monkeypatch:
        run(story)


@with_network
async def test_a_host_that_there_is_not(network: SocketNetwork, /) -> None:
    with pytest.raises(OSError):
        await network.bind("no-such-host.invalid", 0)
    with pytest.raises(OSError):
        await network.bind("192.0.2.1", 0)  # no host has it (RFC 5737)


@with_network
async def test_this_machine_has_a_name(network: SocketNetwork, /) -> None:
    assert network.host_name()


class Options(asyncio.Protocol):
    """Notes the options of the sockets that were accepted."""

    seen: list[tuple[int, int, int]] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        accepted: socket.socket = transport.get_extra_info("socket")
        level = socket.SOL_SOCKET
        self.seen.append(
            (
                accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY),
                accepted.getsockopt(level, socket.SO_RCVBUF),
                accepted.getsockopt(level, socket.SO_SNDBUF),
            )
        )
        transport.close()


def test_accepted_sockets_have_the_options() -> None:
    async def story(network: SocketNetwork) -> None:
        Options.seen.clear()
        bound = await network.bind(HOST, 0)
        await bound.accept(lambda _: Options())
        assert await greeting(HOST, bound.port) == b""
        bound.close()

    run(story, receive_bytes=20_000, send_bytes=30_000)
    ((no_delay, receive_bytes, send_bytes),) = Options.seen
    assert no_delay
    assert receive_bytes in (20_000, 40_000), "Linux reports twice what was set"
    assert send_bytes in (30_000, 60_000)
