"""Requests that name very many things are handled in slices, between those of other connections.
See also `steps` in the scenarios of brokers."""

from __future__ import annotations

from typing import Any

import pytest

from kavka.compat_tests.raw.codec.wire_client import plain
from kavka.server.auth.authorizer import CHECKS_PER_STEP
from kavka.server.handlers.describe_configs import CONFIGS_PER_STEP
from kavka.server.handlers.offset_delete import OFFSETS_PER_STEP
from kavka.wire.steps import ITEMS_PER_STEP
from support.memory_broker import MemoryBroker, scenario
from support.pauses import pauses_of

MANY = 2 * CHECKS_PER_STEP
UNKNOWN = [{"name": f"n{number}"} for number in range(CHECKS_PER_STEP)]
BROKER = {"resource_type": 4, "resource_name": "1", "configuration_keys": None}
CONFIGS = 300
"""A broker has more than so many."""


def partitions(count: int, topic: str = "t", key: str = "partition_index", **more: int) -> Any:
    return [{"name": topic, "partitions": [{key: index, **more} for index in range(count)]}]


@pytest.mark.parametrize(
    ("name", "version", "values", "pauses"),
    [
        ("Metadata", 9, {"topics": [{"name": "t"}]}, 2),
        ("Metadata", 9, {"topics": None}, 2),
        ("Metadata", 9, {"topics": UNKNOWN, "allow_auto_topic_creation": False}, 2),
        (
            "Metadata",
            9,
            {
                "topics": UNKNOWN,
                "allow_auto_topic_creation": False,
                "include_topic_authorized_operations": True,
            },
            10,
        ),
        ("ListOffsets", 7, {"replica_id": -1, "topics": partitions(MANY, timestamp=-1)}, 2),
        ("ListOffsets", 0, {"replica_id": -1, "topics": partitions(MANY, "gone")}, 2),
        (
            "OffsetForLeaderEpoch",
            4,
            {"topics": [{"topic": "t", "partitions": [{"partition": 0}] * MANY}]},
            2,
        ),
        ("OffsetDelete", 0, {"group_id": "g", "topics": partitions(3 * OFFSETS_PER_STEP)}, 3),
        ("OffsetDelete", 0, {"group_id": "g", "topics": partitions(3 * OFFSETS_PER_STEP, "no")}, 3),
        ("DescribeConfigs", 4, {"resources": [BROKER]}, CONFIGS // CONFIGS_PER_STEP),
        ("DescribeConfigs", 4, {"resources": [BROKER] * 20}, 20 * CONFIGS // CONFIGS_PER_STEP),
    ],
)
@scenario()
async def test_many_are_looked_at_in_slices(
    broker: MemoryBroker, name: str, version: int, values: dict[str, Any], pauses: int
) -> None:
    asks_about_all_partitions = name == "Metadata" and values["topics"] != UNKNOWN
    await broker.create("t", 2 * ITEMS_PER_STEP if asks_about_all_partitions else 1)
    made = pauses_of(broker)
    answer = await broker.ask(name, version, **values)
    assert len(made) >= pauses
    if name == "DescribeConfigs":
        first, *others = plain(answer.results)
        assert len({config["name"] for config in first["configs"]}) > CONFIGS
        assert all(other == first for other in others)
