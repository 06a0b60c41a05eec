"""Connections of peers that are no good clients: silent, slow, half-open, many."""

from __future__ import annotations

import resource
import socket
import struct
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from kavka.compat_tests.raw.codec import wire_client
from support.memory_broker import fetching
from support.ports import HOST

IDLE = 2000
SLOW_READERS = 200
BYTE_WRITERS = 50
ASKED_BYTES = 50 << 20
"""What a slow reader asks for."""

READ_BYTES = 512
ANNOUNCED_BYTES = 100_000_000
RECEIVE_BUFFER_BYTES = 4096
OPEN_FILES = 8192
TIMEOUT_S = 60.0


def allow_open_files() -> None:
    """Room for a crowd, in this process and in the brokers that it starts."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, limit), hard))


def resident_bytes(pid: int) -> int:
    """The memory that a process has in use, its caches of files left out."""
    status = Path(f"/proc/{pid}/status").read_text()
    fields = dict(line.split(":", 1) for line in status.splitlines())
    return int(fields["RssAnon"].split()[0]) * 1024


def connect(port: int, *, source: str = HOST, receive_bytes: int = 0) -> socket.socket:
    """A plain connection, from the address `source`."""
    connection = socket.socket()
    connection.settimeout(TIMEOUT_S)
    if receive_bytes:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.bind((source, 0))
    connection.connect((HOST, port))
    return connection


def is_served(connection: socket.socket) -> bool:
    """Whether a request is answered; False when the connection is closed instead."""
    try:
        connection.sendall(wire_client.framed(wire_client.encode("ApiVersions", 0, 7)))
        head = connection.recv(8, socket.MSG_WAITALL)
        if len(head) < 8:
            return False
        size: int
        size, correlation_id = struct.unpack(">ii", head)
        assert correlation_id == 7
        return len(connection.recv(size - 4, socket.MSG_WAITALL)) == size - 4
    except ConnectionError:
        return False


class Crowd:
    """All kinds at once; `topic` has more than ASKED_BYTES in partition 0."""

    def __init__(self, port: int, topic: str) -> None:
        self._port = port
        request = fetching({(topic, 0): 0}, max_bytes=ASKED_BYTES, max_wait_ms=500)
        self._fetch = wire_client.framed(wire_client.encode("Fetch", 12, 1, **request))
        self._stack = ExitStack()
        self._turn = 0

    def __enter__(self) -> Self:
        with ExitStack() as undo:
            undo.push(self._stack)
            self.idle = [self._open() for _ in range(IDLE)]
            self.readers = [self._open(self._fetch) for _ in range(SLOW_READERS)]
            begun = struct.pack(">i", ANNOUNCED_BYTES) + self._fetch[4:8]
            self.writers = [self._open(begun) for _ in range(BYTE_WRITERS)]
            undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def step(self) -> None:
        """Each writer writes a byte, and the next reader reads a little."""
        for writer in self.writers:
            writer.sendall(b"x")
        self._turn += 1
        assert self.readers[self._turn % SLOW_READERS].recv(READ_BYTES), "it was hung up on"

    def _open(self, first: bytes = b"") -> socket.socket:
        connection = self._stack.enter_context(
            connect(self._port, receive_bytes=RECEIVE_BUFFER_BYTES)
        )
        connection.sendall(first)
        return connection
