"""A broker's terms as the controller, its clients' requests, and crashes."""

from __future__ import annotations

import asyncio
import json
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
from kavka.server.controller.events import RequestedIsr, StoredState
from kavka.server.controller.topic_validation import NewTopic
from kavka.server.coordination.broker_registration import cluster_id
from kavka.wire.errors import ApiError, ErrorCode
from kavka.zktree import paths, storage
from support import kafka39
from support.async_scenarios import scenario_on_loop
from support.controlled_broker import INFO, ControlledCluster
from support.controller_requests_machine import ControllerRequestsMachine
from support.embedded_coordination import all_nodes
from support.scenarios import Scenario, scenario_files
from support.virtual import run_until_idle

KAFKA = {"created": kafka39.CREATED, "deleted": kafka39.DELETED}
NEVER_THE_SAME = ("timestamp", "topic_id", "id")


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


async def test_the_tree_is_the_one_of_apache_kafka(cluster: ControlledCluster) -> None:
    await cluster.start()
    await cluster_id(cluster.session, "some-id")
    configs = {"cleanup.policy": "compact", "retention.ms": "60000"}
    for topic in (NewTopic("orders", 2, 1, configs=configs), NewTopic("a.b", 1, 1)):
        await cluster.controller.create_topics([topic], timeout_ms=1000, validate_only=False)
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
    # in Kafka two requests deleted the topic: the cversion of its mark's parent has both changes
    assert after == theirs


async def test_start_ends_when_the_broker_has_all_metadata(cluster: ControlledCluster) -> None:
    await cluster.start(*(NewTopic(f"t{number}", 60, 1) for number in range(5)))
    await cluster.stop()
    await cluster.start()
    assert len(cluster.broker.replicas) == 300
    image = cluster.broker.metadata.image
    assert sum(len(topic.partitions) for topic in image.topics.values()) == 300
    assert image.controller_id == 0
    assert image.brokers[0].endpoints == {"PLAINTEXT": ("127.0.0.1", 23183)}
    assert image.brokers[0].rack == INFO.rack


async def test_requests_wait_until_a_new_controller_has_read_the_tree(
    cluster: ControlledCluster,
) -> None:
    """It would deny what there is: a leader never asks for its ISR again after such a response."""
    await cluster.start(NewTopic("t"))
    controller, tp = cluster.controller, TopicPartition("t", 0)
    broker_epoch = (await cluster.session.get(paths.broker(0))).stat.czxid
    requested = RequestedIsr(0, (await controller.topic_ids())["t"], 0, 0, (0,))

    async def next_term() -> None:
        before = controller.epoch
        await cluster.session.delete(paths.CONTROLLER)
        while controller.epoch in (0, before):
            await asyncio.sleep(0)

    await next_term()
    (altered,) = (await controller.alter_isrs((0, broker_epoch), {tp: requested})).values()
    assert isinstance(altered, StoredState) and altered.state.isr == (0,)
    await next_term()
    assert [*await controller.topic_ids()] == ["t"]
    await next_term()
    assert await controller.shut_down(0, broker_epoch) == [], "nothing has another replica"
    await next_term()
    assert await controller.allocate_producer_ids_to(0, broker_epoch)
    await next_term()
    elections = await controller.elect_leaders([tp], unclean=False, timeout_ms=1000)
    (elected,) = elections.values()
    assert elected is not None and elected.code is ErrorCode.ELECTION_NOT_NEEDED
    await next_term()
    (created,) = (
        await controller.create_topics([NewTopic("t")], timeout_ms=1000, validate_only=False)
    ).values()
    assert created.code is ErrorCode.TOPIC_ALREADY_EXISTS
    await next_term()
    assert await controller.delete_topics(["t"], 1000) == {"t": ErrorCode.NONE}
    await next_term()
    asking = asyncio.ensure_future(controller.topic_ids())
    await asyncio.sleep(0)
    controller.close()
    with pytest.raises(ApiError, match="NOT_CONTROLLER"):
        await asking


async def test_the_second_of_two_brokers_is_not_the_controller(cluster: ControlledCluster) -> None:
    await cluster.start()
    await cluster.session.delete(paths.CONTROLLER)
    await cluster.session.create(paths.CONTROLLER, paths.encode_controller(9, 0))
    await run_until_idle()
    second = cluster.make_controller(cluster.session)
    await second.start()
    assert (second.is_active, second.controller_id) == (False, 9)
    second.close()
    cluster.controller.close()
    await cluster.session.delete(paths.CONTROLLER)
    await run_until_idle()
    assert not second.is_active, "it has been closed"


@settings(max_examples=80)
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
    exists: dict[str, bool] = {}
    unsure: dict[str, None] = {}
    for operation, name, patient in script:
        timeout_ms = 1000 if patient else 0
        code = await ask(cluster.controller, operation, name, timeout_ms)
        if code is ErrorCode.NONE:
            exists[name] = operation == "create"
            unsure.pop(name, None)
        elif code not in (
            ErrorCode.TOPIC_ALREADY_EXISTS,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ):
            unsure[name] = None
        await run_until_idle()
    await cluster.controller.wait_until_idle()
    deleted = deleted_ids(cluster)
    if power_cut:
        cluster.fs.crash()
    else:
        cluster.fs.kill()
    await cluster.start()
    await check_consistent(cluster)
    assert deleted.isdisjoint(cluster.broker.metadata.image.names_by_id)
    for name, is_there in exists.items():
        if name not in unsure:
            assert (name in cluster.broker.metadata.image.topics) == is_there


def deleted_ids(cluster: ControlledCluster) -> set[uuid.UUID]:
    """Topics whose deletion the broker was sent: their data may be gone."""
    return {
        topic.topic_id
        for request in cluster.broker.requests
        if isinstance(request, UpdateMetadata)
        for topic in request.topic_states
        if any(state.leader == LEADER_DURING_DELETE for state in topic.partition_states)
    }


async def ask(controller: Controller, operation: str, name: str, timeout_ms: int) -> ErrorCode:
    if operation == "delete":
        return (await controller.delete_topics([name], timeout_ms))[name]
    results = await controller.create_topics(
        [NewTopic(name, 2, 1)], timeout_ms=timeout_ms, validate_only=False
    )
    return results[name].code


async def check_consistent(cluster: ControlledCluster) -> None:
    """Tree, replicas and metadata agree, and nothing is half done."""
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


@scenario_files(
    "controller/legacy_nodes",
    "controller/partition_requests",
    "controller/terms",
    "controller/topic_requests",
)
def test_scenarios(scenario: Scenario, rewrite: bool) -> None:
    scenario_on_loop(scenario, rewrite, ControllerRequestsMachine)
