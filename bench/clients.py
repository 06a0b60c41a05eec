"""Clients as users run them: Java's ProducerPerformance and confluent-kafka (librdkafka)."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path
from typing import Any, Final, NamedTuple

from confluent_kafka import Producer

from bench.latency import STAMP
from bench.raw import HOST
from support import java

JAVA_TIMEOUT_S: Final = 90
FLUSH_TIMEOUT_S: Final = 30.0
PAYLOAD_LINES: Final = 1000

# What kafka-producer-perf-test.sh of Apache Kafka 4.3 gives the JVM.
PERFORMANCE_JVM: Final = (
    "-Xmx512M",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-Djava.awt.headless=true",
    f"-Dlog4j2.configurationFile=file:{java.TOOLS_LOGGING}",
)

_SUMMARY: Final = re.compile(
    r"(?P<records>\d+) steady state records sent, (?P<rate>[\d.]+) records/sec .*?"
    r"(?P<p99>\d+) ms 99th"
)


class Produced(NamedTuple):
    """What a producing client reports: seconds are of sending, `p99_ms` of acknowledgement."""

    records: int
    records_per_s: float
    p99_ms: float


def java_produce(port: int, topic: str, value_bytes: int, records: int, scratch: Path) -> Produced:
    """ProducerPerformance with acks=all, after as many records again divided by four to warm up.

    The records of both count as produced; rate and latency are of the steady part.
    """
    warm_up = records // 4
    payload = scratch / f"payload-{value_bytes}"
    payload.write_text("".join(f"{n:0{value_bytes}d}\n" for n in range(PAYLOAD_LINES)))
    command = java.command_line(
        "org.apache.kafka.tools.ProducerPerformance",
        [
            *("--topic", topic, "--payload-file", str(payload), "--throughput", "-1"),
            *("--num-records", str(records + warm_up), "--warmup-records", str(warm_up)),
            *("--bootstrap-server", f"{HOST}:{port}", "--command-property", "acks=all"),
        ],
        PERFORMANCE_JVM,
    )
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=JAVA_TIMEOUT_S,
        env=dict(java.environment()),
    )
    summary = _SUMMARY.search(done.stdout)
    if done.returncode or not summary or "Exception" in done.stdout:
        raise RuntimeError(f"ProducerPerformance: {done.stdout[-500:]}{done.stderr[-500:]}")
    return Produced(records + warm_up, float(summary["rate"]), float(summary["p99"]))


def librdkafka_produce(
    port: int, topic: str, value_bytes: int, seconds: float, max_records: int
) -> int:
    """confluent-kafka with its default batching and acks; the number of records acknowledged."""
    failed: list[object] = []

    def delivered(error: object, _: object) -> None:
        if error is not None:
            failed.append(error)

    producer = _producer(port)
    value = b"v" * value_bytes
    sent = 0
    end_s = time.monotonic() + seconds
    while sent < max_records and time.monotonic() < end_s:
        for _ in range(500):
            try:
                producer.produce(topic, value, on_delivery=delivered)
                sent += 1
            except BufferError:  # its queue is full
                producer.poll(0.05)
        producer.poll(0)
    left = producer.flush(FLUSH_TIMEOUT_S)
    if failed or left:
        raise RuntimeError(f"{len(failed)} records failed, {left} unanswered: {failed[:1]}")
    return sent


def librdkafka_send_stamped(port: int, topic: str, rate_per_s: int, count: int) -> None:
    """Send `count` stamped records of 100 bytes on schedule, without lingering, acks=all."""
    producer = _producer(port, **{"linger.ms": 0})
    padding = bytes(100 - STAMP.size)
    start_s = time.monotonic()
    for index in range(count):
        while (early_s := start_s + index / rate_per_s - time.monotonic()) > 0:
            producer.poll(early_s)
        producer.produce(topic, STAMP.pack(index, time.monotonic_ns()) + padding)
    if left := producer.flush(FLUSH_TIMEOUT_S):
        raise RuntimeError(f"{left} records unanswered")


def _producer(port: int, **more: Any) -> Producer:
    return Producer({**settings(port), **more})


def settings(port: int) -> dict[str, Any]:
    """What each confluent-kafka client here is given."""
    return {
        "bootstrap.servers": f"{HOST}:{port}",
        "broker.address.family": "v4",
        "log_level": 0,
    }
