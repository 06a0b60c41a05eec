"""One connection, against a scripted broker: order, timeouts, ends, and whose the bytes are."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from kavka.client.connection import IN_FLIGHT_MAX, Callbacks, Connection
from kavka.client.errors import Disconnected, NotConnected, TimedOut
from kavka.compat_tests.raw.codec import schemas, wire_client
from kavka.wire.apis import fetch, heartbeat, metadata, produce
from kavka.wire.frame import ArenaPool
from support import strict_arenas
from support.scripted_broker import ScriptedConnection, response_frame
from support.virtual import VirtualClock, VirtualTasks, run_until_idle

TIMEOUT_S = 30.0


def request(name: str, **values: Any) -> SimpleNamespace:
    return schemas.as_namespace(schemas.schema(f"{name}Request"), values)


METADATA = request("Metadata")
FETCH = request("Fetch")


class Case:
    """A connection, its broker, and the time."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.tasks = VirtualTasks(self.clock)
        self.broker = ScriptedConnection()
        self.connection = Connection(
            self.clock, self.tasks, ArenaPool(), address="b:1", client_id="us"
        )
        self.broker.attach(self.connection)
        self.heard: list[Any] = []
        """Responses and failures, as they came."""

    def send(self, timeout_s: float = TIMEOUT_S, request: Any = METADATA) -> None:
        callbacks = Callbacks(self.heard.append, self.heard.append)
        self.connection.send(metadata.API, 12, request, callbacks, timeout_s=timeout_s)

    def ask(self) -> asyncio.Task[Any]:
        asking = self.connection.ask(metadata.API, 12, METADATA, timeout_s=TIMEOUT_S)
        return self.tasks.spawn(asking, name="ask")


Test = Callable[[Case], Awaitable[None]]


@pytest.fixture
def live() -> Iterator[Callable[[Test], None]]:
    """Runs a test on a loop; nothing is left on the connection's timers, which the broker ends."""

    async def run(test: Test) -> None:
        case = Case()
        await test(case)
        case.broker.abort()
        await run_until_idle()
        assert case.tasks.pending_timers == 0
        assert not case.connection.is_open

    with strict_arenas.enforce():
        yield lambda test: asyncio.run(run(test))


def test_requests_are_pipelined_and_responses_come_in_their_order(live: Any) -> None:
    async def test(case: Case) -> None:
        for _ in range(3):
            case.send()
        requests = [case.broker.take("Metadata") for _ in range(3)]
        assert [request.client_id for request in requests] == ["us"] * 3
        assert len({request.correlation_id for request in requests}) == 3
        for number, request in enumerate(requests):
            case.broker.respond(request, controller_id=number)
        assert [response.controller_id for response in case.heard] == [0, 1, 2]

    live(test)


@pytest.mark.parametrize("piece_bytes", [1, 3, 7])
def test_responses_arrive_in_pieces(live: Any, piece_bytes: int) -> None:
    async def test(case: Case) -> None:
        for _ in range(2):
            case.send()
        data = b"".join(
            wire_client.framed(response_frame(case.broker.take("Metadata"), controller_id=number))
            for number in range(2)
        )
        for start in range(0, len(data), piece_bytes):
            case.broker.feed(data[start : start + piece_bytes])
        assert [response.controller_id for response in case.heard] == [0, 1]

    live(test)


def test_a_request_without_a_response_is_not_waited_for(live: Any) -> None:
    async def test(case: Case) -> None:
        case.connection.send_without_response(produce.API, 9, request("Produce", acks=0))
        case.send()
        case.broker.take("Produce")
        case.broker.respond(case.broker.take("Metadata"), controller_id=5)
        assert [response.controller_id for response in case.heard] == [5]

    live(test)


def test_the_bytes_of_what_is_asked_for_are_the_caller_s(live: Any) -> None:
    """Another response overwrites the arena before the caller looks (strict arenas see to it)."""

    async def test(case: Case) -> None:
        response = case.tasks.spawn(
            case.connection.ask(fetch.API, 12, FETCH, timeout_s=TIMEOUT_S), name="ask"
        )
        await run_until_idle()
        records = b"r" * 1000
        topics = [{"topic": "t", "partitions": [{"records": records}]}]
        case.broker.respond(case.broker.take("Fetch"), responses=topics)
        case.send()
        case.broker.respond(case.broker.take("Metadata"), cluster_id="x" * 2000)
        message = await response
        assert message.responses[0].partitions[0].records == records

    live(test)


def test_what_takes_a_response_sees_views_and_its_outcome_is_the_caller_s(live: Any) -> None:
    async def test(case: Case) -> None:
        def size(message: Any) -> int:
            records = message.responses[0].partitions[0].records
            assert isinstance(records, memoryview)
            if len(records) == 1:
                raise ValueError("too short")
            return len(records)

        for count in (1000, 1):
            asking = case.connection.ask(fetch.API, 12, FETCH, timeout_s=TIMEOUT_S, take=size)
            outcome = case.tasks.spawn(asking, name="ask")
            await run_until_idle()
            topics = [{"topic": "t", "partitions": [{"records": b"r" * count}]}]
            case.broker.respond(case.broker.take("Fetch"), responses=topics)
            if count == 1:
                with pytest.raises(ValueError, match="too short"):
                    await outcome
            else:
                assert await outcome == 1000
        assert case.connection.is_open

    live(test)


