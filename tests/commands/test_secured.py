"""Tools reach brokers with SASL and TLS, by the settings of a Java client."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from commands.examining import examined
from commands.sessions import Said, differences, kavka
from kavka.tools.admin import configs, topics
from kavka.tools.console import console_consumer, console_producer
from kavka.tools.perf import consumer_perf_test, e2e_latency, producer_perf_test
from support import java
from support.clients.kafka_python import create_topic
from support.java_tools import Tools
from support.ports import HOST
from support.process import running
from support.secure_kafka import PASSWORD, SecureKafka, login
from support.secure_zookeeper import Certificates
from support.token_endpoint import TokenEndpoint, unsigned_token

LOGINS = (
    ("SASL", "PLAIN"),
    ("SASL", "SCRAM-SHA-256"),
    ("SASL", "SCRAM-SHA-512"),
    ("SASL", "OAUTHBEARER"),
    ("BOTH", "PLAIN"),
    ("BOTH", "SCRAM-SHA-512"),
)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureKafka]:
    java.program("java")
    broker = SecureKafka(tmp_path_factory.mktemp("secured"), {})
    with running([broker]):
        create_topic(broker.bootstrap, "orders", 1)
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            line = f"--alter --user alice --add-config '{mechanism}=[password={PASSWORD}]'"
            assert kavka(configs.TOOL, broker, line).exit_code == 0
        yield broker


def test_tools_are_let_in_as_apache_kafka_s(broker: SecureKafka, tmp_path: Path) -> None:
    ways = [(listener, broker.user(listener, "alice", mechanism)) for listener, mechanism in LOGINS]
    root = broker.certificates.root.read_text()
    own = broker.certificates.issue("inline", f"IP:{HOST}").read_text()
    key, _ = own.split("-----BEGIN CERTIFICATE-----")
    ways += [
        ("TLS", broker.client("TLS", "tls")),
        ("TLS", broker.client("TLS", "tls-1.2", ssl_enabled_protocols="TLSv1.2")),
        ("MUTUAL", broker.client("MUTUAL", "mutual")),
        (
            "MUTUAL",
            broker.client(
                "TLS",
                "inline",
                ssl_truststore_location="",
                ssl_truststore_certificates=root,
                ssl_keystore_type="PEM",
                ssl_keystore_key=key,
                ssl_keystore_certificate_chain=own.removeprefix(key),
            ),
        ),
    ]
    lines = "\n".join(
        f"!--bootstrap-server {broker.at(listener)} --command-config {file} --list"
        for listener, file in ways
    )
    with Tools(tmp_path / "tools.log") as tools:
        found = [*differences(topics.TOOL, java.TOPICS, tools, [broker, broker], lines)]
        assert not found, "\n".join(found)
    for listener, file in ways:
        assert _sees_topics(_listed(broker, broker.at(listener), file)), file


def test_tokens_come_from_a_file_or_from_an_endpoint(broker: SecureKafka, tmp_path: Path) -> None:
    module = "org.apache.kafka.common.security.oauthbearer"
    file = tmp_path / "token"
    file.write_text(unsigned_token("alice", time.time() + 600))
    with TokenEndpoint() as endpoint:
        for name, url in (("token-file", file.as_uri()), ("token-endpoint", endpoint.url)):
            client = broker.client(
                "SASL",
                name,
                sasl_mechanism="OAUTHBEARER",
                sasl_login_callback_handler_class=f"{module}.OAuthBearerLoginCallbackHandler",
                sasl_oauthbearer_token_endpoint_url=url,
                sasl_jaas_config=f"{module}.OAuthBearerLoginModule required clientId=me "
                "clientSecret=secret;",
            )
            assert _sees_topics(_listed(broker, broker.at("SASL"), client)), name
        assert {request.credentials for request in endpoint.asked} == {"me:secret"}


def test_a_certificate_for_another_host_is_refused(broker: SecureKafka) -> None:
    address = broker.at("TLS").replace(HOST, "localhost")
    careless = broker.client("TLS", "careless", ssl_endpoint_identification_algorithm=" ")
    said = _listed(broker, address, broker.client("TLS", "careful"))
    assert f"the certificate of {address} is for another host" in said.stderr
    assert _is_one_sentence(said)
    assert _sees_topics(_listed(broker, address, careless))


Case = tuple[str, Mapping[str, str], str]
"""A listener, settings of a client, and what is wrong with them there."""


def test_what_is_wrong_with_a_login_is_said_in_one_sentence(broker: SecureKafka) -> None:
    alice = {"sasl_jaas_config": login("PLAIN", "alice", PASSWORD)}
    wrong = {"sasl_jaas_config": login("PLAIN", "alice", "wrong")}
    token = {"sasl_jaas_config": login("PLAIN", "a", "b", " tokenauth=true")}
    plain = {"sasl_mechanism": "PLAIN"}
    bearer = {"sasl_mechanism": "OAUTHBEARER"}
    expired = {
        "sasl_jaas_config": login("OAUTHBEARER", "alice", "", ' unsecuredLoginLifetimeSeconds="-1"')
    }
    cases: list[Case] = [
        ("SASL", {**bearer, **alice}, "has no unsecuredLoginStringClaim_sub"),
        ("SASL", {**bearer, **expired}, "does not let the client in: "),
        ("BOTH", {**bearer, **expired}, "does not know sasl.mechanism=OAUTHBEARER; it knows "),
        ("SASL", {**alice, "sasl_mechanism": "NTLM"}, "tools know PLAIN, SCRAM-SHA-256"),
        ("SASL", alice, "sasl.kerberos.service.name is needed"),
        ("SASL", {}, "needed for a login by GSSAPI, as sasl.mechanism is not set"),
        ("SASL", plain, "sasl.jaas.config is needed"),
        ("SASL", {**plain, "sasl_jaas_config": "me"}, "sasl.jaas.config is not of the form"),
        (
            "SASL",
            {**plain, "sasl_jaas_config": 'Module required username="a";'},
            "sasl.jaas.config has no password",
        ),
        (
            "SASL",
            {**plain, **wrong},
            "does not let the client in: Authentication failed: Invalid username or password",
        ),
        (
            "SASL",
            {**wrong, "sasl_mechanism": "SCRAM-SHA-512"},
            "does not let the client in: Authentication failed during authentication due to "
            "invalid credentials with SASL mechanism SCRAM-SHA-512",
        ),
        ("SASL", {**plain, **token}, "tokenauth goes with SCRAM only"),
        (
            "BOTH",
            {**alice, "sasl_mechanism": "SCRAM-SHA-256"},
            "does not know sasl.mechanism=SCRAM-SHA-256; it knows ",
        ),
        ("SASL", {"security_protocol": "PLAINTEXT"}, "closed the connection"),
        ("SASL", {"security_protocol": "SSL"}, "does not speak TLS"),
        ("TLS", {**alice, **plain, "security_protocol": "SASL_SSL"}, "takes no login"),
    ]
    _check_cases(broker, "login", cases)


def test_what_is_wrong_with_tls_is_said_in_one_sentence(
    broker: SecureKafka, tmp_path: Path
) -> None:
    other = Certificates(tmp_path / "others")
    store = tmp_path / "store.jks"
    store.write_bytes(bytes.fromhex("feedfeed0000000200000000"))
    locked = broker.certificates.issue("locked", password="secret")
    cases: list[Case] = [
        ("TLS", {"ssl_truststore_location": str(other.root)}, "is not trusted (unable to get"),
        ("TLS", {"ssl_truststore_location": ""}, "is not trusted (unable to get local issuer"),
        (
            "TLS",
            {"ssl_truststore_type": "JKS", "ssl_truststore_location": str(store)},
            "can't be read: it is cut off",
        ),
        (
            "MUTUAL",
            {
                "ssl_keystore_type": "PKCS12",
                "ssl_keystore_location": str(store),
                "ssl_keystore_password": "secret",
            },
            "is damaged, or ssl.keystore.password is not its password",
        ),
        ("MUTUAL", {"ssl_keystore_location": str(locked)}, "is ssl.key.password right?"),
        ("MUTUAL", {"ssl_keystore_location": ""}, "needs a certificate that it trusts"),
        ("TLS", {"ssl_truststore_location": str(tmp_path / "none")}, "can't be read: [Errno 2]"),
        ("TLS", {"ssl_cipher_suites": "TLS_AES_128_GCM_SHA256"}, "OpenSSL is given all suites"),
        ("TLS", {"ssl_enabled_protocols": "TLSv1"}, "each is one of TLSv1.2, TLSv1.3"),
        ("TLS", {"security_protocol": "TLS"}, "it is one of PLAINTEXT, SSL, SASL_PLAINTEXT"),
        ("TLS", {"security_protocol": "PLAINTEXT"}, "`kavka doctor` tells"),
    ]
    _check_cases(broker, "tls", cases)


def _check_cases(broker: SecureKafka, name: str, cases: Sequence[Case]) -> None:
    for number, (listener, settings, words) in enumerate(cases):
        file = broker.client(listener, f"wrong-{name}-{number}", **settings)
        said = _listed(broker, broker.at(listener), file)
        assert words in said.stderr, (listener, settings, said)
        assert _is_one_sentence(said), said
        assert PASSWORD not in said.stderr and 'wrong"' not in said.stderr


@pytest.mark.parametrize(("listener", "mechanism"), [*LOGINS, ("TLS", ""), ("MUTUAL", "")])
def test_clients_are_let_in(broker: SecureKafka, listener: str, mechanism: str) -> None:
    """Those that bring a client of their own."""
    name = f"clients-{listener}-{mechanism}"
    file = broker.client(listener, name)
    if mechanism:
        file = broker.user(listener, "alice", mechanism)
    create_topic(broker.bootstrap, name, 1)
    way = f"!--bootstrap-server {broker.at(listener)} --topic {name} --command-config {file}"
    assert kavka(console_producer.TOOL, broker, f"{way} <<< one\\ntwo\\n") == Said(0, "", "")
    found = kavka(console_consumer.TOOL, broker, f"{way} --from-beginning --max-messages 2")
    assert (found.exit_code, found.stdout) == (0, "one\ntwo\n"), found
    line = f"{way} --num-records 10 --record-size 10 --throughput -1"
    said = kavka(producer_perf_test.TOOL, broker, line)
    assert (said.exit_code, said.stdout[:16]) == (0, "10 records sent,"), said
    said = kavka(consumer_perf_test.TOOL, broker, f"{way} --num-records 12 --hide-header")
    assert (said.exit_code, said.stdout.split(", ")[4]) == (0, "12"), said
    line = f"!--bootstrap-server {broker.at(listener)} --topic new-{name} --num-records 2"
    line = f"{line} --producer-acks all --record-size 10 --command-config {file}"
    said = kavka(e2e_latency.TOOL, broker, line)
    assert said.exit_code == 0, said


def test_clients_that_are_not_let_in_say_so_at_once(broker: SecureKafka) -> None:
    file = broker.user("SASL", "alice", "PLAIN", "wrong")
    tokens = broker.client(
        "SASL",
        "tokens",
        sasl_mechanism="SCRAM-SHA-256",
        sasl_jaas_config=login("SCRAM-SHA-256", "id", "hmac", " tokenauth=true"),
    )
    for tool, more in (
        (console_producer.TOOL, ""),
        (console_consumer.TOOL, "--timeout-ms 100"),
        (producer_perf_test.TOOL, "--num-records 1 --record-size 1 --throughput -1"),
        (consumer_perf_test.TOOL, "--num-records 1 --hide-header"),
    ):
        line = f"!--bootstrap-server {broker.at('SASL')} --topic orders {more} --command-config"
        said = kavka(tool, broker, f"{line} {file}")
        assert _is_one_sentence(said) and "Invalid username or password" in said.stderr, said
        said = kavka(tool, broker, f"{line} {tokens}")
        assert said.exit_code == 1 and not said.stdout, said


@pytest.mark.parametrize(("listener", "mechanism"), LOGINS)
def test_the_doctor_looks_behind_a_login(
    broker: SecureKafka, listener: str, mechanism: str
) -> None:
    file = broker.user(listener, "alice", mechanism)
    found = examined(broker.at(listener), "--command-config", str(file))
    assert not found.problems
    assert {"sasl", "advertised", "partitions"} <= {finding["step"] for finding in found.findings}


def test_the_doctor_says_why_a_login_fails(broker: SecureKafka, tmp_path: Path) -> None:
    def seen(name: str, listener: str, **settings: str) -> tuple[set[str], set[str]]:
        file = broker.client(listener, name, **settings)
        found = examined(broker.at(listener), "--command-config", str(file))
        return found.problems, found.notes

    plain = {"sasl_mechanism": "PLAIN"}
    right = {**plain, "sasl_jaas_config": login("PLAIN", "alice", PASSWORD)}
    wrong = {**plain, "sasl_jaas_config": login("PLAIN", "alice", "wrong")}
    other = str(Certificates(tmp_path / "others").root)
    assert examined(broker.at("SASL")).problems == {"sasl/login-asked"}
    assert seen("doctor-1", "SASL", **wrong)[0] == {"sasl/login-refused"}
    assert seen("doctor-2", "SASL", **plain)[0] == {"sasl/login-settings"}
    found = seen("doctor-3", "BOTH", **right, ssl_truststore_location=other)
    assert found == ({"tls/not-trusted"}, {"sasl/not-logged-in"})
    absent = {
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_login_callback_handler_class": "OAuthBearerLoginCallbackHandler",
        "sasl_oauthbearer_token_endpoint_url": (tmp_path / "none").as_uri(),
        "sasl_jaas_config": login("OAUTHBEARER", "alice", ""),
    }
    assert seen("doctor-5", "SASL", **absent)[0] == {"sasl/login-settings"}
    problems, _ = seen("doctor-4", "BOTH", **{**right, "sasl_mechanism": "SCRAM-SHA-256"})
    assert problems == {"sasl/mechanism"}


def _listed(broker: SecureKafka, address: str, file: Path) -> Said:
    line = f"!--bootstrap-server {address} --command-config {file} --list"
    return kavka(topics.TOOL, broker, line)


def _sees_topics(said: Said) -> bool:
    return said.exit_code == 0 and "orders" in said.stdout.split()


def _is_one_sentence(said: Said) -> bool:
    return said.exit_code == 1 and not said.stdout and said.stderr.count("\n") == 1
