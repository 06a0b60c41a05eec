"""A broker joins a cluster under load and takes over replicas, throttled; then another one is
drained and leaves. Apache Kafka's own tools do both, and the clients notice nothing.

GROWTH_MB (24; `make cluster` sets 400) is how much is moved to the new broker.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from kafka import KafkaProducer

from cluster_faults.consumers import Consumers
from cluster_faults.readers import LiveReader, read_all
from cluster_faults.writers import KINDS, Producing
from sim.history import History
from sim.judge import judge
from support import java
from support.clients.kafka_python import create_topic
from support.groups.clients import BROKER_SETTINGS
from support.java_tools import Tools, says_completed
from support.kavka_cluster import KavkaCluster, serving
from support.wait import eventually

MEGABYTES = int(os.environ.get("GROWTH_MB", "24"))
RATE = 2_000_000
"""Bytes a second that the new broker may fetch."""

QUICK = 1_000_000_000
BIG, LIVE, PARTITIONS = "big", "live", 4
"""The topic that there was before, and the one that is written to all the while."""

OFFSETS = "__consumer_offsets"
TOPICS = "org.apache.kafka.tools.TopicCommand"
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
RECORDS_A_S = 50.0
WITHIN_S = 120.0
LOOK_S = 0.2


class Load:
    """Idempotent producers of every kind, two groups, and a reader that sees every offset."""

    def __init__(self, bootstrap: str, home: Path) -> None:
        began = time.monotonic()
        self._bootstrap = bootstrap
        self._history = History(lambda: time.monotonic() - began)
        self._places = [(LIVE, index) for index in range(PARTITIONS)]
        self._producers = [
            Producing(
                kind,
                bootstrap,
                LIVE,
                PARTITIONS,
                self._history,
                rate=RECORDS_A_S,
                name=kind.label,
            )
            for kind in KINDS
        ]
        self._reader = LiveReader(
            bootstrap, self._places, self._history, name="live reader", dense=True
        )
        self._consumers = Consumers(bootstrap, LIVE, home)
        for thread in (*self._producers, self._reader):
            thread.start()

    def await_progress(self) -> None:
        """Wait until every client gets on."""
        before = self._counts()
        eventually(
            lambda: all(count >= before[name] + 20 for name, count in self._counts().items()),
            within_s=WITHIN_S,
            what="every client gets on",
            detail=lambda: str(self._counts()),
        )

    def finish(self) -> None:
        """All ends; nothing was lost, doubled, reordered or given up."""
        for producer in self._producers:
            producer.finish(WITHIN_S)
        final = read_all(self._bootstrap, self._places, name="last reader")
        self._history.readings += final.values()
        self._reader.finish()
        assert judge(self._history, final, {}, {}, []) == []
        assert (
            self._consumers.finish({place: reading.position for place, reading in final.items()})
            == []
        )
        assert not self._history.given_up
        assert all(producer.successors == 1 for producer in self._producers), "none gave up"

    def close(self) -> None:
        """End it in any way."""
        for producer in self._producers:
            producer.stop()
        self._consumers.close()

    def _counts(self) -> dict[str, int]:
        return {
            **{producer.name: producer.acknowledged for producer in self._producers},
            self._reader.name: self._reader.records,
            **self._consumers.read(),
        }


class Administrator:
    """Someone with Apache Kafka's tools."""

    def __init__(self, cluster: KavkaCluster, tools: Tools, home: Path) -> None:
        self._cluster = cluster
        self._tools = tools
        self._home = home

    def replicas(self) -> dict[str, set[int]]:
        """Which brokers have replicas of each partition, as kafka-topics says."""
        shown = self._run(TOPICS, "--describe")
        found = {}
        for line in shown.splitlines():
            if "Partition: " in line:
                words = line.split()
                name = f"{words[1]}-{words[words.index('Partition:') + 1]}"
                numbers = words[words.index("Replicas:") + 1].split(",")
                found[name] = {int(number) for number in numbers}
        return found

    def move(self, topics: Sequence[str], brokers: Sequence[int], rate: int) -> str:
        """Spread topics over brokers, as the tool proposes; the file of the plan."""
        topics_to_move = {"version": 1, "topics": [{"topic": topic} for topic in topics]}
        shown = self._run(
            REASSIGN,
            "--generate",
            "--topics-to-move-json-file",
            self._file("topics.json", json.dumps(topics_to_move)),
            "--broker-list",
            ",".join(map(str, brokers)),
        )
        proposed = shown.partition("Proposed partition reassignment configuration")[2]
        plan = self._file("plan.json", proposed.strip())
        self._run(REASSIGN, "--execute", "--reassignment-json-file", plan, "--throttle", str(rate))
        return plan

    def is_done(self, plan: str) -> bool:
        """Whether all is moved; the throttle is taken away then."""
        return says_completed(self._run(REASSIGN, "--verify", "--reassignment-json-file", plan))

    def await_drained(self, broker: int) -> None:
        """Wait until every broker that the tool may ask knows that this one has no replicas."""
        eventually(
            lambda: not any(broker in numbers for numbers in self.replicas().values()),
            within_s=WITHIN_S,
            what=f"{broker} has no replicas",
            detail=lambda: str(self.replicas()),
        )

    def _run(self, tool: str, *arguments: str) -> str:
        done = self._tools.run(tool, "--bootstrap-server", self._cluster.bootstrap, *arguments)
        assert done.exit_code == 0, done
        return done.text

    def _file(self, name: str, content: str) -> str:
        path = self._home / name
        path.write_text(content)
        return str(path)


