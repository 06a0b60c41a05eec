"""A cluster of Apache Kafka 3.9 rolls over to Kavka, broker by broker, while records are consumed,
transformed and produced in transactions, each once; and back again.

So each kind of broker is leader, follower, controller and coordinator for the other. Groups are
classic ones: Apache Kafka 3.9 with ZooKeeper has no others.
MIXED_RECORDS (6,000; `make rolling` sets 60,000) sets the size; MIXED_SEED replays its moments.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.mixed_cluster import APACHE_KAFKA, KAVKA, MixedCluster
from support.transactions.clients import (
    BROKER_SETTINGS,
    FRANZ_GO,
    JAVA_CLASSIC,
    TransactionClient,
)
from support.transactions.instances import SOURCE, TARGET
from support.transactions.scenario import PARTITIONS, Plan, play

RECORDS = int(os.environ.get("MIXED_RECORDS", "6000"))
SEED = int(os.environ.get("MIXED_SEED") or random.SystemRandom().randrange(2**32))
TIMEOUT_S = 1200


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[MixedCluster]:
    cluster = MixedCluster(tmp_path, BROKER_SETTINGS)
    try:
        yield cluster
    finally:
        print(cluster.tail())
        cluster.close()


def roll(
    cluster: MixedCluster, client: TransactionClient, home: Path, kinds: list[str], rolls: int
) -> None:
    """Start with these kinds; one member after the other goes on as the other kind."""
    print(f"MIXED_SEED={SEED} MIXED_RECORDS={RECORDS}")
    client.start()  # what it needs is installed before time is taken
    cluster.open(kinds)
    plan = Plan(RECORDS, rolls, instance_kills=1, superseded=0, second_kill=0.0)
    broker: Any = cluster
    play(broker, client, home, plan, random.Random(SEED))
    cluster.stop()
    for topic in (SOURCE, TARGET):
        for index in range(PARTITIONS):
            stored = {cluster.stored(member, topic, index) for member in cluster.members}
            assert len(stored) == 1, f"the replicas of {topic}-{index} differ"


@pytest.mark.timeout(TIMEOUT_S)
def test_brokers_of_either_kind_take_turns(cluster: MixedCluster, tmp_path: Path) -> None:
    roll(cluster, JAVA_CLASSIC, tmp_path, [APACHE_KAFKA, APACHE_KAFKA, KAVKA], 3)
    assert cluster.kinds == [KAVKA, KAVKA, APACHE_KAFKA]


@pytest.mark.timeout(TIMEOUT_S)
@pytest.mark.parametrize("client", [JAVA_CLASSIC, FRANZ_GO], ids=lambda client: client.name)
def test_a_cluster_rolls_over_and_back(
    cluster: MixedCluster, client: TransactionClient, tmp_path: Path
) -> None:
    roll(cluster, client, tmp_path, [APACHE_KAFKA] * 3, 6)
    assert cluster.kinds == [APACHE_KAFKA] * 3
