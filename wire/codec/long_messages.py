"""Messages with many items, read, written and counted in slices, so that nothing else has to wait.

An item takes 1 to 3 us. The slow readers and writers are the library's, which stop now and then.
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
from kavka.wire.steps import Slices

ITEMS_A_SLICE: Final = 500
"""Items of all arrays together, that is, partitions, topics, and names."""

BYTES_AN_ITEM: Final = 512
"""Bytes to be copied into memory that is new, or to be read as text, take as long as an item."""

SLICE_BYTES: Final = ITEMS_A_SLICE * BYTES_AN_ITEM

SlicedDecoder: TypeAlias = Callable[[memoryview, int], Slices[tuple[Any, int]]]
"""`kavka.wire.api.Decoder` that yields between items. The frame stays as it is meanwhile."""

SlicedEncoder: TypeAlias = Callable[[Any, Any], Slices[None]]
"""`kavka.wire.api.Encoder` that yields between items, and goes on where the buffer then is."""

_INDENT: Final = "    "
_LOOP: Final = re.compile(r"^( *)for _?(?:(?:item|ai)\d+)? in .*:$", re.MULTILINE)
_PAUSE: Final = "yield"
_PAUSE_OF_WRITER: Final = "out.pos = pos; yield; pos = out.pos"
_pack_frame_head: Final = Struct(">ii").pack_into
_decoders: Final[dict[tuple[int, int], SlicedDecoder]] = {}
_encoders: Final[dict[tuple[int, int], SlicedEncoder]] = {}


# -- requests ----------------------------------------------------------------------------------


def decode_in_slices(
    api: Api, version: int, frame: memoryview, position: int
) -> Slices[tuple[Any, int]]:
    """As what `Api.decoder` gives, of requests without records; raises the same, sooner or later.
    What is in `frame` must stay as it is meanwhile."""
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
    exec(_in_slices(made.source(), _PAUSE), made.globs)
    decoder: SlicedDecoder = made.globs["_decode"]
    return decoder


# -- answers -----------------------------------------------------------------------------------


def encode_in_slices(
    api: Api, version: int, correlation_id: int, response: Any
) -> Slices[list[Any]]:
    """As `frames.encode_response`, in as many parts as there are slices. What is in `response`
    must stay as it is meanwhile."""
    out = SpliceBuffer()
    out.pos = 8
    if version >= api.first_flexible and api.flexible_response_header:
        out.pos = 9  # no tagged fields in the header
    parts: list[Any] = []
    for _ in _encoder(api, version)(response, out):
        parts += drain_parts(out)  # or the buffer would be copied each time it had to be bigger
        yield
    parts += drain_parts(out)
    _pack_frame_head(parts[0], 0, sum(map(len, parts)) - 4, correlation_id)
    return parts


def count_errors_in_slices(api: Api, response: Any) -> Slices[Counts]:
    """As what `kavka.wire.error_counts.error_counter` gives: how often each code is there."""
    names: dict[str, Any] = {"counts": defaultdict(int), "pos": 0}  # it goes through no bytes
    exec(_in_slices(counter_source(api), _PAUSE), names)
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
    exec(_in_slices(made.source(), _PAUSE_OF_WRITER), made.globs)
    encoder: SlicedEncoder = made.globs["_encode"]
    return encoder


# -- slices ------------------------------------------------------------------------------------


def _in_slices(source: str, pause: str) -> str:
    """A function that goes through lists and bytes, with `pos` for how far it is in these, as a
    generator that pauses in its loops."""

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
