"""Pending requests when the log directory of their coordinator fails."""

from __future__ import annotations

import errno
import logging
import re
from typing import Any

import pytest

from kavka.wire.errors import ErrorCode
from support.coordinated import Kind, OfGroups, OfTransactions, make
from support.memory_broker import DATA, MemoryBroker, scenario

GROUP = {"group_id": "g"}
MEMBER = {**GROUP, "member_id": "", "group_instance_id": "i", "protocol_type": "consumer"}
OFFSET = {"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1}
REQUESTS: dict[tuple[str, int], dict[str, Any]] = {
    ("JoinGroup", 9): {
        **MEMBER,
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 60_000,
        "protocols": [{"name": "range", "metadata": b""}],
    },
    ("SyncGroup", 5): {
        **MEMBER,
        "generation_id": 1,
        "protocol_name": "range",
        "assignments": [],
    },
    ("OffsetCommit", 8): {
        **GROUP,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "topics": [{"name": "t", "partitions": [OFFSET]}],
    },
    ("ConsumerGroupHeartbeat", 0): {
        **GROUP,
        "member_id": "m",
        "member_epoch": 0,
        "rebalance_timeout_ms": 60_000,
        "subscribed_topic_names": ["t"],
        "topic_partitions": [],
    },
    ("LeaveGroup", 5): {**GROUP, "members": [{"member_id": "unknown"}]},
    ("OffsetFetch", 8): {"groups": [{**GROUP, "topics": None}]},
    ("DeleteGroups", 2): {"groups_names": ["g"]},
    ("InitProducerId", 4): {
        "transactional_id": "g",
        "transaction_timeout_ms": 10_000,
        "producer_id": -1,
        "producer_epoch": -1,
    },
}


@pytest.mark.parametrize(("api", "version"), REQUESTS)
@scenario(
    f"log.dirs={DATA},/more",
    "offsets.topic.num.partitions=1",
    "transaction.state.log.num.partitions=1",
    topics={"t": 1},
)
async def test_pending_requests_get_not_coordinator(
    broker: MemoryBroker, caplog: pytest.LogCaptureFixture, api: str, version: int
) -> None:
    """As in Apache Kafka when the coordinator's partition is unloaded. It is no failure of the
    request, and has no traceback."""
    kind: Kind = OfTransactions() if api == "InitProducerId" else OfGroups()
    await make(broker, kind)
    broker.share((1, 2), kind.topic, 0)
    kind.write(broker)
    pending = broker.connect().send(api, version, **REQUESTS[api, version])
    await broker.advance(10)
    assert not pending.done()
    with caplog.at_level(logging.INFO):
        broker.replica(kind.topic, 0).read_failed(OSError(errno.EIO, "broken"))
        await broker.advance(0)
    codes = set(map(int, re.findall(r"error_code=(-?\d+)", str(pending.result()))))
    assert codes - {0} == {ErrorCode.NOT_COORDINATOR}
    assert not any(record.exc_info for record in caplog.records)
