"""`kavka configs` and kafka-configs print the same, whichever broker they are pointed at."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from kafka import KafkaAdminClient
from kafka.errors import KafkaError

from commands.sessions import APPLIED_WITHIN_S, Said, differences, kavka
from kavka.tools.admin.configs import TOOL
from support import java
from support.broker import Kavka
from support.clients.kafka_python import create_topic
from support.java_tools import Tools
from support.oracle import ApacheKafka
from support.oracle39 import ApacheKafka39
from support.ports import HOST
from support.process import BrokerProcess, running
from support.wait import eventually

CONFIG_COMMAND = "kafka.admin.ConfigCommand"

LINES = """
    --describe --entity-type topics
    --describe --topic orders
    --describe --topic orders --all
    --describe --topic nope
    --describe --topic sp/ce
    --describe --topic ''
    --alter --topic orders --add-config retention.ms=60000,cleanup.policy=[compact,delete]
    --alter --entity-type topics --entity-name=plain --add-config 'segment.ms = 70000'
    --alter --topic plain --add-config-file {file}
    --alter --topic plain --add-config-file nowhere.properties
    --describe --topic orders
    --describe --entity-type topics --entity-name plain
    --describe --entity-type topics
    --alter --topic orders --delete-config retention.ms,segment.ms --add-config segment.bytes=200000
    --alter --topic orders --delete-config nonsense
    --alter --topic orders --delete-config ,cleanup.policy,
    --alter --topic orders --add-config ,
    --alter --topic orders --add-config max.message.bytes=3000,
    --describe --topic orders
    --alter --topic nope --add-config retention.ms=60000
    --alter --topic orders --add-config retention.ms=soon
    --alter --topic orders --add-config nonsense=1
    --alter --topic orders --add-config retention.ms
    --alter --topic orders --add-config ''
    --alter --topic orders --add-config ,retention.ms=1
    --alter --topic orders --add-config retention.ms=1=2
    --alter --topic orders --add-config 'sp ace=1'
    --describe --entity-type brokers
    --alter --broker 1 --add-config log.cleaner.threads=2
    --alter --broker-defaults --add-config log.cleaner.threads=3,message.max.bytes=2000000
    --alter --entity-type brokers --entity-name 1 --add-config broker.id=7
    --describe --entity-type brokers
    --describe --broker 1
    --describe --broker-defaults
    --describe --broker-defaults --all
    --describe --entity-type brokers --entity-default
    --describe --broker 9
    --describe --broker x
    --describe --broker-logger 9
    --describe --broker-logger x
    --alter --broker 1 --delete-config log.cleaner.threads
    --alter --broker-defaults --delete-config message.max.bytes,log.cleaner.threads
    --describe --entity-type brokers
    --alter --broker-logger 1 --add-config no.such.logger.Nope=DEBUG
    --describe --entity-type groups
    --describe --group g
    --alter --group g --add-config consumer.session.timeout.ms=50000
    --alter --group g2 --add-config consumer.session.timeout.ms=50001
    --alter --group g3 --add-config consumer.session.timeout.ms=50002
    --alter --group g4 --add-config consumer.session.timeout.ms=50003
    --alter --group abc --add-config consumer.session.timeout.ms=50004
    --alter --group xyz --add-config consumer.session.timeout.ms=50005
    --alter --group g --add-config consumer.session.timeout.ms=1
    --describe --entity-type groups
    --describe --group g
    --alter --client-metrics m --add-config metrics=[a.,b.],interval.ms=10000
    --alter --entity-type client-metrics --entity-name m2 --add-config interval.ms=10000
    --alter --client-metrics m --delete-config interval.ms
    --alter --client-metrics m --add-config interval.ms=1
    --describe --entity-type client-metrics
    --describe --client-metrics m
    --describe --client-metrics nope
    --describe --entity-type users
    --describe --entity-type clients
    --describe --entity-type ips
    --describe --user alice
    --alter --user alice --add-config producer_byte_rate=1e10,consumer_byte_rate=0x1p3
    --alter --user alice --client app --add-config request_percentage=12.5
    --alter --entity-type users --entity-name al --entity-type clients --entity-default {quota}
    --alter --user-defaults --add-config request_percentage=50d
    --alter --user-defaults --client-defaults --add-config request_percentage=9,producer_byte_rate=5
    --alter --client app --add-config controller_mutation_rate=0.0001
    --alter --client-defaults --add-config controller_mutation_rate=123456.789
    --alter --entity-type clients --entity-default --add-config producer_byte_rate=12345678
    --alter --ip 127.0.0.1 --add-config connection_creation_rate=10
    --alter --ip-defaults --add-config connection_creation_rate=10
    --alter --ip-defaults --add-config connection_creation_rate=10.5
    --alter --ip-defaults --add-config producer_byte_rate=10
    --alter --ip '[' --add-config connection_creation_rate=10
    --alter --user alice --add-config producer_byte_rate=many
    --alter --user alice --add-config producer_byte_rate=-1
    --alter --user alice --add-config producer_byte_rate=1_000
    --alter --user alice --add-config retention.ms=1
    --alter --client app --add-config retention.ms=1
    --alter --client app --add-config SCRAM-SHA-256=[password=x]
    --alter --user alice --delete-config retention.ms
    --alter --client app --delete-config SCRAM-SHA-256
    --alter --user '' --add-config producer_byte_rate=1
    --describe --entity-type ips
    --describe --ip 127.0.0.1
    --describe --ip-defaults
    --describe --entity-type users
    --describe --entity-type clients
    --describe --entity-type users --entity-type clients
    --describe --entity-type clients --entity-type users --entity-name app
    --describe --entity-type users --entity-default
    --describe --user alice --client app
    --describe --client app
    --describe --client-defaults
    --alter --user alice --delete-config producer_byte_rate
    --alter --user alice --delete-config producer_byte_rate
    --alter --user alice --add-config SCRAM-SHA-256=[password=x],SCRAM-SHA-512=[password=x]
    --alter --user alice --add-config SCRAM-SHA-256=[iterations=5000,password=sec=ret]
    --alter --user carol --add-config SCRAM-SHA-512=[iterations=-1,password=secret]
    --alter --user bob --add-config SCRAM-SHA-512=password=secret
    --alter --user bob --add-config SCRAM-SHA-256=[iterations=1,password=secret]
    --alter --user bob --add-config SCRAM-SHA-256=[iterations=,password=secret]
    --alter --user bob --add-config SCRAM-SHA-256=[iterations=99999,password=secret]
    --alter --user bob --add-config SCRAM-SHA-256=[password=]
    --alter --user bob --add-config SCRAM-SHA-256=secret
    --alter --user bob --add-config SCRAM-SHA-1=[password=secret]
    --alter --user bob --add-config SCRAM-SHA-256=[password=secret],producer_byte_rate=1
    --alter --user-defaults --add-config SCRAM-SHA-256=[password=secret]
    --alter --user bob --add-config ,
    --describe --entity-type users
    --describe --user alice
    --describe --user bob
    --describe --user nobody
    --alter --user alice --delete-config SCRAM-SHA-256
    --alter --user alice --delete-config SCRAM-SHA-256
    --describe --user alice
    !--describe --topic orders
    !--bootstrap-server {nobody} --command-config {impatient} --describe --topic orders
    --describe
    --alter
    --describe --alter --topic orders
    --topic orders
    --alter --topic orders
    --alter --entity-type topics --add-config a=b
    --alter --entity-type topics --entity-default --add-config a=b
    --alter --entity-type users --add-config producer_byte_rate=1
    --alter --entity-type users --entity-type clients --entity-name a {quota}
    --alter --user a --client b --add-config ,
    --alter --topic orders --add-config a=b --add-config-file {file}
    --alter --topic orders --add-config a=b --add-config c=d
    --describe --topic orders --add-config a=b
    --describe --topic orders --delete-config a
    --describe --topic orders --topic plain
    --describe --topic orders --broker 1
    --describe --topic orders --entity-type topics
    --describe --user a --entity-type clients
    --describe --user a --user-defaults
    --describe --entity-type users --entity-name a --entity-name b
    --describe --entity-type topics --entity-default
    --describe --entity-type broker-loggers
    --describe --entity-type things
    --describe --topic orders --force
    --describe --topic orders --zookeeper localhost:2181
    --describe --entity-type
    --bootstrap-controller {nobody} --describe --broker 1
