"""TLS by a Java client's settings; and what goes wrong with it, in words."""

from __future__ import annotations

import os
import ssl
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from kavka.client.errors import NotLetIn
from kavka.tools.admin import cipher_suites
from kavka.tools.admin.errors import Failed
from kavka.tools.admin.stores import Blocks, pem_blocks, read_store

if TYPE_CHECKING:
    import asyncio

    from kavka.seams import Listening, Network

TRUSTSTORE: Final = "ssl.truststore.location"
TRUSTSTORE_PASSWORD: Final = "ssl.truststore.password"
TRUSTED: Final = "ssl.truststore.certificates"
KEYSTORE: Final = "ssl.keystore.location"
KEYSTORE_PASSWORD: Final = "ssl.keystore.password"
CHAIN: Final = "ssl.keystore.certificate.chain"
KEY: Final = "ssl.keystore.key"
KEY_PASSWORD: Final = "ssl.key.password"
IDENTIFICATION: Final = "ssl.endpoint.identification.algorithm"
PROTOCOLS: Final = "ssl.enabled.protocols"
CIPHERS: Final = "ssl.cipher.suites"
HTTPS: Final = "https"

VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_OTHER_NAME: Final = (62, 64)
"""OpenSSL's codes: the certificate is for another host name, or IP address."""


class Trusted(NamedTuple):
    """Certificates of those who may certify servers."""

    pem: str | None
    """None: the operating system's."""
    name: str
    """Where they come from, as it is written in the properties."""

    def load(self, context: ssl.SSLContext) -> None:
        """Failed."""
        pem = self.pem
        if pem is None:
            context.load_default_certs()
        else:
            _load(self.name, "", lambda: context.load_verify_locations(cadata=pem))


class Own(NamedTuple):
    """What a client shows of itself, as PEM; all empty if it has no certificate."""

    key: str = ""
    chain: str = ""
    """Its certificate and those above it."""
    password: str = ""
    """Of the key, if it is encrypted."""
    name: str = ""
    """Where it comes from, as it is written in the properties."""

    def load(self, context: ssl.SSLContext) -> None:
        """Failed."""
        if not self.key:
            return
        hint = f"; is {KEY_PASSWORD} right?"
        with _private_file(self.key + self.chain) as path:
            _load(self.name, hint, lambda: context.load_cert_chain(path, password=self.password))


class Material(NamedTuple):
    """Certificates and a key."""

    trusted: Trusted
    own: Own


def material_of(config: Mapping[str, str]) -> Material:
    """By these settings. Failed."""
    return Material(trusted_of(config), own_of(config))


