"""A client of a broker's pages over the network in memory; answers are read by the standard
library's `http.client`."""

from __future__ import annotations

import io
from http.client import HTTPResponse, IncompleteRead
from typing import Any, NamedTuple

from support.memory_network import Client, until


class Answer(NamedTuple):
    """What came back."""

    status: int
    headers: dict[str, str]
    """By names in lower case."""
    body: bytes


class _Bytes:
    """What `HTTPResponse` takes for a socket."""

    def __init__(self, data: bytes) -> None:
        self.file = io.BytesIO(data)
        self.file.close = lambda: None  # type: ignore[method-assign]  # to see how far it read

    def makefile(self, mode: str) -> io.BytesIO:
        return self.file


class HttpClient(Client):
    """One connection."""

    def __init__(self, host: str) -> None:
        super().__init__(host)
        self.got = bytearray()
        """What no answer was made of yet."""

    def received(self, data: bytes) -> None:
        self.got += data

    def ask_for(self, path: str, method: str = "GET", version: str = "1.1", **headers: str) -> None:
        """Send a request."""
        lines = [f"{method} {path} HTTP/{version}", "Host: broker.test"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.send_bytes("\r\n".join([*lines, "", ""]).encode())

    async def get(self, path: str, method: str = "GET", **headers: str) -> Answer:
        """Ask, and wait for the answer."""
        self.ask_for(path, method, **headers)
        return await self.answer(method)

    async def answer(self, method: str = "GET") -> Answer:
        """The next answer; it must be whole without time passing."""
        found: list[Answer] = []

        def is_whole() -> bool:
            found[:] = [answer for answer in [self._read(method)] if answer is not None]
            return bool(found)

        await until(is_whole, "an answer over HTTP")
        return found[0]

    def _read(self, method: str) -> Answer | None:
        if b"\r\n\r\n" not in self.got:
            return None
        source: Any = _Bytes(bytes(self.got))
        response = HTTPResponse(source, method=method)
        response.begin()
        ends_with_connection = response.length is None and not response.chunked
        if ends_with_connection and method != "HEAD" and not self.is_closed:
            return None
        try:
            body = response.read()
        except IncompleteRead:
            return None
        del self.got[: source.file.tell()]
        headers = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, headers, body)
