"""How drivers reach a broker that wants TLS or a login, by the properties of a Java client."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from kavka.client.login import GSSAPI, OAUTHBEARER, PLAIN
from kavka.client.scram import DIGESTS
from kavka.tools.admin.errors import Failed
from kavka.tools.admin.security import PLAINTEXT, security_of
from kavka.tools.client_security import PREFIXES, protocol_of

VARIABLE: Final = "KAVKA_COMPAT_SECURITY"
"""Of a driver's environment: the file that drivers/README.md describes."""

TOKEN: Final = "a delegation token"
PEM: Final = "PEM"
STORE_TYPES: Final = ("ssl.truststore.type", "ssl.keystore.type")


class Required(NamedTuple):
    """What a client must be able to do."""

    tls: bool = False
    login: str = ""
    """The mechanism of SASL, or TOKEN; empty without a login."""
    pem: bool = False
    """Whether a Java client must read PEM, which those before 2.7 (KIP-651) don't."""


class Access(NamedTuple):
    """What a client can do."""

    tls: bool
    logins: frozenset[str]
    pem: bool = True

    def lack(self, required: Required) -> str:
        """Why the client can't be tried; empty if it can."""
        if required.tls and not self.tls:
            return "the client has no TLS"
        if required.login and required.login not in self.logins:
            return f"the client can't log in with {required.login}, or its driver can't"
        if required.pem and not self.pem:
            return "the client reads no PEM: name stores of JKS or PKCS12"
        return ""


_PASSWORDS: Final = frozenset({PLAIN, *DIGESTS})
BY_PASSWORD: Final = Access(True, _PASSWORDS)
AS_JAVA: Final = Access(True, _PASSWORDS | {GSSAPI, OAUTHBEARER, TOKEN})
AS_JAVA_1_1: Final = Access(True, _PASSWORDS | {GSSAPI, TOKEN}, pem=False)
AS_JAVA_0_10: Final = Access(True, _PASSWORDS | {GSSAPI}, pem=False)
ONLY_TLS: Final = Access(True, frozenset(), pem=False)
NOTHING: Final = Access(False, frozenset())


def required_by(properties: Mapping[str, str]) -> Required:
    """tools.admin's Failed."""
    security = security_of(properties)
    login = ""
    if security.login is not None:
        login = TOKEN if security.login.is_token else security.login.mechanism
    has_tls = security.tls is not None
    pem = any(properties.get(name, "").strip().upper() == PEM for name in STORE_TYPES)
    return Required(has_tls, login, has_tls and pem)


def environment(properties: Mapping[str, str], directory: Path) -> dict[str, str]:
    """What drivers need in theirs; keys and certificates are put into `directory`, for nobody
    else to read. tools.admin's Failed."""
    security = security_of(properties)
    protocol = protocol_of(security)
    if protocol == PLAINTEXT:
        return {}
    found: dict[str, object] = {
        "protocol": protocol,
        "check_hostname": None,
        "properties": {
            name: text for name, text in properties.items() if name.startswith(PREFIXES)
        },
    }
    files = dict.fromkeys(("ca", "certificate", "key"), "")
    if security.tls is not None and security.material is not None:
        found["check_hostname"] = security.tls.check_hostname
        own = security.material.own
        key = _without_password(own.key, own.password) if own.password else own.key
        files = {"ca": security.material.trusted.pem or "", "certificate": own.chain, "key": key}
    for name, pem in files.items():
        found[name] = str(_private(directory / f"{name}.pem", pem)) if pem else None
    login = security.login
    found["mechanism"] = None if login is None else login.mechanism
    found["user"] = None if login is None else login.user
    found["password"] = None if login is None else login.password
    return {VARIABLE: str(_private(directory / "security.json", json.dumps(found)))}


def _private(path: Path, text: str) -> Path:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    return path


def _without_password(key: str, password: str) -> str:
    try:
        from cryptography.hazmat.primitives import serialization
    except ImportError as missing:
        raise Failed("a key with a password needs cryptography: pip install 'kavka[compat]'") from (
            missing
        )
    pem = serialization.Encoding.PEM
    form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    opened = serialization.load_pem_private_key(key.encode(), password.encode())
    return opened.private_bytes(pem, form, plain).decode()
