"""Connections of a whole broker: limits, idle ones, and settings changed while it runs."""

from __future__ import annotations

import asyncio
import logging
from itertools import pairwise
from typing import Any

import pytest

from kavka.server.config import BrokerSettings
from kavka.server.start_checks import StartError
from support.config_requests import BROKER, SET
from support.config_requests import change as configs
from support.memory_broker import MemoryBroker, fetching, scenario, until
from support.memory_network import DIALLED, Client
from support.virtual import run_until_idle

TWO_LISTENERS = (
    "listeners=PLAINTEXT://127.0.0.1:0,INSIDE://127.0.0.1:0",
    "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT",
    "inter.broker.listener.name=INSIDE",
)


async def served(client: Client) -> bool:
    """Whether a request is answered without time passing."""
    if client.is_closed:
        return False
    waiting = client.send("ApiVersions", 0)
    await run_until_idle()
    return waiting.done() and waiting.exception() is None


def change(broker: MemoryBroker, *overrides: str) -> None:
    """Give the running broker other settings."""
    given = [*broker.overrides, *overrides]
    listeners = "listeners=PLAINTEXT://127.0.0.1:0"
    broker.instance.live.change(
        BrokerSettings.load(environ={}, overrides=["log.dirs=/data", listeners, *given])
    )


# -- one address ----------------------------------------------------------------------------


@scenario("max.connections.per.ip=2", "max.connections.per.ip.overrides=10.0.0.7:1")
async def test_too_many_from_one_address_are_closed(broker: MemoryBroker) -> None:
    assert await served(broker.client)
    assert await served(broker.connect())
    refused = broker.connect()
    await refused.closed()
    assert await served(broker.connect(host="10.0.0.7"))
    assert broker.connect(host="10.0.0.7").is_closed
    assert broker.connections.refused.count == 2
    assert len(broker.connections) == 3


@scenario("max.connections.per.ip=1")
async def test_a_closed_connection_makes_room(broker: MemoryBroker) -> None:
    assert broker.connect().is_closed
    broker.client.close()
    await run_until_idle()
    broker.client = broker.connect()
    assert await served(broker.client)


@scenario("max.connections.per.ip.overrides=office:1", start=False)
async def test_host_names_are_looked_up(broker: MemoryBroker) -> None:
    broker.network.hosts["office"] = "10.0.0.9"
    await broker.start()
    assert await served(broker.connect(host="10.0.0.9"))
    assert broker.connect(host="10.0.0.9").is_closed
    await broker.stop()


@scenario("max.connections.per.ip.overrides=nowhere:1", start=False)
async def test_a_host_that_there_is_not_stops_the_start(broker: MemoryBroker) -> None:
    with pytest.raises(StartError, match=r"max\.connections\.per\.ip\.overrides.*nowhere"):
        await broker.start()
    await broker.instance.stop()


