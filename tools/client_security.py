"""The security settings of a Java client, as other clients have them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kavka.client.kerberos import Kerberos
from kavka.client.login import GSSAPI, OAUTHBEARER, BearerSource
from kavka.tools.admin.errors import Failed
from kavka.tools.admin.security import PROTOCOL, Security, security_of

if TYPE_CHECKING:
    from kavka.tools.admin.tls import Material

PREFIXES: Final = ("ssl.", "sasl.", PROTOCOL)
"""Names of settings that begin so are taken care of here."""

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
    if security.tls is not None and security.material is not None:
        found[_IDENTIFICATION] = "https" if security.tls.check_hostname else "none"
        found |= _tls(properties, security.material)
    if security.login is not None and security.login.bearer is not None:
        found |= {"sasl.mechanism": OAUTHBEARER, "oauth_cb": partial(_token, security.login.bearer)}
    elif security.login is not None and security.login.kerberos is not None:
        found |= _kerberos(security.login.kerberos)
    elif security.login is not None:
        found |= {
            "sasl.mechanism": security.login.mechanism,
            "sasl.username": security.login.user,
            "sasl.password": security.login.password,
        }
    return found


def _tls(properties: Mapping[str, str], material: Material) -> dict[str, str]:
    from kavka.tools.admin import cipher_suites, tls  # only with TLS

    versions = tls.versions_of(properties)
    newer, older = cipher_suites.suites_of(properties.get(tls.CIPHERS, ""))
    if len(versions) < len(tls.VERSIONS) or bool(newer) != bool(older):
        raise Failed(
            f"{tls.PROTOCOLS}, {tls.CIPHERS}: librdkafka, the client here, offers TLSv1.2 and "
            "TLSv1.3 always, so neither can be left out"
        )
    own = material.own
    found = {
        "ssl.ca.pem": material.trusted.pem,
        "ssl.certificate.pem": own.chain,
        "ssl.key.pem": own.key,
        tls.KEY_PASSWORD: own.password,
        tls.CIPHERS: ":".join(older),
    }
    return {name: text for name, text in found.items() if text}


def _kerberos(kerberos: Kerberos) -> dict[str, str]:
    if kerberos.tickets:
        raise Failed("sasl.jaas.config: librdkafka, the client here, finds a ticketCache by itself")
    found = {
        "sasl.mechanism": GSSAPI,
        "sasl.kerberos.service.name": kerberos.service,
        "sasl.kerberos.principal": kerberos.principal,
        "sasl.kerberos.keytab": kerberos.keytab,
    }
    return {name: text for name, text in found.items() if text}


def _token(bearer: BearerSource, _: str) -> tuple[str, float, str, dict[str, str]]:
    """As confluent-kafka wants it: the third value is a name for its log."""
    found = bearer()
    return found.token, found.expires_s, "", dict(found.extensions)


def protocol_of(security: Security) -> str:
    """`security.protocol`, as every client has it."""
    transport = "PLAINTEXT" if security.tls is None else "SSL"
    return transport if security.login is None else f"SASL_{transport}"
