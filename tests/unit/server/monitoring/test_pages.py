"""The pages of a broker: what they say while it starts, runs, breaks and stops."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from kavka.compat_tests.raw.codec import batches
from kavka.log.memfs import Fault
from kavka.server.config import BrokerSettings, ConfigError
from kavka.server.start_checks import StartError
from support.http import Answer, HttpClient
from support.memory_broker import MemoryBroker, scenario
from support.memory_network import MemoryNetwork
from support.virtual import run_until_idle

PORT = 9404
ON = f"kavka.http.listener=127.0.0.1:{PORT}"


def connect(broker: MemoryBroker) -> HttpClient:
    return broker.network.client_as(HttpClient, PORT)


async def get(broker: MemoryBroker, path: str) -> Answer:
    return await connect(broker).get(path)


async def health(broker: MemoryBroker, path: str = "/healthz") -> tuple[int, Any]:
    answer = await get(broker, path)
    assert answer.headers["content-type"] == "application/json"
    return answer.status, json.loads(answer.body)


@scenario()
async def test_without_the_setting_nothing_is_served(broker: MemoryBroker) -> None:
    assert len(broker.network.ports) == 1
    assert broker.instance.http_port is None


@scenario(ON)
async def test_a_running_broker_is_well(broker: MemoryBroker) -> None:
    cluster = broker.parts.metadata.image.cluster_id
    for path in ("/healthz", "/readyz"):
        status, notified = await health(broker, path)
        assert status == 200
        assert notified["status"] == "ok"
        assert notified["state"] == "RUNNING"
        assert notified["problems"] == []
        assert (notified["broker_id"], notified["cluster_id"]) == (1, cluster)


@scenario("kavka.http.listener=:0")
async def test_a_free_port_is_reported(broker: MemoryBroker) -> None:
    assert broker.instance.http_port is not None
    client = broker.network.client_as(HttpClient, broker.instance.http_port)
    assert (await client.get("/readyz")).status == 200


@scenario(ON, topics={"t": 2})
async def test_with_a_failed_log_it_is_ready_but_not_well(
    broker: MemoryBroker, caplog: pytest.LogCaptureFixture
) -> None:
    broker.fs.faults.append(Fault("pwrite", "t-0/00000000000000000000.log"))
    with caplog.at_level(logging.CRITICAL):
        await broker.produce(batches.build([batches.Written(None, b"x")]))
    status, notified = await health(broker)
    assert (status, notified["status"]) == (503, "unavailable")
    assert notified["problems"] == [
        "all log directories have failed",
        "the log directory /data failed: [Errno 5] Input/output error: "
        "'/data/t-0/00000000000000000000.log'",
    ]
    assert (await health(broker, "/readyz"))[0] == 200


@scenario(ON, start=False)
async def test_a_starting_broker_is_not_ready(broker: MemoryBroker) -> None:
    broker.jobs.hold("")
    starting = broker.tasks.spawn(broker.instance.start(), name="start")
    await run_until_idle()
    assert broker.jobs.held, "the start waits for the disk"
    status, notified = await health(broker)
    assert (status, notified["state"]) == (503, "STARTING")
    assert (await get(broker, "/metrics")).status == 503
    while not starting.done():
        broker.jobs.release()
        await run_until_idle()
    broker.client = broker.connect()
    assert (await health(broker))[0] == 200


@scenario(ON)
async def test_a_stopping_broker_reports_that_to_the_end(broker: MemoryBroker) -> None:
    client = connect(broker)
    await client.get("/readyz")
    broker.jobs.hold("")
    stopping = broker.tasks.spawn(broker.instance.stop(), name="stop")
    await run_until_idle()
    answer = await client.get("/healthz")
    assert (answer.status, json.loads(answer.body)["state"]) == (503, "SHUTTING_DOWN")
    while not stopping.done():
        broker.jobs.release()
        await run_until_idle()
    await client.closed()
    assert PORT not in broker.network.ports
    monitor: Any = broker.instance._monitor
    measured = monitor._lag.histogram.count
    await broker.advance(1000)
    assert monitor._lag.histogram.count == measured
    await broker.revive()


@scenario(ON)
async def test_a_killed_broker_serves_nothing(broker: MemoryBroker) -> None:
    client = connect(broker)
    await client.get("/readyz")
    broker.instance.kill()
    await client.closed()
    assert broker.network.ports == []
    await broker.die()
    await broker.revive()


def test_an_address_in_use_stops_the_start() -> None:
    @scenario(ON, start=False)
    async def run(broker: MemoryBroker) -> None:
        broker._new_life(MemoryNetwork({PORT: 98}))
        with pytest.raises(StartError, match=rf"127.0.0.1:{PORT}.*'kavka.http.listener'"):
            await broker.instance.start()

    run()


@pytest.mark.parametrize("address", ["9404", "host", "host:", "host:x", "a b:1", "h:65536"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(ConfigError, match="kavka.http.listener.*is not of the form host:port"):
        BrokerSettings.load(overrides=[f"kavka.http.listener={address}"])


@pytest.mark.parametrize(
    ("address", "host", "port"), [("h:1", "h", 1), (":0", "", 0), ("[::1]:9404", "::1", 9404)]
)
def test_addresses(address: str, host: str, port: int) -> None:
    found = BrokerSettings.load(overrides=[f"kavka.http.listener={address}"]).kavka_http_listener
    assert found is not None
    assert (found.host, found.port) == (host, port)
