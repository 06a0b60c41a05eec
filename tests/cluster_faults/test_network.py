"""Bytes are held back where a way is cut, and nowhere else."""

from __future__ import annotations

import random
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import closing, suppress

import pytest

from cluster_faults.network import CLIENTS, Network, half_of
from support.ports import HOST, Ports
from support.wait import eventually

WITHIN_S = 60.0
SILENT_S = 0.3


class Echo:
    """A broker that gives each frame back."""

    def __init__(self) -> None:
        self._ports = Ports()
        self.port = self._ports.take()
        self._listener: socket.socket | None = None
        self._open: list[socket.socket] = []
        self._lost = threading.Event()

    def start(self) -> None:
        """Listen."""
        self._listener = socket.create_server((HOST, self.port))
        self._thread = threading.Thread(target=self._serve, args=[self._listener], daemon=True)
        self._thread.start()

    def kill(self) -> None:
        """As a process dies: all connections end. Nothing happens if it does not listen."""
        if self._listener is None:
            return
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()  # what it has just accepted ends, too
        self._listener.close()
        self._listener = None
        while self._open:
            with closing(self._open.pop()) as peer, suppress(OSError):  # it may have ended already
                peer.shutdown(socket.SHUT_RDWR)

    def lost_one(self) -> bool:
        """Whether a connection has ended."""
        return self._lost.is_set()

    def _serve(self, listener: socket.socket) -> None:
        while True:
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            self._open.append(peer)
            threading.Thread(target=self._echo, args=[peer], daemon=True).start()

    def _echo(self, peer: socket.socket) -> None:
        try:
            while data := peer.recv(1000):
                peer.sendall(data)
        except OSError:
            return
        finally:
            self._lost.set()


@pytest.fixture
def network() -> Iterator[Network]:
    with Network() as made:
        yield made
        assert made.failures == []


@pytest.fixture
def echo() -> Iterator[Echo]:
    made = Echo()
    made.start()
    yield made
    made.kill()


def frame(client_id: str, body: bytes = b"", api: tuple[int, int] = (18, 0)) -> bytes:
    """A request whose header has this client id; `api`: its key and version."""
    name = client_id.encode()
    data = struct.pack(">hhih", *api, 1, len(name)) + name + body
    return struct.pack(">i", len(data)) + data


def connect(port: int) -> socket.socket:
    """As soon as something listens there."""

    def connected() -> socket.socket | None:
        try:
            return socket.create_connection((HOST, port))
        except ConnectionRefusedError:
            return None

    return eventually(connected, within_s=WITHIN_S, what="the proxy listens")


def answered(client: socket.socket, sent: bytes, within_s: float) -> bool:
    """Whether what was sent comes back."""
    client.settimeout(within_s)
    got = b""
    try:
        while len(got) < len(sent):
            data = client.recv(len(sent) - len(got))
            if not data:
                return False
            got += data
    except TimeoutError:
        return False
    return got == sent


@pytest.mark.parametrize("way", [("1", "2"), ("2", "1")])
def test_a_cut_way_holds_back_until_it_heals(
    network: Network, echo: Echo, way: tuple[str, str]
) -> None:
    port = network.to_broker("2", echo.port)
    with connect(port) as first, connect(port) as second:
        for client, client_id in ((first, "1"), (second, "3")):
            client.sendall(frame(client_id))
            assert answered(client, frame(client_id), WITHIN_S)
        network.cut(way)
        first.sendall(b"held back")
        second.sendall(b"passed on")
        assert answered(second, b"passed on", WITHIN_S)
        assert not answered(first, b"held back", SILENT_S)
        network.heal()
        assert answered(first, b"held back", WITHIN_S)


def test_what_never_arrives_ends_the_connection(network: Network, echo: Echo) -> None:
    port = network.to_broker("2", echo.port)
    with connect(port) as first, connect(port) as second:
        for client, client_id in ((first, "1"), (second, "3")):
            client.sendall(frame(client_id))
            assert answered(client, frame(client_id), WITHIN_S)
        network.cut(("1", "2"), ("2", "1"))
        network.heal(late=False)
        first.settimeout(WITHIN_S)
        with pytest.raises(ConnectionResetError):
            first.recv(1)
        second.sendall(b"there")
        assert answered(second, b"there", WITHIN_S)


IDS = [next(str(n) for n in range(100) if half_of(str(n)) == half) for half in CLIENTS]
"""A client of each half."""


