"""When segments close and when they go: Kavka beside Apache Kafka 4.3.1, on the same batches.

Both get the same requests and bytes; then the names of the segment files, the bounds of the logs
and their sizes are compared, and again after a restart.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from support import logs
from support.broker import Kavka
from support.clients.kafka_python import create_topic
from support.dump_log import dump, files
from support.oracle import ApacheKafka
from support.ports import HOST
from support.process import BrokerProcess
from support.raw import RawConnection
from support.wait import eventually

SETTINGS = {
    "log.initial.task.delay.ms": "200",
    "log.retention.check.interval.ms": "200",
    "log.segment.delete.delay.ms": "0",
    "log.cleaner.backoff.ms": "200",
}
SEEN_WITHIN_S = 60.0
EARLIEST, LATEST = -2, -1
SECOND_MS, HOUR_MS, DAY_MS = 1000, 3_600_000, 86_400_000
MIB = 1 << 20

KEPT = {"retention.ms": "-1"}
SHORT = {**KEPT, "segment.ms": "1000"}
NOT_COMPACTED = {"min.compaction.lag.ms": str(1000 * DAY_MS)}
SIZE = 500
"""Of the batches whose size does not matter, in bytes."""


class Batch(NamedTuple):
    """Records, by their times in ms before now; and how many bytes they have together."""

    times: Sequence[int]
    size: int = SIZE

    def encode(self, now_ms: int) -> bytes:
        times = [now_ms - time if time >= 0 else -1 for time in self.times]
        values = [b""] * len(times)
        bare = len(_encode(values, times))
        for length in range(self.size - bare - 8, self.size):  # lengths take more bytes as well
            values[0] = bytes(max(0, length))
            if len(made := _encode(values, times)) == self.size:
                return made
        raise AssertionError(f"no batch has {self.size} bytes")


def _encode(values: Sequence[bytes], times: Sequence[int]) -> bytes:
    return bytes(logs.batch(values, timestamps=times, keys=[b"%d" % n for n in range(len(values))]))


def each(*times: int, size: int = SIZE) -> list[Batch]:
    """Batches of one record."""
    return [Batch([time], size) for time in times]


class Given(NamedTuple):
    """A topic's settings, what is written to it, and where DeleteRecords lets it begin."""

    settings: Mapping[str, str]
    batches: Sequence[Batch]
    begin: int = 0


APART = each(*range(10 * HOUR_MS, 0, -HOUR_MS))
"""Ten batches an hour apart, each of which gets a segment; the newest is an hour old."""


def by_size(retention_bytes: int) -> Given:
    return Given({**SHORT, "retention.bytes": str(retention_bytes)}, APART)


def by_age(
    retention_ms: int, batches: Sequence[Batch] = APART, *, retention_bytes: int = -1
) -> Given:
    limits = {"retention.ms": str(retention_ms), "retention.bytes": str(retention_bytes)}
    return Given({"segment.ms": "1000"} | limits, batches)


def policy(policy: str, **settings: str) -> dict[str, str]:
    return SHORT | NOT_COMPACTED | {"cleanup.policy": policy} | settings


