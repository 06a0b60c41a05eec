"""Certificates and keys from the files that a Java client's properties name: PEM, PKCS12 or JKS.

What a file is, its contents tell: Java reads PKCS12 also where the type is JKS, its default, and
JKS where it is PKCS12.
"""

from __future__ import annotations

import base64
import re
import ssl
import textwrap
from collections.abc import Sequence
from typing import Final, NamedTuple

from kavka.tools.admin import jks
from kavka.tools.admin.errors import Failed

CERTIFICATE: Final = "CERTIFICATE"

_SEQUENCE: Final = 0x30
"""What PKCS12 begins with: DER's tag."""

_BLOCK: Final = re.compile(
    r"-+BEGIN\s+(?P<kind>[^-]*)-+\s+(?P<headers>(?:[^\r\n:-]+:[^\r\n]*[\r\n]+)*)"
    r"(?P<data>[A-Za-z0-9/+=\s]+)-+END\s+[^-]*-+"
)
"""In Java's form of it: the lengths of lines, and of dashes, do not matter."""


class Store(NamedTuple):
    """What is in a file, as PEM."""

    trusted: str
    """Certificates to trust."""
    key: str
    """The private key, not encrypted unless the file itself is PEM; empty if there is none."""
    chain: str
    """The key's certificate, and those above it."""


class Blocks(NamedTuple):
    """The blocks of a PEM text, as OpenSSL wants them."""

    certificates: str
    others: str
    """The private key, and what may come with it."""


def read_store(name: str, data: bytes, password: str | None, key_password: str | None) -> Store:
    """`name`: the setting and its value, for errors. `key_password`: of the key in it, if it has
    another than the store. Failed."""
    try:
        if data.startswith(jks.MAGIC):
            return _of_jks(name, data, password, key_password)
        if data[:1] == bytes([_SEQUENCE]):
            return _of_pkcs12(name, data, password)
        found = pem_blocks(data.decode("ascii", "ignore"))
        if any(found):
            return Store(found.certificates, found.others, found.certificates)
    except ValueError as failure:
        raise Failed(f"{name} can't be read: {failure}") from failure
    raise Failed(f"{name} is neither PEM nor PKCS12 nor JKS, which are what Kavka's tools read")


def pem_blocks(text: str) -> Blocks:
    """As in Java, their lines may have any length, be indented or parted by blanks, and what is no
    whole block is ignored."""
    certificates: list[str] = []
    others: list[str] = []
    for match in _BLOCK.finditer(text):
        is_certificate = CERTIFICATE in match["kind"]
        kind = CERTIFICATE if is_certificate else match["kind"].strip()
        lines = textwrap.fill("".join(match["data"].split()), 64)
        headers = match["headers"].strip() + "\n\n" if match["headers"] else ""
        block = f"-----BEGIN {kind}-----\n{headers}{lines}\n-----END {kind}-----\n"
        (certificates if is_certificate else others).append(block)
    return Blocks("".join(certificates), "".join(others))


def _of_jks(name: str, data: bytes, password: str | None, key_password: str | None) -> Store:
    try:
        found = jks.read_jks(data, password)
    except jks.WrongPassword as failure:
        raise _locked(name) from failure
    trusted = _certificates([*found.trusted, *(entry.chain[0] for entry in found.keys)])
    if not found.keys or (password is None and key_password is None):
        return Store(trusted, "", "")
    entry = found.keys[0]
    try:
        key = entry.key(key_password or password or "")
    except jks.WrongPassword as failure:
        raise Failed(f"the key in {name} can't be read: is ssl.key.password right?") from failure
    return Store(trusted, _key(key), _certificates(entry.chain))


def _of_pkcs12(name: str, data: bytes, password: str | None) -> Store:
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ImportError as missing:
        raise Failed(
            f"{name} is a PKCS12 store, for which this needs cryptography: "
            "pip install 'kavka[tools]'"
        ) from missing
    try:
        found = pkcs12.load_pkcs12(data, None if password is None else password.encode())
    except UnsupportedAlgorithm as failure:
        raise Failed(f"{name} can't be read: {failure}") from failure
    except ValueError as failure:
        raise (_locked if password else _without_password)(name) from failure
    der = serialization.Encoding.DER
    others = [additional.certificate for additional in found.additional_certs]
    if found.key is None or found.cert is None:
        certificates = [found.cert.certificate] if found.cert else []
        trusted = [certificate.public_bytes(der) for certificate in certificates + others]
        return Store(_certificates(trusted), "", "")
    chain = [found.cert.certificate]
    while above := next(
        (certificate for certificate in others if certificate.subject == chain[-1].issuer), None
    ):
        others = [certificate for certificate in others if certificate != above]
        chain.append(above)
    # Java trusts the certificate of a key, not those above it, unless they have entries of their
    # own: then they have an alias, where the others have no name or that of their subject.
    entries = [
        additional.certificate
        for additional in found.additional_certs
        if additional.friendly_name
        and additional.friendly_name.decode() != additional.certificate.subject.rfc4514_string()
    ]
    trusted = [certificate.public_bytes(der) for certificate in [chain[0], *entries]]
    key = found.key.private_bytes(
        der, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    certified = [certificate.public_bytes(der) for certificate in chain]
    return Store(_certificates(trusted), _key(key), _certificates(certified))


def _locked(name: str) -> Failed:
    return Failed(f"{name} is damaged, or {_password_setting(name)} is not its password")


def _without_password(name: str) -> Failed:
    return Failed(f"{name} is damaged, or needs {_password_setting(name)}")


def _password_setting(name: str) -> str:
    return name.partition("=")[0].replace(".location", ".password")


def _certificates(found: Sequence[bytes]) -> str:
    return "".join(map(ssl.DER_cert_to_PEM_cert, found))


def _key(der: bytes) -> str:
    text = base64.encodebytes(der).decode()
    return f"-----BEGIN PRIVATE KEY-----\n{text}-----END PRIVATE KEY-----\n"
