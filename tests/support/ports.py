"""Ports for servers that are killed and started again in the middle of other traffic."""

from __future__ import annotations

import socket
from typing import Final

HOST: Final = "127.0.0.1"


class Ports:
    """Ports of this machine that no other process gets until they are released.

    Each is held by a socket that is bound and never listens, which lets a server listen there
    that sets SO_REUSEADDR, as brokers do. Without it a port of the range that connections go out
    from is some client's as soon as its server is down: even of the one that reconnects to it,
    which then talks to itself.
    """

    def __init__(self) -> None:
        self._held: list[socket.socket] = []

    def take(self) -> int:
        """A port that is in use at no address of this machine: a server may listen on all."""
        held = socket.socket()
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("", 0))
        self._held.append(held)
        port: int = held.getsockname()[1]
        return port

    def release(self) -> None:
        """Let others have them."""
        while self._held:
            self._held.pop().close()


_KEPT: Final = Ports()


def free_port() -> int:
    """A port for a server, reserved until this process ends."""
    return _KEPT.take()
