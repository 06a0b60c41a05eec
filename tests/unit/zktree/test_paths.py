"""Paths and JSON, against the nodes that Apache Kafka 3.9.2 made (`kafka39_tree.json`)."""

from __future__ import annotations

import json
import uuid
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.zktree import paths
from kavka.zktree.paths import (
    BrokerInfo,
    Endpoint,
    ProducerIdBlock,
    StoredPartitionState,
    TopicAssignment,
)
from support.kafka39 import CREATED as TREE

ORDERS_ID = uuid.UUID(bytes=bytes.fromhex("44ef7c569db44a66ace412a6c3463a2e"))
"""As in the response to the client that created the topic."""


def node(path: str) -> bytes:
    return str(TREE[path]["data"]).encode()


def test_broker() -> None:
    info = BrokerInfo((Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 23183),), rack="r1")
    data = node(paths.broker(0))
    assert paths.decode_broker(data) == info
    assert paths.encode_broker(info, int(json.loads(data)["timestamp"])) == data


def test_topic() -> None:
    assignment = TopicAssignment(ORDERS_ID, {0: (0,), 1: (0,)}, {}, {})
    data = node(paths.topic("orders"))
    assert paths.decode_topic(data) == assignment
    assert paths.encode_topic(assignment) == data


def test_partition_state() -> None:
    state = StoredPartitionState(leader=0, leader_epoch=0, isr=(0,), controller_epoch=1)
    data = node(paths.partition_state("orders", 1))
    assert paths.decode_partition_state(data) == state
    assert paths.encode_partition_state(state) == data


def test_controller() -> None:
    data = node(paths.CONTROLLER)
    assert paths.decode_controller(data) == 0
    assert paths.encode_controller(0, int(json.loads(data)["timestamp"])) == data


def test_controller_epoch() -> None:
    assert paths.decode_controller_epoch(node(paths.CONTROLLER_EPOCH)) == 1
    assert paths.encode_controller_epoch(1) == node(paths.CONTROLLER_EPOCH)


def test_cluster_id() -> None:
    data = node(paths.CLUSTER_ID)
    assert paths.encode_cluster_id(paths.decode_cluster_id(data)) == data


def test_features() -> None:
    assert paths.encode_features() == node(paths.FEATURE)
    assert paths.decode_features(node(paths.FEATURE)) == {}
    levels = {"transaction.version": 1, "group.version": 0}
    data = paths.encode_features(levels)
    assert paths.decode_features(data) == levels
    # What Apache Kafka 3.9 reads of it (FeatureZNode) is what it reads of one without levels.
    fields = json.loads(data)
    del fields["levels"]
    assert fields == json.loads(node(paths.FEATURE))


def test_configs() -> None:
    orders = {"cleanup.policy": "compact", "retention.ms": "60000", "retention.bytes": "1000"}
    for kind, entity, settings in (
        (paths.TOPIC_CONFIGS, "orders", orders),
        (paths.TOPIC_CONFIGS, "a.b", {}),
        (paths.BROKER_CONFIGS, paths.DEFAULT_ENTITY, {"log.retention.ms": "99999"}),
    ):
        data = node(paths.config(kind, entity))
        assert paths.decode_config(data) == settings
        assert paths.encode_config(settings) == data
    assert paths.decode_config(None) == {}


def test_config_changes() -> None:
    for number, entity in enumerate([("topics", "orders"), ("brokers", "<default>")]):
        data = node(f"{paths.CONFIG_CHANGE_PREFIX}{number:010d}")
        assert paths.decode_config_change(data) == entity
        assert paths.encode_config_change(*entity) == data
    old = b'{"version":1,"entity_type":"topics","entity_name":"orders"}'
    assert paths.decode_config_change(old) == ("topics", "orders")


def test_producer_id_block() -> None:
    data = node(paths.PRODUCER_ID_BLOCK)
    assert paths.decode_producer_id_block(data) == ProducerIdBlock(0, 0, 999)
    assert paths.encode_producer_id_block(ProducerIdBlock(0, 0, 999)) == data


