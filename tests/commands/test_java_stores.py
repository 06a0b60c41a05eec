"""Tools read the key stores and trust stores of Java clients, as keytool makes them."""

from __future__ import annotations

import re
import socket
import ssl
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from commands.examining import examined
from commands.sessions import Said, differences, kavka
from kavka.tools.admin import topics
from kavka.tools.admin.cipher_suites import suites_of
from kavka.tools.admin.errors import Failed
from kavka.tools.admin.tls import material_of, tls_context
from kavka.tools.console import console_consumer, console_producer
from kavka.tools.perf import producer_perf_test
from support import java
from support.clients.kafka_python import create_topic
from support.java_stores import PASSWORD, key_store, trust_store
from support.java_tools import Tools
from support.ports import HOST
from support.process import running
from support.secure_kafka import SecureKafka
from support.secure_zookeeper import Certificates

LEGACY: Final = "-J-Dkeystore.pkcs12.legacy"
"""keytool writes RC2 and SHA-1 then, as before Java 16."""

CERTIFICATE: Final = re.compile(
    "-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----\n", re.DOTALL
)

WAYS: Final = [
    pytest.param("JKS", (), id="JKS"),
    pytest.param("PKCS12", (), id="PKCS12"),
    pytest.param("PKCS12", (LEGACY,), id="old PKCS12"),
]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureKafka]:
    java.program("java")
    broker = SecureKafka(tmp_path_factory.mktemp("stores"), {})
    with running([broker]):
        create_topic(broker.bootstrap, "orders", 1)
        yield broker


@pytest.fixture(scope="module")
def own(broker: SecureKafka) -> Path:
    """Its certificate comes from an authority that the broker knows only by the one above it."""
    between = Certificates(broker.home / "between", broker.certificates)
    own = between.issue("client", f"IP:{HOST}")
    own.write_text(own.read_text() + between.root.read_text())
    return own


def context_of(config: Mapping[str, str]) -> ssl.SSLContext:
    return tls_context(config, material_of(config))


@pytest.mark.parametrize(("kind", "options"), WAYS)
def test_a_client_with_java_s_stores_is_let_in(
    broker: SecureKafka, own: Path, tmp_path: Path, kind: str, options: tuple[str, ...]
) -> None:
    create_topic(broker.bootstrap, tmp_path.name, 1)
    file = broker.client("MUTUAL", tmp_path.name, **_stores(broker, own, tmp_path, kind, options))
    with Tools(tmp_path / "tools.log") as tools:
        line = f"!--bootstrap-server {broker.at('MUTUAL')} --command-config {file} --list"
        found = [*differences(topics.TOOL, java.TOPICS, tools, [broker, broker], line)]
        assert not found, "\n".join(found)
    said = kavka(topics.TOOL, broker, line)
    assert said.exit_code == 0 and "orders" in said.stdout.split(), said
    way = f"!--bootstrap-server {broker.at('MUTUAL')} --command-config {file}"
    way = f"{way} --topic {tmp_path.name}"
    said = kavka(console_producer.TOOL, broker, f"{way} <<< one\\n")
    assert said.exit_code == 0, said
    line = f"{way} --num-records 1 --record-size 10 --throughput -1"
    said = kavka(producer_perf_test.TOOL, broker, line)
    assert (said.exit_code, said.stdout[:15]) == (0, "1 records sent,"), said
    said = kavka(console_consumer.TOOL, broker, f"{way} --from-beginning --max-messages 2")
    assert said.exit_code == 0 and said.stdout.startswith("one\n"), said
    seen = examined(broker.at("MUTUAL"), "--command-config", str(file))
    assert not seen.problems and not seen.notes & {"tls/truststore-unread"}


