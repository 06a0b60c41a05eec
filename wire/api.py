"""The descriptor of an API: its key, the versions that Kavka serves, and its decoder and encoder.
The handler of the same name in `kavka.server.handlers` has its behaviour.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from kavka.wire.codec import private_copy
from kavka.wire.errors import ErrorCode

Decoder: TypeAlias = Callable[[memoryview, int], tuple[Any, int]]
"""(frame, position of the body) -> (request, end position); raises on a malformed body."""

Encoder: TypeAlias = Callable[[Any, Any], None]
"""(response, encode buffer): writes the body at the buffer's position."""

ErrorResponse: TypeAlias = Callable[[Any, ErrorCode, int], Any]
"""(request, code, version) -> the response with `code` in every error field of the version."""


class Api:
    """One API: `key`, `name`, and the advertised versions `lowest` to `highest`.

    Decoders and encoders are compiled per version on first use (1 to 3 ms).
    """

    __slots__ = (
        "_decoders",
        "_encoders",
        "error_response",
        "first_flexible",
        "first_with_client_id",
        "flexible_response_header",
        "highest",
        "key",
        "lowest",
        "name",
        "request_name",
        "response_name",
    )

    def __init__(
        self,
        key: int,
        name: str,
        *,
        versions: tuple[int, int],
        first_flexible: int,
        error_response: ErrorResponse,
        flexible_response_header: bool = True,
        first_with_client_id: int = 0,
    ) -> None:
        self.key: Final = key
        self.name: Final = name
        self.lowest, self.highest = versions
        self.first_flexible: Final = first_flexible
        self.flexible_response_header: Final = flexible_response_header
        self.first_with_client_id: Final = first_with_client_id
        self.error_response: Final = error_response
        self.request_name: Final = name + "Request"
        self.response_name: Final = name + "Response"
        self._decoders: Final[dict[int, Decoder]] = {}
        self._encoders: Final[dict[int, Encoder]] = {}

    def serves(self, version: int) -> bool:
        """Whether this version is supported."""
        return self.lowest <= version <= self.highest

    def is_flexible(self, version: int) -> bool:
        """Whether this version has compact types and tagged sections (KIP-482)."""
        return version >= self.first_flexible

    def up_to(self, highest: int) -> Api:
        """The same API without the versions above: for who asks in their form."""
        return Api(
            self.key,
            self.name,
            versions=(self.lowest, highest),
            first_flexible=self.first_flexible,
            error_response=self.error_response,
            flexible_response_header=self.flexible_response_header,
            first_with_client_id=self.first_with_client_id,
        )

    def decoder(self, version: int) -> Decoder:
        """The request decoder of a supported version."""
        found = self._decoders.get(version)
        if found is None:
            made = private_copy.message_class(self.request_name)
            flexible = self.is_flexible(version)
            with private_copy.compile_lock:
                found = self._decoders[version] = made._struct.compiled_decode_from(
                    version, compact=flexible, tagged=flexible, data_class=made
                )
        return found

    def encoder(self, version: int) -> Encoder:
        """The response encoder of a supported version."""
        found = self._encoders.get(version)
        if found is None:
            made = private_copy.message_class(self.response_name)
            flexible = self.is_flexible(version)
            with private_copy.compile_lock:
                found = self._encoders[version] = made._struct.compiled_encode_into(
                    version, compact=flexible, tagged=flexible
                )
        return found

    def __repr__(self) -> str:
        return f"Api({self.key} {self.name} {self.lowest}-{self.highest})"
