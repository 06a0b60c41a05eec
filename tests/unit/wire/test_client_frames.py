"""Requests written and responses read, against the library's plain reader and writer."""

from __future__ import annotations

from random import Random
from types import ModuleType, SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kavka.compat_tests.raw.codec import schemas, stock_codec, wire_client
from kavka.wire import client_frames
from kavka.wire.apis import api_versions, fetch, metadata, produce
from kavka.wire.client_frames import MalformedResponse, decode_response, encode_request
from support import messages

KNOWN = messages.known()
CASES = pytest.mark.parametrize(
    ("module", "version"), KNOWN, ids=[messages.title(*case) for case in KNOWN]
)
FEW = settings(max_examples=3)
CHANCE = st.randoms(use_true_random=False)
CORRELATION_ID = 77


@CASES
@FEW
@given(rnd=CHANCE)
def test_requests_are_written_as_the_library_writes_them(
    module: ModuleType, version: int, rnd: Random
) -> None:
    api = module.API
    found, expected = messages.drawn(api.request_name, version, rnd)
    request = schemas.as_namespace(schemas.schema(api.request_name), found)
    parts = encode_request(api, version, CORRELATION_ID, wire_client.CLIENT_ID, request)
    flexible = stock_codec.is_flexible(api.request_name, version)
    head = wire_client.header(api.key, version, CORRELATION_ID, flexible=flexible)
    assert b"".join(map(bytes, parts)) == wire_client.framed(head + expected)


@CASES
@FEW
@given(rnd=CHANCE)
def test_responses_written_by_the_library_are_read(
    module: ModuleType, version: int, rnd: Random
) -> None:
    api = module.API
    found, body = messages.drawn(api.response_name, version, rnd)
    if api is api_versions.API and found["error_code"] == 35:
        return  # then it is in version 0: a test of its own
    head = CORRELATION_ID.to_bytes(4, "big")
    if api.is_flexible(version) and api.flexible_response_header:
        head += b"\0"
    frame = memoryview(head + body)
    assert client_frames.correlation_id_of(frame) == CORRELATION_ID
    message = decode_response(api, version, frame)
    assert list(messages.differences(schemas.schema(api.response_name), found, message)) == []


def test_tags_of_a_response_s_header_are_skipped() -> None:
    found, body = messages.drawn("MetadataResponse", 12, Random(1))
    tags = b"\x02" + b"\x05\x01x" + b"\x07\x02yz"
    message = decode_response(metadata.API, 12, memoryview(bytes(4) + tags + body))
    assert list(messages.differences(schemas.schema("MetadataResponse"), found, message)) == []


def test_a_refusal_of_api_versions_is_read_in_version_0() -> None:
    response = SimpleNamespace(
        error_code=35, api_keys=[SimpleNamespace(api_key=18, min_version=0, max_version=3)]
    )
    body = stock_codec.encode("ApiVersionsResponse", 0, response)
    message = decode_response(api_versions.API, 4, memoryview(bytes(4) + body))
    assert message.error_code == 35
    assert [(api.api_key, api.max_version) for api in message.api_keys] == [(18, 3)]


def test_records_are_not_copied() -> None:
    records = bytearray(b"r" * 1000)
    partition = {"index": 0, "records": records}
    request = schemas.as_namespace(
        schemas.schema("ProduceRequest"),
        {"acks": 1, "timeout_ms": 1, "topic_data": [{"name": "t", "partition_data": [partition]}]},
    )
    parts = encode_request(produce.API, 9, 1, "c", request)
    assert any(part is records for part in parts)

    found = {"responses": [{"topic": "t", "partitions": [{"records": bytes(records)}]}]}
    struct = schemas.schema("FetchResponse")
    body = stock_codec.encode("FetchResponse", 12, schemas.as_namespace(struct, found))
    frame = memoryview(bytes(5) + body)
    message = decode_response(fetch.API, 12, frame)
    view = message.responses[0].partitions[0].records
    assert view.obj is frame.obj
    assert view == records


@pytest.mark.parametrize("cut", [0, 3, 4, 10])
def test_a_response_that_is_cut_is_malformed(cut: int) -> None:
    _, body = messages.drawn("MetadataResponse", 12, Random(1))
    frame = memoryview((bytes(5) + body)[:cut])
    with pytest.raises(MalformedResponse, match="MetadataResponse v12|has no header"):
        client_frames.correlation_id_of(frame)
        decode_response(metadata.API, 12, frame)


def test_bytes_behind_a_response_are_malformed() -> None:
    _, body = messages.drawn("MetadataResponse", 12, Random(1))
    with pytest.raises(MalformedResponse, match="2 bytes behind its end"):
        decode_response(metadata.API, 12, memoryview(bytes(5) + body + b"xx"))