def test_a_half_of_the_clients_is_cut(network: Network, echo: Echo) -> None:
    port = network.to_clients("2", echo.port)
    with connect(port) as first, connect(port) as second:
        for client, client_id in zip((first, second), IDS, strict=True):
            client.sendall(frame(client_id))
            assert answered(client, frame(client_id), WITHIN_S)
        network.cut((CLIENTS[0], "2"))
        first.sendall(frame("held back"))
        second.sendall(frame("passed on"))
        assert answered(second, frame("passed on"), WITHIN_S)
        assert not answered(first, frame("held back"), SILENT_S)
        network.heal()
        assert answered(first, frame("held back"), WITHIN_S)


def test_a_client_may_have_no_id(network: Network, echo: Echo) -> None:
    port = network.to_clients("2", echo.port)
    nameless = struct.pack(">ihhih", 10, 18, 0, 1, -1)
    with connect(port) as client:
        client.sendall(nameless)
        assert answered(client, nameless, WITHIN_S)


@pytest.mark.parametrize("way", [(CLIENTS[0], "2"), ("2", CLIENTS[0])])
def test_a_torn_connection_ends_in_the_middle(
    network: Network, echo: Echo, way: tuple[str, str]
) -> None:
    port = network.to_clients("2", echo.port)
    with connect(port) as client:
        client.sendall(frame(IDS[0]))
        assert answered(client, frame(IDS[0]), WITHIN_S)
        network.tear(way)
        sent = frame(IDS[0], b"x" * 100)
        client.sendall(sent)
        client.settimeout(WITHIN_S)
        got = b""
        while data := client.recv(1000):
            got += data
        assert got in (sent[: len(sent) // 2], b"")
        if way[0] == "2":
            assert got
    with connect(port) as client:
        client.sendall(frame(IDS[0]))
        assert answered(client, frame(IDS[0]), WITHIN_S), "a connection of afterwards is well"


@pytest.mark.parametrize("late", [True, False])
def test_a_half_open_connection_is_silent_until_it_heals(
    network: Network, echo: Echo, *, late: bool
) -> None:
    port = network.to_clients("2", echo.port)
    with connect(port) as client:
        client.sendall(frame(IDS[0]))
        assert answered(client, frame(IDS[0]), WITHIN_S)
        network.half_open((CLIENTS[0], "2"))
        eventually(echo.lost_one, within_s=WITHIN_S, what="the broker has lost the connection")
        assert not answered(client, b"is there anyone", SILENT_S)
        network.heal(late=late)
        client.settimeout(WITHIN_S)
        with suppress(ConnectionResetError):
            assert client.recv(1) == b""


PRODUCE, OLD_END_TXN, END_TXN, METADATA = (0, 9), (26, 4), (26, 5), (3, 9)
REQUESTS = 40


def strayed(network: Network, port: int, api: tuple[int, int]) -> tuple[int, int]:
    """Send requests, each on a connection of its own; how many were late or came again, and how
    many connections ended instead of answering."""
    network.stray(random.Random(1), (CLIENTS[0], "2"))
    ended = 0
    for _ in range(REQUESTS):
        with connect(port) as client:
            sent = frame(IDS[0], api=api)
            client.sendall(sent)
            ended += not answered(client, sent, WITHIN_S)
    eventually(lambda: not network.has_strays, within_s=WITHIN_S, what="all have arrived")
    network.heal()
    return network.strays, ended


@pytest.mark.parametrize("api", [PRODUCE, END_TXN])
def test_requests_are_late_or_come_again(
    network: Network, echo: Echo, api: tuple[int, int]
) -> None:
    strays, ended = strayed(network, network.to_clients("2", echo.port), api)
    assert 0 < ended < strays < REQUESTS


@pytest.mark.parametrize("api", [METADATA, OLD_END_TXN])
def test_other_requests_are_on_time(network: Network, echo: Echo, api: tuple[int, int]) -> None:
    assert strayed(network, network.to_clients("2", echo.port), api) == (0, 0)


def test_a_broker_that_is_down_refuses_connections(network: Network, echo: Echo) -> None:
    port = network.to_broker("2", echo.port)
    connect(port).close()
    echo.kill()

    def refused() -> bool:
        try:
            socket.create_connection((HOST, port)).close()
        except ConnectionRefusedError:
            return True
        except ConnectionResetError:
            return False
        return False

    eventually(refused, within_s=WITHIN_S, what="connections are refused")
    echo.start()
    connect(port).close()
