"""Byte streams cut into messages, however they arrive."""

from __future__ import annotations

import struct

import pytest

from kavka.tools.tap.capture import OPAQUE, UNKNOWN_REQUEST, RequestInfo
from kavka.tools.tap.streams import Foreign, Requests, Responses, Unanswered

CLIENT = b"\0\1c"


def request(key: int, version: int, number: int, body: bytes = b"") -> bytes:
    return struct.pack(">hhi", key, version, number) + CLIENT + body


def framed(*frames: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(frame)) + frame for frame in frames)


@pytest.mark.parametrize("step", [1, 3, 7, 1000])
def test_messages_are_found_in_pieces_of_any_size(step: int) -> None:
    sent = [request(3, 0, 1, b"body"), request(18, 0, 2), request(10, 0, 3, b"x" * 50)]
    stream = framed(*sent)
    requests, unanswered = Requests(), Unanswered()
    found = [
        frame
        for at in range(0, len(stream), step)
        for frame in requests.feed(stream[at : at + step])
    ]
    assert found == sent
    for frame in found:
        unanswered.add(frame, 5)

    answers = [struct.pack(">i", number) + b"answer" * number for number in (1, 2, 3)]
    stream = framed(*answers)
    responses = Responses(unanswered, lambda request_info: request_info.key == 10)
    chunks = [
        chunk
        for at in range(0, len(stream), step)
        for chunk in responses.feed(stream[at : at + step])
    ]
    assert b"".join(chunk.data for chunk in chunks) == stream
    ended = [chunk for chunk in chunks if chunk.frame is not None]
    assert [chunk.frame for chunk in ended] == answers
    assert [chunk.request for chunk in ended] == [
        RequestInfo(3, 0, 5),
        RequestInfo(18, 0, 5),
        RequestInfo(10, 0, 5),
    ]
    assert [chunk.data for chunk in chunks if chunk.is_held] == [framed(answers[2])]


def test_a_produce_request_without_acks_is_answered_by_nothing() -> None:
    unanswered = Unanswered()
    unanswered.add(request(0, 9, 1, b"\0\0" + struct.pack(">h", 0)), 5)
    unanswered.add(request(0, 3, 2, struct.pack(">hh", -1, 0)), 5)
    unanswered.add(request(0, 9, 3, b"\0\0" + struct.pack(">h", -1)), 6)
    assert unanswered.find(1) == UNKNOWN_REQUEST
    assert unanswered.find(2) == UNKNOWN_REQUEST
    assert unanswered.find(3) == RequestInfo(0, 9, 6)


def test_tokens_of_old_sasl_have_no_header() -> None:
    unanswered = Unanswered()
    unanswered.add(request(17, 0, 1, b"\0\5PLAIN"), 5)
    assert unanswered.find(1) == RequestInfo(17, 0, 5)
    unanswered.add(b"\0alice\0secret", 6)
    assert unanswered.find(None) == RequestInfo(OPAQUE, 0, 6)
    unanswered.add(request(3, 1, 2), 7)
    assert unanswered.find(2) == RequestInfo(3, 1, 7)


@pytest.mark.parametrize(
    ("data", "protocol"), [(b"GET / HTTP", "HTTP"), (b"\x16\x03\1\2\0", "TLS")]
)
def test_other_protocols_are_named_and_not_lost(data: bytes, protocol: str) -> None:
    with pytest.raises(Foreign, match=protocol) as found:
        list(Requests().feed(data))
    assert found.value.rest == data
