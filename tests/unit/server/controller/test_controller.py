"""A broker's part in being the controller: election, restarts, and what survives them."""

from __future__ import annotations

import asyncio
import json
import logging
import uuid

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kavka.log.memfs import Fault
from kavka.server.cluster.control_messages import (
    LEADER_DURING_DELETE,
    TopicPartition,
    UpdateMetadata,
)
from kavka.server.controller.controller import Controller
from kavka.server.controller.topic_validation import NewTopic
from kavka.server.coordination.broker_registration import cluster_id
from kavka.wire.errors import ApiError, ErrorCode
from kavka.zktree import paths, storage
from kavka.zktree.api import Create, Delete, SetData
from support import kafka39
from support.controlled_broker import INFO, ControlledCluster
from support.embedded_coordination import all_nodes
from support.virtual import settle

KAFKA = {"created": kafka39.CREATED, "deleted": kafka39.DELETED}
NEVER_THE_SAME = ("timestamp", "topic_id", "id")


async def created(
    cluster: ControlledCluster, name: str, partitions: int = 1, **configs: str
) -> None:
    keys = {key.replace("_", "."): value for key, value in configs.items()}
    topic = NewTopic(name, partitions, 1, configs=keys)
    results = await cluster.controller.create_topics([topic], timeout_ms=1000, validate_only=False)
    assert results[name].code is ErrorCode.NONE


def comparable(data: str | None) -> object:
    """A node's JSON without what differs from run to run."""
    fields = json.loads(data) if data else None
    if isinstance(fields, dict):
        return {key: value for key, value in fields.items() if key not in NEVER_THE_SAME}
    return fields


async def nodes(cluster: ControlledCluster) -> dict[str, tuple[object, int, int, bool]]:
    """Data, version, cversion and whether ephemeral, of all nodes below the root."""
    found = {}
    for path, (data, stat) in (await all_nodes(cluster.session)).items():
        if path != "/":
            text = None if data is None else data.decode()
            owned = stat.ephemeral_owner != 0
            found[path] = (comparable(text), stat.version, stat.cversion, owned)
    return found


def recorded(moment: str) -> dict[str, tuple[object, int, int, bool]]:
    return {
        path: (comparable(node["data"]), node["version"], node["cversion"], node["ephemeral"])
        for path, node in KAFKA[moment].items()
    }


async def test_the_tree_is_the_one_that_apache_kafka_makes(cluster: ControlledCluster) -> None:
    await cluster.start()
    await cluster_id(cluster.session, "some-id")
    await created(cluster, "orders", 2, cleanup_policy="compact", retention_ms="60000")
    await created(cluster, "a.b")
    await cluster.controller.allocate_producer_ids()
    for kind, entity, data in (
        ("topics", "orders", KAFKA["created"]["/config/topics/orders"]["data"]),
        ("brokers", "<default>", KAFKA["created"]["/config/brokers/<default>"]["data"]),
    ):
        path = paths.config(kind, entity)
        if await cluster.session.exists(path) is None:
            await cluster.session.create(path, data.encode())
        else:
            await cluster.session.set(path, data.encode())
        note = paths.encode_config_change(kind, entity)
        await cluster.session.create(paths.CONFIG_CHANGE_PREFIX, note, sequential=True)
    assert await nodes(cluster) == recorded("created")
    await cluster.controller.delete_topics(["orders"], 1000)
    after, theirs = await nodes(cluster), recorded("deleted")
    # theirs was deleted by two requests: one mark, counted when it came and when it went
    assert after == theirs


async def test_a_restart_raises_the_epochs(cluster: ControlledCluster) -> None:
    await cluster.start()
    assert (cluster.controller.is_active, cluster.controller.controller_id) == (True, 0)
    assert cluster.controller.epoch == 1
    await created(cluster, "t", 2)
    for round_number in (1, 2):
        cluster.fs.kill()
        await cluster.start()
        assert cluster.controller.epoch == 1 + round_number
        for index in (0, 1):
            state = cluster.broker.replicas[TopicPartition("t", index)]
            assert (state.leader, state.leader_epoch) == (0, round_number)
            assert (state.partition_epoch, state.is_new) == (round_number, False)
            assert state.controller_epoch == 1 + round_number
            image = cluster.broker.metadata.image.topics["t"].partitions[index]
            assert image.leader_epoch == round_number


