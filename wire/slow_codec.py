"""Responses with many items, written and counted in slices, so that nothing else has to wait.

A writer takes 1 to 3 us an item. The slow ones are the library's, which stop now and then.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Generator
from struct import Struct
from typing import Any, Final, TypeAlias

from kavka.wire import library
from kavka.wire.api import Api
from kavka.wire.error_counts import Counts, counter_source

ITEMS_A_SLICE: Final = 500
"""Items of all arrays together, that is, partitions, topics, and names."""

Slices: TypeAlias = Generator[None, None, Any]
SlowEncoder: TypeAlias = Callable[[Any, Any], Slices]
"""(response, encode buffer): writes the body at the buffer's position, and yields between items."""

_INDENT: Final = "    "
_LOOP: Final = re.compile(r"^( *)for _?(?:item|ai)\d+ in .*:$", re.MULTILINE)
_pack_frame_head: Final = Struct(">ii").pack_into
_encoders: Final[dict[tuple[int, int], SlowEncoder]] = {}


def encode_slowly(
    api: Api, version: int, correlation_id: int, response: Any
) -> Generator[None, None, list[Any]]:
    """As `kavka.wire.codec.encode_response`, of responses without records. What is in `response`
    must stay as it is meanwhile."""
    out = library.EncodeBuffer()
    out.pos = 8
    if version >= api.first_flexible and api.flexible_response_header:
        out.pos = 9  # no tagged fields in the header
    yield from _encoder(api, version)(response, out)
    _pack_frame_head(out.buf, 0, out.pos - 4, correlation_id)
    return [out.buf[: out.pos]]


def count_slowly(api: Api, response: Any) -> Generator[None, None, Counts]:
    """As what `kavka.wire.error_counts.error_counter` gives: how often each code is there."""
    names: dict[str, Any] = {"counts": defaultdict(int)}
    exec(_in_slices(counter_source(api)), names)
    yield from names["count"](response)
    counts: Counts = names["counts"]
    return counts


def _encoder(api: Api, version: int) -> SlowEncoder:
    key = (api.key, version)
    found = _encoders.get(key)
    if found is None:
        with library.making:
            found = _encoders[key] = _make(api, version)
    return found


def _make(api: Api, version: int) -> SlowEncoder:
    struct = library.message_class(api.response_name)._struct
    flexible = api.is_flexible(version)
    made = struct.encode_into__optimized_context(version, compact=flexible, tagged=flexible)
    exec(_in_slices(made.source()), made.globs)
    encoder: SlowEncoder = made.globs["_encode"]
    return encoder


def _in_slices(source: str) -> str:
    """A function that goes through lists, as a generator that yields in its loops."""
    head, body = source.split("\n", 1)
    begin = f"{_INDENT}left = {ITEMS_A_SLICE}\n{_stop(_INDENT)}"  # there may be no loop
    return f"{head}\n{begin}\n{_LOOP.sub(_with_count, body)}"


def _with_count(loop: re.Match[str]) -> str:
    indent = loop[1] + _INDENT
    return f"{loop[0]}\n{indent}left -= 1\n{_stop(indent)}"


def _stop(indent: str) -> str:
    return f"{indent}if not left:\n{indent}    yield\n{indent}    left = {ITEMS_A_SLICE}"
