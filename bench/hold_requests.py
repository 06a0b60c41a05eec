"""The cases of `bench.holds` of one request that names thousands, or is answered with thousands.

Twenty thousand items are the most that a request may name, so these are near the biggest that there
are; answers about the whole cluster are as big as the cluster.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from kavka.compat_tests.raw.codec import wire_client

if TYPE_CHECKING:
    from bench.holds import Groups

    Case: TypeAlias = Callable[[Groups], Awaitable[None]]

Request: TypeAlias = tuple[str, int, dict[str, Any]]
"""An API, a version, and what is asked."""

TOPICS: Final = 5_000
NAMED: Final = 5_000
"""Partitions, each with a few numbers, that one request names."""

WIDE: Final = "wide"
NAMES: Final = [f"topic-of-a-big-request-{number:05d}" for number in range(TOPICS)]
NOWHERE: Final = [f"that-is-not-there-{number:05d}" for number in range(9_000)]

_MANY: Final = [(name, 1) for name in NAMES]
_ONE: Final = [(WIDE, NAMED)]
_NONE: Final[Sequence[tuple[str, int]]] = ()


def _case_of(*requests: Request, twice: bool = True) -> Case:
    """The requests are sent one after the other; the last is measured, when it comes again."""

    async def case(groups: Groups) -> None:
        frames = [
            wire_client.framed(wire_client.encode(name, version, 1, **values))
            for name, version, values in requests
        ]
        for frame in frames[: len(frames) if twice else -1]:
            await groups.ask(frame)
        with groups.holds.measured():
            await groups.ask(frames[-1])

    return case


def _both(title: str, of: Callable[[Any], Request], partition: Any, **names: str) -> Any:
    """Two cases: one partition of each of many topics, and many partitions of one topic."""
    yield f"{title}, 5,000 topics", _MANY, _case_of(of(_topics(partition, **names)))
    yield f"{title}, 5,000 partitions", _ONE, _case_of(of(_partitions(partition, **names)))


def _topics(partition: Any, *, name: str = "name", rest: str = "partitions") -> Any:
    return [{name: topic, rest: [partition(0)]} for topic in NAMES]


def _partitions(partition: Any, *, name: str = "name", rest: str = "partitions") -> Any:
    return [{name: WIDE, rest: [partition(index) for index in range(NAMED)]}]


# -- requests ----------------------------------------------------------------------------------


def _metadata(topics: Sequence[str] | None, **values: Any) -> Request:
    named = None if topics is None else [{"name": topic} for topic in topics]
    return "Metadata", 9, {"topics": named, "allow_auto_topic_creation": False, **values}


def _commit(topics: Any) -> Request:
    values = {"group_id": "g", "generation_id_or_member_epoch": -1, "member_id": ""}
    return "OffsetCommit", 7, {**values, "topics": topics}


def _of_commit(index: int) -> Any:
    return {"partition_index": index, "committed_offset": 5, "committed_metadata": ""}


def _lookup(topics: Any) -> Request:
    values = {"group_id": "g", "member_id": None, "member_epoch": -1, "topics": topics}
    return "OffsetFetch", 8, {"groups": [values], "require_stable": False}


def _delete_offsets(topics: Any) -> Request:
    return "OffsetDelete", 0, {"group_id": "g", "topics": topics}


def _delete_records(topics: Any) -> Request:
    return "DeleteRecords", 2, {"topics": topics, "timeout_ms": 1000}


def _list_offsets(topics: Any) -> Request:
    return "ListOffsets", 7, {"replica_id": -1, "isolation_level": 0, "topics": topics}


def _of_list(index: int) -> Any:
    return {"partition_index": index, "timestamp": -1, "current_leader_epoch": -1}


def _epochs(topics: Any) -> Request:
    return "OffsetForLeaderEpoch", 4, {"replica_id": -1, "topics": topics}


def _of_epoch(index: int) -> Any:
    return {"partition": index, "current_leader_epoch": -1, "leader_epoch": 0}


def _fetch(topics: Any) -> Request:
    values = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1 << 20, "session_epoch": -1}
    return "Fetch", 11, {**values, "topics": topics}


def _of_fetch(index: int) -> Any:
    return {"partition": index, "fetch_offset": 0, "partition_max_bytes": 1000}


def _produce(topics: Any) -> Request:
    return "Produce", 9, {"acks": 1, "timeout_ms": 1000, "topic_data": topics}


def _of_produce(index: int) -> Any:
    return {"index": index, "records": b""}


def _of_delete(index: int) -> Any:
    return {"partition_index": index, "offset": 0}


def _plain(index: int) -> Any:
    return index


def _create(names: Sequence[str], *, is_real: bool = False) -> Request:
    topics = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in names]
    return "CreateTopics", 5, {"topics": topics, "timeout_ms": 60_000, "validate_only": not is_real}


def _widen(names: Sequence[str]) -> Request:
    topics = [{"name": name, "count": 3, "assignments": None} for name in names]
    return "CreatePartitions", 3, {"topics": topics, "timeout_ms": 1000, "validate_only": True}


def _of_groups(api: str, version: int, field: str) -> Request:
    return api, version, {field: NOWHERE}


def _sync() -> Request:
    """A leader's, with assignments of 17 MB."""
    given = [{"member_id": f"m-{number}", "assignment": bytes(8_500)} for number in range(2_000)]
    member = {"group_id": "g", "generation_id": 1, "member_id": "m-0"}
    return "SyncGroup", 3, {**member, "assignments": given}


