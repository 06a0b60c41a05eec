"""Judges a server's certificate: its dates, its names, and who vouches for it."""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kavka.tools.doctor.findings import Finding, error, note, ok, warning

STEP: Final = "tls"
ENDS_SOON_DAYS: Final = 30
_DAY_S: Final = 86_400
SELF_SIGNED: Final = 18
"""OpenSSL's X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT."""


@dataclass(frozen=True)
class Secured:
    """What came of shaking hands with a server."""

    protocol: str
    """As TLSv1.3; "" if no handshake succeeds."""
    failure: str = ""
    """Why none does."""
    certificate: Mapping[str, Any] | None = None
    """As Python's ssl gives it."""
    fits_name: bool = True
    distrust_code: int = 0
    """OpenSSL's number of why the trusted authorities don't vouch for it; 0 if they do."""
    distrust: str = ""
    wants_certificate: bool = False
    """It ends connections whose client shows no certificate that it trusts."""
    shown: bool = False
    """The client has shown one."""


def judge_certificate(
    subject: str, secured: Secured, now_s: float, *, checks_name: bool, trust: str
) -> list[Finding]:
    """All that is wrong with it. `trust`: where the trusted authorities come from."""
    if not secured.protocol:
        return [_no_handshake(subject, secured)]
    found = []
    if secured.certificate is not None:
        found += _dates(subject, secured.certificate, now_s)
        if not secured.fits_name:
            found.append(_name(subject, secured.certificate, checks_name=checks_name))
    if secured.distrust:
        found.append(_chain(subject, secured, trust))
    if secured.wants_certificate:
        found.append(_client_certificate(subject, shown=secured.shown))
    return found or [ok(STEP, subject, _in_order(secured, trust))]


def _client_certificate(subject: str, *, shown: bool) -> Finding:
    if shown:
        return error(
            STEP,
            "client-certificate-refused",
            subject,
            "refuses the certificate of the client",
            "let it come from an authority in ssl.truststore.location of the broker, be valid now, "
            "and have a key of a kind that the broker knows",
        )
    return error(
        STEP,
        "client-certificate",
        subject,
        "ends the connection of a client without a certificate (ssl.client.auth=required)",
        "set ssl.keystore.location (and ssl.keystore.password) in the file for --command-config: a "
        "key and a certificate that the broker trusts",
    )


def _no_handshake(subject: str, secured: Secured) -> Finding:
    return error(
        STEP,
        "no-handshake",
        subject,
        f"speaks TLS, but no handshake succeeds: {secured.failure}",
        "look at ssl.enabled.protocols and ssl.cipher.suites of broker and client: they need a "
        "version and a cipher in common",
    )


def _dates(subject: str, certificate: Mapping[str, Any], now_s: float) -> list[Finding]:
    begins_s = ssl.cert_time_to_seconds(certificate["notBefore"])
    ends_s = ssl.cert_time_to_seconds(certificate["notAfter"])
    if now_s > ends_s:
        return [
            error(
                STEP,
                "expired",
                subject,
                f"has a certificate that was valid until {certificate['notAfter']}",
                "put a new one into ssl.keystore.location of the broker; kavka configs "
                "--alter loads it without a restart",
            )
        ]
    if now_s < begins_s:
        return [
            error(
                STEP,
                "not-yet-valid",
                subject,
                f"has a certificate that is valid only from {certificate['notBefore']} on",
                "look at the clock of this machine and of the one that made the certificate",
            )
        ]
    days = (ends_s - now_s) / _DAY_S
    lasts_days = (ends_s - begins_s) / _DAY_S
    if days > min(ENDS_SOON_DAYS, lasts_days / 3):
        return []
    return [
        warning(
            STEP,
            "expires-soon",
            subject,
            f"has a certificate that ends in {days:.1f} days, on {certificate['notAfter']}",
            "put a new one into ssl.keystore.location of the broker before that day",
        )
    ]


def _name(subject: str, certificate: Mapping[str, Any], *, checks_name: bool) -> Finding:
    names = ", ".join(_names(certificate)) or "none"
    found = f"has a certificate for other names: {names}"
    if not checks_name:
        return note(
            STEP,
            "other-name",
            subject,
            f"{found}; the client does not look (ssl.endpoint.identification.algorithm is empty)",
        )
    return error(
        STEP,
        "other-name",
        subject,
        found,
        "connect by one of these names (and advertise it), or issue a certificate with this one "
        "among its subject alternative names",
    )


def _names(certificate: Mapping[str, Any]) -> Sequence[str]:
    alternative = [value for _, value in certificate.get("subjectAltName", ())]
    return alternative or [
        value
        for part in certificate.get("subject", ())
        for key, value in part
        if key == "commonName"
    ]


def _chain(subject: str, secured: Secured, trust: str) -> Finding:
    if secured.distrust_code == SELF_SIGNED:
        return error(
            STEP,
            "self-signed",
            subject,
            f"has a certificate that it signed itself, which {trust} does not hold",
            "put the certificate itself into ssl.truststore.location of the clients, or have one "
            "issued by an authority that they trust",
        )
    return error(
        STEP,
        "not-trusted",
        subject,
        f"has a certificate that {trust} does not vouch for: {secured.distrust}",
        "put the certificate of its authority into ssl.truststore.location of the clients; if it "
        "is there, let the broker's key store hold the intermediate certificates too",
    )


def _in_order(secured: Secured, trust: str) -> str:
    ends = "" if secured.certificate is None else f" until {secured.certificate['notAfter']}"
    return f"has a certificate that fits its name, valid{ends}; {trust} vouches for it"