def _stores(
    broker: SecureKafka, own: Path, directory: Path, kind: str, options: tuple[str, ...]
) -> dict[str, str]:
    """Of either kind Java reads also the other, whatever its type is said to be."""
    keys = key_store(directory, own, kind, *options)
    trust = trust_store(directory, broker.certificates.root, kind, *options)
    return {
        "ssl_truststore_type": "JKS",
        "ssl_truststore_location": str(trust),
        "ssl_truststore_password": PASSWORD,
        "ssl_keystore_type": kind,
        "ssl_keystore_location": str(keys),
        "ssl_keystore_password": PASSWORD,
    }


@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
def test_the_certificates_are_those_that_went_in(
    broker: SecureKafka, own: Path, tmp_path: Path, kind: str
) -> None:
    trust_store(tmp_path, broker.certificates.root, kind)
    other = Certificates(tmp_path / "other").root
    other = other.rename(tmp_path / "other.pem")
    store = trust_store(tmp_path, other, kind)
    context = context_of(
        {"ssl.truststore.location": str(store), "ssl.truststore.password": PASSWORD}
    )
    given = [
        ssl.PEM_cert_to_DER_cert(certificate.read_text())
        for certificate in (broker.certificates.root, other)
    ]
    assert sorted(context.get_ca_certs(binary_form=True)) == sorted(given)


def test_java_trusts_the_certificate_of_a_key_but_not_those_above(
    broker: SecureKafka, own: Path, tmp_path: Path
) -> None:
    for kind in ("JKS", "PKCS12"):
        store = key_store(tmp_path, own, kind)
        context = context_of(
            {"ssl.truststore.location": str(store), "ssl.truststore.password": PASSWORD}
        )
        assert context.cert_store_stats()["x509"] == 1
        assert context.cert_store_stats()["x509_ca"] == 0


def test_a_key_in_a_jks_store_may_have_another_password(own: Path, tmp_path: Path) -> None:
    store = key_store(tmp_path, own, "JKS", key_password="of the key")
    config = {"ssl.keystore.location": str(store), "ssl.keystore.password": PASSWORD}
    with pytest.raises(Failed, match=r"the key in .* can't be read: is ssl.key.password right\?"):
        context_of(config)
    context_of({**config, "ssl.key.password": "of the key"})


def test_what_is_wrong_with_a_store_is_said(broker: SecureKafka, own: Path, tmp_path: Path) -> None:
    def failure(settings: Mapping[str, str]) -> str:
        with pytest.raises(Failed) as raised:
            context_of(settings)
        return str(raised.value)

    for kind in ("JKS", "PKCS12"):
        for name in ("keystore", "truststore"):
            store = key_store(tmp_path, own, kind)
            config = {f"ssl.{name}.location": str(store), f"ssl.{name}.password": "wrong"}
            words = f"ssl.{name}.location={store} is damaged, or ssl.{name}.password is not its"
            assert words in failure(config)
            config[f"ssl.{name}.password"] = PASSWORD
            store.write_bytes(store.read_bytes()[:-30])
            assert words in failure(config)
        store = key_store(tmp_path, own, kind)
        config = {"ssl.keystore.location": str(store)}
        assert failure(config).endswith("needs ssl.keystore.password")
        trust = trust_store(tmp_path, broker.certificates.root, kind)
        config = {"ssl.keystore.location": str(trust), "ssl.keystore.password": PASSWORD}
        assert "has no private key" in failure(config)
    only = "".join(CERTIFICATE.findall(own.read_text()))
    store = tmp_path / "without-key.pem"
    store.write_text(only)
    assert failure({"ssl.keystore.location": str(store)}).endswith("has no private key")
    key = {"ssl.keystore.certificate.chain": only, "ssl.keystore.key": only}
    assert failure(key) == "ssl.keystore.key has no private key"
    store = tmp_path / "zeros"
    store.write_bytes(bytes(1000))
    config = {"ssl.keystore.location": str(store), "ssl.keystore.password": PASSWORD}
    assert "is neither PEM nor PKCS12 nor JKS" in failure(config)


