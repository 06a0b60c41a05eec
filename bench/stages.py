"""The stages of a run, in order: each measures one thing and notes it for its rows.

A stage bounds itself by time and, where it moves much data, by bytes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from typing import Final

from bench import (
    clients,
    compaction,
    frames,
    groups,
    latency,
    machine,
    partitions,
    raw,
    spark,
    tap,
    tools,
    transactions,
    wide,
)
from bench.crowd import Crowd
from bench.peers import Peer
from bench.run import Results, Run, Stage

BULK_S: Final = 1.5
BULK_MAX_BYTES: Final = 400 << 20
IN_FLIGHT: Final = 5
SINGLE_S: Final = 1.5
CONNECTIONS: Final = 16
FETCH_S: Final = 1.0
FETCH_FILL_BYTES: Final = 256 << 20
REST_SETTLE_S: Final = 3.0
REST_S: Final = 2.5
RATE_PER_S: Final = 1000
END_TO_END_S: Final = 4.0
CLIENT_WARM_UP_S: Final = 3.0
IDLE_CONNECTIONS: Final = 1000
CROWD_FILL_BYTES: Final = 64 << 20
CROWD_STEP_S: Final = 0.02
LAG_S: Final = 2.0
LAG_MAX_BYTES: Final = 1 << 30
LAG_BURST_S: Final = 0.25
PROBE_EVERY_S: Final = 0.01
WARM_UP_S: Final = 3.0
CLIENT_S: Final = 4.0
CLIENT_MAX_BYTES: Final = 500 << 20
JAVA_RECORDS: Final = {1024: 250_000, 100: 1_500_000}
RESULT_TIMEOUT_S: Final = 60.0

SINGLE: Final = frames.Batch(100, 1)
BATCHES: Final = {
    "16k-1k": frames.Batch(1024, 15),
    "16k-100": frames.Batch(100, 145),
    "1m-1k": frames.Batch(1024, 950),
    "1m-100": frames.Batch(100, 9000),
}


def start(peer: Peer, results: Results) -> None:
    """First acknowledged write: on an empty directory, with the topic to be made, and again.

    Leaves the broker running.
    """
    started_s = peer.start()
    raw.create_topic(peer.port, "start")
    results.add("start.fresh", time.monotonic() - started_s)
    results.add("start.stop", peer.stop())
    started_s = peer.start()
    raw.write_one(peer.port, "start")
    results.add("start.again", time.monotonic() - started_s)


def rest(run: Run) -> None:
    """Memory and CPU of a broker without clients."""
    time.sleep(REST_SETTLE_S)
    for _ in range(run.options.rounds):
        with run.meter("rest") as meter:
            time.sleep(REST_S)
        run.add("rest.cpu", 100 * meter.broker_s / meter.wall_s)
    run.add("rest.rss", run.peer.rss_mb())


def warm_up(run: Run) -> None:
    """Unmeasured load of each kind, to warm up a JVM, which compiles hot code."""
    with run.topic("warm", CONNECTIONS) as topic:
        _single(run, topic, CONNECTIONS, 2 * WARM_UP_S)
        _single(run, topic, 1, WARM_UP_S)
        _bulk(run, topic, "16k-1k", seconds=WARM_UP_S)
        _bulk(run, topic, "1m-100", seconds=WARM_UP_S)


def produce(run: Run, key: str, acks: int = 1) -> None:
    """Bulk load on one socket. GB are of values, as a user counts them."""
    name = f"produce-{key}" + ("-all" if acks == -1 else "")
    with run.topic(name) as topic:
        run.warm_pages(BULK_MAX_BYTES + BULK_MAX_BYTES // 8)
        with run.meter(name) as meter:
            produced_bytes = _bulk(run, topic, key, acks=acks)
    run.add(f"{name}.cpu", meter.broker_s / (produced_bytes / 1e9))
    run.add(f"{name}.rate", produced_bytes / 1e6 / meter.wall_s)


def consume(run: Run) -> None:
    """Read 16 KiB batches from the page cache, one Fetch at a time. GB are of record bytes."""
    batch = BATCHES["16k-1k"]
    if "consume" not in run.kept:
        topic = run.new_topic("consume")
        _bulk(run, topic, "16k-1k", seconds=RESULT_TIMEOUT_S, max_bytes=FETCH_FILL_BYTES)
        run.kept["consume"] = topic
    topic = run.kept["consume"]
    request = frames.produce(topic, 0, _encoded("16k-1k"))
    first = 1  # after the record that made sure of the topic
    offsets = range(first, first + FETCH_FILL_BYTES // len(request) * batch.records)
    with raw.Connection(run.peer.port) as connection, run.meter("consume") as meter:
        fetched = raw.fetch_all(connection, topic, batch=batch, offsets=offsets, seconds=FETCH_S)
    run.add("consume.cpu", meter.broker_s / (fetched.record_bytes / 1e9))
    run.add("consume.rate", fetched.record_bytes / 1e6 / meter.wall_s)


def single(run: Run, connections: int) -> None:
    """Single-record Produce, one in flight on each connection, a partition for each."""
    name = f"single-{connections}"
    with run.topic(name, connections) as topic:
        with run.meter(name) as meter:
            closed = _single(run, topic, connections, SINGLE_S)
    run.add(f"{name}.cpu", meter.broker_s * 1e6 / closed.requests)
    run.add(f"{name}.rate", closed.requests / meter.wall_s)
    run.add_latencies(name, closed.latencies_ns)


def end_to_end(run: Run, name: str = "e2e") -> None:
    """From the producer's send to the consumer's read, on raw sockets in the helper process."""
    with run.topic(name) as topic:
        with run.meter(name) as meter:
            timed = run.helper.start(
                latency.deliver, run.peer.port, topic, 1, RATE_PER_S, END_TO_END_S
            ).result(RESULT_TIMEOUT_S)
            meter.add_client(timed.cpu_s)
    run.add_latencies(name, timed.latencies_ns)
    run.add(f"{name}.cpu", 100 * meter.broker_s / meter.wall_s)


def end_to_end_librdkafka(run: Run) -> None:
    """The same with confluent-kafka: the producer here, the consumer in the helper process."""
    name = "e2e-librdkafka"
    skipped = int(CLIENT_WARM_UP_S * RATE_PER_S)
    count = skipped + int(END_TO_END_S * RATE_PER_S)
    with run.topic(name) as topic:
        with run.meter(name) as meter:
            consumer = run.helper.start(
                latency.consume_stamped,
                run.peer.port,
                topic,
                range(skipped, count),
                RESULT_TIMEOUT_S / 2,
            )
            clients.librdkafka_send_stamped(run.peer.port, topic, RATE_PER_S, count)
            timed = consumer.result(RESULT_TIMEOUT_S)
            meter.add_client(timed.cpu_s)
    if len(timed.latencies_ns) != count - skipped:
        raise RuntimeError(f"{len(timed.latencies_ns)} of {count - skipped} records arrived")
    run.add_latencies(name, timed.latencies_ns)
    run.add(f"{name}.cpu", 100 * meter.broker_s / meter.wall_s)


def idle_memory(run: Run) -> None:
    """What open connections that have said hello, and then nothing, take of a fresh broker."""
    before_mb = run.peer.rss_mb()
    with _crowd(run):
        time.sleep(1)
        run.add("idle.rss", run.peer.rss_mb() - before_mb)
        with run.meter("idle") as meter:
            time.sleep(REST_S)
        run.add("idle.cpu", 100 * meter.broker_s / meter.wall_s)


def idle_end_to_end(run: Run) -> None:
    """Others' latency beside idle connections."""
    with _crowd(run):
        end_to_end(run, "idle-e2e")


