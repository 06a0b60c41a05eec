"""PushTelemetry and GetTelemetrySubscriptions over the wire, up to the page `/metrics`. Refusals
are compared with Apache Kafka by the differential test."""

from __future__ import annotations

import gzip
from typing import Any
from uuid import UUID

import pytest

from kavka.server.telemetry import receiver
from kavka.wire.errors import ErrorCode as Code
from support import pushed
from support.config_requests import DELETE, SET, SUBSCRIPTION, change
from support.http import HttpClient
from support.memory_broker import MemoryBroker, scenario
from support.virtual import run_until_idle

PORT = 9404
ON = f"kavka.http.listener=127.0.0.1:{PORT}"
ID = UUID("d45c1070-fa27-4698-bea0-3f83ba24c3f5")
DATA = pushed.each(pushed.gauge("org.apache.kafka.producer.some.rate", 1.5, {"node.id": "3"}))


async def get_subscriptions(broker: MemoryBroker, client: Any = None) -> Any:
    return await (client or broker).ask("GetTelemetrySubscriptions", 0, client_instance_id=ID)


async def push(broker: MemoryBroker, received: Any, data: bytes = DATA, **more: Any) -> int:
    values = {
        "client_instance_id": received.client_instance_id,
        "subscription_id": received.subscription_id,
        "terminating": False,
        "compression_type": 0,
        "metrics": data,
        **more,
    }
    code: int = (await broker.ask("PushTelemetry", 0, **values)).error_code
    return code


async def subscribe(broker: MemoryBroker, **configs: str) -> None:
    changes = [(key.replace("_", "."), SET, text) for key, text in configs.items()]
    await change(broker, (SUBSCRIPTION, "s", changes))


async def metrics(broker: MemoryBroker) -> str:
    """The page."""
    answer = await broker.network.client_as(HttpClient, PORT).get("/metrics")
    return answer.body.decode()


def series(broker: MemoryBroker) -> int:
    telemetry = broker.parts.telemetry
    assert telemetry is not None
    return telemetry.series.count


@scenario(ON)
async def test_what_is_subscribed(broker: MemoryBroker) -> None:
    await subscribe(broker, metrics="a,b", interval_ms="1000", match="client_id=tester")
    received = await get_subscriptions(broker)
    assert received.error_code == Code.NONE
    assert (received.client_instance_id, received.push_interval_ms) == (ID, 1000)
    assert sorted(received.requested_metrics) == ["a", "b"]
    assert list(received.accepted_compression_types) == [4, 3, 1, 2]
    assert (received.telemetry_max_bytes, received.delta_temporality) == (1_048_576, True)
    assert (await get_subscriptions(broker)).error_code == Code.THROTTLING_QUOTA_EXCEEDED
    await change(broker, (SUBSCRIPTION, "s", [("metrics", DELETE, None)]))
    assert list((await get_subscriptions(broker)).requested_metrics) == [], "in force at once"


@scenario(ON)
async def test_subscriptions_outlive_the_broker(broker: MemoryBroker) -> None:
    await subscribe(broker, metrics="a", interval_ms="1000")
    await broker.restart()
    assert (await get_subscriptions(broker)).push_interval_ms == 1000


@pytest.mark.parametrize("codec", [0, 1])
@scenario(ON)
async def test_what_is_pushed_is_shown_until_it_is_old(broker: MemoryBroker, codec: int) -> None:
    await subscribe(broker, interval_ms="1000")
    received = await get_subscriptions(broker)
    data = gzip.compress(DATA) if codec else DATA
    assert await push(broker, received, data, compression_type=codec) == Code.NONE
    page = await metrics(broker)
    name = "kafka_client_producer_some_rate"
    assert f"# TYPE {name} gauge" in page
    label = 'client_id="tester",client_instance_id="1FwQcPonRpi-oD-DuiTD9Q",node_id="3"'
    assert f"{name}{{{label}}} 1.5\n" in page
    assert "kafka_server_client_metrics_plugin_export_count 1.0" in page
    broker.client.close()
    await run_until_idle()
    await broker.advance(59_000)
    assert series(broker) == 1, "its connection was lost, which is no reason to forget"
    await broker.advance(12_000)
    assert series(broker) == 0
    assert name not in await metrics(broker)


@scenario(ON)
async def test_a_client_is_forgotten_with_its_connection(broker: MemoryBroker) -> None:
    client = broker.connect()
    assert (await get_subscriptions(broker, client)).error_code == Code.NONE
    assert (await get_subscriptions(broker)).error_code == Code.THROTTLING_QUOTA_EXCEEDED
    # it is known by the connection that made it known
    client.close()
    broker.client.close()
    await run_until_idle()
    assert (await get_subscriptions(broker, broker.connect())).error_code == Code.NONE


@scenario(ON)
async def test_what_can_not_be_read(broker: MemoryBroker) -> None:
    received = await get_subscriptions(broker)
    assert await push(broker, received, b"\xff" * 9) == Code.INVALID_RECORD
    bomb = gzip.compress(b"\0" * (receiver.INFLATED_BYTES_MAX + 1))
    await broker.advance(received.push_interval_ms)
    assert await push(broker, received, bomb, compression_type=1) == Code.INVALID_RECORD
    page = await metrics(broker)
    assert "kafka_server_client_metrics_plugin_error_count 2.0" in page
    assert series(broker) == 0


@scenario(ON, "telemetry.max.bytes=100")
async def test_too_much(broker: MemoryBroker) -> None:
    received = await get_subscriptions(broker)
    assert received.telemetry_max_bytes == 100
    assert await push(broker, received, b"\0" * 101) == Code.TELEMETRY_TOO_LARGE


@scenario(ON)
async def test_too_much_at_a_time(broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiver, "WAITING_BYTES_MAX", -1)
    assert await push(broker, await get_subscriptions(broker)) == Code.THROTTLING_QUOTA_EXCEEDED


@scenario(ON)
async def test_a_push_of_nothing(broker: MemoryBroker) -> None:
    assert await push(broker, await get_subscriptions(broker), b"") == Code.NONE
    assert series(broker) == 0


@scenario(ON)
async def test_subscriptions_choose_by_the_software(broker: MemoryBroker) -> None:
    software = {"client_software_name": "me", "client_software_version": "1.2"}
    await subscribe(broker, match="client_software_name=me", interval_ms="700")
    assert (await get_subscriptions(broker)).push_interval_ms == 300_000, (
        "it has not said what it is"
    )
    other = broker.connect()
    await other.ask("ApiVersions", 3, **software)
    named = {"client_instance_id": UUID(int=99)}
    received = await other.ask("GetTelemetrySubscriptions", 0, **named)
    assert received.push_interval_ms == 700


@scenario(ON)
async def test_a_subscription_by_another_hand(
    broker: MemoryBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """What can't be is left out and logged; the rest counts."""
    from kavka.zktree import paths

    tree = broker.parts.coordination
    await subscribe(broker, interval_ms="700")
    path = paths.config(paths.SUBSCRIPTION_CONFIGS, "bad")
    await tree.create(path, paths.encode_config({"match": "client_id=["}))
    note = paths.encode_config_change(paths.SUBSCRIPTION_CONFIGS, "bad")
    await tree.create(paths.CONFIG_CHANGE_PREFIX, note, sequential=True)
    await broker.advance(1)
    assert (await get_subscriptions(broker)).push_interval_ms == 700
    assert "subscription bad is invalid and ignored" in caplog.text
