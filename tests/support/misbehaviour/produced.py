"""What a proxy must know of Produce requests and their answers, read by kafka-python's codec."""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from kavka.compat_tests.raw.codec import stock_codec
from support.segments import HEADER

PRODUCE = 0
NO_ERROR = 0
_request_header = struct.Struct(">hhih")
_correlation_id = struct.Struct(">i")


class Batch(NamedTuple):
    """Which batch a producer sent where. A retry of it is the same."""

    producer_id: int
    epoch: int
    topic: str
    partition: int
    sequence: int


def api_of(frame: bytes) -> tuple[int, int]:
    """(key, version) of a request."""
    key, version, _, _ = _request_header.unpack_from(frame)
    return key, version


def batches_of(frame: bytes) -> tuple[Batch, ...]:
    """The batches of a Produce request."""
    _, version, _, client_id_bytes = _request_header.unpack_from(frame)
    at = _request_header.size + max(0, client_id_bytes)
    if stock_codec.is_flexible("ProduceRequest", version):
        assert frame[at] == 0, "no tags are expected in the header"
        at += 1
    request, _ = stock_codec.decode("ProduceRequest", version, frame[at:])
    return tuple(
        _batch(str(topic.name or topic.topic_id), part.index, bytes(part.records))
        for topic in request.topic_data
        for part in topic.partition_data
    )


def _batch(topic: str, partition: int, records: bytes) -> Batch:
    *_, producer_id, epoch, sequence, _ = HEADER.unpack_from(records)
    return Batch(producer_id, epoch, topic, partition, sequence)


def errors_of(request: bytes, answer: bytes) -> list[int]:
    """The error codes in an answer to Produce, but for those that say that all is well."""
    _, version = api_of(request)
    at = _correlation_id.size + stock_codec.is_flexible("ProduceRequest", version)
    response: Any
    response, _ = stock_codec.decode("ProduceResponse", version, answer[at:])
    codes = (part.error_code for topic in response.responses for part in topic.partition_responses)
    return [code for code in codes if code != NO_ERROR]
