"""The comparison itself: what it must see, and what it must let pass."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from kavka.compat_tests.raw.case import Facts, Outcome
from kavka.compat_tests.raw.codec.batches import build, patch
from kavka.compat_tests.raw.compare import Side, differences
from kavka.compat_tests.raw.differences import Difference

HOST = "127.0.0.1"
EPOCH = "coordinator_epoch"
ONE = Facts(HOST, 1001, 1, "one", {"t": UUID(int=10)})
TWO = Facts(HOST, 1002, 1, "two", {"t": UUID(int=20)})


def seen(kavka: object, kafka: object, api: str = "Fetch") -> list[Difference]:
    return list(differences(api, Side(kavka, ONE), Side(kafka, TWO)))


def test_equal_answers_do_not_differ() -> None:
    assert not seen({"a": [{"b": 1}]}, {"a": [{"b": 1}]})


def test_a_field_deep_inside_is_named() -> None:
    assert seen({"a": [{"b": 1}]}, {"a": [{"b": 2}]}) == [Difference("a.0.b", 1, 2)]


def test_types_count() -> None:
    assert seen({"a": None}, {"a": []})
    assert seen({"a": False}, {"a": 0})
    assert seen({"a": ""}, {"a": None})


def test_missing_items_and_fields_are_seen() -> None:
    assert [found.path for found in seen({"a": [1]}, {"a": [1, 2], "b": 3})] == ["a.1", "b"]


def test_a_closed_connection_equals_only_a_closed_one() -> None:
    assert not seen(Outcome.CLOSED, Outcome.CLOSED)
    assert seen(Outcome.CLOSED, {"error_code": 0})
    assert seen(Outcome.CLOSED, Outcome.TIMED_OUT)


def test_ids_and_ports_are_known_by_what_they_stand_for() -> None:
    assert not seen({"topic_id": UUID(int=10)}, {"topic_id": UUID(int=20)})
    assert not seen({"brokers": [{"port": 1001}]}, {"brokers": [{"port": 1002}]})
    assert seen({"topic_id": UUID(int=20)}, {"topic_id": UUID(int=20)}), "no topic of the first"
    assert seen({"brokers": [{"port": 1002}]}, {"brokers": [{"port": 1002}]})


def test_coordinators_have_the_epochs_that_their_starts_gave_them() -> None:
    started_often = replace(ONE, coordinator_epochs=frozenset({3, 4}))

    def differ(epoch: int, recorded: int) -> list[Difference]:
        def described(number: int) -> Any:
            return {
                "topics": [
                    {"partitions": [{"active_producers": [{"producer_id": 1, EPOCH: number}]}]}
                ]
            }

        def fetched(number: int) -> Any:
            marker = ["00000001", b"\0\0".hex() + number.to_bytes(4, signed=True).hex()]
            return {"responses": [{"partitions": [{"records": [{"control": [marker]}]}]}]}

        found: list[Difference] = []
        for api, answer in (("DescribeProducers", described), ("Fetch", fetched)):
            sides = Side(answer(epoch), started_often), Side(answer(recorded), TWO)
            found += differences(api, *sides)
        return found

    assert not differ(3, 0)
    assert not differ(4, 0)
    assert not differ(9, 9), "one that was named in a request"
    assert len(differ(2, 0)) == 2
    assert len(differ(-1, 0)) == 2
    assert len(differ(3, 9)) == 2


@pytest.mark.parametrize(
    ("throttle_ms", "without_quotas", "with_quotas"),
    [(0, True, True), (10_000, False, True), (-5, False, False)],
)
def test_only_a_broker_with_quotas_lets_clients_wait(
    throttle_ms: int, without_quotas: bool, with_quotas: bool
) -> None:
    answers = {"throttle_time_ms": throttle_ms}, {"throttle_time_ms": 0}
    assert bool(seen(*answers)) is not without_quotas
    held_back = Side(answers[0], replace(ONE, has_quotas=True)), Side(answers[1], TWO)
    assert bool(list(differences("Fetch", *held_back))) is not with_quotas


def test_topics_of_metadata_have_no_order_but_others_have() -> None:
    topics = [{"name": "a", "topic_id": None}, {"name": "b", "topic_id": None}]
    assert not seen({"topics": topics}, {"topics": topics[::-1]}, "Metadata")
    assert seen({"topics": topics}, {"topics": topics[::-1]}, "OffsetForLeaderEpoch")


def test_order_goes_by_what_an_id_stands_for() -> None:
    kavka_facts = Facts(HOST, 1, 1, "one", {"t": UUID(int=10), "u": UUID(int=11)})
    kafka_facts = Facts(HOST, 2, 1, "two", {"t": UUID(int=9), "u": UUID(int=8)})
    kavka, kafka = (
        Side({"responses": [{"name": "", "topic_id": found.ids[name]} for name in "tu"]}, found)
        for found in (kavka_facts, kafka_facts)
    )
    assert not list(differences("Produce", kavka, kafka))


def test_records_are_compared_field_by_field() -> None:
    batch = bytes(build())
    other = bytes(patch(bytearray(batch), leader_epoch=7))
    (found,) = seen({"records": batch}, {"records": other})
    assert (found.path, found.expected) == ("records.batches.0.leader_epoch", 7)


def test_the_broker_s_clock_may_differ_but_not_the_rest_of_a_batch() -> None:
    now = int(time.time() * 1000)
    batch, later, old = (bytes(patch(build(), max_timestamp=ms)) for ms in (now, now + 5, 5))
    assert not seen({"records": batch}, {"records": later})
    assert seen({"records": batch}, {"records": old})
