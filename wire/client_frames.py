"""A client's frames: requests encoded, responses decoded, by the same codec as the broker's."""

from __future__ import annotations

import struct
from typing import Any, Final

from kavka.wire import header
from kavka.wire.api import Api, Decoder, Encoder
from kavka.wire.apis import api_versions
from kavka.wire.codec import private_copy
from kavka.wire.codec.frames import borrow_buffer, drain_parts, return_buffer
from kavka.wire.errors import ErrorCode, clear_tracebacks

_HEAD: Final = struct.Struct(">ihhi")
_pack_id_length: Final = struct.Struct(">h").pack
_pack_length: Final = struct.Struct(">i").pack_into
_unpack_correlation_id: Final = struct.Struct(">i").unpack_from
_unpack_error_code: Final = struct.Struct(">h").unpack_from
_BODY: Final = 4
"""Position of the body in a response whose header has no tagged section."""

_encoders: Final[dict[tuple[int, int], Encoder]] = {}
_decoders: Final[dict[tuple[int, int], Decoder]] = {}
"""By API key and version; compiled on first use (1 to 3 ms)."""


class MalformedResponse(Exception):
    """A response that its API and version do not allow; the message says which and why."""


def encode_request(
    api: Api, version: int, correlation_id: int, client_id: str, request: Any
) -> list[Any]:
    """The frame of `request` as a list of buffers, to be sent in order.

    `request` may be any object with the schema's field names (snake case) as attributes. Record
    bytes are not copied: the list has the request's own buffers.
    """
    head = _HEAD.pack(0, api.key, version, correlation_id)
    if version >= api.first_with_client_id:
        client = client_id.encode()
        head += _pack_id_length(len(client)) + client
    if api.is_flexible(version):
        head += b"\0"  # no tagged fields
    out = borrow_buffer()
    try:
        out.buf[: len(head)] = head
        out.pos = len(head)
        _request_encoder(api, version)(request, out)
        payload_bytes = sum(len(records) for _, records in out.parts)
        _pack_length(out.buf, 0, out.pos - 4 + payload_bytes)
        return drain_parts(out)
    finally:
        return_buffer(out)


def correlation_id_of(frame: memoryview) -> int:
    """The id of the request that a response belongs to. MalformedResponse if there is none."""
    if len(frame) < _BODY:
        raise MalformedResponse(f"a response of {len(frame)} bytes has no header")
    return int(_unpack_correlation_id(frame)[0])


def decode_response(api: Api, version: int, frame: memoryview) -> Any:
    """The message in a response's frame (without length). Records are views of the frame.

    A broker that does not know the version of an ApiVersions request responds in version 0
    (KIP-511). MalformedResponse if the frame is not a response of this version.
    """
    try:
        position = _BODY
        if api.is_flexible(version) and api.flexible_response_header:
            position = header.skip_tags(frame, position)
        if api.key == api_versions.KEY and _is_unsupported(frame):
            version = api_versions.FALLBACK_VERSION
        message, end = _response_decoder(api, version)(frame, position)
        if end != len(frame):
            raise ValueError(f"{len(frame) - end} bytes behind its end")
    except Exception as failure:
        clear_tracebacks(failure)  # they have views of the frame
        raise MalformedResponse(f"{api.response_name} v{version}: {failure!r}") from None
    return message


def _is_unsupported(frame: memoryview) -> bool:
    (code,) = _unpack_error_code(frame, _BODY)
    return bool(code == ErrorCode.UNSUPPORTED_VERSION)


def _request_encoder(api: Api, version: int) -> Encoder:
    found = _encoders.get((api.key, version))
    if found is None:
        struct_ = private_copy.message_class(api.request_name)._struct
        flexible = api.is_flexible(version)
        with private_copy.compile_lock:
            found = _encoders[api.key, version] = struct_.compiled_encode_into(
                version, compact=flexible, tagged=flexible
            )
    return found


def _response_decoder(api: Api, version: int) -> Decoder:
    found = _decoders.get((api.key, version))
    if found is None:
        made = private_copy.message_class(api.response_name)
        flexible = api.is_flexible(version)
        with private_copy.compile_lock:
            found = _decoders[api.key, version] = made._struct.compiled_decode_from(
                version, compact=flexible, tagged=flexible, data_class=made
            )
    return found
