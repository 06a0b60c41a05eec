"""Rules for new topics. The answers to whole requests are compared with Apache Kafka's in
`test_topic_requests.py`."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.server.controller.topic_validation import (
    PARTITIONS_PER_REQUEST_MAX,
    Defaults,
    NewTopic,
    check_collision,
    check_topic_name,
    check_total,
    plan_topic,
)
from kavka.wire.errors import ApiError, ErrorCode

DEFAULTS = Defaults(num_partitions=3, replication_factor=2)


def plan(
    topic: NewTopic,
    *,
    existing: tuple[str, ...] = (),
    racks: Mapping[int, str | None] | None = None,
) -> dict[int, tuple[int, ...]]:
    def validate(configs: Mapping[str, str | None]) -> None:
        if "bad" in configs:
            raise ApiError(ErrorCode.INVALID_CONFIG, "bad")

    return plan_topic(
        topic,
        existing=existing,
        pending=(),
        racks={1: None, 2: None} if racks is None else racks,
        defaults=DEFAULTS,
        validate_configs=validate,
        random=Random(1),
    )


@given(st.text(alphabet="abcXYZ019._-", min_size=1, max_size=249))
def test_legal_names(name: str) -> None:
    if name not in (".", ".."):
        check_topic_name(name)


@given(st.text(min_size=1, max_size=20), st.characters(), st.integers(0, 20))
def test_any_other_character_is_refused(name: str, character: str, place: int) -> None:
    if not (character.isascii() and (character.isalnum() or character in "._-")):
        with pytest.raises(ApiError) as caught:
            check_topic_name(name[:place] + character + name[place:])
        assert caught.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION


def test_names_collide_by_dot_and_underscore_in_the_same_place() -> None:
    for name in ("a.b_c", "a_b.c", "a.b.c"):
        with pytest.raises(ApiError, match="collides with existing topic: a_b_c"):
            check_collision(name, ["other", "a_b_c"])
    for name in ("a-b-c", "a_b", "ab_c_", "a_b_c"):
        check_collision(name, ["a_b_c", "a.b-c"])


def test_defaults_fill_in() -> None:
    replicas = plan(NewTopic("t"))
    assert sorted(replicas) == [0, 1, 2]
    assert all(sorted(brokers) == [1, 2] for brokers in replicas.values())


def test_a_manual_assignment_is_used() -> None:
    assigned = [(1, (2, 1)), (0, (1, 2))]
    assert plan(NewTopic("t", assignments=assigned)) == {0: (1, 2), 1: (2, 1)}


@pytest.mark.parametrize(
    ("assigned", "wrong"),
    [
        ([(0, (1,)), (0, (9,))], "Found multiple manual partition assignments for partition 0"),
        ([(0, (9,)), (0, (1,))], "broker 9, but no such broker"),
        ([(0, (2,)), (1, (1, 2))], "a partition with 2 replica(s), but"),
        ([(-1, (1,))], "consecutive 0-based"),
    ],
)
def test_the_first_error_of_an_assignment_is_reported(
    assigned: list[tuple[int, tuple[int, ...]]], wrong: str
) -> None:
    with pytest.raises(ApiError) as caught:
        plan(NewTopic("t", assignments=assigned))
    assert caught.value.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert wrong in (caught.value.message or "")


def test_the_default_replication_factor_may_exceed_the_brokers() -> None:
    topic = NewTopic("t", num_partitions=1)
    with pytest.raises(ApiError) as caught:
        plan(topic, racks={1: None})
    assert caught.value.code is ErrorCode.INVALID_REPLICATION_FACTOR


def test_the_partitions_of_one_request_are_bounded() -> None:
    half = PARTITIONS_PER_REQUEST_MAX // 2
    check_total([NewTopic("a", half), NewTopic("b", half)], DEFAULTS)
    check_total([NewTopic("a", half), NewTopic("b", -half)], DEFAULTS)
    one_more = [(index, (1,)) for index in range(half + 1)]
    for too_many in (NewTopic("b", half + 1), NewTopic("b", assignments=one_more)):
        with pytest.raises(ApiError) as caught:
            check_total([NewTopic("a", half), too_many], DEFAULTS)
        assert caught.value.code is ErrorCode.POLICY_VIOLATION
    with pytest.raises(ApiError):
        check_total([NewTopic("a", 2 * half - 2), NewTopic("defaults")], DEFAULTS)
