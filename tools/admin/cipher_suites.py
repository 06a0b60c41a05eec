"""`ssl.cipher.suites` of a Java client: the names of RFCs, as OpenSSL has them."""

from __future__ import annotations

import re
import ssl
from collections.abc import Sequence
from typing import Final, NamedTuple

from kavka.tools.admin.errors import Failed

SETTING: Final = "ssl.cipher.suites"
_TLS_1_3: Final = frozenset(
    ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
)
_OLDER: Final = re.compile(
    r"TLS_(?:(?P<exchange>ECDHE_RSA|ECDHE_ECDSA|DHE_RSA)|RSA)_WITH_"
    r"(?P<cipher>AES_(?P<bits>128|256)_(?P<mode>GCM|CBC|CCM|CCM_8)|CHACHA20_POLY1305)"
    r"(?:_(?P<digest>SHA(?:256|384)?))?"
)
_ABSENT: Final = re.compile(
    r"TLS_EMPTY_RENEGOTIATION_INFO_SCSV|SSL_.*|TLS_(?:ECDH_RSA|ECDH_ECDSA|DHE_DSS|KRB5)_.*"
    r"|TLS_.*_(?:anon_.*|WITH_(?:3DES|DES|RC4|NULL).*)"
)
"""Suites that Java knows and that OpenSSL has no more; Java itself offers none of them by
default."""


class Suites(NamedTuple):
    """Those of a setting."""

    newer: frozenset[str]
    """Of TLS 1.3."""
    older: Sequence[str]
    """Those before TLS 1.3, by OpenSSL's names."""


def suites_of(text: str) -> Suites:
    """Failed if one is not known, or nothing is left of them."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    newer = frozenset(names) & _TLS_1_3
    if newer and newer != _TLS_1_3:
        raise Failed(
            f"{SETTING}: OpenSSL is given all suites of TLS 1.3, or none: name all of "
            f"{', '.join(sorted(_TLS_1_3))}, or set ssl.enabled.protocols=TLSv1.2"
        )
    others = [name for name in names if name not in newer and not _ABSENT.fullmatch(name)]
    if names and not newer and not others:
        raise Failed(f"{SETTING}={text}: OpenSSL has none of them any more")
    return Suites(newer, [_openssl_name(name) for name in others])


def choose(context: ssl.SSLContext, text: str) -> None:
    """Lets it offer these suites only; all if there are none. Failed."""
    newer, older = suites_of(text)
    if not newer and not older:
        return
    version = ssl.TLSVersion.TLSv1_2 if older else ssl.TLSVersion.TLSv1_3
    context.minimum_version = max(context.minimum_version, version)
    version = ssl.TLSVersion.TLSv1_3 if newer else ssl.TLSVersion.TLSv1_2
    context.maximum_version = min(context.maximum_version, version)
    if context.minimum_version > context.maximum_version:
        raise Failed(f"{SETTING}={text}: none is of the versions in ssl.enabled.protocols")
    if not older:
        return
    try:
        context.set_ciphers(":".join(older))
    except ssl.SSLError as failure:
        raise Failed(f"{SETTING}={text}: this machine's OpenSSL has none of them") from failure


def _openssl_name(name: str) -> str:
    match = _OLDER.fullmatch(name)
    if match is None:
        raise Failed(f"{SETTING}: there is no suite {name} here")
    cipher = match["cipher"].replace("_", "-")
    if match["bits"]:
        mode = "" if match["mode"] == "CBC" else "-" + match["mode"].replace("CCM_8", "CCM8")
        cipher = f"AES{match['bits']}{mode}"
    has_digest = match["digest"] and match["cipher"] != "CHACHA20_POLY1305"
    exchange = match["exchange"].replace("_", "-") if match["exchange"] else ""
    parts = (exchange, cipher, match["digest"] if has_digest else "")
    return "-".join(part for part in parts if part)
