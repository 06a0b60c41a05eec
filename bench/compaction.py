"""Compaction of a log of many small records, by a broker of its own: how long it takes, what it
needs, what others notice of it, and whether the last value of each key is what is left.

`python -m bench.compaction` does it with 20 million records (2 GB).
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from confluent_kafka import Consumer, TopicPartition

from bench import frames, latency, raw
from bench.helper import Helper
from bench.keyed import Keyed, key_of, value_of
from bench.latency import Timed
from bench.peers import Peer
from bench.run import Run, quantile

RECORDS: Final = 4_000_000
"""In `make bench`: 400 MB."""

RECORDS_WHOLE: Final = 20_000_000
KEYS_SHARE: Final = 20
"""A key comes so often, on average."""

SEGMENT_BYTES: Final = 64 << 20
RATE_PER_S: Final = 500
PROBE_S: Final = 4.0
PROBES_BEFORE: Final = 3
IN_FLIGHT: Final = 5
DONE_WITHIN_S: Final = 1800.0
READ_WITHIN_S: Final = 600.0
POLL_S: Final = 0.5
BACKOFF_MS: Final = 100

TOPIC: Final = "compacted"
QUIET: Final = "beside"
CONFIGS: Final = MappingProxyType(
    {
        "cleanup.policy": "compact",
        "segment.bytes": str(SEGMENT_BYTES),
        "min.cleanable.dirty.ratio": "1",  # is not passed, so that nothing happens yet
    }
)
BEGIN: Final = MappingProxyType({"min.cleanable.dirty.ratio": "0.01"})


class Found(NamedTuple):
    """What came of it. Latencies are from the producer's send to the consumer's read, in ms."""

    seconds: float
    log_bytes: int
    extra_mb: float
    p99_before: float
    p99_during: float
    records_left: int
    broker_line: str


def measure(peer: Peer, helper: Helper, workload: Keyed) -> Found:
    """One broker's whole run. RuntimeError when what is left is not what should be."""
    raw.create_topic(peer.port, QUIET)
    _create(peer)
    _fill(peer, workload)
    log_bytes = _log_bytes(peer)
    before: list[Timed] = []
    rss_before, _ = _watch(peer, helper, before, lambda: len(before) == PROBES_BEFORE)
    began_s = time.monotonic()
    raw.alter_configs(peer.port, frames.TOPIC, TOPIC, BEGIN)
    active = max(int(path.stem) for path in _logs(peer))
    during: list[Timed] = []
    most_mb, ended_s = _watch(peer, helper, during, lambda: clean_upto(peer) >= active)
    left = _check(peer, workload)
    lines = [line for line in peer.output_tail(2000).splitlines() if " compacted " in line]
    return Found(
        ended_s - began_s,
        log_bytes,
        most_mb - rss_before,
        _p99(before),
        _p99(during),
        left,
        lines[-1] if lines else "",
    )


