"""`kavka doctor` finds nothing at a healthy broker, Kavka's and Apache Kafka's, and each fault that
is made there by its name, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka import KafkaProducer

from commands.examining import Examined, await_problems, config_file, examined, shift_clock
from kavka.testing import Broker, Cluster
from support import java
from support.broker import Kavka
from support.clients.kafka_python import create_topic
from support.oracle import ApacheKafka
from support.ports import HOST, free_port
from support.process import BrokerProcess, running
from support.raw import RawConnection
from support.transactional import TransactionalProducer, play
from support.wait import eventually

NOWHERE = "no-such-host.invalid"
HOUR_MS = 3_600_000
POLL_S = 0.1
WITHOUT_IDEMPOTENCE = "transactional-without-idempotence"
TRAPS = ("LOST", "DOWN", "FOREIGN")
"""Listeners whose advertised address leads nowhere, to a closed port, to another cluster."""


def settings_of(ports: Mapping[str, int], foreign: str) -> dict[str, str]:
    """Of a broker with these listeners besides the one for the test itself."""
    advertised = {
        "LOST": f"{NOWHERE}:9092",
        "DOWN": f"{HOST}:{free_port()}",
        "FOREIGN": foreign,
    }
    return {
        "listeners": "".join(f",{name}://{HOST}:{port}" for name, port in ports.items()),
        "advertised.listeners": "".join(f",{name}://{at}" for name, at in advertised.items()),
        "listener.security.protocol.map": "".join(f",{name}:PLAINTEXT" for name in ports),
        "inter.broker.listener.name": "PLAINTEXT",
        "group.initial.rebalance.delay.ms": "0",
        "transaction.partition.verification.enable": "false",
    }


class TrappedKavka(Kavka):
    """Kavka's, where `settings` are added to its own listeners."""

    def prepare(self) -> None:
        super().prepare()
        own = f"PLAINTEXT://{HOST}:{self.port}"
        for key in ("listeners", "advertised.listeners"):
            self.settings[key] = own + self.settings[key]
        key = "listener.security.protocol.map"
        self.settings[key] = "PLAINTEXT:PLAINTEXT" + self.settings[key]

    def ready_port(self, output: str) -> int | None:
        """Its own: the line names the advertised addresses of all listeners."""
        return None if super().ready_port(output) is None else self.port


class TrappedApacheKafka(ApacheKafka):
    """The same of Apache Kafka's; `controller_port` is its controller's."""

    controller_port = 0

    def _properties(self, controller_port: int) -> dict[str, str]:
        self.controller_port = controller_port
        more, self.settings = self.settings, {}
        own = super()._properties(controller_port)
        for key in ("listeners", "advertised.listeners", "listener.security.protocol.map"):
            more[key] = own[key] + more[key]
        return {**own, **more}


KINDS = [TrappedKavka, TrappedApacheKafka]


