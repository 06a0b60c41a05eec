"""Metadata: the answers of Apache Kafka 4.3.1."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from kavka.server.auth.authorizer import CHECKS_A_STEP, Operation
from kavka.server.handlers import metadata
from kavka.server.request.context import Peer, RequestContext
from kavka.server.runtime.rate_limited_log import LINES_MAX
from kavka.wire.apis.metadata import API
from kavka.wire.errors import ErrorCode as Code
from kavka.wire.steps import ITEMS_A_STEP
from support.denied import Denied
from support.memory_broker import MemoryBroker, scenario
from support.steps import stops_of
from support.virtual import settle

VERSIONS = range(API.lowest, API.highest + 1)
IDS_SINCE = 12
NOBODY = UUID(int=55)
NOT_ASKED = -(2**31)

# The numbers of operations in bit fields (KIP-430).
TOPIC_BITS = sum(1 << operation for operation in (3, 4, 5, 6, 7, 8, 10, 11))
CLUSTER_BITS = sum(1 << operation for operation in (5, 7, 8, 9, 10, 11, 12))


async def ask(
    broker: MemoryBroker, *names: str, version: int = 9, create: bool = False, **values: Any
) -> Any:
    topics = [{"name": name} for name in names]
    asked = {"topics": topics, "allow_auto_topic_creation": create} | values
    return await broker.ask("Metadata", version, **asked)


def codes(answer: Any) -> dict[str | None, int]:
    return {topic.name: topic.error_code for topic in answer.topics}


@pytest.mark.parametrize("version", VERSIONS)
@scenario("broker.rack=r1", topics={"t": 2})
async def test_what_every_version_tells(broker: MemoryBroker, version: int) -> None:
    answer = await ask(broker, "t", version=version)
    (known,) = answer.brokers
    address = broker.instance.addresses["PLAINTEXT"]
    assert (known.node_id, known.host, known.port) == (1, *address)
    assert known.rack == ("r1" if version >= 1 else None)
    assert answer.controller_id == (1 if version >= 1 else -1)
    assert (answer.cluster_id is not None) == (version >= 2)
    (topic,) = answer.topics
    assert (topic.name, topic.error_code, topic.is_internal) == ("t", Code.NONE, False)
    assert (topic.topic_id is not None) == (version >= 10)
    for index, partition in enumerate(topic.partitions):
        assert (partition.partition_index, partition.error_code) == (index, Code.NONE)
        assert partition.leader_id == 1
        assert partition.leader_epoch == (0 if version >= 7 else -1)
        assert (partition.replica_nodes, partition.isr_nodes) == ([1], [1])
        assert partition.offline_replicas == []
    assert answer.error_code == Code.NONE


@pytest.mark.parametrize("version", VERSIONS)
@scenario(topics={"a": 1, "b": 2})
async def test_all_topics_and_none(broker: MemoryBroker, version: int) -> None:
    everything = await ask(broker, version=version, topics=[] if version == 0 else None)
    assert codes(everything) == {"a": Code.NONE, "b": Code.NONE}
    if version > 0:
        nothing = await ask(broker, version=version)
        assert nothing.topics == []
        assert nothing.brokers


# -- names and ids --------------------------------------------------------------------------


@pytest.mark.parametrize("version", [v for v in VERSIONS if v >= 4])
@scenario(topics={"t": 1})
async def test_missing_topics_and_bad_names(broker: MemoryBroker, version: int) -> None:
    bad = ["a b", "", ".", "..", "x" * 250, "ä", "a/b"]
    answer = await ask(broker, "gone", "t", *bad, "x" * 249, version=version)
    assert codes(answer) == {
        "gone": Code.UNKNOWN_TOPIC_OR_PARTITION,
        "t": Code.NONE,
        "x" * 249: Code.UNKNOWN_TOPIC_OR_PARTITION,
    } | dict.fromkeys(bad, Code.INVALID_TOPIC_EXCEPTION)
    assert all(not topic.partitions for topic in answer.topics if topic.name != "t")


@scenario(topics={"t": 1})
async def test_a_topic_is_answered_once(broker: MemoryBroker) -> None:
    answer = await ask(broker, "t", "t", "gone", "gone")
    assert [topic.name for topic in answer.topics] == ["t", "gone"]


@pytest.mark.parametrize("version", [12, 13])
@scenario()
async def test_by_id(broker: MemoryBroker, version: int) -> None:
    topic_id = await broker.create("t")
    asked = [{"name": None, "topic_id": one} for one in (topic_id, topic_id, NOBODY)]
    answer = await ask(broker, version=version, topics=asked)
    found = [(topic.name, topic.topic_id, topic.error_code) for topic in answer.topics]
    assert found == [("t", topic_id, Code.NONE), (None, NOBODY, Code.UNKNOWN_TOPIC_ID)]
    assert len(answer.topics[0].partitions) == 1


@pytest.mark.parametrize("version", [10, 11])
@scenario()
async def test_ids_and_nulls_are_too_early(broker: MemoryBroker, version: int) -> None:
    topic_id = await broker.create("t")
    for topic in ({"name": "t", "topic_id": topic_id}, {"name": None}, {"topic_id": topic_id}):
        answer = await ask(broker, version=version, topics=[{"name": None} | topic, {"name": "t"}])
        assert [one.error_code for one in answer.topics] == [Code.INVALID_REQUEST] * 2


# -- operations (KIP-430, KIP-700) ----------------------------------------------------------


@pytest.mark.parametrize("version", [v for v in VERSIONS if v >= 8])
@scenario(topics={"t": 1})
async def test_authorized_operations(broker: MemoryBroker, version: int) -> None:
    asked = {
        "include_cluster_authorized_operations": True,
        "include_topic_authorized_operations": True,
    }
    answer = await ask(broker, "t", version=version, **asked)
    assert answer.topics[0].topic_authorized_operations == TOPIC_BITS
    cluster = answer.cluster_authorized_operations
    assert cluster == (CLUSTER_BITS if version <= 10 else NOT_ASKED)
    answer = await ask(broker, "t", version=version)
    assert answer.topics[0].topic_authorized_operations == NOT_ASKED
    assert answer.cluster_authorized_operations == NOT_ASKED


@scenario(topics={"open": 1, "secret": 1})
async def test_topics_that_may_not_be_described(broker: MemoryBroker) -> None:
    broker.parts.authorizer = Denied((Operation.DESCRIBE, "secret"))
    assert codes(await ask(broker, topics=None)) == {"open": Code.NONE}, "not even named"
    answer = await ask(broker, "open", "secret")
    assert codes(answer) == {"open": Code.NONE, "secret": Code.TOPIC_AUTHORIZATION_FAILED}
    ids = broker.parts.metadata.image.topics
    topic_id = ids["secret"].topic_id
    answer = await ask(broker, version=12, topics=[{"name": None, "topic_id": topic_id}])
    assert codes(answer) == {None: Code.TOPIC_AUTHORIZATION_FAILED}


# -- what is not reachable -----------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
@scenario(topics={"t": 1})
async def test_leaders_that_cannot_be_reached(broker: MemoryBroker, version: int) -> None:
    cache = broker.parts.metadata
    image = cache.image
    elsewhere = replace(image.brokers[1], endpoints={"OTHER": ("x", 1)})

    async def partition() -> tuple[int, int]:
        (topic,) = (await ask(broker, "t", version=version)).topics
        (found,) = topic.partitions
        return found.error_code, found.leader_id

    cache.image = replace(image, brokers={})
    assert await partition() == (Code.LEADER_NOT_AVAILABLE, -1)
    cache.image = replace(image, brokers={1: elsewhere})
    newer = version >= 6
    not_here = (Code.LISTENER_NOT_FOUND, 1) if newer else (Code.LEADER_NOT_AVAILABLE, -1)
    assert await partition() == not_here
    shared = replace(image.topics["t"].partitions[0], replicas=(1, 2))
    topics = {"t": replace(image.topics["t"], partitions=(shared,))}
    cache.image = replace(image, topics=topics)
    dead = Code.REPLICA_NOT_AVAILABLE if version == 0 else Code.NONE
    assert await partition() == (dead, 1)


# -- creation by asking ---------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
@scenario("num.partitions=3")
async def test_asking_creates(broker: MemoryBroker, version: int) -> None:
    answer = await ask(broker, "new", version=version, create=True)
    assert codes(answer) == {"new": Code.UNKNOWN_TOPIC_OR_PARTITION}
    assert answer.topics[0].partitions == []
    await settle()
    again = await ask(broker, "new", version=version)
    assert codes(again) == {"new": Code.NONE}
    assert [one.leader_id for one in again.topics[0].partitions] == [1, 1, 1]


@scenario()
async def test_only_what_can_be_is_created(broker: MemoryBroker) -> None:
    answer = await ask(broker, "a b", "ok.1", "__share_group_state", create=True)
    assert codes(answer) == {
        "a b": Code.INVALID_TOPIC_EXCEPTION,
        "ok.1": Code.UNKNOWN_TOPIC_OR_PARTITION,
        "__share_group_state": Code.UNKNOWN_TOPIC_OR_PARTITION,
    }
    await settle()
    answer = await ask(broker, "ok_1", create=True)
    await settle()
    assert codes(answer) == {"ok_1": Code.UNKNOWN_TOPIC_OR_PARTITION}, "collides with ok.1"
    assert codes(await ask(broker, topics=None)) == {"ok.1": Code.NONE}


@pytest.mark.parametrize("version", [0, 3, 4, 9])
@scenario("auto.create.topics.enable=false")
async def test_the_switch(broker: MemoryBroker, version: int) -> None:
    answer = await ask(broker, "new", version=version, create=True)
    assert codes(answer) == {"new": Code.UNKNOWN_TOPIC_OR_PARTITION}
    assert (await ask(broker, topics=None)).topics == []


@scenario()
async def test_several_who_ask_at_a_time_make_one_topic(
    broker: MemoryBroker, caplog: pytest.LogCaptureFixture
) -> None:
    asked = {"topics": [{"name": "new"}], "allow_auto_topic_creation": True}
    waiting = [broker.connect().send("Metadata", 12, **asked) for _ in range(5)]
    await settle(100)
    received = {codes(one.result())["new"] for one in waiting}
    assert received <= {Code.NONE, Code.UNKNOWN_TOPIC_OR_PARTITION}
    assert codes(await ask(broker, "new", version=12, create=True)) == {"new": Code.NONE}
    assert not broker.parts.auto_creating
    assert "can't create" not in caplog.text


@scenario("default.replication.factor=3")
async def test_what_can_not_be_made_does_not_fill_the_log(
    broker: MemoryBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """Clients ask ten times a second and more."""
    for _ in range(2 * LINES_MAX):
        await ask(broker, "new", create=True)
        await settle()
    said = [one for one in caplog.messages if "can't create topic new on first use" in one]
    assert len(said) == LINES_MAX and "INVALID_REPLICATION_FACTOR" in said[0]


@scenario()
async def test_only_so_many_are_made_at_a_time(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client need not wait for its answer to ask for more, so something else has to."""
    monkeypatch.setattr(metadata, "AUTO_CREATE_MAX", 3)
    names = [f"new-{number}" for number in range(8)]
    for there in (3, 6, 8):
        await ask(broker, *names, create=True)
        assert len(broker.parts.auto_creating) <= 3
        await settle(100)
        assert len(broker.parts.metadata.image.topics) == there


