"""The committed offsets by group, topic and partition; see `test_offsets_model` for more."""

from __future__ import annotations

import pytest

from kavka.groupcoord.offset_records import (
    NO_EPOCH,
    NO_TIME,
    NO_TOPIC_ID,
    CommittedOffset,
    encode,
    partition_key,
    topic_key,
)
from kavka.groupcoord.offset_store import OffsetStore


def value(offset: int) -> bytes:
    return encode(CommittedOffset(offset, NO_EPOCH, "", 0, NO_TIME, NO_TOPIC_ID))


def key(group_id: str, topic: str, partition: int) -> bytes:
    return partition_key(topic_key(group_id, topic), partition)


def filled() -> OffsetStore:
    store = OffsetStore()
    for group_id, topic, partition in (("g", "t", 0), ("g", "t", 1), ("g", "u", 0), ("h", "t", 0)):
        store.put(store.of(group_id, topic), partition, value(partition))
    return store


def test_a_group_is_removed_with_its_last_offset() -> None:
    store = filled()
    for topic, partition in (("t", 0), ("u", 0), ("t", 1)):
        store.remove(store.of("g", topic), partition)
    assert list(store.groups()) == ["h"]
    assert store.topics("g") == {}
    assert store.count == 1
    of_key = store.of_key(key("g", "t", 0))
    assert of_key is not None and not of_key.values


def test_both_versions_of_a_key_are_the_same_partition() -> None:
    store = filled()
    assert store.of_key(key("g", "t", 0)) is store.of("g", "t")
    assert store.of_key(b"\0\0" + key("g", "t", 0)[2:]) is store.of("g", "t")


@pytest.mark.parametrize(
    "broken", [b"", b"\0\1", b"\0\1\0\7ab", key("g", "t", 0)[:-1], b"\0\1" * 9]
)
def test_malformed_keys(broken: bytes) -> None:
    assert filled().of_key(broken) is None


def test_the_fast_path_ends_at_the_first_record_that_needs_more() -> None:
    known = [key("g", "t", 7), key("g", "t", 8), key("g", "t", 7)]
    simple = [value(1), value(2), value(3)]
    for odd_key, odd_value in (
        (key("g", "t", 0), None),
        (key("g", "v", 0), value(4)),
        (key("h", "t", 0), value(4)),
        (key("g", "t", 0), b"\0\4 broken"),
        (b"\0\2\0\1g", b""),
    ):
        store = filled()
        keys, values = [*known, odd_key, known[0]], [*simple, odd_value, value(5)]
        assert store.put_known(keys, values, 0, {"g"}) == 3
        assert store.count == 6
        assert store.get("g", "t", 7) == value(3)
        assert store.put_known(keys, values, 4, {"g"}) == 5
        assert store.get("g", "t", 7) == value(5)
        assert store.get("h", "t", 0) == value(0)
