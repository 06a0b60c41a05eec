"""TLS with ZooKeeper: what the settings say, for Python's `ssl`."""

from __future__ import annotations

import ssl
from typing import Final

from kavka.server.config.zookeeper_security import ZooKeeperTls
from kavka.server.config.zookeeper_security_rows import CIPHER_SUITES, KEYSTORE, TRUSTSTORE

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


class TlsError(Exception):
    """A file with keys or certificates can't be used; the message names its setting."""


def tls_context(tls: ZooKeeperTls) -> ssl.SSLContext:
    """Reads the files. TlsError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = tls.checks_host
    versions = [_VERSIONS[version] for version in tls.versions]
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    if tls.ciphers is not None:
        try:
            context.set_ciphers(tls.ciphers)
        except ssl.SSLError as failure:
            raise TlsError(f"{CIPHER_SUITES}: OpenSSL has none of them: {failure}") from failure
    try:
        if tls.truststore is None:
            context.load_default_certs()
        else:
            context.load_verify_locations(tls.truststore)
    except OSError as failure:
        raise _unusable(TRUSTSTORE, tls.truststore, "certificates", failure) from failure
    if tls.keystore is not None:
        try:  # without a password OpenSSL would ask for one on the terminal
            context.load_cert_chain(tls.keystore, password=tls.keystore_password or "")
        except OSError as failure:
            content = "a private key and its certificate"
            raise _unusable(KEYSTORE, tls.keystore, content, failure) from failure
    return context


def _unusable(store: str, path: str | None, content: str, failure: OSError) -> TlsError:
    reason = failure.strerror or str(failure)
    if isinstance(failure, ssl.SSLError):
        reason = f"it must have {content} in PEM, and {store}.password must be right ({failure})"
    return TlsError(f"{store}.location={path}: {reason}")