@scenario()
async def test_who_may_not_create(broker: MemoryBroker) -> None:
    cluster = (Operation.CREATE, "kafka-cluster")
    broker.parts.authorizer = Denied(cluster, (Operation.CREATE, "mine"))
    asked = {"include_topic_authorized_operations": True}
    answer = await ask(broker, "mine", "yours", create=True, **asked)
    missing = Code.UNKNOWN_TOPIC_OR_PARTITION
    assert codes(answer) == {"mine": Code.TOPIC_AUTHORIZATION_FAILED, "yours": missing}
    await settle()
    answer = await ask(broker, "mine", "yours", create=True, **asked)
    assert codes(answer) == {"mine": Code.TOPIC_AUTHORIZATION_FAILED, "yours": Code.NONE}
    operations = {topic.name: topic.topic_authorized_operations for topic in answer.topics}
    assert operations == {"mine": NOT_ASKED, "yours": TOPIC_BITS}


@scenario()
async def test_who_may_not_see_a_topic_does_not_create_it(broker: MemoryBroker) -> None:
    broker.parts.authorizer = Denied((Operation.DESCRIBE, "secret"))
    answer = await ask(broker, "secret", "open", create=True)
    missing = Code.UNKNOWN_TOPIC_OR_PARTITION
    assert codes(answer) == {"secret": Code.TOPIC_AUTHORIZATION_FAILED, "open": missing}
    await settle()
    assert set(broker.parts.metadata.image.topics) == {"open"}