class Patient:
    """A broker, and all that has been found wrong with it."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.bootstrap = broker.bootstrap
        self._known: set[str] = set()

    def has_new(self, *problems: str) -> Examined:
        """Just these have come to what was known."""
        found = examined(self.bootstrap)
        assert found.problems - self._known == set(problems), json.dumps(found.findings, indent=1)
        assert self._known <= found.problems
        self._known |= found.problems
        return found

    def is_well_again(self, *problems: str) -> None:
        """These have gone."""
        self._known -= set(problems)
        self.has_new()

    def has_for_now(self, problem: str, *words: str) -> None:
        """This one comes, while something lasts."""
        found = examined(self.bootstrap, *words)
        assert found.problems - self._known == {problem}, json.dumps(found.findings, indent=1)


@pytest.mark.parametrize("kind", KINDS, ids=["kavka", "apache"])
def test_each_fault_is_named(
    kind: type[BrokerProcess], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind is TrappedApacheKafka:
        java.program("java")
    ports = {name: free_port() for name in TRAPS}
    with Broker() as foreign:
        broker = kind(tmp_path / "broker", settings_of(ports, foreign.bootstrap_servers))
        with running([broker]):
            patient = Patient(broker)
            patient.has_new()
            use(broker.bootstrap)
            patient.has_new()
            assert not examined(broker.bootstrap, "--write-test").problems
            check_traps(broker, ports)
            check_settings(patient, tmp_path)
            check_clocks(patient, monkeypatch)
            check_groups(patient)
            check_transactions(patient, monkeypatch)
            create_topic(broker.bootstrap, "endless", 1, {"retention.ms": "-1"})
            found = patient.has_new("retention/no-limit")
            assert found.of("no-limit")["subject"] == "endless"
            if isinstance(broker, TrappedApacheKafka):
                at_controller = examined(f"{HOST}:{broker.controller_port}")
                assert at_controller.problems == {"versions/controller-listener"}


def use(bootstrap: str) -> None:
    """What a healthy broker is used for: a group that has read all, and transactions."""
    create_topic(bootstrap, "used", 2)
    write(bootstrap, "used", 10)
    commit(bootstrap, "readers", "used", 10)
    producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id="good")
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("used", b"in a transaction", partition=1)
    producer.commit_transaction()
    producer.close()


def write(bootstrap: str, topic: str, count: int) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for number in range(count):
        producer.send(topic, b"%d" % number, partition=0).get(timeout=60)
    producer.close()


def commit(bootstrap: str, group: str, topic: str, offset: int) -> None:
    """As a member of the group, which then leaves."""
    with closing(
        Consumer({"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": "false"})
    ) as consumer:
        consumer.subscribe([topic])

        def is_member() -> bool:
            message = consumer.poll(POLL_S)
            assert message is None or message.error() is None, message.error()
            return bool(consumer.assignment())

        eventually(is_member, within_s=60, what=f"a member of {group} has partitions")
        consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)


def commit_alone(bootstrap: str, group: str, topic: str, offset: int) -> None:
    """As a consumer that assigns its partition itself."""
    with closing(Consumer({"bootstrap.servers": bootstrap, "group.id": group})) as consumer:
        consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)


def delete_records(bootstrap: str, topic: str, before: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    (done,) = admin.delete_records([TopicPartition(topic, 0, before)]).values()
    assert done.result().low_watermark == before


def check_traps(broker: BrokerProcess, ports: Mapping[str, int]) -> None:
    """Through each listener only what is wrong with its own advertised address is found, with the
    line that mends it."""
    for name, problem in (
        ("LOST", "unresolvable"),
        ("DOWN", "refused"),
        ("FOREIGN", "other-cluster"),
    ):
        found = examined(f"{HOST}:{ports[name]}")
        assert found.problems == {f"advertised/{problem}"}, json.dumps(found.findings, indent=1)
        assert f"{name}://{HOST}:{ports[name]}" in found.of(problem)["advice"]
        assert any(finding["step"] == "retention" for finding in found.findings)


def check_settings(patient: Patient, directory: Path) -> None:
    """Settings of a client that can't work there."""
    for settings, problem in (
        ({"session.timeout.ms": 1000, "heartbeat.interval.ms": 300}, "session-timeout"),
        ({"transactional.id": "t", "transaction.timeout.ms": 9_000_000}, "transaction-timeout"),
        ({"transactional.id": "t", "enable.idempotence": "false"}, WITHOUT_IDEMPOTENCE),
        ({"batch.size": 99_999_999}, "batch-size"),
        ({"max.request.size": 99_999_999}, "request-size"),
        ({"delivery.timeout.ms": 30_000}, "delivery-timeout"),
        ({"fetch.max.wait.ms": 500, "request.timeout.ms": 500}, "fetch-wait"),
        ({"max.poll.interval.ms": 30_000}, "poll-interval"),
        ({"acks": "some"}, "invalid-value"),
        ({"enable.idempotence": "true", "acks": "1"}, "idempotence"),
        ({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}, "login-not-asked"),
    ):
        step = "sasl" if problem == "login-not-asked" else "client-config"
        path = config_file(directory, settings)
        patient.has_for_now(f"{step}/{problem}", "--command-config", path)