"""

ALIKE = """
    --describe --broker 1 --all
    --describe --entity-type brokers --all
    --describe --broker-logger 1
    --describe --entity-type groups --all
    --describe --entity-type client-metrics --all
    --alter --user dora --add-config SCRAM-SHA-256=[password=secret]
    --alter --user dora --add-config SCRAM-SHA-512=[iterations=8192,password=secret]
    --describe --user dora
"""
"""Both tools on one broker: what it says is its own, as is the order of a user's credentials."""

OLDER = """
    --alter --topic orders --add-config retention.ms=60000
    --describe --entity-type topics
    --alter --broker-defaults --add-config log.cleaner.threads=2
    --describe --entity-type brokers
    --describe --entity-type groups
    --describe --group g
    --alter --client-metrics m --add-config interval.ms=10000
    --describe --entity-type client-metrics
    --alter --user alice --add-config producer_byte_rate=1000,request_percentage=5
    --alter --user alice --client-defaults --add-config producer_byte_rate=1000
    --describe --entity-type users --entity-type clients
    --alter --ip-defaults --add-config connection_creation_rate=10
    --describe --entity-type ips
    --alter --user alice --add-config SCRAM-SHA-256=[password=secret]
    --describe --entity-type users
    --describe --user nobody
"""
"""Both tools on one broker of Apache Kafka 3.9, which lacks some of the APIs' versions."""

