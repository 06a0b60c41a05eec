"""Records of offsets. `EXAMPLES` were written by the classes of Apache Kafka
4.3.1 (`OffsetCommitValue`)."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.groupcoord.offset_records import (
    NO_EPOCH,
    NO_TIME,
    NO_TOPIC_ID,
    CommittedOffset,
    decode,
    encode,
    is_sound,
    partition_key,
    split_topic_key,
    tombstone,
    topic_key,
)

ID = UUID("01020304-0506-0708-090a-0b0c0d0e0f10")
AT = "0000018bcfe5687b"
AT_MS = 1_700_000_000_123
WITH_ID = "01001001020304050607" + "08090a0b0c0d0e0f10"
EXAMPLES = [
    (0, "", "000000000100000000000000" + AT),
    (0, "a note ä", "000000000100000000000009" + "61206e6f746520c3a4" + AT),
    (1, "", "000100000100000000000000" + AT + "0000018bcfe56be7"),
    (1, "a note ä", "000100000100000000000009" + "61206e6f746520c3a4" + AT + "0000018bcfe56be7"),
    (2, "", "000200000100000000000000" + AT),
    (3, "", "00030000010000000000000000070000" + AT),
    (3, "a note ä", "00030000010000000000000000070009" + "61206e6f746520c3a4" + AT),
    (4, "", "000400000100000000000000000701" + AT + "00"),
    (4, "a note ä", "00040000010000000000000000070a" + "61206e6f746520c3a4" + AT + "00"),
    (4, "x" * 126, "00040000010000000000000000077f" + "78" * 126 + AT + "00"),
    (4, "x" * 127, "00040000010000000000000000078001" + "78" * 127 + AT + "00"),
    (4, "x" * 20_000, "0004000001000000000000000007a19c01" + "78" * 20_000 + AT + "00"),
    (4, "", "000400000100000000000000000701" + AT + WITH_ID),
    (4, "a note ä", "00040000010000000000000000070a" + "61206e6f746520c3a4" + AT + WITH_ID),
    (4, "x" * 126, "00040000010000000000000000077f" + "78" * 126 + AT + WITH_ID),
    (4, "x" * 127, "00040000010000000000000000078001" + "78" * 127 + AT + WITH_ID),
]
"""Version, metadata, and the value of offset 2**40 in epoch 7 (if the version has it)."""

TIMES = st.integers(0, 2**63 - 1)
TEXTS = st.text(st.characters(blacklist_categories=["Cs"]), max_size=200)
COMMITTED = st.builds(
    CommittedOffset,
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-1, 2**31 - 1),
    TEXTS,
    TIMES,
    st.just(NO_TIME) | TIMES,
    st.just(NO_TOPIC_ID) | st.uuids(),
)


def expected(version: int, metadata: str, *, has_id: bool) -> CommittedOffset:
    return CommittedOffset(
        2**40,
        7 if version >= 3 else NO_EPOCH,
        metadata,
        AT_MS,
        1_700_000_000_999 if version == 1 else NO_TIME,
        ID if has_id else NO_TOPIC_ID,
    )


@pytest.mark.parametrize(("version", "metadata", "value"), EXAMPLES)
def test_values_of_apache_kafka(version: int, metadata: str, value: str) -> None:
    committed = expected(version, metadata, has_id=value.endswith(WITH_ID))
    data = bytes.fromhex(value)
    assert is_sound(data)
    assert decode(data) == committed
    if version in (1, 4):  # those that are written
        assert encode(committed) == data


def test_a_key_of_apache_kafka() -> None:
    key = bytes.fromhex("000100076772c3bc7070650006742e6f70696300000102")
    assert partition_key(topic_key("grüppe", "t.opic"), 258) == key
    assert split_topic_key(key[:-4]) == ("grüppe", "t.opic")
    assert tombstone("grüppe", "t.opic", 258) == (key, None)


@given(COMMITTED)
def test_encoded_values_are_decoded(committed: CommittedOffset) -> None:
    value = encode(committed)
    assert is_sound(value)
    kept = committed
    if committed.expires_at_ms != NO_TIME:  # version 1 has neither
        kept = committed._replace(leader_epoch=NO_EPOCH, topic_id=NO_TOPIC_ID)
    assert decode(value) == kept


@given(COMMITTED, st.data())
def test_a_truncated_value_is_not_sound(committed: CommittedOffset, data: st.DataObject) -> None:
    value = encode(committed)
    cut = value[: data.draw(st.integers(0, len(value) - 1))]
    assert decode(cut) is None
    assert not is_sound(cut)


@given(st.binary(max_size=80) | st.binary(max_size=60).map(b"\0\4".__add__))
def test_no_value_raises(value: bytes) -> None:
    assert is_sound(value) == (decode(value) is not None)


@given(st.binary(max_size=40) | st.binary(max_size=40).map(b"\0\1\0\1".__add__))
def test_no_key_raises(key: bytes) -> None:
    names = split_topic_key(key)
    if names is not None:
        assert topic_key(*names)[2:] == key[2:]


def test_unknown_tags_are_skipped() -> None:
    plain = bytes.fromhex(EXAMPLES[8][2])
    tagged = plain[:-1] + bytes.fromhex("02" + "0501ff" + "0903aabbcc")
    assert decode(tagged) == decode(plain)
    assert is_sound(tagged)
    too_long = plain[:-1] + bytes.fromhex("01" + "0005" + "aabb")
    assert decode(too_long) is None and not is_sound(too_long)


def test_metadata_that_is_not_utf_8_is_replaced_in_part() -> None:
    value = bytes.fromhex(EXAMPLES[8][2]).replace(b"\xc3\xa4", b"\xc3\xff")
    found = decode(value)
    assert found is not None and found.metadata == "a note \ufffd\ufffd"
