"""Values in Apache Kafka's flexible encoding."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.wire import fields
from kavka.wire.fields import Malformed, Reader


@given(st.integers(0, 2**31 - 1))
def test_varints(value: int) -> None:
    assert Reader(fields.uvarint(value)).uvarint() == value


def test_varints_have_seven_bits_a_byte() -> None:
    assert fields.uvarint(300) == b"\xac\x02"  # the example of Protocol Buffers' documentation


@given(st.one_of(st.none(), st.text()))
def test_strings(text: str | None) -> None:
    reader = Reader(fields.string(text))
    assert reader.nullable_string() == text
    assert not reader.left


@given(st.lists(st.integers(-(2**31), 2**31 - 1)))
def test_arrays(values: list[int]) -> None:
    reader = Reader(fields.array(values, fields.int32))
    assert reader.array(reader.int32) == values


def test_unknown_tags_are_skipped() -> None:
    reader = Reader(fields.tags({0: b"abc", 7: b"\0"}) + b"\x05")
    tagged = reader.tags()
    assert tagged[0].take(3) == b"abc"
    assert reader.int8() == 5


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff" * 6])
def test_a_varint_without_an_end(data: bytes) -> None:
    with pytest.raises(Malformed):
        Reader(data).uvarint()


def test_lengths_that_are_not_there() -> None:
    for data in (b"\x05ab", b"\xff\xff\xff\xff\x0f"):
        with pytest.raises(Malformed):
            Reader(data).data()
    with pytest.raises(Malformed):
        Reader(b"\xff\xff\xff\xff\x0f\0").array(lambda: None)
    with pytest.raises(Malformed):
        Reader(b"\0\5ab").key_string()
    with pytest.raises(Malformed):
        Reader(b"\xff\xffab").key_string()


def test_invalid_utf_8() -> None:
    with pytest.raises(Malformed):
        Reader(b"\x02\xff").string()
