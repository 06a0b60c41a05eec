"""Connecting when there is something to ask, and again after a failure; on virtual time."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from kavka.client.broker_client import BACKOFF_JITTER, BrokerClient, ClientSettings, Seams
from kavka.client.errors import ConnectFailed, Disconnected, NotConnected, UnsupportedVersion
from kavka.compat_tests.raw.codec import schemas
from kavka.wire.apis import fetch, metadata
from kavka.wire.frame import ArenaPool
from support.scripted_broker import ScriptedConnection, ScriptedNetwork
from support.virtual import VirtualClock, VirtualTasks, run_until_idle

METADATA: SimpleNamespace = schemas.as_namespace(schemas.schema("MetadataRequest"), {})
SETTINGS = ClientSettings(client_id="us", software_version="1")
REFUSED = ConnectionRefusedError(111, "Connection refused")


class Case:
    """A client and the outcomes of its attempts to connect."""

    def __init__(self, *outcomes: ScriptedConnection | OSError | None) -> None:
        self.clock = VirtualClock()
        self.tasks = VirtualTasks(self.clock)
        self.network = ScriptedNetwork(self.clock, *outcomes)
        seams = Seams(self.network, self.clock, self.tasks, random.Random(1), ArenaPool())
        self.client = BrokerClient("broker.test", 9092, SETTINGS, seams)

    async def ask(self) -> asyncio.Task[Any]:
        """Ask, and let everything happen that needs no time."""
        response = self.tasks.spawn(self.client.ask(metadata.API, METADATA), name="ask")
        response.add_done_callback(lambda done: done.cancelled() or done.exception())
        await run_until_idle()
        return response


def run(
    test: Callable[[Case], Awaitable[None]], *outcomes: ScriptedConnection | OSError | None
) -> None:
    async def live() -> None:
        case = Case(*outcomes)
        await test(case)
        case.client.close()
        await run_until_idle()
        assert case.tasks.pending_timers == 0
        assert not case.network.outcomes, "it was to connect once more"

    asyncio.run(live())


def test_it_connects_once_and_asks_in_the_highest_common_version() -> None:
    broker = ScriptedConnection()

    async def test(case: Case) -> None:
        assert case.network.attempts == []
        responses = [await case.ask() for _ in range(2)]
        assert broker.serve_versions(Metadata=(0, 9)).client_id == "us"
        await run_until_idle()
        for number in range(2):
            request = broker.take("Metadata")
            assert request.version == 9
            broker.respond(request, controller_id=number)
        assert [(await response).controller_id for response in responses] == [0, 1]
        assert case.network.attempts == [("10.0.0.1", 9092, 0.0)]
        with pytest.raises(UnsupportedVersion, match="broker.test:9092 does not serve Fetch"):
            await case.client.ask(fetch.API, METADATA)

    run(test, broker)


@pytest.mark.parametrize(
    ("failure", "refused"),
    [(REFUSED, True), (OSError(113, "No route to host"), False)],
    ids=["refused", "unreachable"],
)
def test_a_failed_attempt_says_whether_it_was_refused(failure: OSError, refused: bool) -> None:
    async def test(case: Case) -> None:
        response = await case.ask()
        with pytest.raises(ConnectFailed, match="can't connect to broker.test:9092") as raised:
            await response
        assert raised.value.refused == refused

    run(test, failure)


def test_a_host_that_does_not_answer_is_given_up() -> None:
    async def test(case: Case) -> None:
        response = await case.ask()
        await case.tasks.advance(9_999)
        assert not response.done()
        await case.tasks.advance(1)
        with pytest.raises(ConnectFailed, match="does not answer within 10 s") as raised:
            await response
        assert not raised.value.refused

    run(test, None)


def test_attempts_are_ever_further_apart() -> None:
    """50 ms doubled up to a second, each up to a fifth longer or shorter (KIP-144)."""
    count = 8

    async def test(case: Case) -> None:
        for _ in range(count):
            response = await case.ask()
            while not response.done():
                await case.tasks.advance(1)
        gaps_s = [
            later - earlier
            for (*_, earlier), (*_, later) in itertools.pairwise(case.network.attempts)
        ]
        for number, gap_s in enumerate(gaps_s):
            expected_s = min(0.05 * 2**number, 1.0)
            assert gap_s == pytest.approx(expected_s, rel=BACKOFF_JITTER + 0.03)
        assert len(set(gaps_s[5:])) > 1, "no two brokers' clients should come at once"

    run(test, *[REFUSED] * count)


def test_a_success_ends_the_back_off() -> None:
    first, second = ScriptedConnection(), ScriptedConnection()

    async def test(case: Case) -> None:
        for _ in range(2):
            await case.ask()
            await case.tasks.advance(2_000)
        response = await case.ask()
        first.serve_versions(Metadata=(0, 9))
        await run_until_idle()
        first.end()
        await run_until_idle()
        with pytest.raises(Disconnected, match="closed the connection"):
            await response
        before_s = case.clock.monotonic_s()
        response = await case.ask()
        assert case.network.attempts[-1][2] == before_s
        second.serve_versions(Metadata=(0, 12))  # it was upgraded meanwhile
        await run_until_idle()
        request = second.take("Metadata")
        assert request.version == 12
        second.respond(request)
        await response

    run(test, REFUSED, REFUSED, first, second)


def test_a_broker_that_hangs_up_at_the_first_question_is_backed_off_from() -> None:
    first, second = ScriptedConnection(), ScriptedConnection()

    async def test(case: Case) -> None:
        response = await case.ask()
        first.end()
        await run_until_idle()
        assert isinstance(response.exception(), Disconnected)
        response = await case.ask()
        assert len(case.network.attempts) == 1
        await case.tasks.advance(60)
        second.serve_versions(Metadata=(0, 9))
        await run_until_idle()
        second.respond(second.take("Metadata"))
        await response

    run(test, first, second)


def test_a_caller_that_gives_up_leaves_the_attempt_to_the_others() -> None:
    broker = ScriptedConnection()

    async def test(case: Case) -> None:
        given_up, other = await case.ask(), await case.ask()
        given_up.cancel()
        await run_until_idle()
        broker.serve_versions(Metadata=(0, 9))
        await run_until_idle()
        broker.respond(broker.take("Metadata"), controller_id=4)
        assert (await other).controller_id == 4
        assert given_up.cancelled()

    run(test, broker)


@pytest.mark.parametrize("connected", [False, True])
def test_who_waits_when_it_is_closed_hears_of_it(connected: bool) -> None:
    broker = ScriptedConnection()

    async def test(case: Case) -> None:
        response = await case.ask()
        if connected:
            broker.serve_versions(Metadata=(0, 9))
            await run_until_idle()
        case.client.close()
        await run_until_idle()
        with pytest.raises(Disconnected if connected else NotConnected, match="was closed"):
            await response
        assert broker.is_closed
        with pytest.raises(NotConnected, match="the client of broker.test:9092 was closed"):
            await case.client.ask(metadata.API, METADATA)

    run(test, broker)


def test_closing_ends_an_attempt_that_waits() -> None:
    async def test(case: Case) -> None:
        response = await case.ask()
        case.client.close()
        await run_until_idle()
        with pytest.raises(NotConnected, match="was closed"):
            await response

    run(test, None)


def test_a_caller_that_is_cancelled_with_the_attempt_ends() -> None:
    """As when a broker is killed: it must not take it for a failure, and ask again and again."""

    async def test(case: Case) -> None:
        response = await case.ask()
        case.client.close()
        response.cancel()
        await run_until_idle()
        assert response.cancelled()

    run(test, None)
