"""Request headers, parsed by hand: 0.6 us where the library's reader takes 13.

Version 1 is `key, version, correlation id, client id`; version 2 adds a tagged section. The
client id is a nullable string with a two-byte length in both (KIP-482). An API's first flexible
version decides which header version a request has. Version 0, without client id, is only that of
ControlledShutdown's version 0.
"""

from __future__ import annotations

import struct
from typing import Final

from kavka.wire.codec.patches import read_tags

_unpack: Final = struct.Struct(">hhih").unpack_from
_FIXED_BYTES: Final = 10

BYTES_WITHOUT_CLIENT_ID: Final = 8
"""Size of a header of version 0."""


def read_fixed(frame: memoryview) -> tuple[int, int, int, int]:
    """(API key, API version, correlation id, length of the client id); struct.error if short.

    In a header of version 0 the length is the body's first two bytes; no such request is shorter.
    """
    return _unpack(frame)


def read_client_id(frame: memoryview, length: int) -> tuple[str | None, int]:
    """(client id, position after it)."""
    if length < 0:
        return None, _FIXED_BYTES
    end = _FIXED_BYTES + length
    if end > len(frame):
        raise ValueError("client id past the end of the request")
    return str(frame[_FIXED_BYTES:end], "utf-8", "replace"), end


def skip_tags(frame: memoryview, position: int) -> int:
    """The position after the header's tagged section; no tags are defined for it yet."""
    if frame[position] == 0:
        return position + 1
    return read_tags(None, frame, position, {})[0]
