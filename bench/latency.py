"""Latency clients that run in a process of their own, so that nothing else delays them."""

from __future__ import annotations

import gc
import select
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from confluent_kafka import Consumer, TopicPartition

from bench import frames
from bench.raw import HOST, Connection

LATE_LIMIT_S: Final = 5.0
"""How long records may still arrive after the last was sent."""

STAMP: Final = struct.Struct(">qq")
"""What a stamped record begins with: its index, and the monotonic ns when it was sent."""


class Timed(NamedTuple):
    """Latencies in ns, and the CPU seconds that taking them cost."""

    latencies_ns: list[int]
    cpu_s: float


def deliver(
    port: int, topic: str, first_offset: int, rate_per_s: int, seconds: float, acks: int = -1
) -> Timed:
    """Send single records on schedule on one socket, long-poll them on another, in one loop.

    The topic's next offset must be `first_offset`. A latency runs from just before the send until
    the Fetch answer with that record has been read. RuntimeError when records do not arrive.
    """
    total = int(rate_per_s * seconds)
    gap_ns = 1_000_000_000 // rate_per_s
    record = frames.produce(topic, 0, frames.Batch(100, 1).encode(), acks)
    fetch = frames.FetchRequest(topic, 0, max_wait_ms=500, partition_max_bytes=1 << 20)
    now_ns = time.perf_counter_ns
    sent: list[int] = []
    latencies: list[int] = []
    with _undisturbed() as cpu_before_s, Connection(port) as out, Connection(port) as back:
        back.socket.sendall(fetch.at(first_offset))
        sockets = [out.socket, back.socket]
        due = now_ns() + gap_ns
        end = due + int((seconds + LATE_LIMIT_S) * 1e9)
        while len(latencies) < total:
            now = now_ns()
            if now >= due and len(sent) < total:
                sent.append(now_ns())
                out.socket.sendall(record)
                due += gap_ns
            elif now > end:
                raise RuntimeError(f"{total - len(latencies)} of {total} records did not arrive")
            wait_ns = due - now_ns() if len(sent) < total else end - now_ns()
            for ready in select.select(sockets, [], [], max(0, wait_ns) / 1e9)[0]:
                if ready is out.socket:
                    out.read()
                    continue
                records = frames.fetched_records(back.read())
                arrived = now_ns()
                for offsets in frames.offsets_of(records):
                    latencies += (arrived - sent[at - first_offset] for at in offsets)
                back.socket.sendall(fetch.at(first_offset + len(latencies)))
        return Timed(latencies, time.process_time() - cpu_before_s)


def probe(port: int, every_s: float, seconds: float) -> Timed:
    """Answer times of an ApiVersions request sent every `every_s` on a connection of its own."""
    request = frames.api_versions()
    latencies: list[int] = []
    with _undisturbed() as cpu_before_s, Connection(port) as connection:
        due_s = time.monotonic()
        end_s = due_s + seconds
        while due_s < end_s:
            time.sleep(max(0.0, due_s - time.monotonic()))
            sent = time.perf_counter_ns()
            connection.ask(request)
            latencies.append(time.perf_counter_ns() - sent)
            due_s = max(due_s + every_s, time.monotonic())
        return Timed(latencies, time.process_time() - cpu_before_s)


def consume_stamped(port: int, topic: str, indexes: range, seconds: float) -> Timed:
    """Latencies of stamped records whose index is in `indexes`, as confluent-kafka hands them out.

    Reads from the start of partition 0 until the last of them or for `seconds`.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": f"{HOST}:{port}",
            "broker.address.family": "v4",
            "group.id": "bench",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    latencies: list[int] = []
    with _undisturbed() as cpu_before_s:
        consumer.assign([TopicPartition(topic, 0, 0)])
        end_s = time.monotonic() + seconds
        index = -1
        while index < indexes.stop - 1 and time.monotonic() < end_s:
            message = consumer.poll(0.5)
            now = time.monotonic_ns()
            if message is None or message.error():
                continue
            value = message.value()
            if not isinstance(value, bytes) or not value.startswith(b"\0"):
                continue  # the record that made sure of the topic
            index, sent = STAMP.unpack_from(value)
            if index in indexes:
                latencies.append(now - sent)
        cpu_s = time.process_time() - cpu_before_s
    consumer.close()
    return Timed(latencies, cpu_s)


@contextmanager
def _undisturbed() -> Iterator[float]:
    """No garbage collection inside; gives the CPU seconds of this process before."""
    gc.collect()
    gc.disable()
    try:
        yield time.process_time()
    finally:
        gc.enable()
