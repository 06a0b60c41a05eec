"""The stages of a cluster's run: throughput, latency, CPU and memory of three brokers, with three
replicas of every partition."""

from __future__ import annotations

import struct
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Final

from bench import clients, cluster_recovery, failover, frames, latency, raw
from bench.clusters import BROKERS, ClusterRun
from bench.run import Stage
from bench.stages import (
    BATCHES,
    CLIENT_MAX_BYTES,
    CLIENT_S,
    END_TO_END_S,
    IN_FLIGHT,
    RATE_PER_S,
    REST_S,
    REST_SETTLE_S,
    RESULT_TIMEOUT_S,
)

WARM_UP_S: Final = 6.0
BULK_S: Final = 120.0
WARM_UP_BYTES: Final = 200 << 20
ACKS: Final = {"1": 1, "all": -1}
FILLS: Final = ("16k-1k", "16k-100", "1m-1k")
LEADER: Final = BROKERS[0]
"""Of the partition by which latency is measured."""

MANY: Final = 1500
"""Partitions, of which one has news at a time."""

ONES: Final = 1000
ONES_WARM_UP: Final = 300
"""Records that are not measured, to warm up a JVM, which compiles hot code."""


def rest(run: ClusterRun) -> None:
    """Memory and CPU of brokers without clients."""
    time.sleep(REST_SETTLE_S)
    for _ in range(run.options.rounds):
        with run.meter("cluster-rest") as meter:
            time.sleep(REST_S)
        run.add("cluster-rest.cpu", 100 * meter.broker_s / meter.wall_s)
    run.add("cluster-rest.rss", run.rss_mb())


def warm_up(run: ClusterRun) -> None:
    """Unmeasured load of each kind, for a JVM that compiles what is hot."""
    with run.topic("warm", BROKERS) as topic:
        for key in FILLS:
            for acks in ACKS.values():
                _bulk(run, topic, key, acks, seconds=WARM_UP_S, max_bytes=WARM_UP_BYTES)
    with run.topic("warm", [LEADER]) as topic:
        _deliver(run, topic, -1)


