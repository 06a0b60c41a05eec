"""Tools log in by Kerberos, by the settings of a Java client."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from commands.examining import examined
from commands.sessions import Said, differences, kavka
from kavka.tools.admin import topics
from kavka.tools.console import console_consumer, console_producer
from kavka.tools.perf import producer_perf_test
from support import java
from support.clients.kafka_python import create_topic
from support.java_tools import Tools
from support.kerberos import REALM, KerberosKafka, KeyCentre
from support.process import running

ALICE = f"alice@{REALM}"


class Kerberos:
    """The centre, and a broker that takes its tickets."""

    def __init__(self, home: Path) -> None:
        self.centre = KeyCentre(home / "centre")
        self.broker = KerberosKafka(home / "broker", self.centre)
        self.keytab = home / "none"

    def with_keytab(self, name: str, *more: str, **settings: str) -> Path:
        options = [f'useKeyTab=true storeKey=true keyTab="{self.keytab}" principal="{ALICE}"']
        return self.broker.client(name, " ".join([*options, *more]), **settings)


@pytest.fixture(scope="module")
def kerberos(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kerberos]:
    java.program("java")
    found = Kerberos(tmp_path_factory.mktemp("kerberos"))
    with running([found.centre]), pytest.MonkeyPatch.context() as patch:
        found.keytab = found.centre.keytab("alice")
        patch.setenv("KRB5_CONFIG", str(found.centre.config))
        patch.setenv("KRB5CCNAME", str(found.centre.home / "no-tickets"))
        with running([found.broker]):
            create_topic(found.broker.bootstrap, "orders", 1)
            yield found


def test_tools_are_let_in_as_apache_kafka_s(kerberos: Kerberos, tmp_path: Path) -> None:
    tickets = kerberos.centre.tickets("alice", kerberos.keytab)
    options = f'useTicketCache=true ticketCache="{tickets}"'

    def keys(path: str) -> str:
        return f'useKeyTab=true keyTab="{path}" principal="{ALICE}"'

    files = [
        kerberos.with_keytab("keytab"),
        kerberos.with_keytab("default", sasl_mechanism=""),
        kerberos.with_keytab("module", "serviceName=kafka", sasl_kerberos_service_name=""),
        kerberos.broker.client("tickets", options),
        kerberos.broker.client("tickets-of", f'{options} principal="{ALICE}"'),
        kerberos.broker.client("tickets-first", f"{options} {keys('none')}"),
        kerberos.with_keytab("keytab-then", "useTicketCache=true ticketCache=none"),
    ]
    lines = [
        f"!--bootstrap-server {kerberos.broker.at} --command-config {file} --list" for file in files
    ]
    address = kerberos.broker.at.replace("localhost", "127.0.0.1")
    lines.append(lines[0].replace(kerberos.broker.at, address))
    with Tools(tmp_path / "tools.log", kerberos.broker.more_options) as tools:
        brokers = [kerberos.broker, kerberos.broker]
        found = [*differences(topics.TOOL, java.TOPICS, tools, brokers, "\n".join(lines))]
        assert not found, "\n".join(found)
    for line in lines:
        said = kavka(topics.TOOL, kerberos.broker, line)
        assert said.exit_code == 0 and "orders" in said.stdout.split(), said


def test_console_clients_are_let_in(kerberos: Kerberos) -> None:
    file = kerberos.with_keytab("console")
    way = f"!--bootstrap-server {kerberos.broker.at} --topic orders --command-config {file}"
    said = kavka(console_producer.TOOL, kerberos.broker, f"{way} <<< one\\ntwo\\n")
    assert said == Said(0, "", ""), said
    line = f"{way} --from-beginning --max-messages 2"
    said = kavka(console_consumer.TOOL, kerberos.broker, line)
    assert (said.exit_code, said.stdout) == (0, "one\ntwo\n"), said


def test_the_doctor_looks_behind_a_login(kerberos: Kerberos) -> None:
    file = kerberos.with_keytab("doctor")
    found = examined(kerberos.broker.at, "--command-config", str(file))
    assert not found.problems
    assert {"sasl", "advertised", "partitions"} <= {finding["step"] for finding in found.findings}


def test_what_is_wrong_is_said_in_one_sentence(kerberos: Kerberos) -> None:
    broker, centre = kerberos.broker, kerberos.centre
    bob = centre.keytab("bob")
    missing = centre.home / "missing.keytab"
    keys = f'useKeyTab=true keyTab="{bob}"'
    cases = [
        (f'useKeyTab=true keyTab="{missing}" principal="{ALICE}"', {}, "can't be read: [Errno 2]"),
        (f'useKeyTab=true keyTab="{centre.config}" principal="{ALICE}"', {}, "is no keytab"),
        (f'{keys} principal="{ALICE}"', {}, f"no ticket for {ALICE} by its key in {bob}: "),
        (f'{keys} principal="bob@{REALM}"', {"service": "other"}, "not found in Kerberos database"),
        (f'{keys} principal="bob@{REALM}"', {"service": ""}, "service.name is needed"),
        (f'{keys} principal="bob@{REALM}" serviceName=two', {}, "has serviceName=two"),
        (keys, {}, "has no keyTab, or no principal"),
        ("useTicketCache=true", {}, "has failed: "),
        ("storeKey=true", {}, "has neither useKeyTab=true nor useTicketCache=true"),
    ]
    for number, (options, settings, words) in enumerate(cases):
        service = settings.get("service", "kafka")
        file = broker.client(f"wrong-{number}", options, sasl_kerberos_service_name=service)
        line = f"!--bootstrap-server {broker.at} --command-config {file} --list"
        said = kavka(topics.TOOL, broker, line)
        assert words in said.stderr, (options, said)
        assert said.exit_code == 1 and not said.stdout and said.stderr.count("\n") == 1, said


def test_librdkafka_says_that_it_knows_no_kerberos(kerberos: Kerberos) -> None:
    file = kerberos.with_keytab("perf")
    line = f"!--bootstrap-server {kerberos.broker.at} --topic orders --command-config {file}"
    line = f"{line} --num-records 1 --record-size 10 --throughput -1"
    said = kavka(producer_perf_test.TOOL, kerberos.broker, line)
    assert said.exit_code == 1 and "No provider for SASL mechanism GSSAPI" in said.stderr, said
    assert said.stderr.count("\n") == 1
