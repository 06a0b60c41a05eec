"""Settings of how a broker and ZooKeeper trust each other: TLS, SASL and ACLs."""

from __future__ import annotations

from typing import Final

from kavka.server.config.rows import Importance, broker_setting
from kavka.server.config.value_types import Type

SET_ACL: Final = "zookeeper.set.acl"
USERNAME: Final = "kavka.zookeeper.sasl.username"
PASSWORD: Final = "kavka.zookeeper.sasl.password"
TLS_ENABLE: Final = "zookeeper.ssl.client.enable"
CLIENT_SOCKET: Final = "zookeeper.clientCnxnSocket"
PLAIN_SOCKET: Final = "org.apache.zookeeper.ClientCnxnSocketNIO"
TLS_SOCKET: Final = "org.apache.zookeeper.ClientCnxnSocketNetty"
KEYSTORE: Final = "zookeeper.ssl.keystore"
TRUSTSTORE: Final = "zookeeper.ssl.truststore"
CIPHER_SUITES: Final = "zookeeper.ssl.cipher.suites"
PROTOCOL: Final = "zookeeper.ssl.protocol"
ENABLED_PROTOCOLS: Final = "zookeeper.ssl.enabled.protocols"
IDENTIFICATION: Final = "zookeeper.ssl.endpoint.identification.algorithm"
TLS_VERSIONS: Final = ("TLSv1.2", "TLSv1.3")

_MEDIUM, _LOW = Importance.MEDIUM, Importance.LOW

_SASL_ROWS: Final = (
    broker_setting(
        USERNAME,
        Type.STRING,
        None,
        None,
        _MEDIUM,
        "With this name the broker authenticates with ZooKeeper (SASL, DIGEST-MD5). Apache Kafka "
        "takes it from the section Client of a JAAS file.",
        field="",
    ),
    broker_setting(
        PASSWORD,
        Type.PASSWORD,
        None,
        None,
        _MEDIUM,
        "The password of kavka.zookeeper.sasl.username. The environment variable "
        "KAVKA_KAVKA_ZOOKEEPER_SASL_PASSWORD keeps it out of files.",
        field="",
    ),
    broker_setting(
        SET_ACL,
        Type.BOOLEAN,
        False,
        None,
        Importance.HIGH,
        "Whether only this broker's name may change the nodes that it creates, and read those with "
        "secrets; all brokers of a cluster need the same name. It needs SASL, or TLS with a "
        "keystore.",
        field="",
        internal=True,
    ),
)

_TLS_ROWS: Final = (
    broker_setting(
        TLS_ENABLE,
        Type.BOOLEAN,
        False,
        None,
        _MEDIUM,
        "Whether connections to ZooKeeper use TLS.",
        field="",
        internal=True,
    ),
    broker_setting(
        CLIENT_SOCKET,
        Type.STRING,
        None,
        None,
        _MEDIUM,
        "The class of ZooKeeper's client in Java: org.apache.zookeeper.ClientCnxnSocketNetty for "
        "TLS. Kavka needs none: this is checked, and no more.",
        field="",
        internal=True,
    ),
    broker_setting(
        f"{KEYSTORE}.location",
        Type.STRING,
        None,
        None,
        _MEDIUM,
        "A PEM file with the broker's private key and its certificate with those above it: with "
        "it the broker authenticates with ZooKeeper.",
        field="",
        internal=True,
    ),
    broker_setting(
        f"{KEYSTORE}.password",
        Type.PASSWORD,
        None,
        None,
        _MEDIUM,
        "The password of the private key, if that is encrypted.",
        field="",
        internal=True,
    ),
    broker_setting(
        f"{KEYSTORE}.type",
        Type.STRING,
        None,
        None,
        _MEDIUM,
        "PEM, which is the only type that is read. Unless set, the end of the file's name tells: "
        ".pem.",
        field="",
        internal=True,
    ),
    broker_setting(
        f"{TRUSTSTORE}.location",
        Type.STRING,
        None,
        None,
        _MEDIUM,
        "A PEM file with the certificates that ZooKeeper's certificate must come from; those of "
        "the system unless set.",
        field="",
        internal=True,
    ),
    broker_setting(
        f"{TRUSTSTORE}.password",
        Type.PASSWORD,
        None,
        None,
        _MEDIUM,
        "A PEM file with certificates has none.",
        note="a PEM file with certificates has no password",
        internal=True,
    ),
    broker_setting(
        f"{TRUSTSTORE}.type",
        Type.STRING,
        None,
        None,
        _MEDIUM,
        "As zookeeper.ssl.keystore.type.",
        field="",
        internal=True,
    ),
    broker_setting(
        PROTOCOL,
        Type.STRING,
        TLS_VERSIONS[0],
        None,
        _LOW,
        "The version of TLS, TLSv1.2 or TLSv1.3, unless zookeeper.ssl.enabled.protocols names "
        "several.",
        field="",
        internal=True,
    ),
    broker_setting(
        ENABLED_PROTOCOLS,
        Type.LIST,
        None,
        None,
        _LOW,
        "The versions of TLS that may be used: TLSv1.2, TLSv1.3.",
        field="",
        internal=True,
    ),
    broker_setting(
        CIPHER_SUITES,
        Type.LIST,
        None,
        None,
        _LOW,
        "The cipher suites that may be used, by Java's names; OpenSSL's defaults unless set. Those "
        "of TLS 1.3 can't be chosen among: they must be named all or not at all.",
        field="",
        internal=True,
    ),
    broker_setting(
        IDENTIFICATION,
        Type.STRING,
        "HTTPS",
        None,
        _LOW,
        "HTTPS: ZooKeeper's certificate must be for the host, or the address, that "
        "zookeeper.connect names. Empty: that is not checked.",
        field="",
        internal=True,
    ),
)

ZOOKEEPER_SECURITY_ROWS: Final = (*_SASL_ROWS, *_TLS_ROWS)
