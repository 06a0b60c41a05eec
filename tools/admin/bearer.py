"""The tokens of SASL OAUTHBEARER, from where Java clients get them (KIP-255, KIP-768, KIP-1139).

Without `sasl.login.callback.handler.class` a token is made of the options of `sasl.jaas.config`,
unsigned, for tests. With OAuthBearerLoginCallbackHandler it comes from a file, or from an endpoint
by client credentials (RFC 6749, 4.4).
"""

from __future__ import annotations

import base64
import json
import re
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from functools import partial
from typing import Any, Final
from urllib.parse import quote_plus, unquote, urlencode, urlsplit

from kavka.client.login import Bearer, BearerSource
from kavka.tools.admin.errors import Failed
from kavka.tools.admin.jaas import SETTING

HANDLER: Final = "sasl.login.callback.handler.class"
RETRIEVER: Final = "sasl.oauthbearer.jwt.retriever.class"
ENDPOINT: Final = "sasl.oauthbearer.token.endpoint.url"
CLIENT_ID: Final = "sasl.oauthbearer.client.credentials.client.id"
CLIENT_SECRET: Final = "sasl.oauthbearer.client.credentials.client.secret"
SCOPE: Final = "sasl.oauthbearer.scope"
URL_ENCODED: Final = "sasl.oauthbearer.header.urlencode"

UNSIGNED: Final = "OAuthBearerUnsecuredLoginCallbackHandler"
RETRIEVING: Final = "OAuthBearerLoginCallbackHandler"
DEFAULT: Final = "DefaultJwtRetriever"
FROM_FILE: Final = "FileJwtRetriever"
FROM_ENDPOINT: Final = "ClientCredentialsJwtRetriever"

OPTION: Final = "unsecuredLogin"
EXAMPLE: Final = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
    f'{OPTION}StringClaim_sub="alice";'
)
LIFETIME_S: Final = 3600
ENDPOINT_WITHIN_S: Final = 10.0
RESPONSE_BYTES_MAX: Final = 1 << 20
_EXTENSION_NAME: Final = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE: Final = re.compile(r"[\x21-\x7e \t\r\n]*")
_TOKEN_FIELD: Final = "auth"
_TIMES: Final = ("iat", "exp")


def bearer_source(config: Mapping[str, str], options: Mapping[str, str]) -> BearerSource:
    """Where a client with these settings, and these options of its login module, gets its tokens.

    Failed, also from each call for a token.
    """
    handler = config.get(HANDLER, UNSIGNED).strip().rpartition(".")[2]
    if handler == UNSIGNED:
        claims = _claims(options)
        return partial(
            _unsigned, claims, _lifetime_s(options), _extensions(options, f"{OPTION}Extension_")
        )
    if handler != RETRIEVING:
        raise Failed(f"{HANDLER}={config[HANDLER]}: Kavka's tools know {UNSIGNED}, {RETRIEVING}")
    return _retrieving(config, options)


def _retrieving(config: Mapping[str, str], options: Mapping[str, str]) -> BearerSource:
    url = config.get(ENDPOINT, "").strip()
    if not url:
        raise Failed(f"{HANDLER}={config[HANDLER]} needs {ENDPOINT}")
    retriever = config.get(RETRIEVER, DEFAULT).strip().rpartition(".")[2]
    parts = urlsplit(url)
    extensions = _extensions(options, "extension_")
    if parts.scheme == "file" and retriever in (DEFAULT, FROM_FILE):
        return partial(_from_file, unquote(parts.path), extensions)
    if parts.scheme not in ("http", "https") or retriever not in (DEFAULT, FROM_ENDPOINT):
        named = f"{RETRIEVER}={config[RETRIEVER]} with " if RETRIEVER in config else ""
        raise Failed(
            f"{named}{ENDPOINT}={url}: Kavka's tools read a token from a file: URL, or get it from "
            "an http: or https: one by client credentials"
        )
    identity, secret = (
        config.get(name, options.get(option, ""))
        for name, option in ((CLIENT_ID, "clientId"), (CLIENT_SECRET, "clientSecret"))
    )
    if not identity or not secret:
        raise Failed(f"{ENDPOINT} needs {CLIENT_ID} and {CLIENT_SECRET}")
    if config.get(URL_ENCODED, "false").strip().lower() == "true":
        identity, secret = quote_plus(identity), quote_plus(secret)
    form = {"grant_type": "client_credentials"}
    scope = config.get(SCOPE, options.get("scope", "")).strip()
    if scope:
        form["scope"] = scope
    request = urllib.request.Request(url, urlencode(form).encode(), method="POST")
    credentials = base64.b64encode(f"{identity}:{secret}".encode()).decode()
    request.add_header("Authorization", f"Basic {credentials}")
    request.add_header("Accept", "application/json")
    return partial(_from_endpoint, request, extensions)