def tls_context(config: Mapping[str, str], material: Material) -> ssl.SSLContext:
    """By these settings. Failed."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # Java trusts each certificate of a truststore, whether it is an authority's or not.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    algorithm = config.get(IDENTIFICATION, HTTPS).strip().lower()
    if algorithm not in ("", HTTPS):
        raise Failed(f"{IDENTIFICATION}={algorithm}: it is https, or nothing")
    context.check_hostname = algorithm == HTTPS
    versions = versions_of(config)
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    cipher_suites.choose(context, config.get(CIPHERS, ""))
    material.trusted.load(context)
    material.own.load(context)
    return context


def versions_of(config: Mapping[str, str]) -> list[ssl.TLSVersion]:
    """Those that may be spoken. Failed."""
    text = config.get(PROTOCOLS, "")
    names = [name.strip() for name in text.split(",") if name.strip()] or list(VERSIONS)
    if any(name not in VERSIONS for name in names):
        raise Failed(f"{PROTOCOLS}={text}: each is one of {', '.join(VERSIONS)}")
    return [VERSIONS[name] for name in dict.fromkeys(names)]


def trusted_of(config: Mapping[str, str]) -> Trusted:
    """By these settings. Failed."""
    text, path = config.get(TRUSTED), config.get(TRUSTSTORE)
    if text or not path:
        return Trusted(_certificates(TRUSTED, text) if text else None, TRUSTED)
    name = f"{TRUSTSTORE}={path}"
    found = read_store(name, _read(name, path), config.get(TRUSTSTORE_PASSWORD), None).trusted
    if not found:
        raise Failed(f"{name} has no certificates")
    return Trusted(found, name)


def own_of(config: Mapping[str, str]) -> Own:
    """By these settings. Failed."""
    path, chain, key = config.get(KEYSTORE), config.get(CHAIN), config.get(KEY)
    key_password = config.get(KEY_PASSWORD)
    if not path:
        if bool(chain) != bool(key):
            missing = KEY if chain else CHAIN
            raise Failed(f"{CHAIN} and {KEY} belong together: {missing} is missing")
        if not key or not chain:
            return Own()
        private = _blocks(KEY, key).others
        if not private:
            raise Failed(f"{KEY} has no private key")
        return Own(private, _certificates(CHAIN, chain), key_password or "", CHAIN)
    name, password = f"{KEYSTORE}={path}", config.get(KEYSTORE_PASSWORD)
    found = read_store(name, _read(name, path), password, key_password)
    if not found.key:
        is_locked = not password and not found.chain  # a PEM file needs no password
        needed = f"needs {KEYSTORE_PASSWORD}" if is_locked else "has no private key"
        raise Failed(f"{name} {needed}")
    return Own(found.key, found.chain, key_password or "", name)


def _certificates(setting: str, text: str) -> str:
    found = _blocks(setting, text).certificates
    if not found:
        raise Failed(f"{setting} has no certificates")
    return found


def _blocks(setting: str, text: str) -> Blocks:
    found = pem_blocks(text)
    if not any(found):
        raise Failed(f"{setting} is not PEM")
    return found


def _read(name: str, path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except (OSError, ValueError) as failure:
        raise Failed(f"{name} can't be read: {failure}") from failure


@contextmanager
def _private_file(text: str) -> Iterator[str]:
    """For what reads files only; on Linux it is in memory, so that no key gets on a disk."""
    if sys.platform == "linux":
        with open(os.memfd_create("key"), "w") as file:
            file.write(text)
            file.flush()
            yield f"/proc/self/fd/{file.fileno()}"
    else:
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(text)
            file.flush()
            yield file.name


def _load(name: str, hint: str, load: Callable[[], object]) -> None:
    try:
        load()
    except (OSError, ValueError) as failure:  # ssl.SSLError is an OSError
        raise Failed(f"{name} can't be used: {failure}{hint}") from failure


class ExplainedNetwork:
    """A `Network` with TLS that says what is wrong with a certificate."""

    def __init__(self, tls: Network) -> None:
        self._tls = tls

    async def bind(self, host: str, port: int) -> Listening:
        return await self._tls.bind(host, port)

    async def connect(
        self, host: str, port: int, factory: Callable[[], asyncio.BaseProtocol]
    ) -> asyncio.BaseTransport:
        """NotLetIn if the handshake fails; OSError."""
        try:
            return await self._tls.connect(host, port, factory)
        except ssl.SSLCertVerificationError as failure:
            raise NotLetIn(_distrust(f"{host}:{port}", failure)) from failure
        except OSError as failure:
            is_closed = isinstance(failure.__cause__, ConnectionResetError)
            if not is_closed and not isinstance(failure, ssl.SSLError):
                raise
            raise NotLetIn(_no_handshake(f"{host}:{port}", failure)) from failure

    async def resolve(self, host: str) -> str:
        return await self._tls.resolve(host)

    def host_name(self) -> str:
        return self._tls.host_name()


def _distrust(address: str, failure: ssl.SSLCertVerificationError) -> str:
    why = failure.verify_message
    if failure.verify_code in _OTHER_NAME:
        return (
            f"the certificate of {address} is for another host ({why}): connect by a name that it "
            f"has, or let {IDENTIFICATION} be empty"
        )
    return (
        f"the certificate of {address} is not trusted ({why}): {TRUSTSTORE} must have that of its "
        "authority; `kavka doctor` tells more"
    )


def _no_handshake(address: str, failure: OSError) -> str:
    reason = getattr(failure, "reason", None) or ""
    if "ALERT" in reason:
        return f"{address} refuses the TLS handshake ({reason}); `kavka doctor` tells more"
    return (
        f"{address} does not speak TLS: use the port of a listener with TLS, or another "
        "security.protocol"
    )
