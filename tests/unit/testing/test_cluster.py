"""Clusters inside a test: brokers that replicate, die and are cut off, under a stock client."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Place
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from kavka.testing import AsyncCluster, Cluster, ConfigError

DEADLINE_S = 60


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        yield running


def others(cluster: Cluster, broker_id: int) -> list[int]:
    return [other for other in cluster.addresses if other != broker_id]


def values(cluster: Cluster, topic: str) -> list[bytes | None]:
    return [record.value for record in cluster.read(topic)]


def test_what_is_acknowledged_outlives_each_broker(cluster: Cluster) -> None:
    cluster.create_topic("t", 1, configs={"min.insync.replicas": 2})
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, acks="all", retries=1000)
    written: list[bytes | None] = []

    def write(value: bytes) -> None:
        producer.send("t", value).get(timeout=DEADLINE_S)
        written.append(value)

    try:
        write(b"first")
        for broker_id in cluster.addresses:
            cluster.kill(broker_id)
            assert not cluster.is_running(broker_id)
            assert cluster.leader_of("t") != broker_id
            write(b"without %d" % broker_id)
            cluster.start(broker_id)
            cluster.wait_until_in_sync("t")
        assert values(cluster, "t") == written
        for broker_id in cluster.addresses:
            cluster.stop(broker_id)
            write(b"without %d again" % broker_id)
            cluster.start(broker_id)
            cluster.wait_until_in_sync()
    finally:
        producer.close()
    consumer = KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers)
    try:
        consumer.assign([TopicPartition("t", 0)])
        consumer.seek_to_beginning()
        found = [next(consumer).value for _ in written]
    finally:
        consumer.close()
    assert found == written


def test_all_die_and_come_back(cluster: Cluster) -> None:
    cluster.create_topic("t")
    cluster.produce("t", b"x", key=b"k")
    addresses = cluster.addresses
    cluster.kill()
    assert not any(map(cluster.is_running, addresses))
    cluster.start()
    assert cluster.addresses == addresses
    cluster.wait_until_in_sync("t")
    (record,) = cluster.read("t", at_least=1, partition=0)
    assert (record.key, record.value) == (b"k", b"x")
    cluster.stop()
    cluster.start()
    assert values(cluster, "t") == [b"x"]


def test_a_leader_that_is_cut_off_acknowledges_nothing(cluster: Cluster) -> None:
    cluster.create_topic("t", 1, configs={"min.insync.replicas": 2})
    leader = cluster.leader_of("t")
    assert leader is not None
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, acks="all", retries=1000)
    try:
        producer.send("t", b"1").get(timeout=DEADLINE_S)
        cluster.partition(leader, from_=others(cluster, leader))
        sent = producer.send("t", b"2")
        assert not sent.is_done
        cluster.heal()
        sent.get(timeout=DEADLINE_S)
    finally:
        producer.close()
    cluster.wait_until_in_sync()
    assert set(values(cluster, "t")) == {b"1", b"2"}


def test_a_follower_that_is_cut_off_is_missed() -> None:
    with Cluster(2, replica_lag_time_max_ms=1000) as cluster:
        cluster.create_topic("t", 2)
        leader = cluster.controller
        assert leader is not None
        (index,) = (index for index in (0, 1) if cluster.leader_of("t", index) == leader)
        (follower,) = others(cluster, leader)
        cluster.partition(leader, from_=[follower])
        cluster.produce("t", b"x", partition=index)
        with pytest.raises(TimeoutError, match=rf"not in sync: .*ISR \[{leader}\] of \["):
            cluster.wait_until_in_sync("t", within_s=0.2)
        cluster.heal()
        cluster.wait_until_in_sync("t")
        assert values(cluster, "t") == [b"x"]


def test_topics_by_number_of_replicas(cluster: Cluster) -> None:
    cluster.create_topic("one", 3, replication_factor=1)
    cluster.create_topic("three")
    assert cluster.topics() == ["one", "three"]
    dead = cluster.leader_of("one", 1)
    assert dead is not None
    cluster.kill(dead)
    assert cluster.leader_of("one", 1) is None
    cluster.start(dead)
    cluster.produce("one", b"x", partition=1)
    assert cluster.leader_of("one", 1) == dead
    cluster.delete_topic("one")
    assert cluster.topics() == ["three"]
    assert cluster.controller in cluster.addresses


def test_mistakes_are_named() -> None:
    with pytest.raises(ConfigError, match="each broker of the cluster has its own"):
        Cluster(broker_id=4)
    with pytest.raises(ConfigError, match="num.partitions is given twice"):
        Cluster(settings={"num.partitions": 1}, num_partitions=2)
    with pytest.raises(ValueError, match="at least one broker"):
        Cluster(0)
    stopped = Cluster()
    with pytest.raises(RuntimeError, match="does not run"):
        stopped.topics()
    stopped.close()
    with Cluster(1) as cluster:
        with pytest.raises(KeyError, match="no broker 2: the brokers are 1"):
            cluster.kill(2)
        with pytest.raises(KeyError, match="no topic t"):
            cluster.leader_of("t")
        cluster.create_topic("t")
        with pytest.raises(KeyError, match="no partition t-7"):
            cluster.leader_of("t", 7)
        with pytest.raises(RuntimeError, match="runs already"):
            cluster.start(1)


async def test_on_the_loop_of_the_test() -> None:
    async with AsyncCluster(2) as cluster:
        await cluster.create_topic("t", 2)
        await asyncio.gather(*(cluster.produce("t", b"x", partition=index) for index in (0, 1)))
        leader = cluster.leader_of("t", 1)
        assert leader is not None
        await cluster.kill(leader)
        assert await cluster.produce("t", b"y", partition=1) == 1
        assert [record.value for record in await cluster.read("t", 1)] == [b"x", b"y"]
        await cluster.start(leader)
        await cluster.wait_until_in_sync()
        with pytest.raises(ValueError, match="at_least needs a partition"):
            await cluster.read("t", at_least=1)
        directories = [broker.data_dir for broker in cluster.brokers.values()]
    assert not any(directory.exists() for directory in directories)


async def test_a_consumer_reads_from_the_replica_in_its_rack() -> None:
    """librdkafka goes where the leader sends it (KIP-392), and comes back when that dies."""
    selector = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
    cluster = AsyncCluster(racks=("a", "b", "c"), replica_selector_class=selector)

    def bytes_out() -> dict[int, int]:
        return {
            number: broker.parts.replicas.traffic.topics["t"].bytes_out
            for number, broker in cluster.brokers.items()
            if broker.parts is not None and "t" in broker.parts.replicas.traffic.topics
        }

    async with cluster:
        await cluster.create_topic("t", 1)
        for number in range(10):
            await cluster.produce("t", b"%d" % number)
        leader = cluster.leader_of("t")
        nearest = next(broker_id for broker_id in cluster.brokers if broker_id != leader)
        consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "group.id": "unused",
                "client.rack": "abc"[nearest - 1],
                "enable.auto.commit": False,
            }
        )

        async def read(count: int) -> list[bytes | None]:
            found: list[bytes | None] = []
            async with asyncio.timeout(DEADLINE_S):
                while len(found) < count:
                    polled = await asyncio.to_thread(consumer.poll, 0.2)
                    if polled is not None and not polled.error():
                        found.append(polled.value())
            return found

        consumer.assign([Place("t", 0, 0)])
        try:
            assert await read(10) == [b"%d" % number for number in range(10)]
            assert [broker_id for broker_id, size in bytes_out().items() if size] == [nearest]
            await cluster.kill(nearest)
            await cluster.produce("t", b"10")
            assert await read(1) == [b"10"]
        finally:
            consumer.close()


def test_each_broker_has_a_rack_or_none_has() -> None:
    with pytest.raises(ValueError, match="2 racks for 3 brokers"):
        Cluster(racks=("a", "b"))
    with pytest.raises(ConfigError, match="each broker of the cluster has its own"):
        Cluster(broker_rack="a")
