"""Bytes are held back where a way is cut, and nowhere else."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import closing, suppress

import pytest

from cluster_faults.network import Network
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

    def start(self) -> None:
        """Listen."""
        self._listener = socket.create_server((HOST, self.port))
        threading.Thread(target=self._serve, args=[self._listener], daemon=True).start()

    def kill(self) -> None:
        """As a process dies: all connections are reset."""
        assert self._listener is not None
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for one in self._open:
            with closing(one), suppress(OSError):  # the other side may have ended it
                one.shutdown(socket.SHUT_RDWR)

    def _serve(self, listener: socket.socket) -> None:
        self._open: list[socket.socket] = []
        while True:
            try:
                one, _ = listener.accept()
            except OSError:
                return
            self._open.append(one)
            threading.Thread(target=self._echo, args=[one], daemon=True).start()

    def _echo(self, one: socket.socket) -> None:
        try:
            while data := one.recv(1000):
                one.sendall(data)
        except OSError:
            return


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


def frame(client_id: str, body: bytes = b"") -> bytes:
    """A request whose header has this client id."""
    name = client_id.encode()
    data = struct.pack(">hhih", 18, 0, 1, len(name)) + name + body
    return struct.pack(">i", len(data)) + data


def connect(port: int) -> socket.socket:
    """As soon as something listens there."""

    def connected() -> socket.socket | None:
        try:
            return socket.create_connection((HOST, port))
        except ConnectionRefusedError:
            return None

    return eventually(connected, within_s=WITHIN_S, what="the proxy listens")


def answered(one: socket.socket, sent: bytes, within_s: float) -> bool:
    """Whether what was sent comes back."""
    one.settimeout(within_s)
    got = b""
    try:
        while len(got) < len(sent):
            data = one.recv(len(sent) - len(got))
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
    with connect(port) as one, connect(port) as other:
        for client, client_id in ((one, "1"), (other, "3")):
            client.sendall(frame(client_id))
            assert answered(client, frame(client_id), WITHIN_S)
        network.cut(way)
        one.sendall(b"held back")
        other.sendall(b"passed on")
        assert answered(other, b"passed on", WITHIN_S)
        assert not answered(one, b"held back", SILENT_S)
        network.heal()
        assert answered(one, b"held back", WITHIN_S)


def test_what_never_arrives_ends_the_connection(network: Network, echo: Echo) -> None:
    port = network.to_broker("2", echo.port)
    with connect(port) as one, connect(port) as other:
        for client, client_id in ((one, "1"), (other, "3")):
            client.sendall(frame(client_id))
            assert answered(client, frame(client_id), WITHIN_S)
        network.cut(("1", "2"), ("2", "1"))
        network.heal(late=False)
        one.settimeout(WITHIN_S)
        with pytest.raises(ConnectionResetError):
            one.recv(1)
        other.sendall(b"there")
        assert answered(other, b"there", WITHIN_S)


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
