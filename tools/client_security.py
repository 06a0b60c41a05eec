"""The security settings of a Java client, as other clients have them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from kavka.client.login import OAUTHBEARER, BearerSource
from kavka.tools.admin.errors import Failed
from kavka.tools.admin.security import PROTOCOL, Security, security_of

PREFIXES: Final = ("ssl.", "sasl.", PROTOCOL)
"""Names of settings that begin so are taken care of here."""

_PEM_FILES: Final = {
    "ssl.truststore.location": ("ssl.ca.location",),
    "ssl.keystore.location": ("ssl.certificate.location", "ssl.key.location"),
    "ssl.truststore.certificates": ("ssl.ca.pem",),
    "ssl.keystore.certificate.chain": ("ssl.certificate.pem",),
    "ssl.keystore.key": ("ssl.key.pem",),
    "ssl.key.password": ("ssl.key.password",),
}
"""Java's names, with librdkafka's."""

_IDENTIFICATION: Final = "ssl.endpoint.identification.algorithm"


def without_security(properties: Mapping[str, str]) -> dict[str, str]:
    """The other properties."""
    return {name: text for name, text in properties.items() if not name.startswith(PREFIXES)}


def for_librdkafka(properties: Mapping[str, str]) -> dict[str, Any]:
    """Its properties. Failed."""
    security = security_of(properties)
    if security.login is not None and security.login.is_token:
        raise Failed("sasl.jaas.config: librdkafka, the client here, can't log in with tokens")
    found: dict[str, Any] = {PROTOCOL: protocol_of(security)}
    if security.tls is not None:
        found[_IDENTIFICATION] = "https" if security.tls.check_hostname else "none"
        for name, others in _PEM_FILES.items():
            if properties.get(name):
                found |= dict.fromkeys(others, properties[name])
    if security.login is not None and security.login.bearer is not None:
        found |= {"sasl.mechanism": OAUTHBEARER, "oauth_cb": partial(_token, security.login.bearer)}
    elif security.login is not None:
        found |= {
            "sasl.mechanism": security.login.mechanism,
            "sasl.username": security.login.user,
            "sasl.password": security.login.password,
        }
    return found


def _token(bearer: BearerSource, _: str) -> tuple[str, float, str, dict[str, str]]:
    """As confluent-kafka wants it: the third value is a name for its log."""
    found = bearer()
    return found.token, found.expires_s, "", dict(found.extensions)


def protocol_of(security: Security) -> str:
    """`security.protocol`, as every client has it."""
    transport = "PLAINTEXT" if security.tls is None else "SSL"
    return transport if security.login is None else f"SASL_{transport}"
