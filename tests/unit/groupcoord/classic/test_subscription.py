"""The topics in consumers' metadata, as stock clients encode it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription

from kavka.groupcoord.classic.subscription import topics_of_all
from kavka.wire.steps import QUICK_ITEMS_PER_STEP, run_at_once
from support.classic_groups import reading
from support.steps import run_and_look

TOPICS = st.lists(st.text(min_size=1, max_size=30), max_size=5)


def topics_of(*metadata: bytes) -> frozenset[str] | None:
    return run_at_once(topics_of_all(metadata))


@pytest.mark.parametrize("version", range(4))
@given(topics=TOPICS, user_data=st.none() | st.binary(max_size=20))
def test_topics_of_stock_clients(version: int, topics: list[str], user_data: bytes | None) -> None:
    subscription = ConsumerProtocolSubscription(
        version=version, topics=topics, user_data=user_data, owned_partitions=[], rack_id="r"
    )
    assert topics_of(subscription.encode()) == frozenset(topics)


def test_later_versions_are_decoded() -> None:
    assert topics_of(b"\0\x63" + reading("t")[2:] + b"more") == frozenset("t")


@given(topics=TOPICS, share=st.floats(0, 1, exclude_max=True))
def test_truncated_metadata_is_not_decoded(topics: list[str], share: float) -> None:
    data = reading(*topics) if all(topic.isascii() for topic in topics) else reading("t")
    assert topics_of(data[: int(len(data) * share)]) is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0\0\xff\xff\xff\xff\0\0\0\0",
        b"\0\0\0\0\0\1\xff\xff\0\0\0\0",
        b"\0\0\0\0\0\1\0\1\xff\0\0\0\0",
        b"\0\0\0\0\0\0\0\0\0\5abc",
    ],
)
def test_malformed_metadata_is_not_decoded(data: bytes) -> None:
    assert topics_of(data) is None


@given(st.lists(st.tuples(st.lists(st.sampled_from("abc"), max_size=3), st.binary(max_size=3))))
def test_topics_of_several_members(members: list[tuple[list[str], bytes]]) -> None:
    data = [reading(*topics, user_data=user_data) for topics, user_data in members]
    assert topics_of(*data) == frozenset(topic for topics, _ in members for topic in topics)


def test_truncated_metadata_among_others_with_the_same_beginning() -> None:
    whole = reading("t", user_data=b"12345")
    for size in range(len(whole)):
        assert topics_of(whole, whole, whole[:size]) is None
    assert topics_of() == frozenset()


def test_equal_topics_are_decoded_once() -> None:
    topics = [f"t{number}" for number in range(QUICK_ITEMS_PER_STEP)]  # enough for a pause
    equal = [reading(*topics, user_data=b"%d" % number) for number in range(50)]
    found, pauses, _ = run_and_look(topics_of_all([*equal, reading("u"), *equal]))
    assert found == frozenset([*topics, "u"])
    assert pauses == 2, "before and after the other ones"
