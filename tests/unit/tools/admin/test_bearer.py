"""Tokens of SASL OAUTHBEARER: from options, from a file, from an endpoint."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from kavka.client.login import Bearer, bearer_message
from kavka.tools.admin.bearer import CLIENT_ID, CLIENT_SECRET, ENDPOINT, HANDLER, bearer_source
from kavka.tools.admin.errors import Failed
from support.token_endpoint import TokenEndpoint, unsigned_token

PACKAGE = "org.apache.kafka.common.security.oauthbearer"
RETRIEVING = {HANDLER: f"{PACKAGE}.OAuthBearerLoginCallbackHandler"}
ALICE = {"unsecuredLoginStringClaim_sub": "alice"}
CREDENTIALS = {CLIENT_ID: "me: myself", CLIENT_SECRET: "open sesame"}


def claims_of(found: Bearer) -> dict[str, Any]:
    header, payload, signature = found.token.split(".")
    assert json.loads(base64.urlsafe_b64decode(header + "==")) == {"alg": "none"}
    assert signature == ""
    claims: dict[str, Any] = json.loads(base64.urlsafe_b64decode(payload + "==="))
    return claims


@pytest.fixture
def endpoint() -> Iterator[TokenEndpoint]:
    with TokenEndpoint() as started:
        yield started


def test_a_token_is_made_of_options() -> None:
    more = {
        "unsecuredLoginNumberClaim_level": "7",
        "unsecuredLoginListClaim_scope": "|read|write",
        "unsecuredLoginLifetimeSeconds": "60",
        "unsecuredLoginExtension_traceId": "123",
    }
    before_s = time.time_ns() // 1_000_000 / 1000
    found = bearer_source({}, {**ALICE, **more})()
    claims = claims_of(found)
    assert before_s <= claims.pop("iat") <= time.time()
    assert claims.pop("exp") == pytest.approx(found.expires_s)
    assert before_s + 60 <= found.expires_s <= time.time() + 60
    assert claims == {"sub": "alice", "level": 7, "scope": ["read", "write"]}
    assert found.extensions == {"traceId": "123"}


def test_the_message_is_that_of_rfc_7628() -> None:
    found = bearer_message(Bearer("t", 0.0, {"a": "1", "b": "2"}))
    assert found == b"n,,\x01auth=Bearer t\x01a=1\x01b=2\x01\x01"


def test_a_token_comes_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "a token"
    token = unsigned_token("alice", 1_234.0)
    file.write_text(f"{token}\n")
    found = bearer_source({**RETRIEVING, ENDPOINT: file.as_uri()}, {"extension_x": "1"})()
    assert found == Bearer(token, 1_234.0, {"x": "1"})


@pytest.mark.parametrize("encodes", [False, True])
def test_a_token_comes_from_an_endpoint(endpoint: TokenEndpoint, encodes: bool) -> None:
    more = {"sasl.oauthbearer.scope": "a b", "sasl.oauthbearer.header.urlencode": str(encodes)}
    found = bearer_source({**RETRIEVING, ENDPOINT: endpoint.url, **CREDENTIALS, **more}, {})()
    assert claims_of(found)["sub"] == "alice"
    [request] = endpoint.asked
    assert request.form == {"grant_type": ["client_credentials"], "scope": ["a b"]}
    expected = "me%3A+myself:open+sesame" if encodes else "me: myself:open sesame"
    assert request.credentials == expected


def test_the_options_of_the_login_module_have_credentials_too(endpoint: TokenEndpoint) -> None:
    options = {"clientId": "me", "clientSecret": "secret", "scope": "a"}
    bearer_source({**RETRIEVING, ENDPOINT: endpoint.url}, options)()
    assert endpoint.asked[0].credentials == "me:secret"
    assert endpoint.asked[0].form["scope"] == ["a"]


@pytest.mark.parametrize(
    ("config", "options", "words"),
    [
        ({}, {}, "has no unsecuredLoginStringClaim_sub"),
        ({}, {"unsecuredLoginPrincipalClaimName": "me", **ALICE}, "unsecuredLoginStringClaim_me"),
        ({}, {**ALICE, "unsecuredLoginNumberClaim_n": "x"}, "x is no number"),
        ({}, {**ALICE, "unsecuredLoginNumberClaim_exp": "1"}, "can't be set"),
        ({}, {**ALICE, "unsecuredLoginExtension_auth": "1"}, "is not an extension"),
        ({HANDLER: "com.example.Mine"}, ALICE, "Mine: Kavka's tools know"),
        (RETRIEVING, {}, f"needs {ENDPOINT}"),
        ({**RETRIEVING, ENDPOINT: "http://localhost"}, {}, f"needs {CLIENT_ID}"),
        ({**RETRIEVING, ENDPOINT: "ldap://localhost"}, {}, "from a file: URL"),
        (
            {
                **RETRIEVING,
                ENDPOINT: "http://localhost",
                "sasl.oauthbearer.jwt.retriever.class": f"{PACKAGE}.JwtBearerJwtRetriever",
            },
            {},
            "JwtBearerJwtRetriever with",
        ),
    ],
)
def test_settings_that_give_no_token_are_named(
    config: Mapping[str, str], options: Mapping[str, str], words: str
) -> None:
    with pytest.raises(Failed) as raised:
        bearer_source(config, options)
    assert words in str(raised.value)


def test_what_is_no_token_is_named(tmp_path: Path, endpoint: TokenEndpoint) -> None:
    file = tmp_path / "token"
    file.write_text("a.b")
    with pytest.raises(Failed, match="has no JSON Web Token"):
        bearer_source({**RETRIEVING, ENDPOINT: file.as_uri()}, {})()
    with pytest.raises(Failed, match="can't be read"):
        bearer_source({**RETRIEVING, ENDPOINT: f"{file.as_uri()}.none"}, {})()
    source = bearer_source({**RETRIEVING, ENDPOINT: endpoint.url, **CREDENTIALS}, {})
    endpoint.answer = 401, b"who are you?"
    with pytest.raises(Failed, match="gives no token: 401 Unauthorized: who are you"):
        source()
    endpoint.answer = 200, b"<html>"
    with pytest.raises(Failed, match="is not JSON"):
        source()
    endpoint.answer = 200, b"[]"
    with pytest.raises(Failed, match="has no JSON Web Token"):
        source()