CONTROLLERS = """
    --describe --entity-type brokers
    --describe --broker 1
    --describe --broker 9
    --describe --broker-defaults
    --alter --broker 1 --add-config log.cleaner.threads=2
    --alter --broker-defaults --add-config log.cleaner.threads=3
    --describe --broker 1
    --alter --topic orders --add-config retention.ms=5000
    --alter --group g --add-config consumer.session.timeout.ms=50000
    --alter --client-metrics m --add-config interval.ms=10000
    --describe --topic orders
    --describe --entity-type topics
    --describe --group g
    --describe --client-metrics m
    --describe --entity-type users
    --describe --entity-type ips
    --alter --user bob --add-config SCRAM-SHA-256=[password=secret]
    --alter --user bob --add-config producer_byte_rate=2
"""

PASSWORD = "open sesame, 1=1"


LOGIN_WITHIN_MS = 2_000
"""Of one attempt: after a refusal kafka-python tries again itself, later and later."""
KNOWN_WITHIN_S = 60.0


class WithScram(ApacheKafka):
    """With a listener beside the others that asks for a SCRAM user."""

    scram_port = 0

    def _properties(self, controller_port: int) -> dict[str, str]:
        self.scram_port = self.scram_port or self.ports.take()
        found = super()._properties(controller_port)
        for key in ("listeners", "advertised.listeners"):
            found[key] += f",SCRAM://{HOST}:{self.scram_port}"
        found["listener.security.protocol.map"] += ",SCRAM:SASL_PLAINTEXT"
        module = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        return {
            **found,
            "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
            "listener.name.scram.scram-sha-256.sasl.jaas.config": module,
            "listener.name.scram.scram-sha-512.sasl.jaas.config": module,
        }

    @property
    def controller(self) -> str:
        """Where its controller listens."""
        (line,) = (
            line
            for line in self._properties_path.read_text().splitlines()
            if line.startswith("controller.quorum.bootstrap.servers=")
        )
        return line.partition("=")[2]