CASES: dict[str, Given] = {
    # when segments close
    "time": Given(SHORT, each(9000, 8500, 8000, 7999, 7000, 6999, 6998, 5998, 5000)),
    "time-backwards": Given(SHORT, each(9000, 9500, 8001, 8000, 7999, 99000, 7000, 0)),
    "time-in-batches": Given(
        SHORT, [Batch([9000, 8000]), Batch([9000, 7000]), Batch([6999, 9000])]
    ),
    "time-none": Given(KEPT | {"segment.ms": str(HOUR_MS)}, each(-1, -1, 9000, -1, 0)),
    "size-fits": Given(KEPT | {"segment.bytes": str(MIB)}, each(*[5000] * 9, size=MIB // 4)),
    "size-one-more": Given(
        KEPT | {"segment.bytes": str(MIB)}, each(*[5000] * 9, size=MIB // 4 + 1)
    ),
    **{
        f"index-{size}-{name}": Given(
            KEPT | {"segment.index.bytes": str(size), "index.interval.bytes": str(interval)},
            each(*times),
        )
        for size in (12, 24, 79, 80, 100)
        for name, interval, times in (
            ("rising", 0, range(9000, 8970, -1)),
            ("equal", 0, [9000] * 30),
            ("falling", 0, range(9000, 9030)),
            ("interval", SIZE, range(9000, 8970, -1)),
        )
    },
    # when they go
    **{
        f"bytes-{count}-{delta}": by_size(count * SIZE + delta)
        for count in (0, 1, 5, 10)
        for delta in (-1, 0, 1)
        if count or delta >= 0
    },
    "bytes-none": by_size(-1),
    **{
        f"age-{hours}": by_age(hours * HOUR_MS - 30 * 60 * SECOND_MS) for hours in (1, 2, 5, 10, 11)
    },
    "age-out-of-order": by_age(90 * 60_000, each(*[hour * HOUR_MS for hour in (9, 1, 8, 7, 6)])),
    "age-newest-first": by_age(90 * 60_000, [Batch([0, DAY_MS]), *each(DAY_MS, DAY_MS)]),
    "age-of-files": by_age(1, each(-1, -1)),
    "age-and-bytes": by_age(150 * 60_000, retention_bytes=9 * SIZE),
    "bytes-and-age": by_age(9 * HOUR_MS, retention_bytes=3 * SIZE),
    "begin-0": Given(SHORT, APART, 0),
    "begin-5": Given(SHORT, APART, 5),
    "begin-end": Given(SHORT, APART, -1),
    "begin-inside": Given(KEPT, [Batch([5000] * 3, 200), Batch([5000] * 3, 200)], 4),
    **{
        f"policy-{name}-{begin}": Given(
            policy(name, **{"retention.ms": "1", "retention.bytes": "1"}), APART, begin
        )
        for name in ("delete", "compact,delete")
        for begin in (0, 5)
    },
    "policy-compact": Given(
        policy("compact", **{"retention.ms": "1", "retention.bytes": "1"}), APART
    ),
    "policy-none": Given(policy("", **{"retention.ms": "1", "retention.bytes": "1"}), APART),
    "policy-none-begin": Given(policy("", **{"retention.ms": "1"}), APART, 5),
}

READ_BY_KAFKA = ("age-", "begin-", "policy-", "time-")
"""Topics whose files its DumpLogSegments is shown."""

SENTINELS = ("sentinel-delete", "sentinel-compact,delete")
"""Emptied by retention, again and again: when they are, everything has been looked at."""


class Seen(NamedTuple):
    """What there is of a partition."""

    segments: list[int]
    earliest: int
    latest: int
    size_bytes: int


@pytest.fixture(scope="module")
def sides(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[BrokerProcess, BrokerProcess]]:
    """Kavka and Apache Kafka, given the same, after retention has looked at everything."""
    home = tmp_path_factory.mktemp("retention")
    brokers = Kavka(home / "kavka", SETTINGS), ApacheKafka(home / "kafka", SETTINGS)
    now_ms = time.time_ns() // 1_000_000
    try:
        for broker in brokers:
            broker.start()
            fill(broker, now_ms)
        for broker in brokers:
            for _ in range(2):
                see_a_round(broker)
        yield brokers
    finally:
        for broker in brokers:
            broker.close()
    assert "Traceback (most recent call last)" not in brokers[0].output(), brokers[0].tail()


def fill(broker: BrokerProcess, now_ms: int) -> None:
    for name, given in CASES.items():
        create_topic(broker.bootstrap, topic(name), 1, dict(given.settings))
    for name in SENTINELS:
        settings = policy(name.partition("-")[2], **{"retention.ms": "1"})
        create_topic(broker.bootstrap, topic(name), 1, settings)
    with RawConnection(HOST, broker.port) as connection:
        for name, given in CASES.items():
            for batch in given.batches:
                written = connection.produce(topic(name), 0, batch.encode(now_ms))
                assert written.error_code == 0, (name, batch)
            if given.begin:
                partitions = [{"partition_index": 0, "offset": given.begin}]
                topics = [{"name": topic(name), "partitions": partitions}]
                answer = connection.request("DeleteRecords", 2, topics=topics, timeout_ms=20_000)
                assert answer["topics"][0]["partitions"][0]["error_code"] == 0, (name, answer)


def topic(name: str) -> str:
    return name.replace(",", ".")


def see_a_round(broker: BrokerProcess) -> None:
    """Wait until records that are written now have been deleted."""
    with RawConnection(HOST, broker.port) as connection:
        for name in SENTINELS:
            for batch in each(DAY_MS, DAY_MS):
                connection.produce(topic(name), 0, batch.encode(time.time_ns() // 1_000_000))

        def all_gone() -> bool:
            bounds = [
                (offset(connection, n, EARLIEST), offset(connection, n, LATEST)) for n in SENTINELS
            ]
            return all(earliest == latest for earliest, latest in bounds)

        eventually(all_gone, within_s=SEEN_WITHIN_S, what="old records go", detail=broker.tail)


def offset(connection: RawConnection, name: str, timestamp: int) -> int:
    found = connection.list_offset(topic(name), timestamp=timestamp)
    assert found["error_code"] == 0, found
    return int(found["offset"])


def look(broker: BrokerProcess) -> dict[str, Seen]:
    """What there is of each topic."""
    with RawConnection(HOST, broker.port) as connection:
        answer = connection.request("DescribeLogDirs", 4, topics=None)
        sizes = {
            entry["name"]: entry["partitions"][0]["partition_size"]
            for directory in answer["results"]
            for entry in directory["topics"]
        }
        return {
            name: Seen(
                segments(broker.data_dir / f"{topic(name)}-0"),
                offset(connection, name, EARLIEST),
                offset(connection, name, LATEST),
                sizes[topic(name)],
            )
            for name in CASES
        }


def segments(directory: Path) -> list[int]:
    return sorted(int(path.stem) for path in directory.glob("*.log"))


def test_the_same_segments_are_left(sides: tuple[BrokerProcess, BrokerProcess]) -> None:
    ours, theirs = map(look, sides)
    assert {name: (ours[name], theirs[name]) for name in CASES if ours[name] != theirs[name]} == {}
    deleted = [name for name in CASES if theirs[name].earliest]
    closed = [name for name in CASES if len(theirs[name].segments) > 1]
    assert len(deleted) > 20 and len(closed) > 20, "else there is nothing to compare"


def test_they_are_after_a_restart(sides: tuple[BrokerProcess, BrokerProcess]) -> None:
    kavka, _ = sides
    before = look(kavka)
    kavka.stop()
    shown = [path for path in files(kavka.data_dir) if path.parent.name.startswith(READ_BY_KAFKA)]
    assert len(shown) > 50
    assert dump(shown, "--deep-iteration", "--index-sanity-check").complaints == []
    kavka.start()
    after = look(kavka)
    ages: dict[str, Any] = {name: (before[name], after[name]) for name in CASES}
    assert {name: pair for name, pair in ages.items() if pair[0] != pair[1]} == {}
