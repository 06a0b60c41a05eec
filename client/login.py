"""Logs a connection in by SASL: SaslHandshake, then SaslAuthenticate (KIP-43, KIP-152)."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, NoReturn

from kavka.client.connection import Connection
from kavka.client.errors import NotLetIn
from kavka.client.kerberos import Kerberos, KerberosClient, KerberosFailed
from kavka.client.scram import DIGESTS, ScramClient, ScramFailed
from kavka.client.versions import Versions
from kavka.seams import Random
from kavka.wire.api import Api
from kavka.wire.errors import ErrorCode
from kavka.wire.message import message

PLAIN: Final = "PLAIN"
OAUTHBEARER: Final = "OAUTHBEARER"
GSSAPI: Final = "GSSAPI"
MECHANISMS: Final = (PLAIN, *DIGESTS, OAUTHBEARER, GSSAPI)
NONCE_BYTES: Final = 24
SEPARATOR: Final = b"\x01"


def _no_response(request: Any, code: Any, version: int) -> NoReturn:
    raise NotImplementedError("no broker of Kavka answers it")


SASL_HANDSHAKE: Final = Api(
    17, "SaslHandshake", versions=(1, 1), first_flexible=2, error_response=_no_response
)
"""Version 0 would send what follows without a header."""

SASL_AUTHENTICATE: Final = Api(
    36, "SaslAuthenticate", versions=(0, 2), first_flexible=2, error_response=_no_response
)


@message
class SaslHandshakeRequest:
    mechanism: str


@message
class SaslAuthenticateRequest:
    auth_bytes: bytes


class Bearer(NamedTuple):
    """A token of OAUTHBEARER, which says who the client is."""

    token: str
    expires_s: float
    """Since 1970."""
    extensions: Mapping[str, str]
    """What is sent beside it (KIP-342)."""


BearerSource = Callable[[], Bearer]
"""Gets a token that is valid now; it may wait for a file or a server. What it raises ends the
login."""


@dataclass(frozen=True)
class Login:
    """Who a client is, and how it shows that. `is_token`: by a delegation token's id and HMAC.
    By OAUTHBEARER, a token says it all; by GSSAPI, Kerberos does."""

    mechanism: str
    user: str = ""
    password: str = ""
    is_token: bool = False
    bearer: BearerSource | None = None
    kerberos: Kerberos | None = None


class LogsIn:
    """One login on a connection, before other requests."""

    def __init__(self, connection: Connection, versions: Versions, timeout_s: float) -> None:
        self._connection = connection
        self._versions = versions
        self._timeout_s = timeout_s

    async def log_in(self, login: Login, random: Random) -> None:
        """NotLetIn if the broker refuses it; Disconnected; UnsupportedVersion."""
        address = self._connection.address
        await self._shake_hands(login.mechanism)
        if login.mechanism == PLAIN:
            await self._send(f"\0{login.user}\0{login.password}".encode())
            return
        if login.bearer is not None:
            await self._show(login.bearer())
            return
        if login.kerberos is not None:
            await self._show_tickets(login.kerberos)
            return
        nonce = base64.b64encode(random.randbytes(NONCE_BYTES)).decode()
        scram = ScramClient(
            login.mechanism, login.user, login.password, nonce, is_token=login.is_token
        )
        try:
            challenge = await self._send(scram.first())
            scram.check(await self._send(scram.final(challenge)))
        except ScramFailed as failure:
            raise NotLetIn(
                f"the login at {address} by {login.mechanism} has failed: {failure}"
            ) from failure

    async def _show(self, bearer: Bearer) -> None:
        """RFC 7628: the broker says what is wrong with a token, and refuses it when that is
        confirmed."""
        wrong = await self._send(bearer_message(bearer))
        if wrong:
            await self._send(SEPARATOR)
            raise NotLetIn(f"{self._connection.address} refuses the token: {wrong!r}")

    async def _show_tickets(self, kerberos: Kerberos) -> None:
        address = self._connection.address
        try:
            client = KerberosClient(kerberos, address.rpartition(":")[0])
            challenge = await self._send(client.first())
            while not client.is_done:
                challenge = await self._send(client.next(challenge))
        except KerberosFailed as failure:
            raise NotLetIn(f"the login at {address} by Kerberos has failed: {failure}") from failure

    async def _shake_hands(self, mechanism: str) -> None:
        address = self._connection.address
        response = await self._ask(SASL_HANDSHAKE, SaslHandshakeRequest(mechanism))
        code = response.error_code
        if code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            known = ", ".join(response.mechanisms) or "no other"
            raise NotLetIn(f"{address} does not know sasl.mechanism={mechanism}; it knows {known}")
        if code == ErrorCode.ILLEGAL_SASL_STATE:
            raise NotLetIn(
                f"{address} takes no login: use the port of a listener with SASL, or "
                "security.protocol=PLAINTEXT (SSL instead of SASL_SSL)"
            )
        if code:
            raise NotLetIn(f"{address} answers SaslHandshake with {_name(code)}")

    async def _send(self, data: bytes) -> bytes:
        """Send what the mechanism has to say: what the broker's has."""
        response = await self._ask(SASL_AUTHENTICATE, SaslAuthenticateRequest(data))
        if response.error_code:
            why = response.error_message or _name(response.error_code)
            raise NotLetIn(
                f"{self._connection.address} does not let the client in: {why}. "
                "Is sasl.jaas.config right?"
            )
        auth_bytes: bytes = response.auth_bytes
        return auth_bytes

    async def _ask(self, api: Api, request: Any) -> Any:
        version = self._versions.highest_common(api)
        return await self._connection.ask(api, version, request, timeout_s=self._timeout_s)


def bearer_message(bearer: Bearer) -> bytes:
    """The first message of OAUTHBEARER (RFC 7628)."""
    pairs = {"auth": f"Bearer {bearer.token}", **bearer.extensions}
    return (
        b"n,,"
        + b"".join(SEPARATOR + f"{name}={text}".encode() for name, text in pairs.items())
        + SEPARATOR * 2
    )


def _name(code: int) -> str:
    return ErrorCode(code).name if code in ErrorCode.__members__.values() else f"error {code}"