# -- listeners ------------------------------------------------------------------------------


@scenario(
    "listeners=PLAINTEXT://127.0.0.1:0,INSIDE://127.0.0.1:0",
    "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT",
    "advertised.listeners=PLAINTEXT://outside.test:9092,INSIDE://127.0.0.1:0",
    topics={"t": 1},
)
async def test_addresses_are_those_of_the_listener_that_was_asked(broker: MemoryBroker) -> None:
    inside = broker.connect("INSIDE")
    (known,) = (await inside.ask("Metadata", 9, topics=[])).brokers
    assert (known.host, known.port) == broker.instance.addresses["INSIDE"]
    (known,) = (await broker.ask("Metadata", 9, topics=[])).brokers
    assert (known.host, known.port) == ("outside.test", 9092)


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state"])
@scenario()
async def test_who_asks_for_a_coordinators_topic_has_it_made(
    broker: MemoryBroker, name: str
) -> None:
    asked = {"topics": [{"name": name}, {"name": "t"}]}
    answer = await broker.ask("Metadata", 9, **asked, allow_auto_topic_creation=False)
    assert {topic.error_code for topic in answer.topics} == {Code.UNKNOWN_TOPIC_OR_PARTITION}
    await broker.ask("Metadata", 9, **asked, allow_auto_topic_creation=True)
    await settle(1000)
    answer = await broker.ask("Metadata", 9, **asked, allow_auto_topic_creation=False)
    assert [(one.error_code, one.is_internal, len(one.partitions)) for one in answer.topics] == [
        (Code.NONE, True, 50),
        (Code.NONE, False, 1),
    ]
    topic = broker.replica(name).log.settings
    assert topic.cleanup_policy == ("compact",)


@scenario(topics={"t": 2 * ITEMS_A_STEP})
async def test_many_topics_and_partitions_are_told_in_steps(broker: MemoryBroker) -> None:
    context = RequestContext(Peer("PLAINTEXT", "host:1"), 9, 1, None)

    def pauses(names: list[str] | None, *, operations: bool = False) -> int:
        asked = SimpleNamespace(
            topics=None if names is None else [SimpleNamespace(name=name) for name in names],
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=operations,
            include_cluster_authorized_operations=False,
        )
        work: Any = metadata._build(broker.parts, context, asked)
        return stops_of(work)[0]

    unknown = [f"n{number}" for number in range(CHECKS_A_STEP)]
    assert pauses(["t"]) == pauses(None) == 2, "of partitions"
    assert pauses(unknown) >= 2, "questions"
    assert pauses(unknown, operations=True) >= 10
