"""`error_response` of each API: every place that was asked for has the code, and it can be sent."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kavka.compat_tests.raw.codec import stock_codec
from kavka.wire.codec.frames import encode_response
from kavka.wire.errors import ErrorCode
from support import messages

KNOWN = messages.known()
CODE = ErrorCode.UNKNOWN_SERVER_ERROR
PLACES_SINCE = {"DescribeLogDirs": 3}
"""Where an answer has no place for a code in earlier versions."""
CHANCE = st.randoms(use_true_random=False)


@pytest.mark.parametrize(
    ("module", "version"), KNOWN, ids=[messages.title(*case) for case in KNOWN]
)
@settings(max_examples=3)
@given(rnd=CHANCE)
def test_every_version_has_an_error_response(module: ModuleType, version: int, rnd: Random) -> None:
    api = module.API
    _, body = messages.drawn(api.request_name, version, rnd)
    request, _ = api.decoder(version)(memoryview(body), 0)

    answer = api.error_response(request, CODE, version)
    frame = b"".join(encode_response(api, version, 1, answer))
    start = 9 if api.is_flexible(version) and api.flexible_response_header else 8
    read, end = stock_codec.decode(messages.response_name(api), version, frame[start:])
    assert end == len(frame) - start
    codes = list(error_codes(read))
    assert codes == [CODE] * len(codes)
    if places_asked_for(request) and version >= PLACES_SINCE.get(api.name, 0):
        assert codes


def error_codes(message: Any) -> Iterator[int]:
    """All fields called `error_code` in a message."""
    for field in message._struct._fields:
        value = getattr(message, field.name)
        if field.name == "error_code" and field.for_version_q(message.version):
            yield value
        for inner in value if isinstance(value, list) else ():
            if hasattr(inner, "_struct"):
                yield from error_codes(inner)


def places_asked_for(request: Any) -> bool:
    """Whether the request names anything that has a place for a code in the answer."""
    named = ("topics", "topic_names", "topic_data", "resources")
    places = [place for name in named for place in getattr(request, name, None) or ()]
    below = ("partitions", "partition_data", "partition_indexes")
    return any(
        next((getattr(place, name) for name in below if hasattr(place, name)), [place])
        for place in places
    )
