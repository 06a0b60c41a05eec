"""Which versions of each API a broker serves, and which one to use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from kavka.client.connection import Connection
from kavka.client.errors import Disconnected, UnsupportedVersion
from kavka.wire.api import Api
from kavka.wire.apis import api_versions
from kavka.wire.codec import private_copy
from kavka.wire.errors import ErrorCode

SOFTWARE_NAME: Final = "kavka"


@dataclass(frozen=True)
class Versions:
    """The versions that a broker serves: (lowest, highest) by API key."""

    address: str
    served: Mapping[int, tuple[int, int]]

    def highest_common(self, api: Api) -> int:
        """The highest version that both have. UnsupportedVersion if there is none."""
        if api.key not in self.served:
            raise UnsupportedVersion(f"{self.address} does not serve {api.name}")
        lowest, highest = self.served[api.key]
        version = min(highest, api.highest)
        if version < max(lowest, api.lowest):
            raise UnsupportedVersion(
                f"{self.address} serves versions {lowest} to {highest} of {api.name}, and Kavka "
                f"knows {api.lowest} to {api.highest}"
            )
        return version


async def ask_versions(connection: Connection, software_version: str, timeout_s: float) -> Versions:
    """Ask a broker which versions it serves (KIP-35), in a version that it knows (KIP-511)."""
    api = api_versions.API
    request = private_copy.message_class(api.request_name)(
        client_software_name=SOFTWARE_NAME, client_software_version=software_version
    )
    version = api.highest
    response = await connection.ask(api, version, request, timeout_s=timeout_s)
    if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
        version = _version_named(response)
        response = await connection.ask(api, version, request, timeout_s=timeout_s)
    if response.error_code != ErrorCode.NONE:
        code = ErrorCode(response.error_code)
        raise Disconnected(f"{connection.address} answers ApiVersions v{version} with {code.name}")
    return Versions(connection.address, _ranges(response))


def _version_named(response: Any) -> int:
    """The version of ApiVersions to try next, from the response that refused the last one; 0 if it
    names none."""
    _, highest = _ranges(response).get(api_versions.KEY, (0, 0))
    return min(highest, api_versions.API.highest)


def _ranges(response: Any) -> dict[int, tuple[int, int]]:
    return {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