@scenario()
async def test_a_host_that_no_longer_resolves_does_not_stop_a_restart(
    broker: MemoryBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """Only a running broker can take back what was set while it ran."""
    overrides = ("max.connections.per.ip.overrides", SET, "office:2")
    broker.network.hosts["office"] = "10.0.0.1"
    assert await configs(broker, (BROKER, "", [overrides])) == [(0, None)]
    assert await configs(broker, (BROKER, "", [("max.connections", SET, "2")])) == [(0, None)]
    del broker.network.hosts["office"]
    await broker.restart()
    assert "can't apply max.connections.per.ip.overrides" in caplog.text
    assert await served(broker.client) and await served(broker.connect())
    assert not broker.connect().is_accepted, "other limits count"


def test_refused_connections_are_logged_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kavka.server.connections.registry")

    @scenario("max.connections.per.ip=1")
    async def story(broker: MemoryBroker) -> None:
        for _ in range(500):
            assert broker.connect().is_closed
        await broker.advance(10_000)

    story()
    own = [
        record.getMessage()
        for record in caplog.records
        if record.name == "kavka.server.connections.registry"
    ]
    assert len(own) == 21
    assert own[0] == (
        "closing connection from 10.0.0.1 on PLAINTEXT: the address has 1, the most that "
        "max.connections.per.ip allows it"
    )
    assert own[-1] == "480 more connections closed by max.connections.per.ip in 10 s"


# -- the whole broker, and listeners --------------------------------------------------------


@scenario("max.connections=2")
async def test_at_the_limit_new_connections_wait_to_be_accepted(broker: MemoryBroker) -> None:
    second, third, fourth = broker.connect(), broker.connect(), broker.connect()
    assert await served(second)
    waiting = third.send("ApiVersions", 0)
    await broker.advance(60_000)
    assert not third.is_accepted
    second.close()
    await until(waiting.done, "the next is accepted")
    assert await served(third)
    assert not fourth.is_accepted
    third.close()
    await run_until_idle()
    assert await served(fourth)


@scenario("max.connections=3", *TWO_LISTENERS)
async def test_a_broker_is_let_in_for_the_client_that_was_quiet_longest(
    broker: MemoryBroker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    quiet, third = broker.connect(), broker.connect()
    for client in (quiet, third, broker.client):
        assert await served(client)
    inside = broker.connect("INSIDE")
    assert await served(inside)
    await quiet.closed()
    assert await served(third) and await served(broker.client)
    assert broker.connections.displaced == 1
    assert any("max.connections is exceeded" in line for line in caplog.messages)


@scenario(*TWO_LISTENERS, "listener.name.inside.max.connections=1")
async def test_a_listener_s_own_limit(broker: MemoryBroker) -> None:
    first, second = broker.connect("INSIDE"), broker.connect("INSIDE")
    assert await served(first)
    assert not second.is_accepted
    assert await served(broker.connect())
    first.close()
    await run_until_idle()
    assert await served(second)


@scenario("max.connection.creation.rate=1")
async def test_connections_that_come_too_fast_wait(broker: MemoryBroker) -> None:
    others = [broker.connect() for _ in range(15)]
    await run_until_idle()
    accepted = [sum(other.is_accepted for other in others)]
    for _ in range(6):
        await broker.advance(1000)
        accepted.append(sum(other.is_accepted for other in others))
    assert accepted[0] == 10, "with the first client, and the one that is over: ten seconds' worth"
    assert all(after - before <= 2 for before, after in pairwise(accepted))
    await broker.advance(20_000)
    for other in others:
        assert await served(other)


# -- settings of a running broker -----------------------------------------------------------


@scenario()
async def test_a_lowered_limit_closes_the_connections_idle_longest(broker: MemoryBroker) -> None:
    quiet, busy = broker.connect(), broker.connect()
    for client in (quiet, busy, broker.client):
        assert await served(client)
    change(broker, "max.connections=2")
    await quiet.closed()
    assert await served(busy) and await served(broker.client)
    assert not broker.connect().is_accepted


@scenario("max.connections=1")
async def test_a_raised_limit_accepts_waiting_connections(broker: MemoryBroker) -> None:
    waiting = broker.connect()
    await run_until_idle()
    assert not waiting.is_accepted
    change(broker, "max.connections=2")
    await run_until_idle()
    assert await served(waiting)


@scenario()
async def test_limits_of_addresses_change(broker: MemoryBroker) -> None:
    change(broker, "max.connections.per.ip=1")
    await run_until_idle()
    assert await served(broker.client), "who is there may stay"
    assert broker.connect().is_closed
    broker.network.hosts["office"] = "10.0.0.1"
    change(broker, "max.connections.per.ip=1", "max.connections.per.ip.overrides=office:2")
    await run_until_idle()
    assert await served(broker.connect())
    change(broker, "max.connections.per.ip.overrides=nowhere:2")
    await run_until_idle()
    assert broker.connect().is_closed, "nothing has changed"


@scenario()
async def test_other_limits_change_where_a_host_is_not_found(broker: MemoryBroker) -> None:
    change(broker, "max.connections=1", "max.connections.per.ip.overrides=nowhere:2")
    await run_until_idle()
    assert not broker.connect().is_accepted


@scenario()
async def test_of_two_changes_the_last_counts_however_long_hosts_are_looked_up(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    monkeypatch.setattr(broker.network, "resolve", lambda host: found)
    change(broker, "max.connections=1", "max.connections.per.ip.overrides=office:2")
    await run_until_idle()
    change(broker, "max.connections=2")
    await run_until_idle()
    found.set_result("10.0.0.1")
    await run_until_idle()
    assert await served(broker.connect())


# -- idle connections -----------------------------------------------------------------------


@scenario("connections.max.idle.ms=6400")
async def test_idle_connections_are_closed(broker: MemoryBroker) -> None:
    idle = broker.connect()
    assert await served(idle)
    for _ in range(64):
        await broker.advance(99)
        assert await served(broker.client)
    assert not idle.is_closed
    await broker.advance(164 + 100)
    assert idle.is_closed
    assert not broker.client.is_closed
    assert broker.connections.expired == 1
    await broker.advance(6500)
    assert broker.client.is_closed
    await broker.advance(1000)
    assert len(broker.connections) == 0
    broker.client = broker.connect()
    await broker.advance(6300)
    assert await served(broker.client), "the clock runs for who comes later, too"


@scenario("connections.max.idle.ms=1000")
async def test_a_connection_without_requests_is_idle(broker: MemoryBroker) -> None:
    await broker.advance(1100)
    assert broker.client.is_closed


@scenario("connections.max.idle.ms=1000")
async def test_a_byte_now_and_then_is_activity(broker: MemoryBroker) -> None:
    broker.client.send_bytes(b"\0\0\1\0")
    for _ in range(30):
        broker.client.send_bytes(b"\0")
        await broker.advance(900)
    assert not broker.client.is_closed
    await broker.advance(200)
    assert broker.client.is_closed


@scenario("connections.max.idle.ms=1000", topics={"t": 1})
async def test_a_client_that_waits_for_a_response_is_not_idle(broker: MemoryBroker) -> None:
    request = fetching({("t", 0): 0}, max_wait_ms=5000)
    waiting = broker.client.send("Fetch", 12, **request)
    await broker.advance(4900)
    assert not broker.client.is_closed
    await broker.advance(100)
    assert waiting.done() and waiting.exception() is None
    await broker.advance(900)
    assert not broker.client.is_closed, "the answer was activity"
    await broker.advance(200)
    assert broker.client.is_closed


@scenario("connections.max.idle.ms=1000")
async def test_a_client_that_does_not_read_becomes_idle(broker: MemoryBroker) -> None:
    client = broker.connect()
    client.transport.hold()
    client.send("ApiVersions", 0)
    await broker.advance(3000)
    assert client.is_closed


@scenario("connections.max.idle.ms=-1")
async def test_a_negative_idle_time_closes_no_connection(broker: MemoryBroker) -> None:
    await broker.advance(3_600_000)
    assert await served(broker.client)


# -- addresses ------------------------------------------------------------------------------


async def received(client: Client) -> Any:
    """Where the broker is, by each way of asking."""
    metadata = await client.ask("Metadata", 9, topics=[])
    cluster = await client.ask("DescribeCluster", 0)
    found = {(broker.host, broker.port) for broker in (*metadata.brokers, *cluster.brokers)}
    (address,) = found
    return address


LISTENERS = (
    "listeners=PLAINTEXT://127.0.0.1:0,INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0",
    "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
    "advertised.listeners=PLAINTEXT://plain:1,INSIDE://inside:2,OUTSIDE://outside:3",
)


@scenario(*LISTENERS)
async def test_each_listener_advertises_its_own_address(broker: MemoryBroker) -> None:
    assert await received(broker.client) == ("plain", 1)
    assert await received(broker.connect("INSIDE")) == ("inside", 2)
    assert await received(broker.connect("OUTSIDE")) == ("outside", 3)


@scenario(*LISTENERS, "kavka.advertised.dialled.listeners=inside")
async def test_a_listener_can_advertise_the_address_that_was_dialled(broker: MemoryBroker) -> None:
    assert await received(broker.client) == ("plain", 1)
    assert await received(broker.connect("INSIDE")) == (DIALLED[0], 2), "with the advertised port"


@scenario("kavka.advertised.dialled.listeners=PLAINTEXT")
async def test_without_an_advertised_port_it_is_the_one_that_was_dialled(
    broker: MemoryBroker,
) -> None:
    assert await received(broker.client) == DIALLED


# -- the end --------------------------------------------------------------------------------


@scenario("max.connections=1", start=False)
async def test_a_waiting_connection_is_not_accepted_at_the_end(broker: MemoryBroker) -> None:
    await broker.start()
    waiting = broker.connect()
    await broker.stop()
    assert broker.client.is_closed
    assert not waiting.is_accepted


@scenario()
async def test_a_connection_during_close_is_closed(broker: MemoryBroker) -> None:
    late = broker.connect()
    broker.connections.close_all()
    await late.closed()
    await asyncio.sleep(0)
    assert len(broker.connections) == 0
