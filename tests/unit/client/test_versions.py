"""Which version a broker is asked in: KIP-35 and KIP-511, against a scripted broker."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from kavka.client.connection import Connection
from kavka.client.errors import Disconnected, UnsupportedVersion
from kavka.client.versions import Versions, ask_versions
from kavka.wire.apis import api_versions, fetch, metadata
from kavka.wire.errors import ErrorCode
from kavka.wire.frame import ArenaPool
from support.scripted_broker import ScriptedConnection, api_keys
from support.virtual import VirtualClock, VirtualTasks, run_until_idle

Script = Callable[[ScriptedConnection], Awaitable[None]]


def ask(script: Script) -> Versions:
    """What the client finds out about a broker that goes by this script."""

    async def run() -> Versions:
        clock = VirtualClock()
        tasks = VirtualTasks(clock)
        broker = ScriptedConnection()
        connection = Connection(clock, tasks, ArenaPool(), address="b:1", client_id="us")
        broker.attach(connection)
        asking = tasks.spawn(ask_versions(connection, "1.2.3", 30.0), name="ask")
        await run_until_idle()
        await script(broker)
        versions: Versions = await asking
        return versions

    return asyncio.run(run())


def test_the_highest_version_is_tried_first_and_names_the_software() -> None:
    async def script(broker: ScriptedConnection) -> None:
        request = broker.take("ApiVersions")
        assert request.version == api_versions.API.highest
        assert request.message.client_software_name == "kavka"
        assert request.message.client_software_version == "1.2.3"
        broker.respond(request, api_keys=api_keys({"Fetch": (4, 11)}))

    assert ask(script).served == {fetch.API.key: (4, 11)}


@pytest.mark.parametrize(
    ("named", "version"),
    [({"ApiVersions": (0, 2)}, 2), ({}, 0), ({"ApiVersions": (0, 9)}, 4)],
    ids=["an older broker", "a broker that names none (before KIP-511)", "a newer one"],
)
def test_a_refused_version_is_replaced_by_one_that_the_broker_knows(
    named: dict[str, tuple[int, int]], version: int
) -> None:
    async def script(broker: ScriptedConnection) -> None:
        refused = broker.take("ApiVersions")
        code = ErrorCode.UNSUPPORTED_VERSION
        broker.respond(refused, version=0, error_code=code, api_keys=api_keys(named))
        await run_until_idle()
        again = broker.take("ApiVersions")
        assert again.version == version
        broker.respond(again, api_keys=api_keys({"Metadata": (0, 3)}))

    assert ask(script).served == {metadata.API.key: (0, 3)}


def test_an_error_is_named() -> None:
    async def script(broker: ScriptedConnection) -> None:
        broker.respond(broker.take("ApiVersions"), error_code=ErrorCode.INVALID_REQUEST)

    with pytest.raises(Disconnected, match="b:1 answers ApiVersions v4 with INVALID_REQUEST"):
        ask(script)


@pytest.mark.parametrize(
    ("served", "version"),
    [
        ((0, 8), 8),
        ((0, 99), metadata.API.highest),
        ((metadata.API.highest, 99), metadata.API.highest),
    ],
)
def test_the_highest_common_version_is_taken(served: tuple[int, int], version: int) -> None:
    assert Versions("b:1", {metadata.API.key: served}).highest_common(metadata.API) == version


@pytest.mark.parametrize(
    ("served", "text"),
    [
        ({}, "b:1 does not serve Metadata"),
        ({3: (99, 100)}, "b:1 serves versions 99 to 100 of Metadata, and Kavka knows 0 to 13"),
    ],
)
def test_without_a_common_version_both_ranges_are_named(
    served: dict[int, tuple[int, int]], text: str
) -> None:
    with pytest.raises(UnsupportedVersion, match=text):
        Versions("b:1", served).highest_common(metadata.API)
