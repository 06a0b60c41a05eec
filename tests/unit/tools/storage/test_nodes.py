"""What is exported, and what is refused: on the nodes that Apache Kafka 3.9.2 made."""

from __future__ import annotations

import json
from uuid import UUID

import pytest

from kavka.tools.storage.errors import Refused
from kavka.tools.storage.nodes import (
    ClusterMetadata,
    DirectoriesState,
    check,
    cluster_id,
    is_exported,
    summary,
    topics,
)
from kavka.zktree import paths
from kavka.zktree.paths import TopicAssignment, encode_cluster_id, encode_topic
from support.kafka39 import CREATED as TREE

APACHE = {
    path: None if node["data"] is None else node["data"].encode() for path, node in TREE.items()
}
LASTING = {path: data for path, data in APACHE.items() if is_exported(path)}
CLUSTER = json.loads(APACHE["/cluster/id"] or b"")["id"]
IDS = {
    name: json.loads(APACHE[f"/brokers/topics/{name}"] or b"")["topic_id"]
    for name in ("a.b", "orders")
}
ID = UUID("5f7a3c9e-0b1d-4e2f-8a6b-7c8d9e0f1a2b")


def metadata(**topics_by_name: TopicAssignment) -> ClusterMetadata:
    nodes = {"/cluster/id": encode_cluster_id("c")}
    nodes |= {paths.topic(name): encode_topic(found) for name, found in topics_by_name.items()}
    return ClusterMetadata(nodes, 0)


def edited(path: str, data: bytes) -> ClusterMetadata:
    return ClusterMetadata({**metadata().nodes, path: data}, 0)


def assigned(*replicas: int, topic_id: UUID | None = ID) -> TopicAssignment:
    return TopicAssignment(topic_id, {0: replicas}, {}, {})


def test_all_of_apache_kafkas_persistent_nodes_are_accepted() -> None:
    left = [path for path in APACHE if not is_exported(path)]
    assert sorted(left) == sorted(
        path
        for path, node in TREE.items()
        if node["ephemeral"] or path.startswith("/config/changes/") or path == "/"
    )
    assert "/brokers/ids/0" in left and "/controller" in left
    assert any(path.startswith("/config/changes/") for path in left)


@pytest.mark.parametrize(
    ("path", "is_wanted"),
    [
        ("/kafka-acl/Topic/orders", True),
        ("/kafka-acl-extended/prefixed/Topic/o", True),
        ("/kafka-acl-changes/acl_changes_0000000001", False),
        ("/kafka-acl-extended-changes/acl_changes_0000000001", False),
        ("/delegation_token/tokens/abc", True),
        ("/delegation_token/token_changes/token_change_0000000001", False),
        ("/config/users/alice", True),
        ("/admin/delete_topics/gone", True),
        ("/brokers/ids", True),
        ("/migration", False),
        ("/zookeeper/quota", False),
        ("/hbase", False),
        ("/configuration", False),
        ("/", False),
    ],
)
def test_exported(path: str, is_wanted: bool) -> None:
    assert is_exported(path) is is_wanted


def test_topics_and_cluster_of_apache_kafkas_nodes() -> None:
    found = dict(topics(APACHE))
    assert {name: len(topic.replicas) for name, topic in found.items()} == {"a.b": 1, "orders": 2}
    assert cluster_id(APACHE) == CLUSTER
    text = summary(ClusterMetadata(APACHE, 0))
    assert "2 topics with 3 partitions" in text and CLUSTER in text


NEW = DirectoriesState(None, None, {})
OWNED = DirectoriesState("c", 1, {})


def test_a_tree_that_fits_its_directories_is_accepted() -> None:
    logs = {
        (name, index): paths.uuid_from_text(IDS[name])
        for name, index in (("a.b", 0), ("orders", 0), ("orders", 1))
    }
    assert check(ClusterMetadata(LASTING, 0), DirectoriesState(CLUSTER, 0, logs)) == []
    assert (
        check(ClusterMetadata(LASTING, 0), DirectoriesState(CLUSTER, 0, dict.fromkeys(logs))) == []
    )


def test_a_new_directory_may_take_any_cluster_of_one_broker() -> None:
    notes = check(metadata(t=assigned(7)), NEW)
    assert notes == ["t-0 has no log here and will begin empty"]


def test_logs_without_a_topic_are_named() -> None:
    [note] = check(metadata(), DirectoriesState("c", 1, {("lost", 3): ID}))
    assert "lost-3" in note


@pytest.mark.parametrize(
    ("what", "state", "why"),
    [
        (ClusterMetadata({}, 0), NEW, "no cluster id"),
        (ClusterMetadata({"/cluster/id": b"?"}, 0), NEW, "cluster id at /cluster/id"),
        (metadata(), DirectoriesState("other", 1, {}), "other, the metadata to c"),
        (metadata(t=assigned(1, 2)), OWNED, r"broker 2 \(topic t\)"),
        (metadata(t=assigned(2)), OWNED, "those of broker 1"),
        (metadata(t=assigned(1), u=assigned(2)), NEW, r"2 \(topic u\)"),
        (
            metadata(t=assigned(1)),
            DirectoriesState("c", 1, {("t", 0): UUID(int=5)}),
            "another topic",
        ),
        (
            ClusterMetadata({"/cluster/id": encode_cluster_id("c"), "/brokers/topics/t": b"[]"}, 0),
            OWNED,
            "/brokers/topics/t",
        ),
        (edited("/controller", b"{}"), OWNED, "/controller can't be imported"),
        (edited("/brokers/ids/7", b"{}"), OWNED, "/brokers/ids/7 can't be imported"),
        (edited("/controller_epoch", b"x"), OWNED, "/controller_epoch can't be read"),
        (
            edited("/brokers/topics/t/partitions/0/state", b"{}"),
            OWNED,
            "/brokers/topics/t/partitions/0/state can't be read",
        ),
    ],
)
def test_refused(what: ClusterMetadata, state: DirectoriesState, why: str) -> None:
    with pytest.raises(Refused, match=why):
        check(what, state)


def test_a_topic_from_before_topic_ids_is_taken() -> None:
    old = metadata(t=assigned(1, topic_id=None))
    assert check(old, DirectoriesState("c", 1, {("t", 0): ID})) == []
