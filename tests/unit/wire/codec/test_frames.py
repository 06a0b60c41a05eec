"""Frames out of answers: record bytes stay where they lie, and the frame is the library's."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kavka.compat_tests.raw.codec import stock_codec
from kavka.wire.apis import api_versions, fetch, metadata, produce
from kavka.wire.codec import frames
from kavka.wire.codec.frames import BUFFER_BYTES, BUFFER_BYTES_MAX, encode_response
from kavka.wire.errors import ErrorCode
from support import messages

TOPIC_ID = UUID(int=0x1234)
VERSIONS = range(fetch.API.lowest, fetch.API.highest + 1)
PAYLOADS = st.lists(
    st.sampled_from([None, b"", b"x", b"r" * 61, b"s" * 127, b"t" * 128, b"u" * 20_000]),
    max_size=6,
)


def answer_of(payloads: list[Any]) -> fetch.FetchResponse:
    partitions = [
        fetch.PartitionResponse(index, high_watermark=9, records=records)
        for index, records in enumerate(payloads)
    ]
    half = len(partitions) // 2
    return fetch.FetchResponse(
        [
            fetch.TopicResponse("first", TOPIC_ID, partitions[:half]),
            fetch.TopicResponse("second", None, partitions[half:]),
        ],
        session_id=5,
    )


def library_frame(name: str, version: int, correlation_id: int, answer: Any) -> bytes:
    """The frame as the library writes it, header and length included."""
    header = stock_codec.MODULES["kafka.protocol.api_header"].ResponseHeader
    head = header(correlation_id=correlation_id).encode(
        flexible=stock_codec.is_flexible(name, version)
    )
    body = bytes(head) + stock_codec.encode(name, version, messages.for_library(answer))
    return len(body).to_bytes(4, "big") + body


@pytest.mark.parametrize("version", VERSIONS)
@settings(max_examples=8)
@given(payloads=PAYLOADS)
def test_spliced_answers_are_the_library_s_bytes(version: int, payloads: list[Any]) -> None:
    answer = answer_of(payloads)
    parts = encode_response(fetch.API, version, 77, answer)
    whole = b"".join(bytes(part) for part in parts)
    assert whole == library_frame("FetchResponse", version, 77, answer)


def test_records_are_handed_on_and_not_copied() -> None:
    payloads = [memoryview(bytearray(b"a" * 300)), b"b" * 300]
    parts = encode_response(fetch.API, 12, 1, answer_of(payloads))
    assert [part for part in parts if not isinstance(part, bytearray)] == payloads
    assert parts[1] is payloads[0]
    assert parts[3] is payloads[1]


class FileSlice:
    """Something to be sent that has a length and is no buffer."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size


@pytest.mark.parametrize("version", [4, 12, 18])
def test_anything_with_a_length_may_be_sent(version: int) -> None:
    piece = FileSlice(70_000)
    parts = encode_response(fetch.API, version, 1, answer_of([piece]))
    sent = b"".join(bytes(piece.size) if part is piece else part for part in parts)
    assert sent == library_frame("FetchResponse", version, 1, answer_of([bytes(piece.size)]))


def test_an_answer_without_records_is_one_part() -> None:
    parts = encode_response(fetch.API, 12, 1, answer_of([b"", None]))
    assert len(parts) == 1


def test_parts_of_one_answer_do_not_change_with_the_next() -> None:
    first = encode_response(fetch.API, 12, 1, answer_of([b"a" * 100]))
    whole = b"".join(first)
    encode_response(fetch.API, 12, 2, answer_of([b"b" * 200, b"c" * 100]))
    assert b"".join(first) == whole


def test_a_broken_answer_leaves_nothing_behind() -> None:
    broken = answer_of([b"a" * 100, b"b" * 100])
    broken.responses[1].partitions[0].high_watermark = 2**63
    with pytest.raises(Exception, match="int|format|range"):
        encode_response(fetch.API, 12, 1, broken)
    parts = encode_response(fetch.API, 12, 2, answer_of([b"c" * 10]))
    assert b"".join(parts) == library_frame("FetchResponse", 12, 2, answer_of([b"c" * 10]))
    assert len(parts) == 3


def many_topics(count: int) -> metadata.MetadataResponse:
    name = "a-topic-with-a-name-of-some-length"
    return metadata.MetadataResponse(
        topics=[metadata.TopicResponse(f"{name}-{index}", TOPIC_ID) for index in range(count)]
    )


def test_a_big_answer_does_not_keep_its_buffer() -> None:
    answer = many_topics(30_000)
    frame = b"".join(encode_response(metadata.API, 12, 1, answer))
    assert len(frame) > BUFFER_BYTES_MAX
    assert frame == library_frame("MetadataResponse", 12, 1, answer)
    assert all(len(kept.buf) <= BUFFER_BYTES_MAX for kept in frames._free)


class Interrupted(metadata.MetadataResponse):
    """An answer in whose midst another thread gets its turn, and encodes one of its own."""

    @property
    def cluster_id(self) -> Any:
        assert b"".join(encode_response(metadata.API, 9, 2, many_topics(3))) == library_frame(
            "MetadataResponse", 9, 2, many_topics(3)
        )
        return "the cluster"

    @cluster_id.setter
    def cluster_id(self, value: Any) -> None:
        """It is always the same."""


def test_two_threads_do_not_share_a_buffer() -> None:
    values: dict[str, Any] = {"topics": many_topics(5).topics, "throttle_time_ms": 77}
    plain = metadata.MetadataResponse(cluster_id="the cluster", **values)
    interrupted = Interrupted(**values)
    frame = b"".join(encode_response(metadata.API, 9, 1, interrupted))
    assert frame == library_frame("MetadataResponse", 9, 1, plain)


def test_an_answer_longer_than_the_buffer_is_whole() -> None:
    answer = many_topics(5_000)
    frame = b"".join(encode_response(metadata.API, 9, 1, answer))
    assert BUFFER_BYTES < len(frame) < BUFFER_BYTES_MAX
    assert frame == library_frame("MetadataResponse", 9, 1, answer)


@pytest.mark.parametrize("version", range(produce.API.lowest, produce.API.highest + 1))
def test_frames_of_produce(version: int) -> None:
    answer = produce.ProduceResponse(
        [produce.TopicResponse("t", TOPIC_ID, [produce.PartitionResponse(0, 0, 55)])]
    )
    frame = b"".join(encode_response(produce.API, version, 3, answer))
    assert frame == library_frame("ProduceResponse", version, 3, answer)


@pytest.mark.parametrize("version", range(api_versions.API.highest + 1))
def test_the_header_of_api_versions_is_the_old_one(version: int) -> None:
    """A client cannot know the version before it has read the answer (KIP-511)."""
    answer = api_versions.ApiVersionsResponse([api_versions.ApiVersion(18, 0, 4)])
    frame = b"".join(encode_response(api_versions.API, version, 3, answer))
    body = stock_codec.encode("ApiVersionsResponse", version, messages.for_library(answer))
    assert frame[4:8] == (3).to_bytes(4, "big")
    assert frame[8:] == body


def test_api_versions_with_an_error_is_what_apache_kafka_sends() -> None:
    """To a version that is too new: recorded from a broker of Apache Kafka 4.4.0."""
    answer = api_versions.error_response(None, ErrorCode.UNSUPPORTED_VERSION, 99)
    frame = b"".join(encode_response(api_versions.API, api_versions.FALLBACK_VERSION, 7, answer))
    assert frame.hex() == "0000001000000007002300000001001200000004"
