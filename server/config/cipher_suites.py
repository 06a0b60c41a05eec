"""Cipher suites of TLS by their names in Java, which are IANA's, and in OpenSSL. Pure."""

from __future__ import annotations

import re
from typing import Final

_KEY_EXCHANGES: Final = {
    "ECDHE_ECDSA": "ECDHE-ECDSA-",
    "ECDHE_RSA": "ECDHE-RSA-",
    "DHE_RSA": "DHE-RSA-",
    "RSA": "",
}
_NAME: Final = re.compile(
    "TLS_(" + "|".join(_KEY_EXCHANGES) + r")_WITH_(?:AES_(128|256)_(GCM|CBC)_(SHA|SHA256|SHA384)"
    "|(CHACHA20_POLY1305)_SHA256)"
)
TLS_1_3: Final = (
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
)
"""Those of TLS 1.3, named alike in both."""


def openssl_name(name: str) -> str:
    """The name in OpenSSL of a suite before TLS 1.3. ValueError for one that it does not have."""
    found = _NAME.fullmatch(name)
    if found is None:
        raise ValueError(f"{name} is not a cipher suite that can be chosen")
    key_exchange, bits, mode, digest, chacha = found.groups()
    prefix = _KEY_EXCHANGES[key_exchange]
    if chacha:
        return f"{prefix}CHACHA20-POLY1305"
    return f"{prefix}AES{bits}-{'GCM-' * (mode == 'GCM')}{digest}"