def produce(run: ClusterRun, key: str, acks: str) -> None:
    """Bulk load on a socket to each broker, a partition for each. GB are of values, as a user
    counts them, and the CPU of all brokers is taken until all replicas have them."""
    name = f"cluster-produce-{key}-{acks}"
    batch = BATCHES[key]
    with run.topic(name, BROKERS) as topic:
        run.warm_pages(len(BROKERS) * (run.options.cluster_bytes + run.options.cluster_bytes // 8))
        began_s = time.monotonic()
        with run.meter(name) as meter:
            batches = _bulk(
                run, topic, key, ACKS[acks], seconds=BULK_S, max_bytes=run.options.cluster_bytes
            )
            acknowledged_s = time.monotonic() - began_s
            ends = [1 + count * batch.records for count in batches]
            run.await_replicated(topic, list(zip(BROKERS, ends, strict=True)))
    produced_bytes = sum(batches) * batch.payload_bytes
    run.add(f"{name}.rate", produced_bytes / 1e6 / acknowledged_s)
    run.add(f"{name}.records", sum(batches) * batch.records / acknowledged_s)
    run.add(f"{name}.cpu", meter.broker_s / (produced_bytes / 1e9))


def end_to_end(run: ClusterRun, acks: str) -> None:
    """From the producer's send to the consumer's read, on raw sockets to the leader."""
    name = f"cluster-e2e-{acks}"
    with run.topic(name, [LEADER]) as topic:
        with run.meter(name) as meter:
            timed = _deliver(run, topic, ACKS[acks])
            meter.add_client(timed.cpu_s)
    run.add_latencies(name, timed.latencies_ns)
    run.add(f"{name}.cpu", 100 * meter.broker_s / meter.wall_s)


def one_of_many(run: ClusterRun) -> None:
    """A record with acks=all after the other to one of many partitions, all of which followers
    fetch in the same session."""
    name = "cluster-wide"
    leaders = [BROKERS[index % len(BROKERS)] for index in range(MANY)]
    with run.topic(name, leaders) as topic:
        run.await_replicated(topic, [(leader, 1) for leader in leaders])
        request = frames.produce(topic, 0, frames.Batch(100, 1).encode(), ACKS["all"])
        error_at = frames.produce_error_at(topic) - 4  # without the size field
        with raw.Connection(run.port(leaders[0])) as connection:
            for _ in range(ONES_WARM_UP):
                connection.ask(request)
            with run.meter(name) as meter:
                latencies_ns = [_timed_ns(connection, request, error_at) for _ in range(ONES)]
    run.add_latencies(name, latencies_ns)
    run.add(f"{name}.cpu", meter.broker_s * 1e6 / ONES)


def _timed_ns(connection: raw.Connection, request: bytes, error_at: int) -> int:
    began_ns = time.perf_counter_ns()
    answer = connection.ask(request)
    taken_ns = time.perf_counter_ns() - began_ns
    (error,) = struct.unpack_from(">h", answer, error_at)
    if error:
        raise RuntimeError(f"Produce was answered with error {error}")
    return taken_ns


def librdkafka_producer(run: ClusterRun) -> None:
    """confluent-kafka with its defaults (acks=all), into a partition of each broker."""
    name = "cluster-librdkafka"
    with run.topic(name, BROKERS) as topic:
        with run.meter(name) as meter:
            records = clients.librdkafka_produce(
                run.port(LEADER), topic, 1024, CLIENT_S, CLIENT_MAX_BYTES // 1024
            )
    run.add(f"{name}.rate", records * 1024 / 1e6 / meter.wall_s)
    run.add(f"{name}.cpu", meter.broker_s / (records * 1024 / 1e9))


def memory(run: ClusterRun) -> None:
    """What the brokers have after all the load."""
    time.sleep(REST_SETTLE_S)
    run.add("cluster-memory.rss", run.rss_mb())


WARM_UP: Final = Stage("cluster-warm-up", warm_up)
MEMORY: Final = Stage("cluster-memory", memory)

STAGES: Final[tuple[Stage[ClusterRun], ...]] = (
    Stage("cluster-rest", rest),
    WARM_UP,
    *(
        Stage(f"cluster-produce-{key}-{acks}", partial(produce, key=key, acks=acks), repeat=True)
        for key in FILLS
        for acks in ACKS
    ),
    *(Stage(f"cluster-e2e-{acks}", partial(end_to_end, acks=acks), repeat=True) for acks in ACKS),
    Stage("cluster-wide", one_of_many, repeat=True),
    Stage("cluster-librdkafka", librdkafka_producer, repeat=True),
    MEMORY,
    *failover.STAGES,
    *cluster_recovery.STAGES,
)


def _deliver(run: ClusterRun, topic: str, acks: int) -> latency.Timed:
    return run.helper.start(
        latency.deliver, run.port(LEADER), topic, 1, RATE_PER_S, END_TO_END_S, acks
    ).result(RESULT_TIMEOUT_S)


@cache
def _encoded(key: str) -> bytes:
    return BATCHES[key].encode()


def _bulk(
    run: ClusterRun, topic: str, key: str, acks: int, *, seconds: float, max_bytes: int
) -> list[int]:
    """Batches that each partition's leader has acknowledged. Sending and waiting, which is nearly
    all that the threads do, lets the others run."""

    def keep(partition: int, leader: int) -> int:
        request = frames.produce(topic, partition, _encoded(key), acks)
        with raw.Connection(run.port(leader)) as connection:
            return raw.keep_in_flight(
                connection,
                request,
                topic,
                in_flight=IN_FLIGHT,
                seconds=seconds,
                max_bytes=max_bytes // len(BROKERS),
            )

    with ThreadPoolExecutor(len(BROKERS)) as pool:
        return list(pool.map(keep, range(len(BROKERS)), BROKERS))