class Arrivals(threading.Thread):
    """How fast a broker gets the bytes of its new replicas: it looks often, by itself."""

    def __init__(self, data_dir: Path) -> None:
        super().__init__(name="arrivals", daemon=True)
        self._data_dir = data_dir
        self._seen: list[tuple[float, int]] = []
        self._stopping = threading.Event()

    def run(self) -> None:
        while not self._stopping.wait(LOOK_S):
            self._look()

    def finish(self) -> int:
        """Look no more; how many bytes there are."""
        self._stopping.set()
        self.join(WITHIN_S)
        assert not self.is_alive(), "it does not end"
        return self._look()

    def _look(self) -> int:
        size = sum(path.stat().st_size for path in self._data_dir.glob(f"{BIG}-*/*.log"))
        self._seen.append((time.monotonic(), size))
        return size

    def rate(self) -> float:
        """Bytes a second, from when some had come until not all had."""
        last = self._seen[-1][1]
        moving = [(at, size) for at, size in self._seen if 0.1 * last < size < 0.9 * last]
        (began, first), (ended, more) = moving[0], moving[-1]
        assert len(moving) > 3, "too few looks for a rate"
        return (more - first) / (ended - began)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[KavkaCluster]:
    java.program("java")
    with serving(tmp_path, BROKER_SETTINGS) as cluster:
        yield cluster


def fill(bootstrap: str) -> None:
    """Write what will be moved."""
    create_topic(bootstrap, BIG, PARTITIONS, replicas=3)
    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all", retries=1000)
    for number in range(MEGABYTES * 100 * 4 // 3):  # the new broker gets three of four replicas
        producer.send(BIG, os.urandom(10_000), partition=number % PARTITIONS)
    producer.close()


@pytest.mark.timeout(600 + MEGABYTES)
def test_a_broker_joins_and_another_leaves(cluster: KavkaCluster, tmp_path: Path) -> None:
    fill(cluster.bootstrap)
    create_topic(cluster.bootstrap, LIVE, PARTITIONS, replicas=3)
    with ExitStack() as stack:
        tools = stack.enter_context(Tools(tmp_path / "tools.log"))
        administrator = Administrator(cluster, tools, tmp_path)
        load = Load(cluster.bootstrap, tmp_path)
        stack.callback(load.close)
        load.await_progress()

        added = cluster.add()
        assert not any(4 in numbers for numbers in administrator.replicas().values())
        plan = administrator.move([BIG], (1, 2, 3, 4), RATE)
        arrivals = Arrivals(added.data_dir)
        arrivals.start()
        eventually(
            lambda: administrator.is_done(plan),
            within_s=WITHIN_S + 2 * MEGABYTES,
            what="the new broker has its share",
        )
        come = arrivals.finish()
        rate = arrivals.rate()
        print(f"{come} bytes at {rate / RATE:.3f} of the throttle")
        assert rate < 1.25 * RATE
        plan = administrator.move([LIVE], (1, 2, 3, 4), QUICK)
        eventually(lambda: administrator.is_done(plan), within_s=WITHIN_S, what="it serves, too")
        eventually(
            lambda: any(
                4 in administrator.replicas()[f"{LIVE}-{index}"] for index in range(PARTITIONS)
            ),
            within_s=WITHIN_S,
            what="it has replicas of what is written to",
        )
        load.await_progress()

        plan = administrator.move([BIG, LIVE, OFFSETS], (2, 3, 4), QUICK)
        eventually(lambda: administrator.is_done(plan), within_s=WITHIN_S, what="1 is drained")
        administrator.await_drained(1)
        cluster.remove(cluster.members[0])
        load.await_progress()
        load.finish()