def stage(run: Run) -> None:
    """The rows of `make bench`, with a broker of its own."""
    with type(run.peer)(run.peer.home / "compaction") as peer:
        peer.prepare()
        peer.start()
        found = measure(peer, run.helper, Keyed(RECORDS, RECORDS // KEYS_SHARE))
    run.add("compaction.rate", found.log_bytes / 1e6 / found.seconds)
    run.add("compaction.rss", found.extra_mb)
    run.add("compaction-without.p99", found.p99_before)
    run.add("compaction-with.p99", found.p99_during)


def _create(peer: Peer) -> None:
    raw.alter_configs(peer.port, frames.BROKER, "", {"log.cleaner.backoff.ms": str(BACKOFF_MS)})
    with raw.Connection(peer.port) as connection:
        error = frames.create_topic_error(
            connection.ask(frames.create_topic(TOPIC, 1, configs=CONFIGS))
        )
    if error:
        raise RuntimeError(f"the topic could not be created: error {error}")
    # Apache Kafka answers before there is a leader to write to
    raw.when_up(peer.port, _leader_missing)


def _leader_missing(connection: raw.Connection) -> int:
    """The error with which the topic's leader is not to be asked yet; 0 once it is."""
    return frames.listed_error(connection.ask(frames.list_end_offset(TOPIC)))


def _fill(peer: Peer, workload: Keyed) -> None:
    """Write all records, some requests ahead of the answers."""
    at = frames.produce_error_at(TOPIC) - 4
    ahead = 0
    with raw.Connection(peer.port) as connection:
        for batch in workload.batches(int(time.time() * 1000)):
            connection.socket.sendall(frames.produce(TOPIC, 0, batch, acks=1))
            ahead += 1
            if ahead == IN_FLIGHT:
                _expect_no_error(connection, at)
                ahead -= 1
        for _ in range(ahead):
            _expect_no_error(connection, at)


def _expect_no_error(connection: raw.Connection, at: int) -> None:
    error = int.from_bytes(connection.read()[at : at + 2], "big", signed=True)
    if error:
        raise RuntimeError(f"Produce answered error {error}")


def _probe(peer: Peer, helper: Helper) -> Future[Timed]:
    """Single records sent and read back, at a steady rate, in a topic that is not compacted."""
    first = raw.end_offset(peer.port, QUIET)
    return helper.start(latency.deliver, peer.port, QUIET, first, RATE_PER_S, PROBE_S)


def _p99(timed: Sequence[Timed]) -> float:
    return statistics.median(quantile(probe.latencies_ns, 0.99) / 1e6 for probe in timed)


def _watch(
    peer: Peer, helper: Helper, timed: list[Timed], over: Callable[[], bool]
) -> tuple[float, float]:
    """Put latencies into `timed` until it is `over`; the most memory on the way, MB, and when it
    was over (a probe that still runs then is awaited afterwards).

    Looking at a process's memory holds up that process: both measures have as much of it.
    """
    most_mb = 0.0
    probe = _probe(peer, helper)
    end_s = time.monotonic() + DONE_WITHIN_S
    while not over():
        if time.monotonic() > end_s:
            raise RuntimeError(f"not compacted within {DONE_WITHIN_S:.0f} s\n{peer.output_tail()}")
        most_mb = max(most_mb, peer.rss_mb())
        if probe.done():
            timed.append(probe.result())
            probe = _probe(peer, helper)
        time.sleep(POLL_S)
    over_s = time.monotonic()
    last = probe.result()  # partly after the end: counts only where there is nothing else
    if not timed:
        timed.append(last)
    return most_mb, over_s


def clean_upto(peer: Peer) -> int:
    """The offset below which the broker says that the log is compacted."""
    path = peer.data_dir / "cleaner-offset-checkpoint"
    lines = path.read_text().splitlines()[2:] if path.exists() else []
    return {line.split()[0]: int(line.split()[2]) for line in lines}.get(TOPIC, 0)


def _logs(peer: Peer) -> list[Path]:
    return list((peer.data_dir / f"{TOPIC}-0").glob("*.log"))


def _log_bytes(peer: Peer) -> int:
    return sum(path.stat().st_size for path in _logs(peer))


def _check(peer: Peer, workload: Keyed) -> int:
    """Read everything with a stock client; how many records were left."""
    expected = workload.left(clean_upto(peer))
    consumer = Consumer(
        {
            "bootstrap.servers": f"{raw.HOST}:{peer.port}",
            "broker.address.family": "v4",
            "group.id": "bench",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    end_s = time.monotonic() + READ_WITHIN_S
    left = len(expected)
    at_end = False
    while not at_end:
        if time.monotonic() > end_s:
            raise RuntimeError(f"{len(expected)} of {left} records were not read")
        for message in consumer.consume(10_000, 1.0):
            if message.error():
                at_end = True
                continue
            offset = message.offset()
            assert offset is not None
            number = expected.pop(offset, None)
            if number is None or (message.key(), message.value()) != (
                key_of(number),
                value_of(offset),
            ):
                raise RuntimeError(f"the record at {offset} should not be there, or not so")
    consumer.close()
    if expected:
        raise RuntimeError(f"{len(expected)} records are missing, the first at {min(expected)}")
    return left


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0; 1 when what is left is not what should be."""
    from bench.session import PEERS

    parser = argparse.ArgumentParser(prog="python -m bench.compaction", description=__doc__)
    parser.add_argument("--records", type=int, default=RECORDS_WHOLE)
    parser.add_argument("--keys", type=int)
    parser.add_argument("--peer", choices=[*PEERS, "both"], default="both")
    arguments = parser.parse_args(argv)
    workload = Keyed(arguments.records, arguments.keys or arguments.records // KEYS_SHARE)
    names = list(PEERS) if arguments.peer == "both" else [arguments.peer]
    with tempfile.TemporaryDirectory(prefix="kavka-bench-") as scratch, Helper() as helper:
        for name in names:
            with PEERS[name](Path(scratch) / name) as peer:
                peer.prepare()
                peer.start()
                try:
                    found = measure(peer, helper, workload)
                except RuntimeError as failure:
                    print(f"{peer.name}: {failure}", file=sys.stderr)
                    return 1
                print(_report(peer, workload, found), flush=True)
    return 0


def _report(peer: Peer, workload: Keyed, found: Found) -> str:
    return "\n  ".join(
        [
            f"{peer.name}: {workload.records:,} records with {workload.keys:,} keys, "
            f"{found.log_bytes / 1e6:,.0f} MB, are {found.records_left:,} now, the right ones",
            f"from the first file to the last in {found.seconds:.1f} s",
            f"memory beside the broker's own at most {found.extra_mb:.0f} MB",
            f"produce to fetch p99 {found.p99_before:.2f} ms before, "
            f"{found.p99_during:.2f} ms meanwhile",
            found.broker_line,
        ]
    ).rstrip()


if __name__ == "__main__":
    sys.exit(main())