def _add(topics: Any) -> Request:
    writer = {"v3_and_below_transactional_id": "t", "v3_and_below_producer_id": 1}
    return "AddPartitionsToTxn", 3, {**writer, "v3_and_below_topics": topics}


def _find(kind: int) -> Request:
    return "FindCoordinator", 4, {"key_type": kind, "coordinator_keys": NOWHERE}


_REPLICAS: Final = [f"{partition}:7" for partition in range(4_500)]
"""A list that is nearly as long as a value may be."""

_SET, _APPEND = 0, 2


def _alter(operation: int, items: Sequence[str]) -> Request:
    name, value = "leader.replication.throttled.replicas", ",".join(items)
    config = {"name": name, "config_operation": operation, "value": value}
    resource = {"resource_type": 2, "resource_name": WIDE, "configs": [config]}
    return "IncrementalAlterConfigs", 1, {"resources": [resource], "validate_only": False}


CONSUMERS: Final = 1_000
WAIT_MS: Final = 60_000
WOKEN_WITHIN_S: Final = 0.5


def _waits(consumers: int, partitions: int) -> Case:
    """So many consumers wait for the same partitions, and all look at them when something has
    happened to one, which is not enough for any."""

    async def case(groups: Groups) -> None:
        lines = groups.lines(consumers)
        topics = [{"topic": WIDE, "partitions": [_of_fetch(index) for index in range(partitions)]}]
        values = {"min_bytes": 1 << 20, "max_bytes": 1 << 20, "session_epoch": -1, "topics": topics}
        frame = wire_client.framed(
            wire_client.encode("Fetch", 11, 1, **values, max_wait_ms=WAIT_MS)
        )
        answers = [line.ask(frame) for line in lines]
        while groups.broker.parts.purgatory.waiting.get("Fetch", 0) < consumers:
            await asyncio.sleep(0.01)
        changed = groups.broker.parts.purgatory.changed
        with groups.holds.measured():
            asyncio.get_running_loop().call_soon(changed, (WIDE, 0), context=Context())
            await asyncio.sleep(WOKEN_WITHIN_S)
        for answer in answers:
            answer.cancel()

    return case


CASES: Final = (
    ("1,000 consumers wait for one partition", _ONE, _waits(CONSUMERS, 1)),
    ("10 consumers wait for 5,000 partitions", _ONE, _waits(10, NAMED)),
    ("Metadata, all of 5,000 topics", _MANY, _case_of(_metadata(None))),
    (
        "Metadata, all of 5,000 topics and operations",
        _MANY,
        _case_of(_metadata(None, include_topic_authorized_operations=True)),
    ),
    ("Metadata, 5,000 topics", _MANY, _case_of(_metadata(NAMES))),
    ("Metadata, 5,000 partitions", _ONE, _case_of(_metadata([WIDE]))),
    ("Metadata, 9,000 topics that are not there", _NONE, _case_of(_metadata(NOWHERE))),
    *_both("OffsetCommit", _commit, _of_commit),
    *_both("OffsetFetch", _lookup, _plain, rest="partition_indexes"),
    *_both("OffsetDelete", _delete_offsets, lambda index: {"partition_index": index}),
    *_both("DeleteRecords", _delete_records, _of_delete),
    *_both("ListOffsets", _list_offsets, _of_list),
    *_both("OffsetForLeaderEpoch", _epochs, _of_epoch, name="topic"),
    *_both("Fetch", _fetch, _of_fetch, name="topic"),
    *_both("Produce", _produce, _of_produce, rest="partition_data"),
    *_both("AddPartitionsToTxn", _add, _plain),
    ("SyncGroup, 2,000 assignments of 8,500 bytes", _NONE, _case_of(_sync())),
    ("CreateTopics, 5,000 topics, only validated", _NONE, _case_of(_create(NOWHERE[:5000]))),
    (
        "CreateTopics, 5,000 topics",
        _NONE,
        _case_of(_create(NOWHERE[:5000], is_real=True), twice=False),
    ),
    ("CreatePartitions, 5,000 topics, only validated", _MANY, _case_of(_widen(NAMES))),
    ("DescribeGroups, 9,000", _NONE, _case_of(_of_groups("DescribeGroups", 5, "groups"))),
    ("DeleteGroups, 9,000", _NONE, _case_of(_of_groups("DeleteGroups", 2, "groups_names"))),
    (
        "ConsumerGroupDescribe, 9,000",
        _NONE,
        _case_of(_of_groups("ConsumerGroupDescribe", 0, "group_ids")),
    ),
    (
        "DescribeTransactions, 9,000",
        _NONE,
        _case_of(_of_groups("DescribeTransactions", 0, "transactional_ids")),
    ),
    ("FindCoordinator, 9,000 groups", _NONE, _case_of(_find(0))),
    ("FindCoordinator, 9,000 transactional ids", _NONE, _case_of(_find(1))),
    (
        "IncrementalAlterConfigs, a list of 32,000 characters is appended to",
        [(WIDE, 1)],
        _case_of(_alter(_SET, _REPLICAS), _alter(_APPEND, ["1:8"]), twice=False),
    ),
)
