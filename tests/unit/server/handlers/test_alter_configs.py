"""AlterConfigs over the wire; what it refuses is compared with Apache Kafka's answers by the
differential test."""

from __future__ import annotations

import pytest

from kavka.server.auth.authorizer import Operation
from kavka.wire.apis.alter_configs import API
from kavka.wire.errors import ErrorCode as Code
from support.config_requests import BROKER, LOGGER, TOPIC, replace, value_of
from support.denied import Denied
from support.memory_broker import MemoryBroker, scenario

VERSIONS = range(API.lowest, API.highest + 1)
DONE = (Code.NONE, None)


@pytest.mark.parametrize("version", VERSIONS)
@scenario(topics={"t": 1})
async def test_all_is_replaced(broker: MemoryBroker, version: int) -> None:
    first = {"index.interval.bytes": "1", "segment.bytes": "2000000"}
    assert await replace(broker, (TOPIC, "t", first), version=version) == [DONE]
    assert broker.replica().log.settings.segment_bytes == 2_000_000
    second: dict[str, str | None] = {"index.interval.bytes": "2"}
    assert await replace(broker, (TOPIC, "t", second), version=version) == [DONE]
    assert await value_of(broker, TOPIC, "t", "index.interval.bytes") == "2"
    assert broker.replica().log.settings.segment_bytes == 1_073_741_824
    assert await replace(broker, (TOPIC, "t", {}), version=version) == [DONE]
    assert await value_of(broker, TOPIC, "t", "index.interval.bytes") == "4096"


@scenario(topics={"t": 1})
async def test_brokers(broker: MemoryBroker) -> None:
    of_one = (BROKER, "01", {"message.max.bytes": "100"})
    of_all = (BROKER, "", {"message.max.bytes": "200", "log.segment.bytes": "2000000"})
    assert await replace(broker, of_one, of_all) == [DONE, DONE]
    settings = broker.replica().log.settings
    assert (settings.max_message_bytes, settings.segment_bytes) == (100, 2_000_000)
    assert await replace(broker, (BROKER, "1", {})) == [DONE]
    assert broker.replica().log.settings.max_message_bytes == 200


@scenario(topics={"t": 1})
async def test_only_validated(broker: MemoryBroker) -> None:
    bad, good = await replace(
        broker,
        (TOPIC, "t", {"segment.bytes": "1"}),
        (BROKER, "1", {"message.max.bytes": "100"}),
        validate_only=True,
    )
    assert bad[0] == Code.INVALID_CONFIG
    assert good == DONE
    assert broker.replica().log.settings.max_message_bytes == 1_048_588


@scenario(topics={"t": 1})
async def test_a_resource_twice(broker: MemoryBroker) -> None:
    twice = (TOPIC, "t", {"segment.bytes": "2000000"})
    outcomes = await replace(broker, twice, (TOPIC, "t", {}), (BROKER, "1", {}))
    assert outcomes == [
        (Code.INVALID_REQUEST, "Each resource must appear at most once."),
        (Code.INVALID_REQUEST, "Each resource must appear at most once."),
        DONE,
    ]


@scenario()
async def test_loggers_are_no_part_of_it(broker: MemoryBroker) -> None:
    outcomes = await replace(broker, (LOGGER, "1", {"root": "FATAL"}))
    assert outcomes == [(Code.INVALID_REQUEST, "Unknown resource type 8")]


@scenario(topics={"t": 1})
async def test_who_may_not(broker: MemoryBroker) -> None:
    broker.parts.authorizer = Denied(Operation.ALTER_CONFIGS)
    outcomes = await replace(broker, (TOPIC, "t", {}), (BROKER, "1", {}))
    assert [code for code, _ in outcomes] == [
        Code.TOPIC_AUTHORIZATION_FAILED,
        Code.CLUSTER_AUTHORIZATION_FAILED,
    ]