def test_every_persistent_path_is_kafka_s() -> None:
    assert set(paths.PERSISTENT) <= set(TREE)


NAMES = st.sampled_from(
    ["state", "partitions", "topics", "config", "0", "7", "orders", "a.b", "__consumer_offsets"]
)


@given(NAMES, st.integers(0, 2**31 - 1))
def test_paths_round_trip(name: str, index: int) -> None:
    written = {
        paths.topic(name): (name, None, None),
        paths.partition_state(name, index): (None, (name, index), None),
        paths.config("topics", name): (None, None, ("topics", name)),
        paths.partitions(name): (None, None, None),
        paths.partition(name, index): (None, None, None),
        paths.topic_deletion(name): (None, None, None),
        paths.TOPICS: (None, None, None),
        "/config/topics": (None, None, None),
        f"/brokers/topicsful/{name}": (None, None, None),
    }
    for path, of in written.items():
        read = (paths.topic_at(path), paths.partition_state_at(path), paths.config_at(path))
        assert read == of, path


@given(st.text(min_size=1))
def test_paths_of_group_configs_round_trip(group_id: str) -> None:
    path = paths.config(paths.GROUP_CONFIGS, group_id)
    assert paths.config_at(path) == (paths.GROUP_CONFIGS, group_id)


def test_ancestors() -> None:
    assert paths.ancestors("/a/b/c") == ["/a", "/a/b"]
    assert paths.ancestors("/a") == []


# Shapes that the recorded tree does not have; the fields are those of kafka.zk.ZkData


def test_a_topic_under_reassignment() -> None:
    data = (
        b'{"partitions":{"1":[2,3],"0":[1,2,3]},"topic_id":"RO98Vp20Smas5BKmw0Y6Lg",'
        b'"adding_replicas":{"0":[3]},"removing_replicas":{"0":[1]},"version":3}'
    )
    assignment = TopicAssignment(ORDERS_ID, {0: (1, 2, 3), 1: (2, 3)}, {0: (3,)}, {0: (1,)})
    assert paths.decode_topic(data) == assignment
    assert list(paths.decode_topic(data).replicas) == [0, 1], "in order"
    assert paths.decode_topic(paths.encode_topic(assignment)) == assignment


def test_a_topic_without_an_id() -> None:
    old = paths.decode_topic(b'{"version":1,"partitions":{"0":[1]}}')
    assert old == TopicAssignment(None, {0: (1,)}, {}, {})
    assert b"topic_id" not in paths.encode_topic(old)


def test_a_recovering_leader() -> None:
    state = StoredPartitionState(1, 5, (1, 2), 3, leader_recovery_state=1)
    data = paths.encode_partition_state(state)
    assert json.loads(data)["leader_recovery_state"] == 1
    assert paths.decode_partition_state(data) == state


def test_a_broker_with_several_listeners() -> None:
    info = BrokerInfo(
        (Endpoint("TLS", "SSL", "h", 1), Endpoint("IN", "PLAINTEXT", "::1", 2)), rack=None
    )
    data = paths.encode_broker(info, 0)
    fields = json.loads(data)
    assert (fields["host"], fields["port"], "rack" in fields) == ("::1", 2, False)
    assert fields["endpoints"] == ["TLS://h:1", "IN://[::1]:2"]
    assert paths.decode_broker(data) == info


def test_a_broker_of_version_2() -> None:
    old = (
        b'{"version":2,"host":"h","port":9092,"jmx_port":9999,"timestamp":"1",'
        b'"endpoints":["PLAINTEXT://h:9092","SSL://h:9093"]}'
    )
    assert paths.decode_broker(old) == BrokerInfo(
        (Endpoint("PLAINTEXT", "PLAINTEXT", "h", 9092), Endpoint("SSL", "SSL", "h", 9093))
    )