def test_suites_have_openssl_s_names() -> None:
    listed = subprocess.run(
        ["openssl", "ciphers", "-stdname", "ALL:COMPLEMENTOFALL"],
        capture_output=True,
        text=True,
        check=True,
    )
    names = dict(re.findall(r"^(\S+) +- (\S+)", listed.stdout, re.MULTILINE))
    kinds = "ECDHE_RSA|ECDHE_ECDSA|DHE_RSA|RSA"
    known = re.compile(rf"TLS_({kinds})_WITH_(AES_|CHACHA20).*(?<!CAMELLIA)")
    ours = [name for name in names if known.fullmatch(name)]
    assert len(ours) > 30
    for name in ours:
        assert suites_of(f"{name},TLS_ECDH_RSA_WITH_RC4_128_SHA").older == [names[name]]


def test_the_suite_that_is_chosen_is_used(broker: SecureKafka) -> None:
    def used(suites: str, versions: str = "") -> tuple[str, str]:
        context = context_of(
            {
                "ssl.truststore.location": str(broker.certificates.root),
                "ssl.cipher.suites": suites,
                "ssl.enabled.protocols": versions,
            }
        )
        host, port = broker.at("TLS").split(":")
        with (
            socket.create_connection((host, int(port)), timeout=60) as plain,
            context.wrap_socket(plain, server_hostname=host) as secured,
        ):
            cipher = secured.cipher()
            assert cipher is not None
            return cipher[0], cipher[1]

    newer = "TLS_AES_128_GCM_SHA256, TLS_AES_256_GCM_SHA384,TLS_CHACHA20_POLY1305_SHA256"
    older = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"
    assert used(older) == ("ECDHE-RSA-AES128-GCM-SHA256", "TLSv1.2")
    assert used("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256")[0] == "ECDHE-RSA-CHACHA20-POLY1305"
    assert used(f"{newer},{older}")[1] == used(newer)[1] == "TLSv1.3"
    assert used(f"{newer},{older}", "TLSv1.2")[0] == "ECDHE-RSA-AES128-GCM-SHA256"
    for suites, versions, words in (
        ("TLS_AES_128_GCM_SHA256", "", "OpenSSL is given all suites of TLS 1.3, or none"),
        (newer, "TLSv1.2", "none is of the versions in ssl.enabled.protocols"),
        (older, "TLSv1.3", "none is of the versions in ssl.enabled.protocols"),
        (f"{older},TLS_SOME_WITH_ANY", "", "there is no suite TLS_SOME_WITH_ANY here"),
        ("TLS_RSA_WITH_NULL_SHA", "", "OpenSSL has none of them any more"),
    ):
        with pytest.raises(Failed, match=words):
            used(suites, versions)


def test_what_librdkafka_can_not_keep_to_is_refused(broker: SecureKafka) -> None:
    """It offers TLS 1.3 with all its suites, whatever it is told of older ones."""
    create_topic(broker.bootstrap, "suites", 1)
    older = "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"
    newer = "TLS_AES_128_GCM_SHA256,TLS_AES_256_GCM_SHA384,TLS_CHACHA20_POLY1305_SHA256"

    def said(**settings: str) -> Said:
        file = broker.client("TLS", "suites", **settings)
        line = f"!--bootstrap-server {broker.at('TLS')} --command-config {file} --topic suites"
        line = f"{line} --num-records 1 --record-size 10 --throughput -1"
        return kavka(producer_perf_test.TOOL, broker, line)

    for settings in (
        {"ssl_cipher_suites": older},
        {"ssl_cipher_suites": newer},
        {"ssl_enabled_protocols": "TLSv1.2"},
    ):
        found = said(**settings)
        assert found.exit_code == 1, (settings, found)
        assert "offers TLSv1.2 and TLSv1.3 always" in found.stderr
    assert said(ssl_cipher_suites=f"{older},{newer}").exit_code == 0
    assert said(ssl_enabled_protocols="TLSv1.3,TLSv1.2").exit_code == 0


