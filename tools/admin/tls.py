"""TLS by a Java client's settings, with PEM files; and what goes wrong with it, in words."""

from __future__ import annotations

import ssl
import tempfile
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from kavka.client.errors import NotLetIn
from kavka.tools.admin.errors import Failed

if TYPE_CHECKING:
    import asyncio

    from kavka.seams import Listening, Network

TRUSTSTORE: Final = "ssl.truststore.location"
TRUSTED: Final = "ssl.truststore.certificates"
KEYSTORE: Final = "ssl.keystore.location"
CHAIN: Final = "ssl.keystore.certificate.chain"
KEY: Final = "ssl.keystore.key"
KEY_PASSWORD: Final = "ssl.key.password"
IDENTIFICATION: Final = "ssl.endpoint.identification.algorithm"
PROTOCOLS: Final = "ssl.enabled.protocols"
CIPHERS: Final = "ssl.cipher.suites"
HTTPS: Final = "https"

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_TO_PEM: Final = {
    TRUSTSTORE: "`keytool -list -rfc -keystore STORE > FILE.pem` makes one of JKS and PKCS12",
    KEYSTORE: "`openssl pkcs12 -in STORE -out FILE.pem` makes one of PKCS12, and of JKS `keytool "
    "-importkeystore -srckeystore STORE -destkeystore STORE.p12 -deststoretype PKCS12` a PKCS12",
}
_OTHER_NAME: Final = (62, 64)
"""OpenSSL's codes: the certificate is for another host name, or IP address."""


def tls_context(config: Mapping[str, str]) -> ssl.SSLContext:
    """By these settings. Failed."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # Java trusts each certificate of a truststore, whether it is an authority's or not.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    algorithm = config.get(IDENTIFICATION, HTTPS).strip().lower()
    if algorithm not in ("", HTTPS):
        raise Failed(f"{IDENTIFICATION}={algorithm}: it is https, or nothing")
    context.check_hostname = algorithm == HTTPS
    if config.get(CIPHERS):
        raise Failed(f"{CIPHERS} can't be chosen with Kavka's tools yet: leave it out")
    _set_versions(context, config.get(PROTOCOLS, ""))
    _trust(context, config)
    _show_own(context, config)
    return context


def _set_versions(context: ssl.SSLContext, text: str) -> None:
    names = [name.strip() for name in text.split(",") if name.strip()] or list(_VERSIONS)
    if any(name not in _VERSIONS for name in names):
        raise Failed(f"{PROTOCOLS}={text}: each is one of {', '.join(_VERSIONS)}")
    versions = [_VERSIONS[name] for name in names]
    context.minimum_version, context.maximum_version = min(versions), max(versions)


def _trust(context: ssl.SSLContext, config: Mapping[str, str]) -> None:
    text, path = config.get(TRUSTED), config.get(TRUSTSTORE)
    if text:
        _load(TRUSTED, "", lambda: context.load_verify_locations(cadata=text))
    elif path:
        _load(TRUSTSTORE, path, lambda: context.load_verify_locations(path))
    else:
        context.load_default_certs()


def _show_own(context: ssl.SSLContext, config: Mapping[str, str]) -> None:
    password = config.get(KEY_PASSWORD, "")
    path, chain, key = config.get(KEYSTORE), config.get(CHAIN), config.get(KEY)
    if path:
        _load(KEYSTORE, path, lambda: context.load_cert_chain(path, password=password))
    elif chain and key:
        with tempfile.NamedTemporaryFile("w") as file:  # Python's TLS reads files only
            file.write(f"{key}\n{chain}\n")
            file.flush()
            _load(CHAIN, "", lambda: context.load_cert_chain(file.name, password=password))
    elif chain or key:
        raise Failed(f"{CHAIN} and {KEY} belong together: {KEY if chain else CHAIN} is missing")


def _load(setting: str, path: str, load: Callable[[], object]) -> None:
    name = f"{setting}={path}" if path else setting
    try:
        load()
    except ssl.SSLError as failure:
        if path and not _is_pem(path):
            raise Failed(
                f"{name} is not PEM, which is what Kavka's tools read (ssl.truststore.type=PEM, "
                f"ssl.keystore.type=PEM); {_TO_PEM[setting]}"
            ) from failure
        key = "" if setting in (TRUSTSTORE, TRUSTED) else f"; is {KEY_PASSWORD} right?"
        raise Failed(f"{name} can't be used: {failure}{key}") from failure
    except (OSError, ValueError) as failure:
        raise Failed(f"{name} can't be read: {failure}") from failure


def _is_pem(path: str) -> bool:
    with open(path, "rb") as file:
        return b"-----BEGIN " in file.read()


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
        "authority, as PEM; `kavka doctor` tells more"
    )


def _no_handshake(address: str, failure: OSError) -> str:
    reason = getattr(failure, "reason", None) or ""
    if "ALERT" in reason:
        return f"{address} refuses the TLS handshake ({reason}); `kavka doctor` tells more"
    return (
        f"{address} does not speak TLS: use the port of a listener with TLS, or another "
        "security.protocol"
    )
