"""Request headers, against the library's reader."""

from __future__ import annotations

import struct
from io import BytesIO
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kavka.compat_tests.raw.codec import stock_codec
from kavka.compat_tests.raw.codec.batches import uvarint
from kavka.wire.header import read_client_id, read_fixed, skip_tags

FLEXIBLE = pytest.mark.parametrize("flexible", [False, True])


def library_header() -> Any:
    return stock_codec.MODULES["kafka.protocol.api_header"].RequestHeader


@FLEXIBLE
@settings(max_examples=50)
@given(
    key=st.integers(0, 100),
    version=st.integers(0, 20),
    correlation_id=st.integers(-(2**31), 2**31 - 1),
    client_id=st.none() | st.text(max_size=40),
    body=st.binary(max_size=20),
)
def test_headers_written_by_the_library_are_read(
    flexible: bool, key: int, version: int, correlation_id: int, client_id: str | None, body: bytes
) -> None:
    header = library_header()(
        request_api_key=key,
        request_api_version=version,
        correlation_id=correlation_id,
        client_id=client_id,
    )
    frame = memoryview(header.encode(flexible=flexible) + body)
    *fixed, length = read_fixed(frame)
    assert fixed == [key, version, correlation_id]
    found, end = read_client_id(frame, length)
    if flexible:
        end = skip_tags(frame, end)
    assert found == client_id
    assert frame[end:] == body


@given(
    unknown=st.lists(st.tuples(st.integers(0, 2**31 - 1), st.binary(max_size=200)), max_size=4),
    body=st.binary(max_size=20),
)
def test_tags_of_the_header_are_skipped(unknown: list[tuple[int, bytes]], body: bytes) -> None:
    section = uvarint(len(unknown))
    section += b"".join(uvarint(tag) + uvarint(len(data)) + data for tag, data in unknown)
    fixed = struct.pack(">hhih", 3, 9, 1, -1)
    frame = memoryview(fixed + section + body)
    assert library_header().decode(BytesIO(frame), flexible=True).client_id is None
    end = skip_tags(frame, len(fixed))
    assert frame[end:] == body


def test_a_short_frame_is_refused() -> None:
    whole = struct.pack(">hhih", 3, 9, 1, 4) + b"test" + b"\x01\x05\x02ab"
    for end in range(10):
        with pytest.raises(struct.error):
            read_fixed(memoryview(whole)[:end])
    for end in range(10, 14):
        with pytest.raises(ValueError, match="client id past the end"):
            read_client_id(memoryview(whole)[:end], 4)
    for end in range(14, len(whole)):
        with pytest.raises((ValueError, IndexError)):
            skip_tags(memoryview(whole)[:end], 14)
    assert skip_tags(memoryview(whole), 14) == len(whole)


def test_a_client_id_that_is_no_text_reads_as_replacement_characters() -> None:
    frame = memoryview(struct.pack(">hhih", 3, 9, 1, 2) + b"\xff\xfe")
    assert read_client_id(frame, 2) == ("\ufffd\ufffd", len(frame))


def test_an_endless_tag_is_refused() -> None:
    with pytest.raises(ValueError, match="varint"):
        skip_tags(memoryview(b"\xff" * 20), 0)
