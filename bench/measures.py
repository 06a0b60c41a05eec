"""The rows of the report: what each measure is called, which way is better, and what is aimed at.

Aims are for two cores shared with the clients; `stretch` is where a prototype of the hot path got.
`docs/benchmarks.md` explains the rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from bench import cluster_measures, tap
from bench.rows import Measure, Section


class Fill(NamedTuple):
    """A way to fill produce requests: its key, its name, and the aims for it."""

    key: str
    label: str
    cpu_aim: float
    cpu_stretch: float
    rate_aim: float
    rate_stretch: float | None


_BIG: Final = (0.7, 0.6, 1000.0, None)
_SMALL: Final = (2.2, 1.6, 400.0, 500.0)

FILLS: Final = (
    Fill("16k-1k", "16 KiB batches of 1 KiB", *_SMALL),
    Fill("16k-100", "16 KiB batches of 100 B", *_SMALL),
    Fill("1m-1k", "1 MB batches of 1 KiB", *_BIG),
    Fill("1m-100", "1 MB batches of 100 B", *_BIG),
)


def _produced() -> Iterator[Measure]:
    for fill in FILLS:
        yield Measure(
            f"produce-{fill.key}.cpu",
            f"broker CPU-s per GB, {fill.label}",
            aim=fill.cpu_aim,
            stretch=fill.cpu_stretch,
        )
    yield Measure("produce-16k-1k-all.cpu", "broker CPU-s per GB, 16 KiB of 1 KiB, acks=all")
    for fill in FILLS:
        yield Measure(
            f"produce-{fill.key}.rate",
            f"one socket MB/s, {fill.label}",
            "more",
            fill.rate_aim,
            fill.rate_stretch,
        )
    yield Measure("produce-16k-1k-all.rate", "one socket MB/s, 16 KiB of 1 KiB, acks=all", "more")


def _single(key: str, label: str, aim: float, stretch: float) -> tuple[Measure, ...]:
    return (
        Measure(f"{key}.cpu", f"broker CPU µs a request, {label}", aim=aim, stretch=stretch),
        Measure(f"{key}.rate", f"requests/s, {label}", "more"),
        Measure(f"{key}.p50", f"answer ms p50, {label}"),
        Measure(f"{key}.p99", f"answer ms p99, {label}"),
    )


def _delivered(
    key: str, label: str, p50: float | None = None, p99: float | None = None
) -> tuple[Measure, ...]:
    return (
        Measure(f"{key}.p50", f"end to end ms p50, {label}", aim=p50),
        Measure(f"{key}.p99", f"end to end ms p99, {label}", aim=p99),
        Measure(f"{key}.p999", f"end to end ms p99.9, {label}"),
        Measure(f"{key}.cpu", f"broker CPU % of a core, {label}"),
    )


def _lag(key: str, label: str) -> tuple[Measure, ...]:
    return tuple(
        Measure(f"{key}.{quantile}", f"ApiVersions answer ms {name}, {label}")
        for quantile, name in (("p50", "p50"), ("p99", "p99"), ("p999", "p99.9"))
    )


def _client(key: str, label: str) -> tuple[Measure, ...]:
    return (
        Measure(f"{key}.rate", f"MB/s, {label}", "more"),
        Measure(f"{key}.cpu", f"broker CPU-s per GB, {label}"),
    )


SECTIONS: Final = (
    Section(
        "Start and rest",
        (
            Measure("start.fresh", "first acknowledged write after start, s, fresh", aim=0.3),
            Measure("start.again", "first acknowledged write after start, s, restart", aim=0.3),
            Measure("start.stop", "clean stop, s"),
            Measure("rest.rss", "memory at rest, MB", aim=60),
            Measure("rest.cpu", "CPU at rest, % of a core", aim=0.5),
            Measure("end.rss", "memory after the bench, MB", aim=150),
        ),
    ),
    Section("Produce, raw socket, 5 requests in flight", tuple(_produced())),
    Section(
        "Consume, raw socket, plain Fetch v4, 1 MiB a request",
        (
            Measure("consume.cpu", "broker CPU-s per GB", aim=0.35, stretch=0.25),
            Measure("consume.rate", "one socket MB/s", "more"),
        ),
    ),
    Section(
        "Single-record Produce, raw sockets",
        (
            *_single("single-1", "one in flight", 32, 24),
            *_single("single-16", "16 connections", 18, 13),
        ),
    ),
    Section(
        "End to end at 1,000 records/s",
        (*_delivered("e2e", "raw", 0.2, 0.8), *_delivered("e2e-librdkafka", "confluent-kafka")),
    ),
    Section(
        "1,000 idle connections",
        (
            Measure("idle.rss", "memory growth, MB", aim=8),
            Measure("idle.cpu", "CPU at rest with them, % of a core"),
            *_delivered("idle-e2e", "raw, with them"),
        ),
    ),
    Section(
        "A consumer of 1,000 partitions, of which one has a record at a time (Fetch session)",
        (
            Measure("wide.p50", "end to end ms p50, raw"),
            Measure("wide.p99", "end to end ms p99, raw"),
            Measure("wide.cpu", "broker CPU µs a record, Produce and Fetch"),
        ),
    ),
    Section(
        "2,000 idle connections, 200 slow readers of 50 MB and 50 writers of single bytes",
        (
            *_delivered("crowd-without", "raw, without them"),
            *_delivered("crowd-with", "raw, with them"),
            Measure("crowd.rss", "memory growth, MB"),
        ),
    ),
    Section(
        "Loop lag: a probe every 10 ms under bulk load",
        (*_lag("lag-16k", "16 KiB batches"), *_lag("lag-1m", "1 MB batches")),
    ),
    Section(
        "`kafka-topics --list`, from the start of the process to its end",
        (
            Measure("tool.time", "ms", aim=200),
            Measure("tool.cpu", "CPU ms"),
        ),
    ),
    tap.SECTION,
    Section(
        "What a user's client sees (one producer, acks=all, the client is often the limit)",
        (
            *_client("java-1k", "Java ProducerPerformance, 1 KiB"),
            Measure("java-1k.p99", "acknowledged ms p99, Java ProducerPerformance, 1 KiB"),
            *_client("java-100", "Java ProducerPerformance, 100 B"),
            *_client("librdkafka-1k", "confluent-kafka, 1 KiB"),
            *_client("librdkafka-100", "confluent-kafka, 100 B"),
        ),
    ),
    Section(
        "5,000 partitions: 50 topics of 100, each partition with a record",
        (
            Measure("many.creation", "CreateTopics answered, s", aim=2),
            Measure("many.written", "and then a record in each, s"),
            Measure("many.rss", "memory, MB", aim=200),
            Measure("many.files", "open descriptors"),
            Measure("many.maps", "mapped areas"),
            Measure("many.stop", "clean stop, s"),
            Measure(
                "many.clean", "a record in each topic after a start, s, clean stop before", aim=2
            ),
            Measure(
                "many.killed", "a record in each topic after a start, s, SIGKILL before", aim=5
            ),
            Measure("many-again.rss", "memory after that start, MB", aim=200),
        ),
    ),
    Section(
        "Compaction of 400 MB in records of 100 bytes, each key 20 times",
        (
            Measure("compaction.rate", "log compacted, MB/s", better="more"),
            Measure("compaction.rss", "memory growth, MB"),
            Measure("compaction-without.p99", "end to end ms p99, raw, before"),
            Measure("compaction-with.p99", "end to end ms p99, raw, meanwhile"),
        ),
    ),
    Section(
        "2,000 groups of one member, and one of 500",
        (
            Measure("groups.formed", "2,000 groups formed, s"),
            Measure("groups.rss", "memory growth by them and their connections, MB"),
            Measure("heartbeat.cpu", "broker CPU µs a heartbeat, 16 in flight", aim=20),
            Measure("heartbeat.rate", "heartbeats/s, 16 in flight", "more"),
            Measure("big-group.joined", "500 members joined and synced, s, a new group"),
            Measure("big-group.again", "500 members joined and synced, s, again"),
            Measure("big-group.cpu", "broker CPU-s for that, again"),
        ),
    ),
    Section(
        "1,000,000 committed offsets: 1,000 groups, 1,000 partitions",
        (
            Measure("offsets.committed", "committed, s, 1,000 a request"),
            Measure("offsets.commit-cpu", "broker CPU µs an offset committed"),
            Measure("offsets.rss", "memory then, MB"),
            Measure("groups.stop", "clean stop, s"),
            Measure("offsets.start", "all groups answered after a start, s"),
            Measure("offsets.loaded", "all groups answered after the broker's first answer, s"),
            Measure("offsets.load-cpu", "broker CPU-s meanwhile"),
            Measure("offsets.load.p50", "ApiVersions answer ms p50, meanwhile"),
            Measure("offsets.load.p99", "ApiVersions answer ms p99, meanwhile", aim=20),
            Measure("offsets-again.rss", "memory after that start, MB"),
        ),
    ),
    Section(
        "Transactions of one confluent-kafka producer, linger.ms=0",
        (
            Measure("transactions.rate", "transactions/s, one record each", "more", aim=400),
            Measure("transactions.p50", "commit ms p50, one record each", aim=2),
            Measure("transactions.p99", "commit ms p99, one record each", aim=10),
            Measure("transactions.cpu", "broker CPU µs a transaction of one record"),
            Measure(
                "read-process-write.rate", "records/s, read, written, 100 a transaction", "more"
            ),
            Measure("read-process-write.cpu", "broker CPU µs a record of those"),
        ),
    ),
    Section(
        "Spark on two cores, 5 million records of 100 B in 3 partitions",
        (
            Measure("spark-read.rate", "batch read, records/s", "more"),
            Measure("spark-read.cpu", "broker CPU-s per GB, batch read"),
            Measure("spark-sink.rate", "pipeline sink into a Delta table, records/s", "more"),
            Measure("spark-sink.cpu", "broker CPU-s per GB, pipeline sink"),
        ),
    ),
    *cluster_measures.SECTIONS,
    Section(
        "The machine under this broker",
        (
            Measure("machine.speed", "a fixed piece of work, CPU ms"),
            Measure("machine.others", "cores used by everything else"),
            Measure("machine.stolen", "cores taken by the hypervisor"),
        ),
    ),
)
