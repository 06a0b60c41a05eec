"""Topics out of what consumers tell each other, as stock clients write it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription

from kavka.groupcoord.classic.subscription import subscribed_topics
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
    assert subscribed_topics(data) == topics


def test_a_version_to_come_begins_alike() -> None:
    assert subscribed_topics(b"\0\x63" + reading("t")[2:] + b"more") == ["t"]


@given(topics=TOPICS, share=st.floats(0, 1, exclude_max=True))
def test_what_is_cut_off_is_not_read(topics: list[str], share: float) -> None:
    data = reading(*topics) if all(one.isascii() for one in topics) else reading("t")
    assert subscribed_topics(data[: int(len(data) * share)]) is None


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
    assert subscribed_topics(data) is None