async def test_start_ends_when_the_broker_knows_everything(cluster: ControlledCluster) -> None:
    await cluster.start()
    for number in range(5):
        await created(cluster, f"t{number}", 60)
    await cluster.stop()
    await cluster.start()
    assert len(cluster.broker.replicas) == 300
    image = cluster.broker.metadata.image
    assert sum(len(topic.partitions) for topic in image.topics.values()) == 300
    assert image.controller_id == 0
    assert image.brokers[0].endpoints == {"PLAINTEXT": ("127.0.0.1", 23183)}
    assert image.brokers[0].rack == INFO.rack


async def test_a_broker_with_another_id_finds_partitions_without_a_leader(
    cluster: ControlledCluster,
) -> None:
    await cluster.start()
    await created(cluster, "t")
    await cluster.stop()
    cluster.broker_id = 5
    await cluster.start()
    assert cluster.controller.is_active
    (partition,) = cluster.broker.metadata.image.topics["t"].partitions
    assert (partition.leader, partition.isr, partition.offline_replicas) == (-1, (0,), (0,))
    await cluster.stop()
    cluster.broker_id = 0
    await cluster.start()
    (partition,) = cluster.broker.metadata.image.topics["t"].partitions
    assert (partition.leader, partition.leader_epoch) == (0, 2)


async def take_over(cluster: ControlledCluster, *, replace: bool = True) -> None:
    """Another broker becomes the controller, as if this one had lost its session for a while."""
    data, stat = await cluster.session.get(paths.CONTROLLER_EPOCH)
    epoch = paths.encode_controller_epoch(paths.decode_controller_epoch(data) + 1)
    ops = [SetData(paths.CONTROLLER_EPOCH, epoch, stat.version)]
    if replace:
        other = paths.encode_controller(9, 0)
        await cluster.session.multi(
            [Delete(paths.CONTROLLER), Create(paths.CONTROLLER, other), *ops]
        )
    else:
        await cluster.session.multi(ops)


async def test_who_is_replaced_resigns_and_comes_back_when_the_other_goes(
    cluster: ControlledCluster,
) -> None:
    await cluster.start()
    await take_over(cluster)
    await settle()
    assert (cluster.controller.is_active, cluster.controller.controller_id) == (False, 9)
    assert cluster.controller.epoch == 0
    with pytest.raises(ApiError) as refusal:
        await cluster.controller.allocate_producer_ids()
    assert refusal.value.code is ErrorCode.NOT_CONTROLLER
    await cluster.session.delete(paths.CONTROLLER)
    await cluster.idle()
    assert cluster.controller.is_active and cluster.controller.epoch == 3
    await created(cluster, "t")


async def test_a_request_that_waits_when_the_controller_is_replaced_is_told(
    cluster: ControlledCluster,
) -> None:
    await cluster.start()
    creating = await cluster.begin_to_create("t")
    await take_over(cluster)
    assert (await creating)["t"].code is ErrorCode.NOT_CONTROLLER
    cluster.broker.gate.set()
    await settle()


async def test_a_controller_that_does_not_know_that_it_was_replaced_cannot_write(
    cluster: ControlledCluster,
) -> None:
    """The epoch has moved on, and no watch has told so."""
    await cluster.start()
    await take_over(cluster, replace=False)
    results = await cluster.controller.create_topics(
        [NewTopic("t")], timeout_ms=1000, validate_only=False
    )
    assert results["t"].code is ErrorCode.NOT_CONTROLLER
    assert await cluster.session.exists("/brokers/topics/t") is None
    await cluster.idle()
    assert cluster.controller.is_active, "nobody else wanted to be it"
    assert cluster.controller.epoch == 3


async def test_the_second_of_two_brokers_waits_for_its_turn(cluster: ControlledCluster) -> None:
    await cluster.start()
    await cluster.session.delete(paths.CONTROLLER)
    await cluster.session.create(paths.CONTROLLER, paths.encode_controller(9, 0))
    await settle()
    second = cluster.make_controller(cluster.session)
    await second.start()
    assert (second.is_active, second.controller_id) == (False, 9)
    second.close()
    cluster.controller.close()
    await cluster.session.delete(paths.CONTROLLER)
    await settle()
    assert not second.is_active, "closed is closed"


async def test_close_is_quiet(cluster: ControlledCluster, caplog: pytest.LogCaptureFixture) -> None:
    await cluster.start()
    await created(cluster, "t")
    with caplog.at_level(logging.WARNING):
        await cluster.stop()
        await settle()
    assert caplog.records == []


async def test_producer_ids_are_given_out_once(cluster: ControlledCluster) -> None:
    await cluster.start()
    assert await cluster.controller.allocate_producer_ids() == (0, 1000)
    cluster.fs.crash()
    await cluster.start()
    assert await cluster.controller.allocate_producer_ids() == (1000, 1000)