@pytest.mark.parametrize("kind", [Kavka, ApacheKafka], ids=lambda kind: kind.kind)
def test_both_tools_say_the_same(kind: type[BrokerProcess], tmp_path: Path) -> None:
    java.program("java")
    brokers = [kind(tmp_path / f"broker-{number}", {}) for number in (1, 2)]
    lines = _with_files(LINES, tmp_path, brokers[0])
    with running(brokers), Tools(tmp_path / "tools.log") as tools:
        for broker in brokers:
            create_topic(broker.bootstrap, "orders", 1)
            create_topic(broker.bootstrap, "plain", 1)
        same_broker = [brokers[0], brokers[0]]
        found = [
            *differences(TOOL, CONFIG_COMMAND, tools, brokers, lines, reads=("--describe",)),
            *differences(TOOL, CONFIG_COMMAND, tools, same_broker, ALIKE),
        ]
        assert not found, "\n".join(found)


def test_controllers_and_credentials_of_apache_kafka(tmp_path: Path) -> None:
    java.program("java")
    broker = WithScram(tmp_path / "broker", {})
    with running([broker]), Tools(tmp_path / "tools.log") as tools:
        create_topic(broker.bootstrap, "orders", 1)
        assert _said(broker, "--alter --group g --add-config consumer.session.timeout.ms=50000")
        lines = "\n".join(
            f"!--bootstrap-controller {address} {line.strip()}"
            for address in (broker.controller, broker.bootstrap)
            for line in filter(None, map(str.strip, CONTROLLERS.splitlines()))
        )
        found = [*differences(TOOL, CONFIG_COMMAND, tools, [broker, broker], lines)]
        assert not found, "\n".join(found)
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            _said(broker, f"--alter --user alice --add-config '{mechanism}=[password={PASSWORD}]'")
            eventually(
                lambda: _lets_in(broker, mechanism, PASSWORD),  # noqa: B023 - called here
                within_s=KNOWN_WITHIN_S,
                what="the broker knows the password",
            )
            assert not _lets_in(broker, mechanism, PASSWORD + "!")


def test_both_tools_say_the_same_of_an_older_broker(tmp_path: Path) -> None:
    java.program("java")
    broker = ApacheKafka39(tmp_path / "broker", {})
    with running([broker]), Tools(tmp_path / "tools.log") as tools:
        create_topic(broker.bootstrap, "orders", 1)
        same_broker = [broker, broker]
        found = [
            *differences(TOOL, CONFIG_COMMAND, tools, same_broker, OLDER, reads=("--describe",))
        ]
        assert not found, "\n".join(found)


def test_json_and_csv_say_what_the_lines_do(tmp_path: Path) -> None:
    java.program("java")
    broker = ApacheKafka(tmp_path / "broker", {})
    with running([broker]):
        _said(broker, "--alter --user alice --client-defaults --add-config producer_byte_rate=5")
        _said(broker, "--alter --user alice --add-config SCRAM-SHA-256=[password=x]")
        _said(broker, "--alter --broker-defaults --add-config log.cleaner.threads=2")
        create_topic(broker.bootstrap, "orders", 1)
        eventually(
            lambda: _json(broker, "--topic orders --all"),
            within_s=APPLIED_WITHIN_S,
            what="the broker knows the topic",
        )
        _said(broker, "--alter --topic orders --add-config cleanup.policy=[compact,delete]")
        expected = [
            _entity(
                {"topics": "orders"},
                "cleanup.policy",
                "compact,delete",
                source="DYNAMIC_TOPIC_CONFIG",
                synonyms=[
                    _synonym("DYNAMIC_TOPIC_CONFIG", "cleanup.policy", "compact,delete"),
                    _synonym("DEFAULT_CONFIG", "log.cleanup.policy", "delete"),
                ],
            )
        ]
        eventually(  # the last change: then all are in force
            lambda: _json(broker, "--topic orders") == expected,
            within_s=APPLIED_WITHIN_S,
            what="the topic's config is described",
            detail=lambda: str(_json(broker, "--topic orders")),
        )
        assert _json(broker, "--entity-type users --entity-type clients") == [
            _entity({"users": "alice", "clients": None}, "producer_byte_rate", "5.0")
        ]
        assert _json(broker, "--user alice") == [
            _entity({"users": "alice"}, "SCRAM-SHA-256", "iterations=4096")
        ]
        said = kavka(TOOL, broker, "--describe --broker-defaults --output csv")
        assert said.stdout.splitlines() == [
            "entity,config,value,source,sensitive",
            "brokers=<default>,log.cleaner.threads,2,DYNAMIC_DEFAULT_BROKER_CONFIG,false",
            "brokers=<default>,min.insync.replicas,1,DYNAMIC_DEFAULT_BROKER_CONFIG,false",
        ]
        assert kavka(TOOL, broker, "--describe --topic nope --output json") == Said(
            0, '{"entities": []}\n', ""
        )


