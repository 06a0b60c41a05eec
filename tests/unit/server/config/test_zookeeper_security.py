"""What settings say about TLS, SASL and ACLs with ZooKeeper, and what they may not say."""

from __future__ import annotations

import pytest

from kavka.server.config import BrokerSettings, ConfigError
from kavka.server.config.zookeeper_security import ZooKeeperSecurity, ZooKeeperTls

TLS = "zookeeper.ssl.client.enable=true"
KEYS = "zookeeper.ssl.keystore.location=/k/broker.pem"
SUITES = "zookeeper.ssl.cipher.suites="
OF_1_3 = "TLS_AES_128_GCM_SHA256,TLS_AES_256_GCM_SHA384,TLS_CHACHA20_POLY1305_SHA256"
OF_1_2 = "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,TLS_RSA_WITH_AES_128_CBC_SHA"
BOTH = "zookeeper.ssl.enabled.protocols=TLSv1.2,TLSv1.3"
USER = ("kavka.zookeeper.sasl.username=kafka", "kavka.zookeeper.sasl.password=secret")


def load(*overrides: str) -> BrokerSettings:
    return BrokerSettings.load(overrides=["zookeeper.connect=z:1", *overrides])


def security(*overrides: str) -> ZooKeeperSecurity:
    found = load(*overrides).zookeeper_security
    assert found is not None
    return found


def tls(*overrides: str) -> ZooKeeperTls:
    found = security(TLS, *overrides).tls
    assert found is not None
    return found


def problem(*overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load(*overrides)
    (only,) = caught.value.problems
    return only


def test_without_settings_there_is_none() -> None:
    assert security() == ZooKeeperSecurity(None, None, None, False)
    assert BrokerSettings.load(overrides=[]).zookeeper_security is None, "alone"


def test_acls_need_a_name() -> None:
    assert "no name in ZooKeeper" in problem("zookeeper.set.acl=true")
    assert "no name in ZooKeeper" in problem("zookeeper.set.acl=true", TLS)
    assert security("zookeeper.set.acl=true", TLS, KEYS).sets_acls
    assert security("zookeeper.set.acl=true", *USER).sets_acls


def test_a_user_has_a_password_which_is_never_shown() -> None:
    for number in (0, 1):
        assert "needs kavka.zookeeper.sasl." in problem(USER[number])
    settings = load(*USER)
    assert settings.zookeeper_security == ZooKeeperSecurity("kafka", "secret", None, False)
    assert "secret" not in repr(settings)
    assert "secret" not in problem(USER[1])


def test_defaults_of_tls_are_those_of_apache_kafka() -> None:
    assert tls() == ZooKeeperTls(None, None, None, ("TLSv1.2",), None, True)


def test_stores() -> None:
    found = tls(
        KEYS, "zookeeper.ssl.keystore.password=x", "zookeeper.ssl.truststore.location=/c.pem"
    )
    assert (found.keystore, found.keystore_password) == ("/k/broker.pem", "x")
    assert found.truststore == "/c.pem"
    other = "zookeeper.ssl.keystore.location=/k/broker"
    assert tls(other, "zookeeper.ssl.keystore.type=pem").keystore == "/k/broker"
    assert "does not say its type; set zookeeper.ssl.keystore.type=PEM" in problem(TLS, other)


def test_other_stores_are_refused_with_what_to_do() -> None:
    text = problem(TLS, "zookeeper.ssl.keystore.location=/k/broker.p12")
    assert "is of type PKCS12, and only PEM is read" in text
    assert text.endswith("convert it: openssl pkcs12 -in broker.p12 -nodes -out broker.pem")
    text = problem(TLS, "zookeeper.ssl.truststore.location=/k/trust.jks")
    assert "keytool -importkeystore -srckeystore trust.jks -destkeystore trust.p12" in text
    assert text.endswith("openssl pkcs12 -in trust.p12 -nokeys -out trust.pem")
    assert "is of type JKS" in problem(TLS, KEYS, "zookeeper.ssl.keystore.type=JKS")


def test_suites_and_versions() -> None:
    older = "ECDHE-RSA-AES256-GCM-SHA384:AES128-SHA"
    for suites, versions, ciphers in (
        (OF_1_2, ("TLSv1.2",), older),
        (OF_1_3, ("TLSv1.3",), None),
        (f"{OF_1_2},{OF_1_3}", ("TLSv1.2", "TLSv1.3"), older),
    ):
        found = tls(BOTH, SUITES + suites)
        assert (found.versions, found.ciphers) == (versions, ciphers)
    assert tls(BOTH).versions == ("TLSv1.2", "TLSv1.3")
    assert tls("zookeeper.ssl.protocol=TLSv1.3").versions == ("TLSv1.3",)
    assert "TLSv1 is none of TLSv1.2, TLSv1.3" in problem(TLS, "zookeeper.ssl.protocol=TLSv1")
    assert "none of them is of TLSv1.2" in problem(TLS, SUITES + OF_1_3)
    assert "must name all or none" in problem(TLS, BOTH, SUITES + OF_1_3.partition(",")[0])
    assert "can be chosen" in problem(TLS, f"{SUITES}{OF_1_2},TLS_RSA_WITH_NULL_SHA")


def test_the_host_is_checked_unless_that_is_switched_off() -> None:
    key = "zookeeper.ssl.endpoint.identification.algorithm"
    assert tls(f"{key}=https").checks_host
    assert not tls(f"{key}=").checks_host
    assert "must be HTTPS or empty" in problem(TLS, f"{key}=none")


def test_the_class_of_the_client_in_java() -> None:
    key, of_java = "zookeeper.clientCnxnSocket", "org.apache.zookeeper.ClientCnxnSocket"
    assert tls(f"{key}={of_java}Netty") == tls()
    assert security(f"{key}={of_java}NIO").tls is None
    assert "has no TLS" in problem(TLS, f"{key}={of_java}NIO")
    assert "my.Socket is a class of Java" in problem(f"{key}=my.Socket")


def test_settings_without_effect_are_named() -> None:
    assert load(KEYS, BOTH).warnings == (
        "no effect: zookeeper.ssl.keystore.location, zookeeper.ssl.enabled.protocols "
        "(zookeeper.ssl.client.enable is not true)",
    )
    assert load(TLS, KEYS, BOTH).warnings == ()
