"""What the client makes of a broker's behaviour: who was answered, who closed, who was not seen."""

from __future__ import annotations

import math
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import fuzz.client
from fuzz.client import OUTCOMES, SENTINEL, Client
from fuzz.frames import Frame
from support.ports import HOST

ANSWER, SILENT, CLOSE, HOLD = range(4)
"""What the server below does with a frame, by its kind."""

EXPECTED = {ANSWER: "answered", SILENT: "silent", CLOSE: "closed", HOLD: "held"}
CONFUSED = {
    ANSWER: ["held"],  # behind a frame that is held
    SILENT: ["held", "closed"],  # one in front of a frame that closes looks the same
    CLOSE: ["held"],
    HOLD: [],
}
BEYOND_ONE_READ_BYTES = 300_000


def frame(number: int, kind: int, padding: bytes = b"") -> Frame:
    """A request whose API key says what is to be done with it."""
    data = struct.pack(">hhi", kind, 0, number) + padding
    return Frame(number, struct.pack(">i", len(data)) + data, kind, 0, False)


class Server:
    """Does what the frames say, in order; remembers which of them it has looked at."""

    def __init__(self) -> None:
        self.seen: list[int] = []
        self._listening = socket.create_server((HOST, 0))
        self.port: int = self._listening.getsockname()[1]

    @contextmanager
    def running(self) -> Iterator[None]:
        thread = threading.Thread(target=self._accept, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._listening.shutdown(socket.SHUT_RDWR)
            self._listening.close()
            thread.join()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            while head := connection.recv(4, socket.MSG_WAITALL):
                (size,) = struct.unpack(">i", head)
                data = connection.recv(size, socket.MSG_WAITALL)
                kind, _, number = struct.unpack_from(">hhi", data)
                if number != SENTINEL:
                    self.seen.append(number)
                if kind == CLOSE:
                    connection.shutdown(socket.SHUT_WR)
                    while connection.recv(1 << 16):  # unread bytes would make it a reset,
                        pass  # which takes answers along that the client has not read
                    return
                if kind == HOLD:
                    connection.recv(1 << 20, socket.MSG_WAITALL)
                    return
                if kind != SILENT:
                    rest = bytes(BEYOND_ONE_READ_BYTES if number % 10 == 0 else 3)
                    connection.sendall(struct.pack(">ii", 4 + len(rest), number) + rest)


def test_each_frame_is_answered_once_and_its_outcome_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only the last frame is held: no other is left before all have been looked at, and nothing
    more comes back, however long that takes."""
    kinds = [ANSWER, SILENT, CLOSE, ANSWER, ANSWER, CLOSE, CLOSE, SILENT]
    frames = [frame(number, kinds[number % len(kinds)]) for number in range(200)]
    frames += [frame(200, ANSWER, bytes(1_000_000)), frame(201, HOLD)]
    server = Server()
    held_after_s, ticks = fuzz.client.HELD_AFTER_S, [0]
    monkeypatch.setattr(fuzz.client, "HELD_AFTER_S", math.inf)

    def on_tick(done: int) -> None:
        if set(server.seen) == set(range(len(frames))) and ticks[-1] == done:
            monkeypatch.setattr(fuzz.client, "HELD_AFTER_S", held_after_s)
        ticks.append(done)

    client = Client(["kind"] * 4, ["target"], server.port, on_tick=on_tick)
    with server.running():
        client.run(frames)
    assert client.done == len(frames)
    assert set(server.seen) == set(range(len(frames))), "none was left out"
    for kind, outcomes in enumerate(client.outcomes):
        counts = {OUTCOMES[at]: count for at, count in enumerate(outcomes) if count}
        assert set(counts) <= {EXPECTED[kind], *CONFUSED[kind]}
        assert counts[EXPECTED[kind]] > sum(counts.values()) / 2
