"""A connection is logged in before the first request."""

from __future__ import annotations

import asyncio
import random
from types import SimpleNamespace
from typing import Any

import pytest

from kavka.client.broker_client import BrokerClient, ClientSettings, Seams
from kavka.client.errors import NotLetIn
from kavka.client.login import Login
from kavka.compat_tests.raw.codec import schemas
from kavka.wire.apis import metadata
from kavka.wire.errors import ErrorCode
from kavka.wire.frame import ArenaPool
from support.scripted_broker import ScriptedConnection, ScriptedNetwork
from support.virtual import VirtualClock, VirtualTasks, run_until_idle

METADATA: SimpleNamespace = schemas.as_namespace(schemas.schema("MetadataRequest"), {})
SERVED = {"SaslHandshake": (0, 1), "SaslAuthenticate": (0, 2), "Metadata": (0, 9)}


class Case:
    """A client with a login, and the connection that it opens."""

    def __init__(self, mechanism: str) -> None:
        clock = VirtualClock()
        tasks = VirtualTasks(clock)
        self.broker = ScriptedConnection()
        network = ScriptedNetwork(clock, self.broker)
        login = Login(mechanism, "alice", "secret")
        settings = ClientSettings(client_id="us", software_version="1", login=login)
        seams = Seams(network, clock, tasks, random.Random(1), ArenaPool())
        self._client = BrokerClient("broker.test", 9092, settings, seams)
        self.response = tasks.spawn(self._client.ask(metadata.API, METADATA), name="ask")

    async def answer(self, name: str, **values: Any) -> Any:
        """Take the next request, and answer it: the request's message."""
        request = self.broker.take(name)
        self.broker.respond(request, **values)
        await run_until_idle()
        return request.message

    async def begin(self) -> None:
        """Answer the first question."""
        await run_until_idle()
        self.broker.serve_versions(**SERVED)
        await run_until_idle()

    async def end(self) -> None:
        """Nothing is left open."""
        self._client.close()
        await run_until_idle()


def test_a_password_is_sent_before_the_first_request() -> None:
    async def live() -> None:
        case = Case("PLAIN")
        await case.begin()
        assert (await case.answer("SaslHandshake")).mechanism == "PLAIN"
        assert (await case.answer("SaslAuthenticate")).auth_bytes == b"\0alice\0secret"
        await case.answer("Metadata", controller_id=7)
        assert (await case.response).controller_id == 7
        await case.end()

    asyncio.run(live())


@pytest.mark.parametrize(
    ("code", "mechanisms", "why"),
    [
        (ErrorCode.UNSUPPORTED_SASL_MECHANISM, ["A", "B"], "know sasl.mechanism=PLAIN; it knows A"),
        (ErrorCode.ILLEGAL_SASL_STATE, [], "broker.test:9092 takes no login"),
        (ErrorCode.NETWORK_EXCEPTION, [], "answers SaslHandshake with NETWORK_EXCEPTION"),
    ],
)
def test_a_broker_that_shakes_no_hands(code: ErrorCode, mechanisms: list[str], why: str) -> None:
    async def live() -> None:
        case = Case("PLAIN")
        await case.begin()
        await case.answer("SaslHandshake", error_code=code, mechanisms=mechanisms)
        with pytest.raises(NotLetIn, match=why):
            await case.response
        assert case.broker.is_closed
        await case.end()

    asyncio.run(live())


@pytest.mark.parametrize(
    ("mechanism", "answer", "why"),
    [
        ("PLAIN", {"error_code": 58, "error_message": "Not you"}, "let the client in: Not you. Is"),
        ("PLAIN", {"error_code": 58}, "SASL_AUTHENTICATION_FAILED"),
        ("SCRAM-SHA-512", {"auth_bytes": b"r=x,s=aGk=,i=4096"}, "SCRAM-SHA-512 has failed: its"),
    ],
)
def test_a_login_that_fails(mechanism: str, answer: dict[str, Any], why: str) -> None:
    async def live() -> None:
        case = Case(mechanism)
        await case.begin()
        await case.answer("SaslHandshake")
        await case.answer("SaslAuthenticate", **answer)
        with pytest.raises(NotLetIn, match=why):
            await case.response
        assert case.broker.is_closed
        await case.end()

    asyncio.run(live())
