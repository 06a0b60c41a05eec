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
from kavka.tools.admin.stores import pem_blocks, read_store

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


class Material(NamedTuple):
    """Certificates and a key, as PEM."""

    trusted: str | None
    """Of those who may certify servers; None: the operating system's."""
    own: str
    """The client's key, its certificate and those above it; empty if it has none."""
    password: str
    """Of the key, if it is encrypted."""


def tls_context(config: Mapping[str, str]) -> ssl.SSLContext:
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
    load_trusted(context, config)
    load_own(context, config)
    return context


def material_of(config: Mapping[str, str]) -> Material:
    """By these settings. Failed."""
    return Material(_trusted(config), _own(config), config.get(KEY_PASSWORD, ""))


def load_trusted(context: ssl.SSLContext, config: Mapping[str, str]) -> None:
    """Failed."""
    trusted = _trusted(config)
    if trusted is None:
        context.load_default_certs()
    else:
        name = _named(config, TRUSTED, TRUSTSTORE)
        _load(name, "", lambda: context.load_verify_locations(cadata=trusted))


def load_own(context: ssl.SSLContext, config: Mapping[str, str]) -> None:
    """Failed."""
    own, password = _own(config), config.get(KEY_PASSWORD, "")
    if own:
        with _private_file(own) as path:
            name, hint = _named(config, CHAIN, KEYSTORE), f"; is {KEY_PASSWORD} right?"
            _load(name, hint, lambda: context.load_cert_chain(path, password=password))


def versions_of(config: Mapping[str, str]) -> list[ssl.TLSVersion]:
    """Those that may be spoken. Failed."""
    text = config.get(PROTOCOLS, "")
    names = [name.strip() for name in text.split(",") if name.strip()] or list(VERSIONS)
    if any(name not in VERSIONS for name in names):
        raise Failed(f"{PROTOCOLS}={text}: each is one of {', '.join(VERSIONS)}")
    return [VERSIONS[name] for name in dict.fromkeys(names)]


def _trusted(config: Mapping[str, str]) -> str | None:
    text, path = config.get(TRUSTED), config.get(TRUSTSTORE)
    if text or not path:
        return _blocks(TRUSTED, text) if text else None
    name = f"{TRUSTSTORE}={path}"
    found = read_store(name, _read(name, path), config.get(TRUSTSTORE_PASSWORD), None).trusted
    if not found:
        raise Failed(f"{name} has no certificates")
    return found


def _own(config: Mapping[str, str]) -> str:
    path, chain, key = config.get(KEYSTORE), config.get(CHAIN), config.get(KEY)
    if not path:
        if bool(chain) != bool(key):
            missing = KEY if chain else CHAIN
            raise Failed(f"{CHAIN} and {KEY} belong together: {missing} is missing")
        return _blocks(KEY, key) + _blocks(CHAIN, chain) if key and chain else ""
    name, password = f"{KEYSTORE}={path}", config.get(KEYSTORE_PASSWORD)
    found = read_store(name, _read(name, path), password, config.get(KEY_PASSWORD)).own
    if not found:
        needed = "has no private key" if password else f"needs {KEYSTORE_PASSWORD}"
        raise Failed(f"{name} {needed}")
    return found


def _blocks(setting: str, text: str) -> str:
    found = pem_blocks(text)
    if not found:
        raise Failed(f"{setting} is not PEM")
    return found


def _named(config: Mapping[str, str], text: str, location: str) -> str:
    """What is used, as it is written in the properties."""
    is_path = config.get(location) and not (text == TRUSTED and config.get(text))
    return f"{location}={config[location]}" if is_path else text


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
