"""The rows of clusters: three brokers, three replicas of every partition, beside Apache Kafka 3.9.

Aims are for two cores shared with the clients; of what has a ratio for an aim, that is in the
label, and the reader judges.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bench.rows import Measure, Section

FILLS: Final = {
    "16k-1k": "16 KiB batches of 1 KiB",
    "16k-100": "16 KiB batches of 100 B",
    "1m-1k": "1 MB batches of 1 KiB",
}
ACKS: Final = ("1", "all")
WORST_AIM_S: Final = 1.5
MEDIAN_AIM_S: Final = 0.5


def _produced() -> Iterator[Measure]:
    for fill, label in FILLS.items():
        for acks in ACKS:
            key = f"cluster-produce-{fill}-{acks}"
            yield Measure(f"{key}.rate", f"MB/s, {label}, acks={acks}", "more", ratio_aim=1)
            yield Measure(f"{key}.records", f"records/s, {label}, acks={acks}", "more", ratio_aim=1)
            yield Measure(
                f"{key}.cpu", f"CPU-s of all brokers per GB, {label}, acks={acks}", ratio_aim=0.6
            )


def _delivered(acks: str, p99_aim: float | None) -> tuple[Measure, ...]:
    key = f"cluster-e2e-{acks}"
    return (
        Measure(f"{key}.p50", f"end to end ms p50, acks={acks}", ratio_aim=1),
        Measure(f"{key}.p99", f"end to end ms p99, acks={acks}", aim=p99_aim, ratio_aim=1),
        Measure(f"{key}.p999", f"end to end ms p99.9, acks={acks}", ratio_aim=1),
        Measure(f"{key}.cpu", f"CPU of all brokers, % of a core, acks={acks}", ratio_aim=1),
    )


def _killed(key: str, label: str) -> tuple[Measure, ...]:
    name = f"cluster-failover-{key}"
    return (
        Measure(f"{name}.after", f"{label}, s, median (and range)", aim=MEDIAN_AIM_S, ratio_aim=1),
        Measure(f"{name}.worst", f"{label}, s, the worst", aim=WORST_AIM_S, ratio_aim=1),
    )


SECTIONS: Final = (
    Section(
        "Three brokers at rest, and after the load",
        (
            Measure("cluster-rest.rss", "memory of all brokers at rest, MB", ratio_aim=0.2),
            Measure("cluster-rest.cpu", "CPU of all brokers at rest, % of a core", ratio_aim=1),
            Measure("cluster-memory.rss", "memory of all brokers after it, MB", ratio_aim=0.2),
        ),
    ),
    Section("Produce with three replicas, a raw socket to each broker", tuple(_produced())),
    Section(
        "End to end at 1,000 records/s with three replicas, raw sockets",
        (*_delivered("1", None), *_delivered("all", 3)),
    ),
    Section(
        "A record with acks=all to one of 1,500 partitions of three replicas, a raw socket",
        (
            Measure("cluster-wide.p50", "acknowledged ms p50", ratio_aim=1),
            Measure("cluster-wide.p99", "acknowledged ms p99", ratio_aim=1),
            Measure("cluster-wide.cpu", "CPU of all brokers, us a record", ratio_aim=1),
        ),
    ),
    Section(
        "confluent-kafka with three replicas, its defaults",
        (
            Measure("cluster-librdkafka.rate", "MB/s, 1 KiB", "more", ratio_aim=1),
            Measure("cluster-librdkafka.cpu", "CPU-s of all brokers per GB, 1 KiB", ratio_aim=0.6),
        ),
    ),
    Section(
        "From the SIGKILL of a broker to the next success of confluent-kafka, its defaults",
        (
            *_killed("leader", "a leader: a write"),
            *_killed("both", "a leader that is the controller: a write"),
            *_killed("follower", "a follower: a write with acks=all"),
            *_killed("controller", "the controller: a topic created, raw sockets"),
            *_killed("group", "a group's coordinator: a commit"),
            *_killed("transaction", "a transaction's coordinator: a commit"),
        ),
    ),
    Section(
        "All brokers stopped and started in turn",
        (
            Measure("cluster-rolling.gap", "longest gap of a producer, s", ratio_aim=1),
            Measure("cluster-rolling.errors", "records that failed", aim=0),
        ),
    ),
    Section(
        "A follower with an empty disk catches up with one partition",
        (
            Measure("cluster-catch-up.s", "from its start until it is in sync, s", ratio_aim=1),
            Measure("cluster-catch-up.rate", "MB/s", "more", ratio_aim=1),
            Measure("cluster-catch-up.cpu", "CPU-s of all brokers per GB", ratio_aim=0.6),
        ),
    ),
    Section(
        "5,000 partitions of three replicas: 50 topics of 100",
        (
            Measure("cluster-many.creation", "created, and all in sync, s", ratio_aim=1),
            Measure("cluster-many.rss", "memory of all brokers then, MB", ratio_aim=0.2),
            Measure(
                "cluster-many.controller", "the controller killed: a topic created, s", ratio_aim=1
            ),
            Measure("cluster-many.leaders", "and its partitions led by others, s", ratio_aim=1),
            Measure("cluster-many.start", "that broker started, and all in sync, s", ratio_aim=1),
        ),
    ),
)
