"""Every API and version, both ways, against the library's plain reader and writer."""

from __future__ import annotations

from inspect import signature
from random import Random
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kavka.compat_tests.raw.codec import schemas, stock_codec
from kavka.wire.codec.frames import encode_response
from support import messages

KNOWN = messages.known()
CASES = pytest.mark.parametrize(
    ("module", "version"), KNOWN, ids=[messages.title(*case) for case in KNOWN]
)
FEW = settings(max_examples=5)
CHANCE = st.randoms(use_true_random=False)
CORRELATION_ID = 7


def answer_body(module: ModuleType, version: int, answer: Any) -> bytes:
    """What Kavka writes, without length and header."""
    api = module.API
    frame = b"".join(bytes(part) for part in encode_response(api, version, CORRELATION_ID, answer))
    assert int.from_bytes(frame[:4]) == len(frame) - 4
    assert int.from_bytes(frame[4:8]) == CORRELATION_ID
    header_bytes = 9 if api.is_flexible(version) and api.flexible_response_header else 8
    return frame[header_bytes:]


@CASES
@FEW
@given(rnd=CHANCE)
def test_requests_written_by_the_library_are_read(
    module: ModuleType, version: int, rnd: Random
) -> None:
    api = module.API
    found, body = messages.drawn(api.request_name, version, rnd)
    frame = memoryview(b"head" + body)
    request, end = api.decoder(version)(frame, 4)
    assert end == len(frame)
    assert list(messages.differences(schemas.schema(api.request_name), found, request)) == []


@CASES
@FEW
@given(rnd=CHANCE)
def test_answers_are_written_as_the_library_writes_them(
    module: ModuleType, version: int, rnd: Random
) -> None:
    name = messages.response_name(module.API)
    struct = schemas.schema(name)
    found, expected = messages.drawn(name, version, rnd)
    answer = messages.as_answer(getattr(module, name), struct, found)
    body = answer_body(module, version, answer)
    assert body == expected
    message, end = stock_codec.decode(name, version, body)
    assert end == len(body)
    assert list(messages.differences(struct, found, message)) == []


@pytest.mark.parametrize("name", schemas.api_modules())
def test_answer_classes_have_the_fields_of_the_schema(name: str) -> None:
    module = schemas.api_modules()[name]
    response = messages.response_name(module.API)
    _assert_same_fields(module, getattr(module, response), schemas.schema(response))


def _assert_same_fields(module: ModuleType, answer_class: type, struct: Any) -> None:
    served = [field for field in struct._fields if messages.is_served(module, field)]
    assert set(signature(answer_class).parameters) == {field.name for field in served}
    inner = messages.nested(answer_class)
    for field in served:
        below = field.array_of if field.is_struct_array() else field
        if getattr(below, "_fields", None):
            _assert_same_fields(module, inner[field.name], below)


@pytest.mark.parametrize("name", schemas.api_modules())
def test_defaults_of_answers_cannot_be_changed(name: str) -> None:
    module = schemas.api_modules()[name]
    waiting = [getattr(module, messages.response_name(module.API))]
    while waiting:
        answer_class = waiting.pop()
        waiting += messages.nested(answer_class).values()
        hash(
            tuple(parameter.default for parameter in signature(answer_class).parameters.values())
        )  # TypeError for a list


@pytest.mark.parametrize("name", schemas.api_modules())
def test_descriptors_agree_with_the_schemas(name: str) -> None:
    api = schemas.api_modules()[name].API
    request = stock_codec.message_class(api.request_name)
    response = stock_codec.message_class(messages.response_name(api))
    assert api.key == request._json["apiKey"] == response._json["apiKey"]
    assert api.highest <= request.max_version
    for version in range(api.highest + 1):
        assert api.is_flexible(version) == request.flexible_version_q(version)
        assert api.is_flexible(version) == response.flexible_version_q(version)
