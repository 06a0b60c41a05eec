"""Listening sockets of the machine: bound first, let in later."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable

import pytest

from kavka.server.network import SYSTEM_SIZED, SocketNetwork

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


async def greeting(host: str, port: int) -> bytes:
    reader, writer = await asyncio.open_connection(host, port)
    data = await reader.read()
    writer.close()
    await writer.wait_closed()
    return data


@pytest.mark.parametrize("host", [HOST, "localhost", ""])
def test_a_bound_address_accepts_when_it_is_told_to(host: str) -> None:
    async def story(network: SocketNetwork) -> None:
        bound = await network.bind(host, 0)
        assert bound.port > 0, "the kernel's choice"
        with pytest.raises(ConnectionRefusedError):
            await greeting(HOST, bound.port)
        await bound.accept(lambda _: Greeter())
        assert await greeting(HOST, bound.port) == b"hello"
        bound.close()
        with pytest.raises(ConnectionRefusedError):
            await greeting(HOST, bound.port)

    run(story)


def test_a_taken_port_is_refused() -> None:
    async def story(network: SocketNetwork) -> None:
        first = await network.bind(HOST, 0)
        await first.accept(lambda _: Greeter())
        with pytest.raises(OSError):
            await network.bind(HOST, first.port)
        first.close()
        (await network.bind(HOST, first.port)).close()

    run(story)


def test_what_was_never_let_in_can_be_closed() -> None:
    async def story(network: SocketNetwork) -> None:
        bound = await network.bind(HOST, 0)
        bound.close()
        (await network.bind(HOST, bound.port)).close()

    run(story)


def test_a_closed_port_is_free_whatever_a_forked_child_has_open() -> None:
    async def story(network: SocketNetwork) -> None:
        bound = await network.bind(HOST, 0)
        await bound.accept(lambda _: Greeter())
        child = bound._socket.dup()  # what a fork does with each descriptor
        bound.close()
        again = await network.bind(HOST, bound.port)
        await again.accept(lambda _: Greeter())
        assert await greeting(HOST, bound.port) == b"hello"
        again.close()
        child.close()

    run(story)


def test_a_host_that_there_is_not() -> None:
    async def story(network: SocketNetwork) -> None:
        with pytest.raises(OSError):
            await network.bind("no-such-host.invalid", 0)
        with pytest.raises(OSError):
            await network.bind("192.0.2.1", 0)  # of nobody (RFC 5737)

    run(story)


def test_this_machine_has_a_name() -> None:
    async def story(network: SocketNetwork) -> None:
        assert network.host_name()

    run(story)


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
    assert receive_bytes in (20_000, 40_000), "Linux tells twice what was asked for"
    assert send_bytes in (30_000, 60_000)
