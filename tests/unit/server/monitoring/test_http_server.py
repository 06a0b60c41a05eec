"""The HTTP server, read by `http.client`: what it answers, and what it bounds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from email.utils import parsedate_to_datetime

import pytest

from kavka.server.monitoring import http_server
from kavka.server.monitoring.http_server import HttpServer, Page, Query
from support.asynchronous import Test, ran_by
from support.http import HttpClient
from support.memory_network import Client, MemoryNetwork, until
from support.virtual import VirtualClock, VirtualTasks, run_until_idle

PORT = 80


class Scene:
    """A server with a few pages."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.tasks = VirtualTasks(self.clock)
        self.network = MemoryNetwork()
        self.queries: list[Query] = []
        self.made = 0
        self.ended = 0
        self.server = HttpServer(
            {
                "/plain": self._plain,
                "/pieces": lambda _: Page("text/plain", self._pieces(3)),
                "/endless": lambda _: Page("text/plain", self._pieces(1 << 30)),
                "/broken": self._broken,
                "/breaks": lambda _: Page("text/plain", self._breaks()),
                "/unwell": lambda _: Page("text/plain", b"unwell", 503),
            },
            clock=self.clock,
            tasks=self.tasks,
        )

    def _plain(self, query: Query) -> Page:
        self.queries.append(query)
        return Page("text/html", b"hello")

    def _broken(self, _: Query) -> Page:
        raise ValueError("of the page")

    async def _pieces(self, count: int) -> AsyncGenerator[bytes, None]:
        try:
            for number in range(count):
                self.made += 1
                yield b"piece %d\n" % number
                await self.tasks.sleep(0)
        finally:
            self.ended += 1

    async def _breaks(self) -> AsyncGenerator[bytes, None]:
        yield b"begun"
        raise ValueError("in the middle")

    def connect(self) -> HttpClient:
        return self.network.client_as(HttpClient, PORT)


def run(test: Test) -> None:
    async def main() -> None:
        played = Scene()
        listening = await played.network.bind("", PORT)
        await listening.accept(played.server.connect)
        await test(played)

    asyncio.run(main())


scene = ran_by(run)


@scene
async def test_a_page(scene: Scene, /) -> None:
    client = scene.connect()
    answer = await client.get("/plain?a=1&b%5B%5D=x&b%5B%5D=y")
    assert (answer.status, answer.body) == (200, b"hello")
    assert answer.headers["content-type"] == "text/html"
    assert answer.headers["content-length"] == "5"
    date_s = parsedate_to_datetime(answer.headers["date"]).timestamp()
    assert date_s == scene.clock.now_ms() // 1000
    assert scene.queries[0].parameters == {"a": ["1"], "b[]": ["x", "y"]}


@scene
async def test_pieces_come_in_chunks_and_the_connection_goes_on(scene: Scene, /) -> None:
    client = scene.connect()
    for _ in range(2):
        answer = await client.get("/pieces")
        assert answer.body == b"piece 0\npiece 1\npiece 2\n"
        assert answer.headers["transfer-encoding"] == "chunked"
        assert answer.headers["connection"] == "keep-alive"
    assert (scene.made, scene.ended) == (6, 2)


@scene
async def test_for_an_old_client_the_end_of_pieces_is_the_connection_s(scene: Scene, /) -> None:
    client = scene.connect()
    client.ask_for("/pieces", version="1.0", Connection="keep-alive")
    answer = await client.answer()
    assert answer.body == b"piece 0\npiece 1\npiece 2\n"
    assert "transfer-encoding" not in answer.headers
    assert answer.headers["connection"] == "close"
    assert client.is_closed


@scene
async def test_connection_close_is_honoured(scene: Scene, /) -> None:
    client = scene.connect()
    assert (await client.get("/plain", Connection="close")).headers["connection"] == "close"
    await client.closed()
    old = scene.connect()
    old.ask_for("/plain", version="1.0")
    assert (await old.answer()).body == b"hello"
    await old.closed()


@scene
async def test_requests_behind_each_other_are_answered_in_order(scene: Scene, /) -> None:
    client = scene.connect()
    for path in ("/pieces", "/plain", "/nowhere", "/plain"):
        client.ask_for(path)
    assert [(await client.answer()).status for _ in range(4)] == [200, 200, 404, 200]


@scene
async def test_a_head_has_no_body(scene: Scene, /) -> None:
    client = scene.connect()
    answer = await client.get("/plain", method="HEAD")
    assert (answer.status, answer.headers["content-length"], answer.body) == (200, "5", b"")
    answer = await client.get("/pieces", method="HEAD")
    assert (answer.status, answer.body) == (200, b"")
    assert (await client.get("/plain")).body == b"hello"
    assert scene.made == 0


@scene
async def test_a_page_can_have_another_status(scene: Scene, /) -> None:
    answer = await scene.connect().get("/unwell")
    assert (answer.status, answer.body) == (503, b"unwell")


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"POST /plain HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", 405),
        (b"DELETE /plain HTTP/1.1\r\n\r\n", 405),
        (b"GET /plain HTTP/2.0\r\n\r\n", 505),
        (b"GET plain HTTP/1.1\r\n\r\n", 400),
        (b"GET /plain\r\n\r\n", 400),
        (b"GET  /plain HTTP/1.1\r\n\r\n", 400),
        (b"GET /plain HTTP/1.1\r\nno header\r\n\r\n", 400),
        (b"GET /plain HTTP/1.1\r\nHost : x\r\n\r\n", 400),
        (b"GET /plain HTTP/1.1\r\n folded: x\r\n\r\n", 400),
        (b"GET /plain HTTP/1.1\r\nX: a\nContent-Length: 3\r\n\r\nabc", 400),
        (b"GET /plain HTTP/1.1\r\nX: a\rContent-Length: 3\r\n\r\nabc", 400),
        (b"GET /plain HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", 400),
        (b"GET /plain HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 0\r\n\r\nabc", 400),
        (b"GET /plain HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
        (b"\r\n\r\n", 400),
        (b"GET /plain HTTP/1.1\r\nX: " + b"x" * http_server.HEAD_BYTES_MAX, 431),
    ],
)
@scene
async def test_what_is_no_request_for_a_page_is_refused_and_the_connection_closed(
    scene: Scene, /, sent: bytes, status: int
) -> None:
    client = scene.connect()
    client.send_bytes(sent)
    answer = await client.answer()
    assert (answer.status, answer.headers["connection"]) == (status, "close")
    assert int(answer.headers["content-length"]) == len(answer.body) > 1
    if status == 405:
        assert answer.headers["allow"] == "GET, HEAD"
    await client.closed()
    assert scene.queries == []


