"""Brokers whose ZooKeeper asks who they are: SASL, TLS, and the ACLs of all nodes."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeVar

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError, NoNodeError
from kazoo.security import ACL

from kavka.client.errors import ConnectFailed
from kavka.server.start_checks import StartError
from support.broker import Kavka, finish, kavka_environment
from support.clients.kafka_python import create_topic
from support.oracle39 import ZooKeeper
from support.ports import HOST
from support.process import running
from support.real_cluster import ClusterBroker
from support.replicated_topic import create, in_thread, read, write
from support.secure_zookeeper import PASSWORD, USER, SaslZooKeeper, TlsZooKeeper, operator

SASL = (f"kavka.zookeeper.sasl.username={USER}", f"kavka.zookeeper.sasl.password={PASSWORD}")
ZOOKEEPERS_OWN = "/zookeeper"
SECRETS = ("/config/users", "/config/brokers")
WITHIN_S = 60.0


Z = TypeVar("Z", bound=ZooKeeper)


def started(service: Z) -> Iterator[Z]:
    """A fixture's ZooKeeper."""
    try:
        service.start()
        yield service
    finally:
        finish(service)


@pytest.fixture
def with_sasl(tmp_path: Path) -> Iterator[SaslZooKeeper]:
    yield from started(SaslZooKeeper(tmp_path / "zookeeper"))


@pytest.fixture
def with_tls(tmp_path: Path) -> Iterator[TlsZooKeeper]:
    yield from started(TlsZooKeeper(tmp_path / "zookeeper"))


def short(acls: list[ACL]) -> set[str]:
    return {f"{acl.id.scheme}:{acl.id.id}:{acl.perms}" for acl in acls}


def all_acls(client: KazooClient, path: str = "/") -> dict[str, set[str]]:
    """Of all nodes; those of notifications may be gone again when they are asked for."""
    try:
        found = {} if path == "/" else {path: short(client.get_acls(path)[0])}
        names = client.get_children(path)
    except NoNodeError:
        return {}
    for name in names:
        below = f"{path.rstrip('/')}/{name}"
        if below != ZOOKEEPERS_OWN:
            found |= all_acls(client, below)
    return found


def expected(path: str, root: str, owner: str) -> set[str]:
    """The rule of `ZkData.defaultAcls` of Apache Kafka 3.9; 31 is all, 1 is to read."""
    path = path.removeprefix(root)
    if path == "/consumers":
        return {"world:anyone:31"}
    if path.startswith(SECRETS):
        return {f"{owner}:31"}
    return {f"{owner}:31", "world:anyone:1"}


async def serve(brokers: list[ClusterBroker]) -> None:
    """A topic with two replicas, a broker's config, and records; the first broker restarts."""
    for broker in brokers:
        await broker.start()
    addresses = ",".join(broker.address for broker in brokers)
    await in_thread(create, addresses)
    values = [b"%d" % number for number in range(50)]
    await in_thread(write, addresses, values)
    await brokers[0].stop()
    await brokers[0].start()
    assert await in_thread(read, addresses) == values


def check_acls(port: int, root: str, owner: str, *more: str) -> None:
    """Every node has the ACL that it must have; `more`: nodes that there must be."""
    client = operator(port)
    try:
        acls = all_acls(client)
        expected_acls = {path: expected(path, root, owner) for path in acls}
        assert acls == expected_acls
        there = ("/brokers/topics/t/partitions/0/state", "/kavka/log_dirs", *more)
        assert {f"{root}{path}" for path in there} <= set(acls)
    finally:
        client.stop()
        client.close()


def check_strangers(port: int, root: str) -> None:
    """A client without a name reads what has no secrets, and changes nothing."""
    client = KazooClient(f"{HOST}:{port}")
    client.start(60)
    try:
        assert client.get(f"{root}/brokers/topics/t")[0]
        for path in SECRETS:
            with pytest.raises(NoAuthError):
                client.get(root + path)
        with pytest.raises(NoAuthError):
            client.set(f"{root}/brokers/topics/t", b"")
        with pytest.raises(NoAuthError):
            client.create(f"{root}/admin/reassign_partitions", b"{}")
        client.create(f"{root}/consumers/g")
    finally:
        client.stop()
        client.close()


def test_nodes_belong_to_a_user_of_sasl(with_sasl: SaslZooKeeper, tmp_path: Path) -> None:
    asyncio.run(owned_by_user(with_sasl, tmp_path))


async def owned_by_user(service: SaslZooKeeper, directory: Path) -> None:
    connect = f"{HOST}:{service.port}/a/b"
    settings = (*SASL, "zookeeper.set.acl=true", "broker.id=-1")
    brokers = [
        ClusterBroker(number, directory / str(number), connect, *settings) for number in (1, 2)
    ]
    try:
        await serve(brokers)
        assert [member.broker.settings.broker_id for member in brokers] == [1001, 1002]
        await in_thread(check_acls, service.port, "/a/b", f"sasl:{USER}", "/controller")
        await in_thread(check_strangers, service.port, "/a/b")
    finally:
        for broker in brokers:
            await broker.stop()


def test_a_wrong_password_is_said_at_once(with_sasl: SaslZooKeeper, tmp_path: Path) -> None:
    asyncio.run(refused(with_sasl, tmp_path))