def test_kavka_says_that_it_keeps_neither_quotas_nor_credentials(tmp_path: Path) -> None:
    broker = Kavka(tmp_path / "broker", {})
    with running([broker]):
        quotas = kavka(TOOL, broker, "--alter --user alice --add-config producer_byte_rate=1")
        assert quotas == Said(1, "", _lacks("client quotas", "DescribeClientQuotas"))
        users = kavka(TOOL, broker, "--describe --entity-type users")
        assert users == Said(1, "", _lacks("client quotas", "DescribeClientQuotas"))
        line = "--alter --user alice --add-config SCRAM-SHA-256=[password=secret]"
        credentials = kavka(TOOL, broker, line)
        lacks = _lacks("SCRAM credentials", "AlterUserScramCredentials")
        assert credentials == Said(1, "", lacks)


def _lacks(missing: str, api: str) -> str:
    return f"This cluster has no {missing}: its brokers do not serve {api}, as Apache Kafka's do\n"


def _with_files(lines: str, directory: Path, broker: BrokerProcess) -> str:
    file, impatient = directory / "configs.properties", directory / "client.properties"
    file.write_text("# of a topic\nretention.bytes = 1000\nmin.cleanable.dirty.ratio:0.25\n")
    impatient.write_text("default.api.timeout.ms=1500\nrequest.timeout.ms=1000\n")
    nobody = f"{HOST}:{broker.ports.take()}"
    lines = lines.replace("{file}", str(file)).replace("{impatient}", str(impatient))
    return lines.replace("{nobody}", nobody).replace("{quota}", "--add-config request_percentage=1")


def _said(broker: BrokerProcess, line: str) -> str:
    said = kavka(TOOL, broker, line)
    assert said.exit_code == 0, said
    return said.stdout


def _json(broker: BrokerProcess, line: str) -> object:
    found: Mapping[str, object] = json.loads(_said(broker, f"--describe --output json {line}"))
    assert list(found) == ["entities"]
    return found["entities"]


def _entity(
    entity: Mapping[str, str | None],
    name: str,
    value: str,
    *,
    source: str | None = None,
    synonyms: list[Mapping[str, str]] | None = None,
) -> object:
    config = {"name": name, "value": value, "source": source, "sensitive": False}
    return {
        "entity": [{"type": kind, "name": entity_name} for kind, entity_name in entity.items()],
        "configs": [{**config, "synonyms": synonyms or []}],
    }


def _synonym(source: str, name: str, value: str) -> Mapping[str, str]:
    return {"source": source, "name": name, "value": value}


def _lets_in(broker: WithScram, mechanism: str, password: str) -> bool:
    """Whether the broker takes alice's password."""
    try:
        client = KafkaAdminClient(
            bootstrap_servers=f"{HOST}:{broker.scram_port}",
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism=mechanism,
            sasl_plain_username="alice",
            sasl_plain_password=password,
            bootstrap_timeout_ms=LOGIN_WITHIN_MS,
        )
    except KafkaError:
        return False
    client.close()
    return True