def check_clocks(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that is ahead shows in what the broker has written; one that is behind only if it
    writes."""
    with monkeypatch.context() as shifted:
        shift_clock(shifted, -2 * HOUR_MS)
        patient.has_for_now("clock/ahead")
        patient.has_for_now("clock/ahead", "--write-test")
    with monkeypatch.context() as shifted:
        shift_clock(shifted, 60_000)
        patient.has_for_now("clock/behind", "--write-test")


def check_groups(patient: Patient) -> None:
    """A member that never finishes its rebalance; a dead group that lags."""
    create_topic(patient.bootstrap, "left", 1)
    write(patient.bootstrap, "left", 5)
    commit(patient.bootstrap, "dead", "left", 2)
    found = patient.has_new("groups/lag-without-members")
    assert found.of("lag-without-members")["subject"] == "dead"
    assert "3 records" in found.of("lag-without-members")["found"]

    create_topic(patient.bootstrap, "short", 1)
    write(patient.bootstrap, "short", 5)
    commit_alone(patient.bootstrap, "ahead", "short", 6)
    found = patient.has_new("groups/offset-behind-end")
    assert found.of("offset-behind-end")["subject"] == "ahead"
    commit_alone(patient.bootstrap, "slow", "short", 2)
    commit_alone(patient.bootstrap, "quick", "short", 3)
    found = patient.has_new()
    assert "groups/lag-alone" in found.notes
    delete_records(patient.bootstrap, "short", 3)
    found = patient.has_new("groups/offset-deleted")
    assert found.of("offset-deleted")["subject"] == "slow"
    commit_alone(patient.bootstrap, "slow", "short", 5)
    commit_alone(patient.bootstrap, "quick", "short", 5)
    commit_alone(patient.bootstrap, "ahead", "short", 5)
    patient.is_well_again("groups/offset-behind-end", "groups/offset-deleted")
    assert "groups/lag-alone" not in examined(patient.bootstrap).notes

    host, _, port = patient.bootstrap.rpartition(":")
    with RawConnection(host, int(port)) as connection:
        answer: dict[str, Any] = connection.request(
            "JoinGroup",
            2,
            group_id="stuck",
            session_timeout_ms=45_000,
            rebalance_timeout_ms=45_000,
            member_id="",
            protocol_type="consumer",
            protocols=[{"name": "range", "metadata": b""}],
        )
        assert answer["error_code"] == 0
        patient.has_for_now("groups/rebalancing")
        connection.request("LeaveGroup", 2, group_id="stuck", member_id=answer["member_id"])


def check_transactions(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is open for longer than its timeout; one that no coordinator knows."""
    create_topic(patient.bootstrap, "open", 1)
    host, _, port = patient.bootstrap.rpartition(":")
    with RawConnection(host, int(port)) as connection:
        late = TransactionalProducer("late", 1, "open")
        for script in (late.find(), late.init(), late.add([0]), late.write(0, [b"late"])):
            play(connection, script)
        patient.has_new()
        with monkeypatch.context() as shifted:
            shift_clock(shifted, 10 * 60_000)
            patient.has_for_now("transactions/overdue")
        play(connection, late.end(commit=True))

        lost = TransactionalProducer("lost", 1, "open")
        for script in (lost.init(), lost.write(0, [b"lost"])):
            play(connection, script)
        found = patient.has_new("transactions/hanging")
        assert found.of("hanging")["subject"] == "open-0"


# -- several brokers ------------------------------------------------------------------------


def test_brokers_that_are_down() -> None:
    with Cluster(brokers=3) as cluster:
        cluster.create_topic("three", 3)
        cluster.create_topic("strict", 1, configs={"min.insync.replicas": "3"})
        cluster.create_topic("alone", 3, replication_factor=1)
        cluster.wait_until_in_sync()
        bootstrap = cluster.addresses[1]
        await_problems(bootstrap)
        cluster.stop(3)
        faults = [
            f"partitions/{problem}" for problem in ("offline", "under-min-isr", "under-replicated")
        ]
        await_problems(bootstrap, *faults, "coordinators/too-few-brokers")
        cluster.start(3)
        cluster.wait_until_in_sync()
        found = await_problems(bootstrap, "leaders/imbalance")
        assert found.of("imbalance")["subject"] == "broker 3"
