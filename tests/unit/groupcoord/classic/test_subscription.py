"""Topics out of what consumers tell each other, as stock clients write it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription

from kavka.groupcoord.classic import subscription
from kavka.groupcoord.classic.subscription import topics_of_all
from kavka.wire.steps import run_at_once
from support.classic_groups import reading

TOPICS = st.lists(st.text(min_size=1, max_size=30), max_size=5)


def written(version: int, topics: list[str], user_data: bytes | None) -> bytes:
    """As kafka-python writes it."""
    subscription = ConsumerProtocolSubscription(
        version=version, topics=topics, user_data=user_data, owned_partitions=[], rack_id="r"
    )
    data: bytes = subscription.encode()
    return data


@pytest.mark.parametrize("version", range(4))
@given(topics=TOPICS, user_data=st.none() | st.binary(max_size=20))
def test_topics_of_stock_clients(version: int, topics: list[str], user_data: bytes | None) -> None:
    data = written(version, topics, user_data)
    assert run_at_once(topics_of_all([data])) == frozenset(topics)


def test_a_version_to_come_begins_alike() -> None:
    assert run_at_once(topics_of_all([b"\0\x63" + reading("t")[2:] + b"more"])) == frozenset("t")


@given(topics=TOPICS, share=st.floats(0, 1, exclude_max=True))
def test_what_is_cut_off_is_not_read(topics: list[str], share: float) -> None:
    data = reading(*topics) if all(one.isascii() for one in topics) else reading("t")
    assert run_at_once(topics_of_all([data[: int(len(data) * share)]])) is None


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
def test_rubbish(data: bytes) -> None:
    assert run_at_once(topics_of_all([data])) is None


@given(st.lists(st.tuples(st.lists(st.sampled_from("abc"), max_size=3), st.binary(max_size=3))))
def test_topics_of_several(members: list[tuple[list[str], bytes]]) -> None:
    data = [reading(*topics, user_data=user_data) for topics, user_data in members]
    assert run_at_once(topics_of_all(data)) == frozenset(
        topic for topics, _ in members for topic in topics
    )


def test_one_that_can_not_be_read_among_others_that_begin_alike() -> None:
    whole = reading("t", user_data=b"12345")
    for size in range(len(whole)):
        assert run_at_once(topics_of_all([whole, whole, whole[:size]])) is None
    assert run_at_once(topics_of_all([])) == frozenset()


def test_what_is_named_again_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[bytes] = []
    read = subscription._read

    def noted(metadata: bytes) -> Any:
        reads.append(metadata)
        return read(metadata)

    monkeypatch.setattr(subscription, "_read", noted)
    alike = [reading("t", "u", user_data=b"%d" % number) for number in range(500)]
    other = reading("t", "v")
    assert run_at_once(topics_of_all([*alike, other, *alike])) == frozenset("tuv")
    assert reads == [alike[0], other, alike[0]]
