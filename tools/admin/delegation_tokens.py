"""`kavka delegation-tokens`: as Apache Kafka's kafka-delegation-tokens, option by option."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from kavka.tools.admin import token_requests
from kavka.tools.admin.cluster_client import ClusterClient
from kavka.tools.admin.command import Tool
from kavka.tools.admin.errors import Failed, Misused
from kavka.tools.admin.options import BROKERS, CLIENT_CONFIG, Given, Option
from kavka.tools.admin.principals import Principal, principals_of
from kavka.tools.admin.printing import PROGRAM_FORMS, print_csv, print_rows
from kavka.tools.admin.token_requests import Token

ACTIONS: Final = ("create", "renew", "expire", "describe")
WIDTHS: Final = (15, 30, 15, 15, 25, 15, 15, 15)
TITLES: Final = (
    "TOKENID",
    "HMAC",
    "OWNER",
    "REQUESTER",
    "RENEWERS",
    "ISSUEDATE",
    "EXPIRYDATE",
    "MAXDATE",
)
COLUMNS: Final = (
    "tokenId",
    "hmac",
    "owner",
    "requester",
    "renewers",
    "issueTimeMs",
    "expiryTimeMs",
    "maxTimeMs",
)

OPTIONS: Final = (
    Option("create", "Create a token; --max-life-time-period is needed."),
    Option("renew", "Let a token be valid longer; --hmac and --renew-time-period are needed."),
    Option("expire", "Let a token end; --hmac and --expiry-time-period are needed."),
    Option("describe", "Print the tokens of these owners."),
    Option(
        "owner-principal",
        "The owner of the new token, if not who asks; or of those to print (may be given many "
        "times).",
        "TYPE:NAME",
        is_optional=True,
    ),
    Option(
        "renewer-principal",
        "Who may renew the new token beside its owner; may be given many times.",
        "TYPE:NAME",
        is_optional=True,
    ),
    Option(
        "max-life-time-period",
        "For how many milliseconds the token can be renewed at most; -1 stands for the brokers' "
        "delegation.token.max.lifetime.ms.",
        "MS",
        is_number=True,
        is_optional=True,
        bits=64,
    ),
    Option(
        "renew-time-period",
        "For how many milliseconds from now the token is valid; -1 stands for the brokers' "
        "delegation.token.expiry.time.ms.",
        "MS",
        is_number=True,
        is_optional=True,
        bits=64,
    ),
    Option(
        "expiry-time-period",
        "In how many milliseconds the token ends; -1 ends it at once.",
        "MS",
        is_number=True,
        is_optional=True,
        bits=64,
    ),
    Option(
        "hmac", "The token's HMAC, as --create and --describe print it.", "HMAC", is_optional=True
    ),
)

_NEEDED: Final = {
    "create": ("max-life-time-period",),
    "renew": ("hmac", "renew-time-period"),
    "expire": ("hmac", "expiry-time-period"),
    "describe": (),
}
_EXCLUDED: Final = {
    "create": ("hmac", "renew-time-period", "expiry-time-period"),
    "renew": (
        "renewer-principal",
        "max-life-time-period",
        "expiry-time-period",
        "owner-principal",
    ),
    "expire": ("renew", "max-life-time-period", "renew-time-period", "owner-principal"),
    "describe": ("renew-time-period", "max-life-time-period", "hmac", "expiry-time-period"),
}


def check(given: Given) -> None:
    """Refuse what does not go together. Failed."""
    actions = [action for action in ACTIONS if given.has(action)]
    if len(actions) != 1:
        raise Misused(
            "Command must include exactly one action: --create, --renew, --expire or --describe"
        )
    (action,) = actions
    given.needs(BROKERS.name, CLIENT_CONFIG.name, *_NEEDED[action])
    given.excludes(action, _EXCLUDED[action])
    for name in _NEEDED[action]:
        if given.text(name) is None and name != "hmac":
            raise Misused(f"Option {name} requires an argument")
    if action in ("create", "describe"):
        needed = "renewer-principal" if action == "create" else "owner-principal"
        principals_of(given.texts(needed))


async def run(cluster: ClusterClient, given: Given) -> int:
    """Do the one action. Failed."""
    if given.has("create"):
        await _create(cluster, given)
    elif given.has("renew"):
        await _change(cluster, given, "renew", "renew-time-period")
    elif given.has("expire"):
        await _change(cluster, given, "expire", "expiry-time-period")
    else:
        await _describe(cluster, given)
    return 0


TOOL: Final = Tool(
    "delegation-tokens", "Create, renew, expire and list delegation tokens.", OPTIONS, check, run
)


async def _create(cluster: ClusterClient, given: Given) -> None:
    renewers = principals_of(given.texts("renewer-principal"))
    lifetime_ms = given.number("max-life-time-period") or 0
    is_text = given.text("output") not in PROGRAM_FORMS
    if is_text:
        print(
            f"Calling create token operation with renewers :{_listed(renewers)} , "
            f"max-life-time-period :{lifetime_ms}"
        )
    owners = principals_of(given.texts("owner-principal"))
    owner = owners[0] if owners else None
    token = await token_requests.create(cluster, owner, renewers, lifetime_ms)
    if is_text:
        print(f"Created delegation token with tokenId : {token.token_id}")
    _print([token], given.text("output"))


async def _change(cluster: ClusterClient, given: Given, action: str, period: str) -> None:
    """Renew a token, or let it end."""
    hmac, period_ms = given.text("hmac"), given.number(period) or 0
    form = given.text("output")
    if form not in PROGRAM_FORMS:
        print(
            f"Calling {action} token operation with hmac :{'null' if hmac is None else hmac} , "
            f"{action}-time-period :{period_ms}"
        )
    change = token_requests.renew if action == "renew" else token_requests.expire
    ends_ms = await change(cluster, _decoded(hmac), period_ms)
    if form == "json":
        print(json.dumps({"expiryTimeMs": ends_ms}))
    elif form == "csv":
        print_csv(["expiryTimeMs"], [[ends_ms]])
    else:
        print(f"Completed {action} operation. New expiry date : {_date(ends_ms)}", end="")


async def _describe(cluster: ClusterClient, given: Given) -> None:
    owners = principals_of(given.texts("owner-principal"))
    is_text = given.text("output") not in PROGRAM_FORMS
    if is_text and owners:
        print(f"Calling describe token operation for owners: {_listed(owners)}")
    elif is_text:
        print("Calling describe token operation for current user.")
    tokens = await token_requests.described(cluster, owners)
    if is_text:
        print(f"Total number of tokens : {len(tokens)}", end="")
    _print(tokens, given.text("output"))


def _print(tokens: Sequence[Token], form: str | None) -> None:
    if form in PROGRAM_FORMS:
        rows = [
            (
                token.token_id,
                _encoded(token.hmac),
                str(token.owner),
                str(token.requester),
                list(map(str, token.renewers))
                if form == "json"
                else ",".join(map(str, token.renewers)),
                token.issued_ms,
                token.ends_ms,
                token.max_ms,
            )
            for token in tokens
        ]
        print_rows("tokens", COLUMNS, rows, form)
        return
    for cells in (TITLES, *map(_cells, tokens)):
        padded = (cell.ljust(width) for cell, width in zip(cells, WIDTHS, strict=True))
        print(f"\n{' '.join(padded)}")


def _cells(token: Token) -> tuple[str, ...]:
    return (
        token.token_id,
        _encoded(token.hmac),
        str(token.owner),
        str(token.requester),
        _listed(token.renewers),
        *map(_date, (token.issued_ms, token.ends_ms, token.max_ms)),
    )


def _listed(principals: Sequence[Principal]) -> str:
    return f"[{', '.join(map(str, principals))}]"


def _date(time_ms: int) -> str:
    """The local time."""
    return datetime.fromtimestamp(time_ms // 1000).astimezone().strftime("%Y-%m-%dT%H:%M")


def _encoded(hmac: bytes) -> str:
    return base64.b64encode(hmac).decode()


def _decoded(hmac: str | None) -> bytes:
    if hmac is None:
        raise Failed("--hmac needs the HMAC of a token, as --describe prints it")
    padding = "" if hmac.endswith("=") else "=" * (-len(hmac) % 4)
    try:
        return base64.b64decode(hmac + padding, validate=True)
    except (binascii.Error, ValueError) as failure:
        raise Failed(
            f"--hmac {hmac} is not an HMAC as --create and --describe print it: {failure}"
        ) from failure
