"""Encodes responses as frames.

A frame is a list of buffers, so that record bytes are sent without a copy:
`[head, records, bytes, records, ..., tail]`, beginning with the frame's length.
"""

from __future__ import annotations

import struct
from typing import Any, Final

from kavka.wire.api import Api
from kavka.wire.codec import private_copy

_pack_frame_head: Final = struct.Struct(">ii").pack_into

BUFFER_BYTES: Final = 64 * 1024
BUFFER_BYTES_MAX: Final = 1024 * 1024
"""A buffer that grew beyond this is not kept for reuse."""


class SpliceBuffer(private_copy.EncodeBuffer):  # type: ignore[misc]  # the library is untyped
    """An encode buffer that notes record payloads instead of copying them."""

    __slots__ = ("parts",)

    def __init__(self) -> None:
        super().__init__(BUFFER_BYTES)
        self.parts: list[tuple[int, Any]] = []


_free: Final[list[SpliceBuffer]] = []
"""Free buffers: at most one per thread that encodes, since encoding at once never yields."""


def encode_response(api: Api, version: int, correlation_id: int, response: Any) -> list[Any]:
    """The frame of `response` as a list of buffers, to be sent in order.

    `response` may be any object with the schema's field names (snake case) as attributes.
    """
    out = borrow_buffer()
    out.pos = 8
    if version >= api.first_flexible and api.flexible_response_header:
        out.buf[8] = 0  # no tagged fields in the header
        out.pos = 9
    try:
        api.encoder(version)(response, out)
        if not out.parts:
            _pack_frame_head(out.buf, 0, out.pos - 4, correlation_id)
            return [out.buf[: out.pos]]
        payload_bytes = sum(len(records) for _, records in out.parts)
        _pack_frame_head(out.buf, 0, out.pos - 4 + payload_bytes, correlation_id)
        return drain_parts(out)
    finally:
        return_buffer(out)


def borrow_buffer() -> SpliceBuffer:
    """A buffer to encode into, until it is returned; it costs more to make one than to encode a
    small message."""
    try:
        return _free.pop()
    except IndexError:
        return SpliceBuffer()


def return_buffer(out: SpliceBuffer) -> None:
    """Keep a buffer for the next message. No view of it may be left."""
    if out.parts:
        out.parts = []
    if len(out.buf) <= BUFFER_BYTES_MAX:
        _free.append(out)


def drain_parts(out: SpliceBuffer) -> list[Any]:
    """The buffers written so far, with the record payloads in between; empties `out`."""
    buffer, payloads, end = out.buf, out.parts, out.pos
    parts: list[Any] = []
    start = 0
    for position, records in payloads:
        parts.append(buffer[start:position])
        parts.append(records)
        start = position
    if start != end:
        parts.append(buffer[start:end])
    out.parts = []
    out.pos = 0
    return parts