@pytest.mark.parametrize("data", [None, b"", b"[]", b"nonsense", b"\xff"])
def test_data_that_is_no_json_object_is_refused(data: bytes | None) -> None:
    with pytest.raises(ValueError):
        paths.decode_topic(data)


@given(st.uuids())
def test_uuids_as_text(value: uuid.UUID) -> None:
    text = paths.uuid_text(value)
    assert len(text) == 22
    assert paths.uuid_from_text(text) == value


@pytest.mark.parametrize(
    ("group_id", "node"),
    [
        ("orders", "orders"),
        ("a/b c*+~%é", "a%2Fb%20c%2A%2B%7E%25%C3%A9"),
        (".", "%2E"),
        ("..", "%2E%2E"),
        ("a.b", "a.b"),
    ],
)
def test_groups_in_paths(group_id: str, node: str) -> None:
    """As Apache Kafka writes names of clients and users into paths; but for dots alone, which no
    path can have."""
    assert paths.config(paths.GROUP_CONFIGS, group_id) == f"/config/groups/{node}"
    assert paths.config_entity(paths.GROUP_CONFIGS, node) == group_id
    data = paths.encode_config_change(paths.GROUP_CONFIGS, group_id)
    assert paths.decode_config_change(data) == (paths.GROUP_CONFIGS, group_id)
    assert paths.config_entity(paths.TOPIC_CONFIGS, "%2E") == "%2E"


def test_random_ids_are_version_4_and_do_not_begin_with_a_dash() -> None:
    class Unlucky(Random):
        def getrandbits(self, bits: int) -> int:
            drawn = super().getrandbits(bits)
            return drawn | 0x3E << bits - 6 if self.random() < 0.5 else drawn

    random = Unlucky(5)
    ids = [paths.random_uuid(random) for _ in range(200)]
    assert len(set(ids)) == len(ids)
    for topic_id in ids:
        assert topic_id.version == 4 and topic_id.variant == uuid.RFC_4122
        assert not paths.uuid_text(topic_id).startswith("-")


REASSIGNMENTS = (
    b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[0,1]},'
    b'{"topic":"u","partition":3,"replicas":[2]}]}'
)
"""As `ReassignPartitionsZNode` of Apache Kafka 3.9 writes it."""


def test_reassignments_that_old_tools_ask_for() -> None:
    requested = list(paths.decode_reassignments(REASSIGNMENTS))
    assert requested == [("t", 0, (0, 1)), ("u", 3, (2,))]
    assert paths.encode_reassignments(requested) == REASSIGNMENTS


def test_elections_that_old_tools_ask_for() -> None:
    data = b'{"version":1,"partitions":[%s]}' % b",".join(
        [b'{"topic":"t","partition":2}', b'{"topic":"u","partition":0}'] * 2
    )
    assert paths.decode_elections(data) == [("t", 2), ("u", 0)]


@pytest.mark.parametrize(
    "data",
    [
        None,
        b"[]",
        b"nonsense",
        b'{"version":1}',
        b'{"partitions":{}}',
        b'{"partitions":[1]}',
        b'{"partitions":[{"topic":"t"}]}',
        b'{"partitions":[{"topic":1,"partition":0,"replicas":[1]}]}',
        b'{"partitions":[{"topic":"t","partition":true,"replicas":[1]}]}',
    ],
)
def test_what_tools_ask_for_is_checked(data: bytes | None) -> None:
    with pytest.raises(ValueError):
        list(paths.decode_reassignments(data))
    with pytest.raises(ValueError):
        paths.decode_elections(data)


@pytest.mark.parametrize("replicas", [b"1", b'["1"]', b"[true]", b"null"])
def test_replicas_that_old_tools_ask_for_are_numbers(replicas: bytes) -> None:
    data = b'{"partitions":[{"topic":"t","partition":0,"replicas":%s}]}' % replicas
    with pytest.raises(ValueError):
        list(paths.decode_reassignments(data))