def test_records_of_what_is_sent_for_are_views_during_the_callback(live: Any) -> None:
    async def test(case: Case) -> None:
        seen: list[bytes] = []

        def on_response(message: Any) -> None:
            records = message.responses[0].partitions[0].records
            assert isinstance(records, memoryview)
            seen.append(bytes(records))

        callbacks = Callbacks(on_response, case.heard.append)
        for size in (10, 300_000):  # the second one is larger than an arena
            case.connection.send(fetch.API, 12, FETCH, callbacks, timeout_s=TIMEOUT_S)
            topics = [{"topic": "t", "partitions": [{"records": b"s" * size}]}]
            case.broker.respond(case.broker.take("Fetch"), responses=topics)
        assert [len(records) for records in seen] == [10, 300_000]
        assert set(seen[1]) == set(b"s")

    live(test)


def test_a_response_that_does_not_come_ends_the_connection(live: Any) -> None:
    """The requests behind it fail too, though they had more time."""

    async def test(case: Case) -> None:
        case.send(timeout_s=5)
        case.send(timeout_s=60)
        await case.tasks.advance(4_999)
        assert case.heard == []
        await case.tasks.advance(1)
        assert [str(error) for error in case.heard] == [
            "b:1 has not answered Metadata within 5 s"
        ] * 2
        assert isinstance(case.heard[0], TimedOut)
        assert case.broker.is_closed
        with pytest.raises(NotConnected, match="connection to b:1 has ended"):
            case.send()

    live(test)


def test_a_response_in_time_stops_its_clock(live: Any) -> None:
    async def test(case: Case) -> None:
        case.send(timeout_s=5)
        case.broker.respond(case.broker.take("Metadata"))
        await case.tasks.advance(60_000)
        assert case.connection.is_open
        assert len(case.heard) == 1

    live(test)


@pytest.mark.parametrize(
    ("failure", "text"),
    [
        (None, "b:1 closed the connection"),
        (ConnectionResetError("reset"), "b:1 closed the connection: reset"),
    ],
)
def test_what_was_asked_fails_when_the_broker_ends_the_connection(
    live: Any, failure: Exception | None, text: str
) -> None:
    async def test(case: Case) -> None:
        responses = [case.ask(), case.ask()]
        await run_until_idle()
        case.broker.end(failure)
        await run_until_idle()
        for response in responses:
            with pytest.raises(Disconnected, match=f"^{text}$"):
                await response
        with pytest.raises(NotConnected):
            await case.ask()

    live(test)


def test_what_was_asked_fails_when_the_client_closes(live: Any) -> None:
    async def test(case: Case) -> None:
        response = case.ask()
        await run_until_idle()
        case.connection.close()
        with pytest.raises(Disconnected, match="was closed"):
            await response
        assert case.broker.is_closed

    live(test)


def test_a_caller_that_gives_up_leaves_the_order_as_it_is(live: Any) -> None:
    async def test(case: Case) -> None:
        given_up = case.ask()
        await run_until_idle()
        given_up.cancel()
        case.send()
        for number in range(2):
            case.broker.respond(case.broker.take("Metadata"), controller_id=number)
        await run_until_idle()
        assert given_up.cancelled()
        assert [response.controller_id for response in case.heard] == [1]

    live(test)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n", "is not a response of Kafka's"),
        (wire_client.framed(b"xx"), "malformed response: a response of 2 bytes has no header"),
        (wire_client.framed(b"\0\0\0\x63\0"), "no response is due with correlation id 99"),
        (wire_client.framed(b"\0\0\0\x01\0xyz"), "malformed response: MetadataResponse v12"),
    ],
    ids=["another protocol", "no header", "another request's", "cut"],
)
def test_a_broker_that_lies_is_left(live: Any, data: bytes, text: str) -> None:
    async def test(case: Case) -> None:
        case.send()
        case.broker.feed(data)
        (failure,) = case.heard
        assert isinstance(failure, Disconnected)
        assert text in str(failure)
        assert case.broker.is_closed

    live(test)


def test_a_response_that_nobody_asked_for_ends_the_connection(live: Any) -> None:
    async def test(case: Case) -> None:
        case.send()
        case.broker.respond(request := case.broker.take("Metadata"))
        case.broker.respond(request)
        assert len(case.heard) == 1
        assert case.broker.is_closed

    live(test)


def test_a_callback_may_ask_again_and_close(live: Any) -> None:
    async def test(case: Case) -> None:
        def again(_: Any) -> None:
            case.send()
            case.connection.close()

        callbacks = Callbacks(again, case.heard.append)
        case.connection.send(metadata.API, 12, METADATA, callbacks, timeout_s=TIMEOUT_S)
        case.send()
        first, second = (case.broker.take("Metadata") for _ in range(2))
        data = [wire_client.framed(response_frame(request)) for request in (first, second)]
        case.broker.feed(b"".join(data))
        assert [type(error) for error in case.heard] == [Disconnected] * 2

    live(test)


def test_requests_in_flight_are_bounded(live: Any) -> None:
    async def test(case: Case) -> None:
        for _ in range(IN_FLIGHT_MAX):
            case.send()
        with pytest.raises(OverflowError, match=f"b:1 has not answered {IN_FLIGHT_MAX}"):
            case.send()
        for _ in range(IN_FLIGHT_MAX):
            case.broker.respond(case.broker.take("Metadata"))
        assert not case.broker.has_request
        case.send()

    live(test)


def test_a_request_that_cannot_be_written_leaves_nothing_behind(live: Any) -> None:
    """Of what an encoder refuses, no byte is sent and no response is waited for."""

    async def test(case: Case) -> None:
        bad = request("Heartbeat", generation_id="seven")
        callbacks = Callbacks(case.heard.append, case.heard.append)
        with pytest.raises(struct.error):
            case.connection.send(heartbeat.API, 4, bad, callbacks, timeout_s=TIMEOUT_S)
        case.send()
        case.broker.respond(case.broker.take("Metadata"), controller_id=3)
        assert [response.controller_id for response in case.heard] == [3]

    live(test)