async def test_a_topic_from_before_topic_ids_gets_one(cluster: ControlledCluster) -> None:
    await cluster.start()
    old = b'{"version":1,"partitions":{"0":[0]}}'
    await cluster.session.create("/brokers/topics/old", old)
    await cluster.idle()
    stored = paths.decode_topic((await cluster.session.get("/brokers/topics/old")).data)
    assert stored.topic_id is not None
    assert cluster.broker.metadata.image.names_by_id == {stored.topic_id: "old"}


async def test_a_topic_whose_nodes_others_remove_is_forgotten(cluster: ControlledCluster) -> None:
    await cluster.start()
    await created(cluster, "t")
    await cluster.remove_nodes("t")
    await created(cluster, "t", 2)
    assert cluster.broker.replicas[TopicPartition("t", 1)].leader == 0


async def test_a_mark_for_a_topic_that_is_not_there_is_removed(cluster: ControlledCluster) -> None:
    await cluster.start()
    await cluster.session.create("/admin/delete_topics/ghost")
    await cluster.idle()
    assert await cluster.session.children("/admin/delete_topics") == []


@settings(max_examples=80, deadline=None)
@given(
    script=st.lists(
        st.tuples(
            st.sampled_from(["create", "create", "delete"]),
            st.sampled_from(["a", "b", "c.d"]),
            st.booleans(),
        ),
        min_size=1,
        max_size=8,
    ),
    crash_at=st.integers(0, 30),
    power_cut=st.booleans(),
)
def test_acknowledged_requests_survive_and_begun_ones_complete(
    script: list[tuple[str, str, bool]], crash_at: int, power_cut: bool
) -> None:
    """The disk dies at some write; after the restart nothing is half done."""
    asyncio.run(check_crash(script, crash_at, power_cut))


async def check_crash(script: list[tuple[str, str, bool]], crash_at: int, power_cut: bool) -> None:
    cluster = ControlledCluster()
    await cluster.start()
    cluster.fs.faults.append(Fault("sync", storage.LOG_NAME, skip=crash_at, times=1_000_000))
    there: dict[str, bool] = {}
    unsure: dict[str, None] = {}
    for what, name, patient in script:
        timeout_ms = 1000 if patient else 0
        code = await ask(cluster.controller, what, name, timeout_ms)
        if code is ErrorCode.NONE:
            there[name] = what == "create"
            unsure.pop(name, None)
        elif code not in (
            ErrorCode.TOPIC_ALREADY_EXISTS,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ):
            unsure[name] = None
        await cluster.idle()
    doomed = ids_told_to_be_deleted(cluster)
    if power_cut:
        cluster.fs.crash()
    else:
        cluster.fs.kill()
    await cluster.start()
    await check_settled(cluster)
    assert doomed.isdisjoint(cluster.broker.metadata.image.names_by_id)
    for name, exists in there.items():
        if name not in unsure:
            assert (name in cluster.broker.metadata.image.topics) == exists


def ids_told_to_be_deleted(cluster: ControlledCluster) -> set[uuid.UUID]:
    """Topics that the broker was told to forget: their data may be gone."""
    return {
        topic.topic_id
        for request in cluster.broker.requests
        if isinstance(request, UpdateMetadata)
        for topic in request.topic_states
        if any(state.leader == LEADER_DURING_DELETE for state in topic.partition_states)
    }


async def ask(controller: Controller, what: str, name: str, timeout_ms: int) -> ErrorCode:
    if what == "delete":
        return (await controller.delete_topics([name], timeout_ms))[name]
    results = await controller.create_topics(
        [NewTopic(name, 2, 1)], timeout_ms=timeout_ms, validate_only=False
    )
    return results[name].code


async def check_settled(cluster: ControlledCluster) -> None:
    """Tree, replicas and metadata tell the same, and nothing is half there."""
    names = await cluster.session.children("/brokers/topics")
    assert await cluster.session.children("/admin/delete_topics") == []
    assert await cluster.session.children("/config/topics") == names
    assert sorted(cluster.broker.metadata.image.topics) == names
    expected = [TopicPartition(name, index) for name in names for index in (0, 1)]
    assert sorted(cluster.broker.replicas) == expected
    for tp in expected:
        data = (await cluster.session.get(paths.partition_state(*tp))).data
        state = paths.decode_partition_state(data)
        replica = cluster.broker.replicas[tp]
        assert (state.leader, state.leader_epoch) == (0, replica.leader_epoch)
