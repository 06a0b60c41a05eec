"""How a cluster recovers what is much: a follower with an empty disk, and very many partitions."""

from __future__ import annotations

import shutil
import time
from functools import partial
from pathlib import Path
from typing import Any, Final

from confluent_kafka.admin import NewTopic

from bench import frames, raw
from bench.clusters import BROKERS, ClusterRun
from bench.failover import create_after_kill, current_controller, killed
from bench.run import Stage
from bench.stages import BATCHES, IN_FLIGHT
from support.wait import eventually

FILL: Final = "1m-1k"
FILL_WITHIN_S: Final = 600.0
RECOVERED_WITHIN_S: Final = 1800.0
TOPICS: Final = 50
PARTITIONS: Final = 100
KILLS_MAX: Final = 3
"""Of a controller with so many partitions; each costs minutes of Apache Kafka's."""


def catch_up(run: ClusterRun) -> None:
    """A follower's disk is emptied while it is down: from its start until it is in sync again."""
    name = "cluster-catch-up"
    leader, victim = BROKERS[0], run.member(BROKERS[-1])
    with run.topic(name, [leader]) as topic:
        size = _fill(run, topic, leader)
        victim.kill()
        _empty(victim.data_dir)
        eventually(
            lambda: BROKERS[-1] not in run.metadata().brokers,
            within_s=RECOVERED_WITHIN_S,
            what="the broker that died is missed, before which Apache Kafka does not start again",
        )
        with run.meter(name) as meter:
            victim.start()
            assert victim.process is not None
            meter.add_broker(victim.process.pid)
            run.cluster.await_in_sync(RECOVERED_WITHIN_S)
    run.add(f"{name}.s", meter.wall_s)
    run.add(f"{name}.rate", size / 1e6 / meter.wall_s)
    run.add(f"{name}.cpu", meter.broker_s / (size / 1e9))


def many(run: ClusterRun) -> None:
    """TOPICS topics of PARTITIONS partitions: made, through the death of their controller, and a
    broker's start."""
    name = "cluster-many"
    names = [run.name(name) for _ in range(TOPICS)]
    made = [NewTopic(topic, PARTITIONS, len(BROKERS)) for topic in names]
    began_s = time.monotonic()
    run.ask(partial(run.admin.create_topics, made, operation_timeout=FILL_WITHIN_S))
    run.cluster.await_in_sync(RECOVERED_WITHIN_S)
    run.add(f"{name}.creation", time.monotonic() - began_s)
    run.add(f"{name}.rss", run.rss_mb())
    for _ in range(min(run.kills, KILLS_MAX)):
        _fail_over(run, name)
    run.ask(partial(run.admin.delete_topics, names))


def _empty(directory: Path) -> None:
    """Delete all in a log directory but its identity: without that, Kavka asks for a word of its
    operator (`kavka.lost.log.dirs`)."""
    for path in directory.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name != "meta.properties":
            path.unlink()


def _fail_over(run: ClusterRun, name: str) -> None:
    victim = current_controller(run)
    topic = run.name(f"{name}-new")
    with killed(run, victim, RECOVERED_WITHIN_S) as killed_ns:
        create_after_kill(run, topic, victim)
        run.add(f"{name}.controller", _since_s(killed_ns))
        eventually(
            lambda: not _led_by(run, victim),
            within_s=RECOVERED_WITHIN_S,
            what="the partitions of the broker that died have other leaders",
        )
        run.add(f"{name}.leaders", _since_s(killed_ns))
        started_ns = time.monotonic_ns()
    run.add(f"{name}.start", _since_s(started_ns))
    run.ask(partial(run.admin.delete_topics, [topic]))


def _since_s(began_ns: int) -> float:
    return (time.monotonic_ns() - began_ns) / 1e9


def _led_by(run: ClusterRun, broker: int) -> int:
    """Partitions that have this leader, or none."""
    topics: Any = run.metadata().topics
    return sum(
        partition.leader in (broker, -1)
        for topic in topics.values()
        for partition in topic.partitions.values()
    )


def _fill(run: ClusterRun, topic: str, leader: int) -> int:
    """Bytes of values written to the one partition, and replicated."""
    batch = BATCHES[FILL]
    run.warm_pages(run.options.catch_up_bytes)
    with raw.Connection(run.port(leader)) as connection:
        batches = raw.keep_in_flight(
            connection,
            frames.produce(topic, 0, batch.encode(), acks=-1),
            topic,
            in_flight=IN_FLIGHT,
            seconds=FILL_WITHIN_S,
            max_bytes=run.options.catch_up_bytes,
        )
    run.await_replicated(topic, [(leader, 1 + batches * batch.records)])
    return batches * batch.payload_bytes


STAGES: Final[tuple[Stage[ClusterRun], ...]] = (
    Stage("cluster-catch-up", catch_up),
    Stage("cluster-many", many),
)
