"""Settings of Kafka's Java clients, as kafka-python's."""

from __future__ import annotations

import pytest

from kavka.spark_it import SparkError
from kavka.spark_it.clients import client_settings, of_client


def test_names_and_types() -> None:
    assert client_settings("a:1,b:2", {}) == {"bootstrap_servers": ["a:1", "b:2"]}
    found = client_settings(
        "a:1",
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
            'username="alice" password="a \\"quoted\\" one";',
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": "ca.pem",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": "own.pem",
            "ssl.key.password": "secret",
            "ssl.endpoint.identification.algorithm": "",
            "request.timeout.ms": "1234",
            "enable.idempotence": "true",
            "compression.type": "zstd",
        },
    )
    assert found == {
        "bootstrap_servers": ["a:1"],
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "alice",
        "sasl_plain_password": 'a "quoted" one',
        "ssl_cafile": "ca.pem",
        "ssl_certfile": "own.pem",
        "ssl_password": "secret",
        "ssl_check_hostname": False,
        "request_timeout_ms": 1234,
        "enable_idempotence": True,
        "compression_type": "zstd",
    }


def test_an_admin_client_takes_fewer() -> None:
    from kafka import KafkaAdminClient

    settings = client_settings("a:1", {"batch.size": "5", "request.timeout.ms": "7"})
    assert of_client(KafkaAdminClient, settings) == {
        "bootstrap_servers": ["a:1"],
        "request_timeout_ms": 7,
    }


@pytest.mark.parametrize(
    ("kafka", "said"),
    [
        ({"batch.sise": "5"}, r"no such setting, did you mean batch.size\?"),
        ({"batch.size": "much"}, "kafka.batch.size: 'much' is not a number"),
        ({"ssl.truststore.location": "a.jks"}, "set ssl.truststore.type=PEM"),
        ({"ssl.key.password": "x"}, "set ssl.keystore.type=PEM"),
        ({"ssl.keystore.type": "PKCS12"}, "PKCS12: kafka-python reads PEM only"),
        ({"sasl.jaas.config": "username=alice"}, "are not in it"),
    ],
)
def test_what_kafka_python_cannot_do_is_said(kafka: dict[str, str], said: str) -> None:
    with pytest.raises(SparkError, match=said):
        client_settings("a:1", kafka)