@scene
async def test_a_request_may_come_byte_by_byte(scene: Scene, /) -> None:
    client = scene.connect()
    for byte in b"GET /plain HTTP/1.1\r\nHost: x\r\n\r\n":
        client.send_bytes(bytes([byte]))
        await run_until_idle()
    assert (await client.answer()).body == b"hello"


@scene
async def test_requests_beyond_the_buffer_wait_in_the_socket(scene: Scene, /) -> None:
    client = scene.connect()
    padding = {"X": "x" * 1000}
    for _ in range(50):
        client.ask_for("/plain", **padding)
    assert [(await client.answer()).body for _ in range(50)] == [b"hello"] * 50


@scene
async def test_a_page_that_fails_is_logged_and_answered_with_500(scene: Scene, /) -> None:
    client = scene.connect()
    assert (await client.get("/broken")).status == 500
    assert (await client.get("/plain")).status == 200


@scene
async def test_failures_are_logged(scene: Scene, /, caplog: pytest.LogCaptureFixture) -> None:
    await scene.connect().get("/broken")
    client = scene.connect()
    client.ask_for("/breaks")
    await client.closed()
    assert client.got.endswith(b"5\r\nbegun\r\n"), "the answer is seen not to be whole"
    assert [record.getMessage() for record in caplog.records] == [
        "/broken failed",
        "/breaks failed",
    ]
    assert all(record.exc_info for record in caplog.records)


@scene
async def test_pieces_are_made_no_faster_than_they_are_read(scene: Scene, /) -> None:
    client = scene.connect()
    client.transport.hold()
    client.ask_for("/endless")
    await run_until_idle(200)
    assert scene.made <= 1
    client.transport.release()
    await until(lambda: scene.made > 100, "it goes on")
    client.transport.hold()
    await run_until_idle()
    made = scene.made
    await run_until_idle(200)
    assert scene.made == made


@scene
async def test_a_client_that_hangs_up_ends_the_page(scene: Scene, /) -> None:
    client = scene.connect()
    client.ask_for("/endless")
    await until(lambda: scene.made > 3, "it is made")
    client.transport.abort()
    await until(lambda: scene.ended == 1, "it ends")
    made = scene.made
    await run_until_idle(200)
    assert scene.made == made
    assert scene.tasks.pending_timers == 0


@scene
async def test_a_client_that_does_not_read_is_closed(scene: Scene, /) -> None:
    client = scene.connect()
    client.transport.hold()
    client.ask_for("/endless")
    await run_until_idle()
    await scene.tasks.advance(http_server.RESPONSE_S_MAX * 1000 - 1)
    assert not client.is_closed
    await scene.tasks.advance(1)
    await client.closed()
    await run_until_idle()
    assert scene.ended == 1


@pytest.mark.parametrize("sent", [b"", b"GET /plain HT"])
@scene
async def test_a_client_that_sends_no_request_is_closed(scene: Scene, /, sent: bytes) -> None:
    client = scene.connect()
    client.send_bytes(sent)
    await scene.tasks.advance(http_server.REQUEST_S_MAX * 1000 - 1)
    assert not client.is_closed
    await scene.tasks.advance(1)
    await client.closed()


@scene
async def test_each_request_restarts_the_timeout(scene: Scene, /) -> None:
    client = scene.connect()
    for _ in range(3):
        await scene.tasks.advance(http_server.REQUEST_S_MAX * 900)
        assert (await client.get("/plain")).status == 200
    await scene.tasks.advance(http_server.REQUEST_S_MAX * 1000)
    await client.closed()


@scene
async def test_too_many_connections_are_closed_at_once(scene: Scene, /) -> None:
    clients: list[Client] = [scene.connect() for _ in range(http_server.CONNECTIONS_MAX)]
    assert not any(client.is_closed for client in clients)
    assert scene.connect().is_closed
    clients[0].close()
    await clients[0].closed()
    assert (await scene.connect().get("/plain")).status == 200


@scene
async def test_a_half_closed_connection_gets_its_response(scene: Scene, /) -> None:
    client = scene.connect()
    client.ask_for("/pieces")
    await until(lambda: scene.made, "the answer is under way")
    client.ask_for("/plain")
    await run_until_idle()
    client.close()
    assert (await client.answer()).body.endswith(b"piece 2\n")
    assert (await client.answer()).body == b"hello"
    await client.closed()


@scene
async def test_closing_the_server_cuts_all(scene: Scene, /) -> None:
    clients = [scene.connect() for _ in range(3)]
    clients[0].ask_for("/endless")
    await until(lambda: scene.made, "it is made")
    scene.server.close()
    for client in clients:
        await client.closed()
    await run_until_idle()
    assert scene.ended == 1
    assert scene.tasks.pending_timers == 0
