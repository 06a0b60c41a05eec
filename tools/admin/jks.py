"""Reads Java's own key stores (type JKS), for clients whose properties name one.

The form is that of the JDK's `sun.security.provider.JavaKeyStore`; every number is big-endian:

    u32 FEEDFEED, u32 version (1 or 2), u32 entries, the entries, 20 bytes of digest
    entry: u32 kind, text alias, i64 milliseconds, then
        a key (1):          u32 length, key, u32 certificates, the certificates
        a certificate (2):  certificate
    certificate: text type (only in version 2), u32 length, DER
    text: u16 length, UTF-8

The digest is SHA-1 of the password, a fixed text and everything before. A key is an
EncryptedPrivateKeyInfo of Sun's own algorithm: 20 bytes of salt, the key XOR a stream of SHA-1, and
a digest.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator
from typing import Final, NamedTuple

MAGIC: Final = bytes.fromhex("feedfeed")
_KEY, _CERTIFICATE = 1, 2
_DIGEST_SIZE: Final = 20
_WHITENER: Final = b"Mighty Aphrodite"  # a constant of the format
_SUN_KEY_PROTECTOR: Final = bytes.fromhex("060a2b060104012a02110101")
"""The object identifier 1.3.6.1.4.1.42.2.17.1.1, in DER."""


class WrongPassword(Exception):
    """The store's or the key's digest is another."""


class KeyEntry(NamedTuple):
    """A private key and its certificate, followed by those above it."""

    protected: bytes
    """EncryptedPrivateKeyInfo, DER."""
    chain: tuple[bytes, ...]
    """DER."""

    def key(self, password: str) -> bytes:
        """PrivateKeyInfo (PKCS #8), DER. WrongPassword; ValueError if it isn't Sun's algorithm."""
        sealed = _sealed_key(self.protected)
        salt, hidden = sealed[:_DIGEST_SIZE], sealed[_DIGEST_SIZE:-_DIGEST_SIZE]
        coded = password.encode("utf-16-be")
        stream, block = bytearray(), salt
        while len(stream) < len(hidden):
            block = hashlib.sha1(coded + block, usedforsecurity=False).digest()
            stream += block
        plain = bytes(byte ^ mask for byte, mask in zip(hidden, stream, strict=False))
        digest = hashlib.sha1(coded + plain, usedforsecurity=False).digest()
        if not hmac.compare_digest(digest, sealed[-_DIGEST_SIZE:]):
            raise WrongPassword
        return plain


class JavaKeyStore(NamedTuple):
    """What is in a store, in its order."""

    keys: tuple[KeyEntry, ...]
    trusted: tuple[bytes, ...]
    """Certificates, DER."""


def read_jks(data: bytes, password: str | None) -> JavaKeyStore:
    """As Java, without a password the store is read, but not checked.

    WrongPassword if the digest is another (Java can't tell it from damage either); ValueError if
    the store is cut off or of another form.
    """
    reader = _Reader(data[:-_DIGEST_SIZE])
    if password is not None:
        coded = password.encode("utf-16-be") + _WHITENER
        digest = hashlib.sha1(coded + reader.data, usedforsecurity=False).digest()
        if not hmac.compare_digest(digest, data[-_DIGEST_SIZE:]):
            raise WrongPassword
    if reader.take(len(MAGIC)) != MAGIC:
        raise ValueError("it does not begin as a store of type JKS")
    version = reader.number()
    if version not in (1, 2):
        raise ValueError(f"its version is {version}, not 1 or 2")
    keys, trusted = [], []
    for _ in range(reader.number()):
        kind = reader.number()
        reader.take(reader.number(2) + 8)  # alias and time
        if kind == _CERTIFICATE:
            trusted.append(reader.certificate(version))
        elif kind == _KEY:
            protected = reader.take(reader.number())
            keys.append(KeyEntry(protected, tuple(reader.chain(version))))
        else:
            raise ValueError(f"it has an entry of kind {kind}, not 1 or 2")
    return JavaKeyStore(tuple(keys), tuple(trusted))


class _Reader:
    """Takes from the front of the data. ValueError at its end."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._at = 0

    def take(self, size: int) -> bytes:
        found = self.data[self._at : self._at + size]
        if len(found) < size:
            raise ValueError("it is cut off")
        self._at += size
        return found

    def number(self, size: int = 4) -> int:
        return int.from_bytes(self.take(size), "big")

    def certificate(self, version: int) -> bytes:
        if version == 2:
            self.take(self.number(2))  # its type
        return self.take(self.number())

    def chain(self, version: int) -> Iterator[bytes]:
        for _ in range(self.number()):
            yield self.certificate(version)


def _sealed_key(protected: bytes) -> bytes:
    """The octets in SEQUENCE { SEQUENCE { OBJECT IDENTIFIER, NULL }, OCTET STRING }."""
    whole = _Reader(_der(_Reader(protected), 0x30))
    if not _der(whole, 0x30).startswith(_SUN_KEY_PROTECTOR):
        raise ValueError("its key is encrypted by another algorithm than Sun's for JKS")
    sealed = _der(whole, 0x04)
    if len(sealed) < 2 * _DIGEST_SIZE:
        raise ValueError("its key is cut off")
    return sealed


def _der(reader: _Reader, tag: int) -> bytes:
    """The contents of the next value, which has this tag. ValueError."""
    if reader.number(1) != tag:
        raise ValueError("its key is no EncryptedPrivateKeyInfo")
    size = reader.number(1)
    return reader.take(reader.number(size & 0x7F) if size & 0x80 else size)
