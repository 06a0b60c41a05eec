"""Nodes in a real ZooKeeper: read, written, replaced, and refused while brokers are about."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from functools import partial

import pytest
from kazoo.client import KazooClient

from kavka.server.config import ConfigError, Given
from kavka.server.zookeeper_session import zookeeper_session
from kavka.tools.storage import zookeeper
from kavka.tools.storage.errors import Refused
from kavka.tools.storage.nodes import ClusterMetadata
from kavka.tools.storage.zookeeper import ZooKeeper, ZooKeeperFailed
from support.oracle39 import ZooKeeper as Server
from support.ports import HOST, free_port

NODES: dict[str, bytes | None] = {
    "/brokers": None,
    "/brokers/ids": None,
    "/brokers/seqid": None,
    "/brokers/topics": b"",
    "/brokers/topics/t": b'{"partitions":{}}',
    "/cluster": None,
    "/cluster/id": b'{"version":"1","id":"c"}',
    "/config": None,
    "/config/changes": None,
}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    server = Server(tmp_path_factory.mktemp("zookeeper"))
    try:
        server.start()
        yield f"{HOST}:{server.port}"
    finally:
        server.close()


@pytest.fixture
def client(address: str) -> Iterator[KazooClient]:
    """A separate connection, to a ZooKeeper that is empty."""
    client = KazooClient(address)
    client.start()
    for name in client.get_children("/"):
        if name != "zookeeper":
            client.delete(f"/{name}", recursive=True)
    yield client
    client.stop()
    client.close()


def at(connect: str) -> ZooKeeper:
    return ZooKeeper(connect, partial(zookeeper_session, {}))


def read(connect: str) -> ClusterMetadata:
    return asyncio.run(at(connect).read())


def write(connect: str, metadata: ClusterMetadata, *, replace: bool = False) -> None:
    asyncio.run(at(connect).write(metadata, replace=replace))


@pytest.mark.parametrize("root", ["", "/", "/a/b"])
def test_what_was_written_is_read(address: str, client: KazooClient, root: str) -> None:
    write(address + root, ClusterMetadata(NODES, 3))
    assert read(address + root) == ClusterMetadata(NODES, 3)
    prefix = root.rstrip("/")
    assert client.get(f"{prefix}/cluster/id")[0] == NODES["/cluster/id"]
    assert client.get(f"{prefix}/brokers/seqid")[1].version == 3


def test_many_nodes(address: str, client: KazooClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zookeeper, "ASKED_MAX", 7)
    more = {f"/brokers/topics/t{number}": b"%d" % number for number in range(50)}
    metadata = ClusterMetadata(NODES | more, 20)
    write(address, metadata)
    found = read(address)
    assert (dict(found.nodes), found.broker_sequence) == (dict(metadata.nodes), 20)


def test_only_persistent_nodes_of_kafka_are_read(address: str, client: KazooClient) -> None:
    write(address, ClusterMetadata(NODES, 0))
    for path in ("/hbase/x", "/migration", "/brokers/ids", "/config/changes/config_change_1"):
        client.ensure_path(path)
    client.create("/admin", ephemeral=True)
    assert dict(read(address).nodes) == NODES


def test_an_empty_zookeeper_has_no_nodes(address: str, client: KazooClient) -> None:
    with pytest.raises(Refused, match="there is no cluster at .*/nowhere"):
        read(f"{address}/nowhere")
    assert client.exists("/nowhere") is None


def test_other_nodes_are_replaced_only_when_asked(address: str, client: KazooClient) -> None:
    write(address, ClusterMetadata({**NODES, "/config/old": b"old", "/kafka-acl": None}, 5))
    client.ensure_path("/hbase/x")
    with pytest.raises(Refused, match=r"/brokers, /cluster, /config, /kafka-acl\. .*--replace"):
        write(address, ClusterMetadata(NODES, 0))
    assert read(address).nodes["/config/old"] == b"old"
    write(address, ClusterMetadata(NODES, 0), replace=True)
    assert read(address) == ClusterMetadata(NODES, 0)
    assert client.exists("/hbase/x")


def test_half_of_the_nodes_have_no_cluster_id(address: str, client: KazooClient) -> None:
    """So that no broker starts with them."""
    write(address, ClusterMetadata(NODES, 0))
    broken = ClusterMetadata({**NODES, "/config/no/parent": b""}, 0)
    with pytest.raises(ZooKeeperFailed, match="not complete"):
        write(address, broken, replace=True)
    assert "/cluster/id" not in read(address).nodes
    write(address, ClusterMetadata(NODES, 0), replace=True)
    assert read(address) == ClusterMetadata(NODES, 0)


def test_a_running_cluster_is_left_alone(address: str, client: KazooClient) -> None:
    write(address, ClusterMetadata(NODES, 0))
    client.create("/brokers/ids/4", b"", ephemeral=True)
    with pytest.raises(Refused, match=r"registered at .*: 4\. Stop"):
        read(address)
    with pytest.raises(Refused, match="registered"):
        write(address, ClusterMetadata({}, 0), replace=True)
    client.delete("/brokers/ids/4")
    assert read(address) == ClusterMetadata(NODES, 0)


def test_no_zookeeper_answers() -> None:
    timeout = Given("200", "")
    unreachable = ZooKeeper(
        f"{HOST}:{free_port()}",
        partial(zookeeper_session, {"zookeeper.connection.timeout.ms": timeout}),
    )
    with pytest.raises(
        ConnectionError, match="no ZooKeeper answers .*: (.*; )?correct --zookeeper"
    ):
        asyncio.run(unreachable.read())


@pytest.mark.parametrize("connect", ["", "host:port", "host:70000"])
def test_what_is_no_address_is_refused(connect: str) -> None:
    with pytest.raises(ConfigError, match="--zookeeper"):
        read(connect)


def test_without_kazoo_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("kazoo.exceptions", "kavka.server.coordination.zookeeper"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.delitem(sys.modules, "kavka.server.coordination.zookeeper_messages", raising=False)
    monkeypatch.setitem(sys.modules, "kazoo.exceptions", None)
    with pytest.raises(ConfigError, match=r"pip install kavka\[zookeeper\]"):
        read(f"{HOST}:1")