@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
def test_one_store_may_have_the_key_and_the_authority(
    broker: SecureKafka, own: Path, tmp_path: Path, kind: str
) -> None:
    """With an entry of its own, an authority is trusted, also if it is above the key."""
    between = own.read_text().rpartition("-----BEGIN")
    authority = tmp_path / "above.pem"
    authority.write_text("".join(between[1:]))
    store = key_store(tmp_path, own, kind)
    store = store.rename(tmp_path / f"trust.{kind.lower()}")
    settings = {"ssl.truststore.location": str(store), "ssl.truststore.password": PASSWORD}
    assert context_of(settings).cert_store_stats()["x509_ca"] == 0
    trust_store(tmp_path, authority, kind)
    assert context_of(settings).cert_store_stats() == {"x509": 2, "x509_ca": 1, "crl": 0}
    trust_store(tmp_path, broker.certificates.root, kind)
    assert context_of(settings).cert_store_stats()["x509_ca"] == 2


def test_pem_may_stand_as_java_takes_it(broker: SecureKafka, own: Path, tmp_path: Path) -> None:
    """Each block in a line, indented, with other text around, with half a block behind."""

    def in_lines(text: str) -> str:
        return text.replace("\n", " \t").replace("----- \t-----BEGIN", "-----\n-----BEGIN")

    root, text = broker.certificates.root.read_text(), own.read_text()
    key, chain = text[: text.index("-----BEGIN CERT")], text[text.index("-----BEGIN CERT") :]
    indented = tmp_path / "indented.pem"
    indented.write_text("of us:\n" + root.replace("\n", "\n   ") + "\n" + root[: len(root) // 2])
    inline = {
        "ssl_truststore_location": "",
        "ssl_truststore_certificates": in_lines(root),
        "ssl_keystore_type": "PEM",
        "ssl_keystore_key": in_lines(key),
        "ssl_keystore_certificate_chain": in_lines(chain),
    }
    by_file = {
        **inline,
        "ssl_truststore_certificates": "",
        "ssl_truststore_location": str(indented),
    }
    lines = [
        f"!--bootstrap-server {broker.at('MUTUAL')} --list --command-config "
        f"{broker.client('TLS', f'pem-{number}', **settings)}"
        for number, settings in enumerate((inline, by_file))
    ]
    with Tools(tmp_path / "tools.log") as tools:
        brokers = [broker, broker]
        found = [*differences(topics.TOOL, java.TOPICS, tools, brokers, "\n".join(lines))]
        assert not found, "\n".join(found)
    for line in lines:
        said = kavka(topics.TOOL, broker, line)
        assert said.exit_code == 0 and "orders" in said.stdout.split(), said


def test_a_file_of_properties_is_read_as_java_reads_it(
    broker: SecureKafka, own: Path, tmp_path: Path
) -> None:
    """Blanks behind a value do not count; a comment may be in Latin-1."""
    stores = _stores(broker, own, tmp_path, "PKCS12", ())
    file = broker.client("MUTUAL", "blanks", **stores, request_timeout_ms="+5000")
    lines = file.read_text().replace("\n", " \t\n")
    file.write_bytes("# für uns\n".encode("latin-1") + lines.encode())
    line = f"!--bootstrap-server {broker.at('MUTUAL')} --command-config {file} --list"
    with Tools(tmp_path / "tools.log") as tools:
        found = [*differences(topics.TOOL, java.TOPICS, tools, [broker, broker], line)]
        assert not found, "\n".join(found)
    said = kavka(topics.TOOL, broker, line)
    assert said.exit_code == 0 and "orders" in said.stdout.split(), said


def test_the_doctor_tells_a_refused_certificate_from_none(
    broker: SecureKafka, tmp_path: Path
) -> None:
    other = Certificates(tmp_path / "other").issue("stranger", f"IP:{HOST}")
    settings = {"ssl_keystore_type": "PEM", "ssl_keystore_location": str(other)}
    for name, given, problem in (
        ("stranger", settings, "tls/client-certificate-refused"),
        ("nobody", {}, "tls/client-certificate"),
    ):
        file = broker.client("TLS", name, **given)
        assert examined(broker.at("MUTUAL"), "--command-config", str(file)).problems == {problem}
