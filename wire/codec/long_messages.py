"""Decodes and encodes messages with many items, and counts their errors, in slices of loop time.

An item takes 1 to 3 us. The sliced decoders and encoders are the library's generated source with
`yield` added to its loops. Small messages are left to those without it, which take less: 2.0 us
instead of 2.6 to decode an OffsetCommit of one partition, 1.3 instead of 3.2 for its response.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from struct import Struct
from typing import Any, Final, TypeAlias

from kavka.wire.api import Api
from kavka.wire.codec import private_copy
from kavka.wire.codec.frames import SpliceBuffer, drain_parts
from kavka.wire.error_counts import Counts, counter_source
from kavka.wire.steps import Steps

ITEMS_PER_STEP: Final = 500
"""Items of all arrays together: partitions, topics, names."""

BYTES_AN_ITEM: Final = 512
"""Bytes that take as long as an item to copy into new memory or to decode as text."""

SLICE_BYTES: Final = ITEMS_PER_STEP * BYTES_AN_ITEM

SlicedDecoder: TypeAlias = Callable[[memoryview, int], Steps[tuple[Any, int]]]
"""A `kavka.wire.api.Decoder` that yields between items; the frame must not change meanwhile."""

SlicedEncoder: TypeAlias = Callable[[Any, Any], Steps[None]]
"""A `kavka.wire.api.Encoder` that yields between items and resumes at the buffer's position."""

_INDENT: Final = "    "
_LOOP: Final = re.compile(r"^( *)for _?(?:(?:item|ai)\d+)? in .*:$", re.MULTILINE)
_PAUSE: Final = "yield"
_PAUSE_OF_WRITER: Final = "out.pos = pos; yield; pos = out.pos"
_pack_frame_head: Final = Struct(">ii").pack_into
_decoders: Final[dict[tuple[int, int], SlicedDecoder]] = {}
_encoders: Final[dict[tuple[int, int], SlicedEncoder]] = {}


# -- requests ----------------------------------------------------------------------------------


def decode_in_steps(
    api: Api, version: int, frame: memoryview, position: int
) -> Steps[tuple[Any, int]]:
    """As `Api.decoder`, with the same exceptions, for requests without records. `frame` must not
    change meanwhile."""
    key = (api.key, version)
    found = _decoders.get(key)
    if found is None:
        with private_copy.compile_lock:
            found = _decoders[key] = _make_decoder(api, version)
    return found(frame, position)


def _make_decoder(api: Api, version: int) -> SlicedDecoder:
    made = private_copy.decoder_context(
        api.request_name, version, flexible=api.is_flexible(version)
    )
    exec(_in_steps(made.source(), _PAUSE), made.globs)
    decoder: SlicedDecoder = made.globs["_decode"]
    return decoder


# -- responses ---------------------------------------------------------------------------------


def encode_in_steps(api: Api, version: int, correlation_id: int, response: Any) -> Steps[list[Any]]:
    """As `frames.encode_response`, with one buffer per slice. `response` must not change
    meanwhile."""
    out = SpliceBuffer()
    out.pos = 8
    if version >= api.first_flexible and api.flexible_response_header:
        out.pos = 9  # no tagged fields in the header
    parts: list[Any] = []
    for _ in _encoder(api, version)(response, out):
        parts += drain_parts(out)  # else the growing buffer would be copied again and again
        yield None
    parts += drain_parts(out)
    _pack_frame_head(parts[0], 0, sum(map(len, parts)) - 4, correlation_id)
    return parts


def count_errors_in_steps(api: Api, response: Any) -> Steps[Counts]:
    """How often each error code occurs, as `kavka.wire.error_counts.error_counter` counts."""
    names: dict[str, Any] = {
        "counts": defaultdict(int),
        "pos": 0,
    }  # `pos` counts bytes; there are none
    exec(_in_steps(counter_source(api), _PAUSE), names)
    yield from names["count"](response)
    counts: Counts = names["counts"]
    return counts


def _encoder(api: Api, version: int) -> SlicedEncoder:
    key = (api.key, version)
    found = _encoders.get(key)
    if found is None:
        with private_copy.compile_lock:
            found = _encoders[key] = _make_encoder(api, version)
    return found


def _make_encoder(api: Api, version: int) -> SlicedEncoder:
    struct = private_copy.message_class(api.response_name)._struct
    flexible = api.is_flexible(version)
    made = struct.encode_into__optimized_context(version, compact=flexible, tagged=flexible)
    exec(_in_steps(made.source(), _PAUSE_OF_WRITER), made.globs)
    encoder: SlicedEncoder = made.globs["_encode"]
    return encoder


# -- slices ------------------------------------------------------------------------------------


def _in_steps(source: str, pause: str) -> str:
    """The source of a function as a generator that pauses in its loops. It loops over arrays, and
    `pos` is its position in the bytes."""

    def with_stop(loop: re.Match[str]) -> str:
        indent = loop[1] + _INDENT
        lines = (
            f"due -= {BYTES_AN_ITEM}",
            "if pos > due:",
            f"    {pause}",
            f"    due = pos + {SLICE_BYTES}",
        )
        return "\n".join((loop[0], *(indent + line for line in lines)))

    head, body = source.split("\n", 1)
    begin = f"{_INDENT}due = {SLICE_BYTES}\n{_INDENT}if not due: yield"  # there may be no loop
    return f"{head}\n{begin}\n{_LOOP.sub(with_stop, body)}"
