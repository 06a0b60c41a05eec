"""No other process gets a port that is held; its server may bind it again and again."""

from __future__ import annotations

import socket

import pytest

from support.ports import HOST, Ports


def test_a_held_port_is_its_servers_alone() -> None:
    ports = Ports()
    port, other = ports.take(), ports.take()
    assert port != other
    for _ in range(2):
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((HOST, port))
        with socket.create_server((HOST, port)), socket.create_connection((HOST, port)):
            pass
    with socket.socket() as stranger, pytest.raises(OSError, match="in use"):
        stranger.bind((HOST, port))
    ports.release()
    with socket.socket() as stranger:
        stranger.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # TIME_WAIT is no holder
        stranger.bind((HOST, port))
        stranger.listen()
