"""What is carried, and what is refused: on the nodes that Apache Kafka 3.9.2 made."""

from __future__ import annotations

import json
from uuid import UUID

import pytest

from kavka.tools.storage.errors import Refused
from kavka.tools.storage.nodes import Carried, Held, check, cluster_id, is_carried, summary, topics
from kavka.zktree import paths
from kavka.zktree.paths import TopicAssignment, encode_cluster_id, encode_topic
from support.kafka39 import CREATED as TREE

APACHE = {
    path: None if node["data"] is None else node["data"].encode() for path, node in TREE.items()
}
LASTING = {path: data for path, data in APACHE.items() if is_carried(path)}
CLUSTER = json.loads(APACHE["/cluster/id"] or b"")["id"]
IDS = {
    name: json.loads(APACHE[f"/brokers/topics/{name}"] or b"")["topic_id"]
    for name in ("a.b", "orders")
}
ID = UUID("5f7a3c9e-0b1d-4e2f-8a6b-7c8d9e0f1a2b")


def carried(**topics_by_name: TopicAssignment) -> Carried:
    nodes = {"/cluster/id": encode_cluster_id("c")}
    nodes |= {paths.topic(name): encode_topic(found) for name, found in topics_by_name.items()}
    return Carried(nodes, 0)


def edited(path: str, data: bytes) -> Carried:
    return Carried({**carried().nodes, path: data}, 0)


def assigned(*replicas: int, topic_id: UUID | None = ID) -> TopicAssignment:
    return TopicAssignment(topic_id, {0: replicas}, {}, {})


def test_all_of_apache_kafkas_nodes_but_those_that_die_with_a_broker() -> None:
    left = [path for path in APACHE if not is_carried(path)]
    assert sorted(left) == sorted(
        path
        for path, node in TREE.items()
        if node["ephemeral"] or path.startswith("/config/changes/") or path == "/"
    )
    assert "/brokers/ids/0" in left and "/controller" in left
    assert any(path.startswith("/config/changes/") for path in left)


@pytest.mark.parametrize(
    ("path", "carries"),
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
def test_carried(path: str, carries: bool) -> None:
    assert is_carried(path) is carries


def test_topics_and_cluster_of_apache_kafkas_nodes() -> None:
    found = dict(topics(APACHE))
    assert {name: len(topic.replicas) for name, topic in found.items()} == {"a.b": 1, "orders": 2}
    assert cluster_id(APACHE) == CLUSTER
    said = summary(Carried(APACHE, 0))
    assert "2 topics with 3 partitions" in said and CLUSTER in said


def test_what_fits_passes() -> None:
    logs = {
        (name, index): paths.uuid_from_text(IDS[name])
        for name, index in (("a.b", 0), ("orders", 0), ("orders", 1))
    }
    assert check(Carried(LASTING, 0), Held(CLUSTER, 0, logs)) == []
    assert check(Carried(LASTING, 0), Held(CLUSTER, 0, dict.fromkeys(logs))) == []


def test_a_new_directory_may_take_any_cluster_of_one_broker() -> None:
    said = check(carried(t=assigned(7)), Held(None, None, {}))
    assert said == ["t-0 has no log here and will begin empty"]


def test_logs_without_a_topic_are_named() -> None:
    [said] = check(carried(), Held("c", 1, {("lost", 3): ID}))
    assert "lost-3" in said


@pytest.mark.parametrize(
    ("what", "held", "why"),
    [
        (Carried({}, 0), Held(None, None, {}), "no cluster id"),
        (Carried({"/cluster/id": b"?"}, 0), Held(None, None, {}), "cluster id at /cluster/id"),
        (carried(), Held("other", 1, {}), "other, the metadata to c"),
        (carried(t=assigned(1, 2)), Held("c", 1, {}), r"broker 2 \(topic t\)"),
        (carried(t=assigned(2)), Held("c", 1, {}), "those of broker 1"),
        (carried(t=assigned(1), u=assigned(2)), Held(None, None, {}), r"2 \(topic u\)"),
        (carried(t=assigned(1)), Held("c", 1, {("t", 0): UUID(int=5)}), "another topic"),
        (
            Carried({"/cluster/id": encode_cluster_id("c"), "/brokers/topics/t": b"[]"}, 0),
            Held("c", 1, {}),
            "/brokers/topics/t",
        ),
        (edited("/controller", b"{}"), Held("c", 1, {}), "/controller is not carried"),
        (edited("/brokers/ids/7", b"{}"), Held("c", 1, {}), "/brokers/ids/7 is not carried"),
        (edited("/controller_epoch", b"x"), Held("c", 1, {}), "/controller_epoch can't be read"),
        (
            edited("/brokers/topics/t/partitions/0/state", b"{}"),
            Held("c", 1, {}),
            "/brokers/topics/t/partitions/0/state can't be read",
        ),
    ],
)
def test_refused(what: Carried, held: Held, why: str) -> None:
    with pytest.raises(Refused, match=why):
        check(what, held)


def test_a_topic_from_before_topic_ids_is_taken() -> None:
    old = carried(t=assigned(1, topic_id=None))
    assert check(old, Held("c", 1, {("t", 0): ID})) == []
