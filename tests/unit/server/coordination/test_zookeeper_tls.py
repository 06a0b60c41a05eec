"""Files with keys and certificates: what is read, and what the errors say."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from kavka.server.config.zookeeper_security import ZooKeeperTls
from kavka.server.coordination.zookeeper_tls import TlsError, tls_context
from support.secure_zookeeper import Certificates


def tls(
    keystore: Path | None, truststore: Path | None, password: str | None = None
) -> ZooKeeperTls:
    return ZooKeeperTls(
        None if keystore is None else str(keystore),
        password,
        None if truststore is None else str(truststore),
        ("TLSv1.2",),
        "ECDHE-RSA-AES256-GCM-SHA384",
        True,
    )


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


def test_a_key_and_an_authority(certificates: Certificates) -> None:
    locked = certificates.issue("locked", password="open")
    context = tls_context(tls(locked, certificates.root, "open"))
    assert context.verify_mode is ssl.CERT_REQUIRED and context.check_hostname
    assert context.maximum_version is ssl.TLSVersion.TLSv1_2
    (authority,) = context.get_ca_certs()
    assert authority["subject"] == ((("commonName", "authority"),),)


def test_what_is_wrong_with_a_file_is_said(certificates: Certificates, tmp_path: Path) -> None:
    locked = certificates.issue("other", password="open")
    nonsense, missing = tmp_path / "nonsense.pem", tmp_path / "missing.pem"
    nonsense.write_text("nonsense")
    for keystore, truststore, reason in (
        (locked, certificates.root, "keystore.location=.*password must be right"),
        (nonsense, certificates.root, "keystore.location=.*a private key and its certificate"),
        (missing, certificates.root, "keystore.location=.*No such file"),
        (None, nonsense, "truststore.location=.*certificates in PEM"),
        (None, missing, "truststore.location=.*No such file"),
    ):
        with pytest.raises(TlsError, match=reason):
            tls_context(tls(keystore, truststore))