def crowd(run: Run) -> None:
    """A producer and a consumer without and with a crowd beside them, and what that takes."""
    topic = run.new_topic("crowd-data")
    _bulk(run, topic, "16k-1k", seconds=RESULT_TIMEOUT_S, max_bytes=CROWD_FILL_BYTES)
    for _ in range(run.options.rounds):
        end_to_end(run, "crowd-without")
        before_mb = run.peer.rss_mb()
        with Crowd(run.peer.port, topic) as all_of_them, run.topic("crowd-with") as quiet:
            with run.meter("crowd-with") as meter:
                timed = run.helper.start(
                    latency.deliver, run.peer.port, quiet, 1, RATE_PER_S, END_TO_END_S
                )
                while not timed.done():
                    all_of_them.step()
                    time.sleep(CROWD_STEP_S)
            run.add_latencies("crowd-with", timed.result().latencies_ns)
            run.add("crowd-with.cpu", 100 * meter.broker_s / meter.wall_s)
            run.add("crowd.rss", run.peer.rss_mb() - before_mb)
            all_of_them.check()


def lag(run: Run, name: str, key: str) -> None:
    """How long a small request waits while one socket sends all it can, in bursts by LAG_MAX_BYTES.

    The probes of all rounds are taken together: a p99.9 needs many.
    """
    burst_bytes = int(LAG_MAX_BYTES * LAG_BURST_S / LAG_S)
    with run.topic(name) as topic:
        run.warm_pages(LAG_MAX_BYTES)
        with run.meter(name) as meter:
            probed = run.helper.start(latency.probe, run.peer.port, PROBE_EVERY_S, LAG_S)
            while not probed.done():
                burst_end_s = time.monotonic() + LAG_BURST_S
                _bulk(run, topic, key, seconds=LAG_BURST_S, max_bytes=burst_bytes)
                time.sleep(max(0.0, burst_end_s - time.monotonic()))
            timed = probed.result()
            meter.add_client(timed.cpu_s)
    run.pool(name, timed.latencies_ns)


