"""A crowd of bad company: connections that say nothing, don't read, or send a byte at a time."""

from __future__ import annotations

import socket
import struct
from contextlib import ExitStack
from typing import Final

from bench import frames
from bench.raw import HOST, Connection

IDLE: Final = 2000
SLOW_READERS: Final = 200
BYTE_WRITERS: Final = 50

ASKED_BYTES: Final = 50 << 20
"""What a slow reader asks for in one Fetch."""

RECEIVE_BUFFER_BYTES: Final = 4096
"""The kernel's for a slow reader: little of an answer leaves the broker."""

READ_BYTES: Final = 1024
ANNOUNCED_BYTES: Final = 100_000_000
"""The size of the request of which a writer sends a byte at a time."""


class Crowd:
    """All of them, connected. `step` lets each writer write a byte and one reader read a little.

    `topic` has at least ASKED_BYTES of records from offset 1 on.
    """

    def __init__(self, port: int, topic: str) -> None:
        self._stack = ExitStack()
        fetch = frames.FetchRequest(topic, 0, max_wait_ms=500, partition_max_bytes=ASKED_BYTES)
        request = bytes(fetch.at(1))
        begun = struct.pack(">i", ANNOUNCED_BYTES) + request[4:12]
        with ExitStack() as undo:
            undo.push(self._stack)
            self._idle: list[Connection] = []
            self._readers: list[socket.socket] = []
            self._writers: list[socket.socket] = []
            for number in range(IDLE):
                # One after the other, or they find the broker's backlog full and try again later.
                self._idle.append(self._stack.enter_context(Connection(port)))
                self._idle[-1].ask(frames.api_versions())
                if number < SLOW_READERS:
                    self._readers.append(self._connect(port, request))
                if number < BYTE_WRITERS:
                    self._writers.append(self._connect(port, begun))
            undo.pop_all()
        self._turn = 0

    def __enter__(self) -> Crowd:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def step(self) -> None:
        """A byte from each writer; READ_BYTES by the next of the slow readers."""
        for writer in self._writers:
            writer.send(b"x")
        self._turn += 1
        if not self._readers[self._turn % SLOW_READERS].recv(READ_BYTES):
            raise ConnectionError("the broker closed the connection of a slow reader")

    def check(self) -> None:
        """Each of the idle ones is still served."""
        for connection in self._idle:
            connection.ask(frames.api_versions())

    def _connect(self, port: int, first: bytes) -> socket.socket:
        connection = self._stack.enter_context(socket.socket())
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.connect((HOST, port))
        connection.sendall(first)
        return connection
