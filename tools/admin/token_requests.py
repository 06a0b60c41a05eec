"""What the four APIs of delegation tokens say of them (KIP-48)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from kavka.tools.admin.cluster_client import ClusterClient
from kavka.tools.admin.errors import Failed
from kavka.tools.admin.java_errors import Refused
from kavka.tools.admin.principals import Principal
from kavka.tools.admin.unserved_apis import (
    CREATE_DELEGATION_TOKEN,
    DESCRIBE_DELEGATION_TOKEN,
    EXPIRE_DELEGATION_TOKEN,
    RENEW_DELEGATION_TOKEN,
    must_serve,
)
from kavka.wire.api import Api
from kavka.wire.errors import ErrorCode
from kavka.wire.message import message

OWNER_SINCE: Final = 3
"""The version of CreateDelegationToken that can name another owner (KIP-373)."""

_EXPLAINED: Final = {
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: "This cluster has no delegation tokens: set "
    "delegation.token.secret.key on all its brokers",
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: "Only who logs in by SASL, and not with a "
    "token, or has shown a certificate, may ask for delegation tokens: set security.protocol in "
    "the file of --command-config",
    ErrorCode.DELEGATION_TOKEN_NOT_FOUND: "There is no delegation token with this HMAC, or it has "
    "ended",
    ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH: "Only the owner and the renewers of a delegation "
    "token may renew it or let it end",
    ErrorCode.DELEGATION_TOKEN_EXPIRED: "This delegation token has ended: create a new one",
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: "ACLs do not allow that: `kavka acls` prints "
    "and changes them",
    ErrorCode.INVALID_PRINCIPAL_TYPE: "Owners and renewers must be of type User",
}


class Token(NamedTuple):
    """A delegation token. Times are in milliseconds since the epoch."""

    token_id: str
    hmac: bytes
    owner: Principal
    requester: Principal
    renewers: Sequence[Principal]
    issued_ms: int
    ends_ms: int
    max_ms: int


@message
class Named:
    principal_type: str
    principal_name: str


@message
class CreateDelegationTokenRequest:
    owner_principal_type: str | None
    owner_principal_name: str | None
    renewers: Sequence[Named]
    max_lifetime_ms: int


@message
class RenewDelegationTokenRequest:
    hmac: bytes
    renew_period_ms: int


@message
class ExpireDelegationTokenRequest:
    hmac: bytes
    expiry_time_period_ms: int


@message
class DescribeDelegationTokenRequest:
    owners: Sequence[Named]


async def create(
    cluster: ClusterClient,
    owner: Principal | None,
    renewers: Sequence[Principal],
    lifetime_ms: int,
) -> Token:
    """Create a token. `owner`: who asks, if None. Failed."""
    await _must_serve(cluster, CREATE_DELEGATION_TOKEN)
    if owner is not None and await cluster.version_of(CREATE_DELEGATION_TOKEN) < OWNER_SINCE:
        raise Failed("This cluster can't create delegation tokens for others: leave the owner out")
    kind, name = (None, None) if owner is None else owner
    request = CreateDelegationTokenRequest(kind, name, _named(renewers), lifetime_ms)
    response = await cluster.ask(CREATE_DELEGATION_TOKEN, request)
    _check(response)
    return Token(
        response.token_id,
        response.hmac,
        *_owner_and_requester(response),
        renewers,
        response.issue_timestamp_ms,
        response.expiry_timestamp_ms,
        response.max_timestamp_ms,
    )


async def renew(cluster: ClusterClient, hmac: bytes, period_ms: int) -> int:
    """Renew a token: when it ends. Failed."""
    request = RenewDelegationTokenRequest(hmac, period_ms)
    return await _end_of(cluster, RENEW_DELEGATION_TOKEN, request)


async def expire(cluster: ClusterClient, hmac: bytes, period_ms: int) -> int:
    """Let a token end: when it does. Failed."""
    request = ExpireDelegationTokenRequest(hmac, period_ms)
    return await _end_of(cluster, EXPIRE_DELEGATION_TOKEN, request)


async def described(cluster: ClusterClient, owners: Sequence[Principal]) -> list[Token]:
    """The tokens of these owners. Failed."""
    await _must_serve(cluster, DESCRIBE_DELEGATION_TOKEN)
    request = DescribeDelegationTokenRequest(_named(owners))
    response = await cluster.ask(DESCRIBE_DELEGATION_TOKEN, request)
    _check(response)
    return [
        Token(
            token.token_id,
            token.hmac,
            *_owner_and_requester(token),
            [
                Principal(renewer.principal_type, renewer.principal_name)
                for renewer in token.renewers
            ],
            token.issue_timestamp,
            token.expiry_timestamp,
            token.max_timestamp,
        )
        for token in response.tokens
    ]


async def _end_of(cluster: ClusterClient, api: Api, request: Any) -> int:
    await _must_serve(cluster, api)
    response = await cluster.ask(api, request)
    _check(response)
    ends_ms: int = response.expiry_timestamp_ms
    return ends_ms


async def _must_serve(cluster: ClusterClient, api: Api) -> None:
    await must_serve(cluster, api, "delegation tokens")


def _named(principals: Sequence[Principal]) -> list[Named]:
    return [Named(*principal) for principal in principals]


def _owner_and_requester(token: Any) -> tuple[Principal, Principal]:
    requester = token.token_requester_principal_type, token.token_requester_principal_name
    return Principal(token.principal_type, token.principal_name), Principal(*requester)


def _check(response: Any) -> None:
    code = response.error_code
    if code in _EXPLAINED:
        raise Failed(_EXPLAINED[ErrorCode(code)])
    if code:
        raise Refused(code)
