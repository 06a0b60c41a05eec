"""One connection of a script: steps go out, outcomes come back."""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping
from typing import Any, Final, Self

from kavka.compat_tests.raw.case import Outcome, Step
from kavka.compat_tests.raw.codec import wire_client

CONNECTED_WITHIN_S: Final = 60.0
PROBE: Final = ("ApiVersions", 0)
PROBE_ID: Final = 0x50524F42


class Link:
    """A connection that is opened when needed, and opened again after it was closed."""

    def __init__(
        self, host: str, port: int, offered: Mapping[str, tuple[int, int]] | None = None
    ) -> None:
        self._address = (host, port)
        self._offered = offered
        self._socket: socket.socket | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self._drop()

    def usable(self, api: str, version: int) -> int:
        """This version of an API, or the highest below that the broker offers."""
        return version if self._offered is None else min(version, self._offered.get(api, (0, 0))[1])

    def play(self, step: Step) -> Any:
        """Send it; the answer as plain values, or an Outcome."""
        return self.send(step) or self.receive(step, step.within_s)

    def send(self, step: Step) -> Outcome | None:
        """Send it; an Outcome if that was not possible."""
        probe = b""
        if step.silent:
            probe = wire_client.framed(wire_client.encode(*PROBE, PROBE_ID))
        try:
            self._connected().sendall(step.frame + probe)
            if step.ended:
                self._connected().shutdown(socket.SHUT_WR)
        except OSError:
            self._drop()
            return Outcome.CLOSED
        return None

    def receive(self, step: Step, within_s: float) -> Any:
        """The answer to what was sent, as plain values, or an Outcome."""
        try:
            self._connected().settimeout(within_s)
            answer = self._frame()
        except TimeoutError:
            self._drop()
            return Outcome.TIMED_OUT
        except (OSError, EOFError):
            self._drop()
            return Outcome.CLOSED
        if step.silent and answer[:4] == struct.pack(">i", PROBE_ID):
            return Outcome.SILENT
        return self._decoded(step, answer)

    def _decoded(self, step: Step, answer: bytes) -> Any:
        assert step.answer_as is not None
        sent = step.frame[8:12]
        try:
            _, message = wire_client.decode(*step.answer_as, answer)
        except Exception as failure:  # compared as bytes then
            return {"unreadable": repr(failure), "bytes": answer[4:].hex()}
        return {"own answer": answer[:4] == sent, **wire_client.plain(message)}

    def _connected(self) -> socket.socket:
        if self._socket is None:
            self._socket = socket.create_connection(self._address, timeout=CONNECTED_WITHIN_S)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self._socket

    def _frame(self) -> bytes:
        (length,) = struct.unpack(">i", self._read(4))
        return self._read(length)

    def _read(self, size: int) -> bytes:
        assert self._socket is not None
        data = bytearray()
        while len(data) < size:
            chunk = self._socket.recv(size - len(data))
            if not chunk:
                raise EOFError
            data += chunk
        return bytes(data)

    def _drop(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def answer_of(link: Link, api: tuple[str, int], **fields: Any) -> Any:
    """The answer to a request in one version of an API; None if there is none that can be read."""
    frame = wire_client.framed(wire_client.encode(*api, 1, **fields))
    answer = link.play(Step(frame, api))
    return None if isinstance(answer, Outcome) or "unreadable" in answer else answer