async def refused(service: SaslZooKeeper, directory: Path) -> None:
    connect = f"{HOST}:{service.port}"
    wrong = (SASL[0], "kavka.zookeeper.sasl.password=wrong")
    broker = ClusterBroker(1, directory / "1", connect, *wrong)
    with pytest.raises((StartError, ConnectFailed), match="does not accept the user kafka"):
        await asyncio.wait_for(broker.start(), WITHIN_S)
    await broker.stop()


def tls_settings(service: TlsZooKeeper, *more: str) -> tuple[str, ...]:
    return (
        "zookeeper.ssl.client.enable=true",
        "zookeeper.clientCnxnSocket=org.apache.zookeeper.ClientCnxnSocketNetty",
        f"zookeeper.ssl.truststore.location={service.certificates.root}",
        *more,
    )


def test_nodes_belong_to_a_certificate(with_tls: TlsZooKeeper, tmp_path: Path) -> None:
    asyncio.run(owned_by_certificate(with_tls, tmp_path))


async def owned_by_certificate(service: TlsZooKeeper, directory: Path) -> None:
    connect = f"{HOST}:{service.secure_port}"
    own = service.certificates.issue("broker", password="open")
    settings = tls_settings(
        service,
        f"zookeeper.ssl.keystore.location={own}",
        "zookeeper.ssl.keystore.password=open",
        "zookeeper.set.acl=true",
    )
    suites = (
        "zookeeper.ssl.enabled.protocols=TLSv1.2,TLSv1.3",
        "zookeeper.ssl.cipher.suites=TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    )
    brokers = [
        ClusterBroker(1, directory / "1", connect, *settings),
        ClusterBroker(2, directory / "2", connect, *settings, *suites),
    ]
    try:
        await serve(brokers)
        await in_thread(check_acls, service.port, "", "x509:CN=broker", "/controller")
        await in_thread(check_strangers, service.port, "")
    finally:
        for broker in brokers:
            await broker.stop()
    without = ClusterBroker(3, directory / "3", connect, *tls_settings(service), SHORT)
    with pytest.raises(StartError, match="no ZooKeeper answers"):
        await asyncio.wait_for(without.start(), WITHIN_S)
    await without.stop()


SHORT = "zookeeper.connection.timeout.ms=3000"


def test_a_certificate_must_be_for_the_host(with_tls: TlsZooKeeper, tmp_path: Path) -> None:
    asyncio.run(of_another_host(with_tls, tmp_path))


async def of_another_host(service: TlsZooKeeper, directory: Path) -> None:
    connect = f"localhost:{service.secure_port}"
    own = service.certificates.issue("broker")
    settings = tls_settings(service, f"zookeeper.ssl.keystore.location={own}")
    broker = ClusterBroker(1, directory / "1", connect, *settings, SHORT)
    with pytest.raises(StartError, match="no ZooKeeper answers"):
        await asyncio.wait_for(broker.start(), WITHIN_S)
    await broker.stop()
    unchecked = "zookeeper.ssl.endpoint.identification.algorithm="
    broker = ClusterBroker(1, directory / "1", connect, *settings, unchecked)
    await asyncio.wait_for(broker.start(), WITHIN_S)
    await broker.stop()


def move(order: str, broker: Kavka, connect: str, settings: Mapping[str, str]) -> None:
    """`kavka storage` with a broker's settings."""
    path = broker.home / "server.properties"
    own = {"log.dirs": str(broker.data_dir), "zookeeper.connect": connect, **settings}
    path.write_text("".join(f"{key}={escaped(value)}\n" for key, value in own.items()))
    command = [sys.executable, "-m", "kavka", "storage", order, "--zookeeper", connect]
    command += ["--config", str(path), "--replace"]
    done = subprocess.run(command, capture_output=True, text=True, env=kavka_environment())
    assert done.returncode == 0, done


def escaped(value: str) -> str:
    """As a value in a properties file."""
    return value.replace("\\", "\\\\")


def check_moves(home: Path, connect: str, settings: Mapping[str, str]) -> None:
    """A standalone broker's data become those of a cluster's first broker, and back again."""
    standalone = Kavka(home / "broker", {"broker.id": "1"})
    values = [b"%d" % number for number in range(50)]
    with running([standalone]):
        create_topic(standalone.bootstrap, "t", 1)
        write(standalone.bootstrap, values)
        standalone.stop()
        move("export", standalone, connect, settings)
        first = Kavka(home / "broker", {"broker.id": "1", "zookeeper.connect": connect, **settings})
        with running([first]):
            assert read(first.bootstrap) == values
            write(first.bootstrap, values)
            first.stop()
        move("import", standalone, connect, settings)
        standalone.start()
        assert read(standalone.bootstrap) == 2 * values


def test_a_standalone_brokers_nodes_belong_to_a_user_of_sasl(
    with_sasl: SaslZooKeeper, tmp_path: Path
) -> None:
    settings = dict(setting.split("=", 1) for setting in SASL) | {"zookeeper.set.acl": "true"}
    check_moves(tmp_path, f"{HOST}:{with_sasl.port}/a", settings)
    check_acls(with_sasl.port, "/a", f"sasl:{USER}")


def test_a_standalone_brokers_nodes_belong_to_a_certificate(
    with_tls: TlsZooKeeper, tmp_path: Path
) -> None:
    own = with_tls.certificates.issue("broker")
    more = (f"zookeeper.ssl.keystore.location={own}", "zookeeper.set.acl=true")
    settings = dict(setting.split("=", 1) for setting in tls_settings(with_tls, *more))
    check_moves(tmp_path, f"{HOST}:{with_tls.secure_port}", settings)
    check_acls(with_tls.port, "", "x509:CN=broker")