def _from_file(path: str, extensions: Mapping[str, str]) -> Bearer:
    try:
        with open(path, encoding="ascii") as file:
            token = file.read().strip()
    except (OSError, UnicodeError) as error:
        raise Failed(f"{ENDPOINT}: the token can't be read: {error}") from error
    return _bearer(token, path, extensions)


def _from_endpoint(request: urllib.request.Request, extensions: Mapping[str, str]) -> Bearer:
    where = request.full_url
    try:
        with urllib.request.urlopen(request, timeout=ENDPOINT_WITHIN_S) as response:
            answer = json.loads(response.read(RESPONSE_BYTES_MAX))
    except urllib.error.HTTPError as error:
        text = error.read(200).decode(errors="replace").strip()
        raise Failed(f"{where} gives no token: {error.code} {error.reason}: {text}") from error
    except OSError as error:
        raise Failed(f"{where} gives no token: {getattr(error, 'reason', error)}") from error
    except ValueError as error:
        raise Failed(f"{where} gives no token: its response is not JSON") from error
    found = answer if isinstance(answer, dict) else {}
    token = found.get("access_token") or found.get("id_token") or ""
    return _bearer(str(token), where, extensions)


def _bearer(token: str, where: str, extensions: Mapping[str, str]) -> Bearer:
    claims = _read_claims(token)
    if claims is None:
        raise Failed(f"{where} has no JSON Web Token")
    expires_s = claims.get("exp")
    if not isinstance(expires_s, int | float):
        expires_s = time.time() + LIFETIME_S
    return Bearer(token, float(expires_s), extensions)


def _read_claims(token: str) -> dict[str, Any] | None:
    """Those of a JSON Web Token, unverified; None if it is none."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except ValueError:
        return None
    return claims if isinstance(claims, dict) else None


def _unsigned(claims: Mapping[str, Any], lifetime_s: int, extensions: Mapping[str, str]) -> Bearer:
    began_s = time.time_ns() // 1_000_000 / 1000  # Java's clock has no more digits
    expires_s = began_s + lifetime_s
    parts = ({"alg": "none"}, {**claims, "iat": began_s, "exp": expires_s})
    header, payload = (_encoded(json.dumps(part)) for part in parts)
    return Bearer(f"{header}.{payload}.", expires_s, extensions)


def _encoded(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _claims(options: Mapping[str, str]) -> dict[str, Any]:
    claims: dict[str, Any] = {}
    for option, text in options.items():
        kind, _, name = option.removeprefix(OPTION).partition("_")
        if not option.startswith(OPTION) or not name or not kind.endswith("Claim"):
            continue
        if name in _TIMES:
            raise Failed(f"{SETTING}: {option} can't be set: it is when the token is made")
        if kind == "ListClaim":
            claims[name] = text[1:].split(text[0]) if len(text) > 1 else []
        else:
            claims[name] = _number(option, text) if kind == "NumberClaim" else text
    principal = options.get(f"{OPTION}PrincipalClaimName", "").strip() or "sub"
    if not claims.get(principal):
        raise Failed(f"{SETTING} has no {OPTION}StringClaim_{principal}: {EXAMPLE}")
    return claims


def _lifetime_s(options: Mapping[str, str]) -> int:
    name = f"{OPTION}LifetimeSeconds"
    return int(_number(name, options.get(name, str(LIFETIME_S))))


def _number(option: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise Failed(f"{SETTING}: {option}={text} is no number") from None


def _extensions(options: Mapping[str, str], prefix: str) -> dict[str, str]:
    """The SASL extensions (KIP-342): the options whose names begin so, without that."""
    found = {}
    for option, text in options.items():
        if not option.startswith(prefix):
            continue
        name = option.removeprefix(prefix)
        is_named_well = _EXTENSION_NAME.fullmatch(name) and name != _TOKEN_FIELD
        if not is_named_well or not _EXTENSION_VALUE.fullmatch(text):
            raise Failed(f"{SETTING}: {option} is not an extension: letters, and not auth")
        found[name] = text
    return found