def java_producer(run: Run, name: str, value_bytes: int) -> None:
    """ProducerPerformance: start of its JVM and warm-up count for CPU, not for rate."""
    with run.topic(name) as topic:
        with run.meter(name) as meter:
            done = clients.java_produce(
                run.peer.port, topic, value_bytes, JAVA_RECORDS[value_bytes], run.peer.home
            )
    run.add(f"{name}.rate", done.records_per_s * value_bytes / 1e6)
    run.add(f"{name}.p99", done.p99_ms)
    run.add(f"{name}.cpu", meter.broker_s / (done.records * value_bytes / 1e9))


def librdkafka_producer(run: Run, name: str, value_bytes: int) -> None:
    """confluent-kafka with default batching; the Python loop that feeds it is the limit."""
    with run.topic(name) as topic:
        with run.meter(name) as meter:
            records = clients.librdkafka_produce(
                run.peer.port, topic, value_bytes, CLIENT_S, CLIENT_MAX_BYTES // value_bytes
            )
    run.add(f"{name}.rate", records * value_bytes / 1e6 / meter.wall_s)
    run.add(f"{name}.cpu", meter.broker_s / (records * value_bytes / 1e9))


def pace(run: Run) -> None:
    """How fast the machine is right now."""
    run.add("machine.speed", machine.speed_ms())


def end(run: Run) -> None:
    """Memory after all of it, and the quantiles of what was pooled."""
    run.add("end.rss", run.peer.rss_mb())
    for key, latencies_ns in run.pooled.items():
        run.add_latencies(key, latencies_ns)


STAGES: Final[tuple[Stage[Run], ...]] = (
    Stage("rest", rest),
    Stage("idle-memory", idle_memory),
    Stage("warm-up", warm_up),
    Stage("pace", pace, repeat=True),
    *(Stage(f"produce-{key}", partial(produce, key=key), repeat=True) for key in BATCHES),
    Stage("produce-16k-1k-all", partial(produce, key="16k-1k", acks=-1), repeat=True),
    Stage("consume", consume, repeat=True),
    Stage("single-1", partial(single, connections=1), repeat=True),
    Stage("single-16", partial(single, connections=CONNECTIONS), repeat=True),
    Stage("e2e", end_to_end, repeat=True),
    Stage("lag-16k", partial(lag, name="lag-16k", key="16k-1k"), repeat=True),
    Stage("lag-1m", partial(lag, name="lag-1m", key="1m-1k"), repeat=True),
    Stage("tool", tools.stage, repeat=True),
    Stage("tap", tap.stage, repeat=True),
    Stage("e2e-librdkafka", end_to_end_librdkafka),
    Stage("idle-e2e", idle_end_to_end),
    Stage("wide", wide.stage),
    Stage("librdkafka-1k", partial(librdkafka_producer, name="librdkafka-1k", value_bytes=1024)),
    Stage("librdkafka-100", partial(librdkafka_producer, name="librdkafka-100", value_bytes=100)),
    Stage("java-1k", partial(java_producer, name="java-1k", value_bytes=1024)),
    Stage("java-100", partial(java_producer, name="java-100", value_bytes=100)),
    Stage("end", end),
    Stage("spark-fill", spark.fill),
    Stage("spark-read", spark.read, repeat=True),
    Stage("spark-sink", spark.sink, repeat=True),
    Stage("spark-end", spark.end),
    Stage("crowd", crowd),  # its memory is its own row
    Stage("many", partitions.many),
    Stage("compaction", compaction.stage),
    Stage("groups", groups.stage),
    Stage("transactions", transactions.stage),
)


@contextmanager
def _crowd(run: Run) -> Iterator[None]:
    """IDLE_CONNECTIONS connections; each must be served at the beginning and at the end."""
    hello = frames.api_versions()
    with ExitStack() as stack:
        crowd = []
        for _ in range(IDLE_CONNECTIONS):
            connection = stack.enter_context(raw.Connection(run.peer.port))
            connection.ask(hello)
            crowd.append(connection)
        yield
        for connection in crowd:
            connection.ask(hello)


@cache
def _encoded(key: str) -> bytes:
    return BATCHES[key].encode()


def _bulk(
    run: Run,
    topic: str,
    key: str,
    *,
    acks: int = 1,
    seconds: float = BULK_S,
    max_bytes: int = BULK_MAX_BYTES,
) -> int:
    """Bytes of values that were acknowledged."""
    request = frames.produce(topic, 0, _encoded(key), acks)
    with raw.Connection(run.peer.port) as connection:
        done = raw.keep_in_flight(
            connection,
            request,
            topic,
            in_flight=IN_FLIGHT,
            seconds=seconds,
            max_bytes=max_bytes,
        )
    return done * BATCHES[key].payload_bytes


def _single(run: Run, topic: str, connections: int, seconds: float) -> raw.Closed:
    batch = SINGLE.encode()
    requests = [frames.produce(topic, partition, batch) for partition in range(connections)]
    with ExitStack() as stack:
        lines = [stack.enter_context(raw.Connection(run.peer.port)) for _ in requests]
        if connections == 1:
            return raw.one_at_a_time(lines[0], requests[0], topic, seconds)
        return raw.one_each(lines, requests, topic, seconds)
