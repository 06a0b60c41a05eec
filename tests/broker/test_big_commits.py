"""Requests of very many offsets: all of them are kept, or deleted, or none, as by Apache Kafka.

What is more than fits into one batch is refused, though each part of it would fit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import pytest

from support.clients.kafka_python import create_topic
from support.ports import HOST
from support.process import BrokerProcess
from support.raw import RawConnection
from support.sides import sides_with
from support.transactional import TransactionalProducer, play
from support.wait import eventually

SETTINGS: Final = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}
MANY: Final = 1_500
"""The same partition may be named again and again."""

LONG: Final = "m" * 1_000
LONG_GROUP: Final = "g" * 1_000
NONE: Final = 0
UNKNOWN_SERVER_ERROR: Final = -1
NOT_YET: Final = (14, 15, 16)
WITHIN_S: Final = 60.0


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[BrokerProcess, ...]]:
    with sides_with(tmp_path_factory.mktemp("big-commits"), SETTINGS, lambda side: side) as found:
        for broker in found:
            create_topic(broker.bootstrap, "t", 1)
            find(broker, "g")
        yield found


def find(broker: BrokerProcess, group_id: str) -> None:
    with RawConnection(HOST, broker.port) as connection:

        def found() -> bool:
            answer = connection.request(
                "FindCoordinator", 4, key_type=0, coordinator_keys=[group_id]
            )
            if answer["coordinators"][0]["error_code"]:
                return False
            return bool(ask(connection, "OffsetFetch", 7, group_id=group_id, topics=None))

        eventually(found, within_s=WITHIN_S, what="there is a coordinator")


def ask(connection: RawConnection, api: str, version: int, **values: Any) -> Any:
    """The answer; not before the coordinator is loaded."""

    def answer() -> Any:
        found = connection.request(api, version, **values)
        return None if set(codes(found)) & set(NOT_YET) else found

    return eventually(answer, within_s=WITHIN_S, what=f"{api} is answered")


def codes(answer: Any) -> list[int]:
    """All codes in an answer."""
    if isinstance(answer, dict):
        own = [answer["error_code"]] if "error_code" in answer else []
        return own + [code for value in answer.values() for code in codes(value)]
    if isinstance(answer, list):
        return [code for value in answer for code in codes(value)]
    return []


def offsets(values: Sequence[int], metadata: str) -> list[dict[str, Any]]:
    partitions = [
        {
            "partition_index": 0,
            "committed_offset": value,
            "committed_leader_epoch": -1,
            "committed_metadata": metadata,
        }
        for value in values
    ]
    return [{"name": "t", "partitions": partitions}]


def committed(connection: RawConnection, group_id: str) -> int:
    """The committed offset of t-0."""
    topics = [{"name": "t", "partition_indexes": [0]}]
    answer = ask(connection, "OffsetFetch", 7, group_id=group_id, topics=topics)
    found: int = answer["topics"][0]["partitions"][0]["committed_offset"]
    return found


def commit(connection: RawConnection, group_id: str, topics: Any) -> set[int]:
    answer = ask(
        connection,
        "OffsetCommit",
        8,
        group_id=group_id,
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=topics,
    )
    return set(codes(answer))


def test_a_commit_that_is_too_big_commits_nothing(sides: tuple[BrokerProcess, ...]) -> None:
    for broker in sides:
        with RawConnection(HOST, broker.port) as connection:
            assert commit(connection, "g", offsets(range(1, MANY + 1), "")) == {NONE}, broker.kind
            assert committed(connection, "g") == MANY
            too_many = offsets(range(MANY + 1, 2 * MANY + 1), LONG)
            assert commit(connection, "g", too_many) == {UNKNOWN_SERVER_ERROR}, broker.kind
            assert committed(connection, "g") == MANY


def test_a_transactional_commit_that_is_too_big_commits_nothing(
    sides: tuple[BrokerProcess, ...],
) -> None:
    for broker in sides:
        with RawConnection(HOST, broker.port) as connection:
            producer = TransactionalProducer("tx", 1, "t")
            play(connection, producer.find())
            play(connection, producer.init())
            own = {
                "transactional_id": "tx",
                "producer_id": producer.now.id,
                "producer_epoch": producer.now.epoch,
            }
            added = ask(connection, "AddOffsetsToTxn", 3, **own, group_id="in tx")
            assert codes(added) == [NONE]
            values: dict[str, Any] = {**own, "group_id": "in tx", "generation_id": -1}
            for metadata, code in (("", NONE), (LONG, UNKNOWN_SERVER_ERROR)):
                topics = offsets(range(1, MANY + 1), metadata)
                answer = ask(connection, "TxnOffsetCommit", 3, **values, topics=topics)
                assert set(codes(answer)) == {code}, broker.kind


def test_a_deletion_that_is_too_big_deletes_nothing(sides: tuple[BrokerProcess, ...]) -> None:
    for broker in sides:
        with RawConnection(HOST, broker.port) as connection:
            assert commit(connection, LONG_GROUP, offsets([7], "")) == {NONE}
            topics = [{"name": "t", "partitions": [{"partition_index": 0}] * MANY}]
            answer = connection.request("OffsetDelete", 0, group_id=LONG_GROUP, topics=topics)
            assert answer["error_code"] == UNKNOWN_SERVER_ERROR, broker.kind
            assert committed(connection, LONG_GROUP) == 7
            topics[0]["partitions"] = [{"partition_index": 0}] * 2
            answer = connection.request("OffsetDelete", 0, group_id=LONG_GROUP, topics=topics)
            assert answer["error_code"] == NONE
            assert committed(connection, LONG_GROUP) == -1
