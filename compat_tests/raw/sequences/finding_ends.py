"""ListOffsets beside transactions: where a log ends for readers of committed records."""

from __future__ import annotations

from kavka.compat_tests.raw.case import Cases, Ground, Script, Topic
from kavka.compat_tests.raw.codec.batches import BASE_TIMESTAMP_MS
from kavka.compat_tests.raw.transactions import Producer

CASES = Cases("ListOffsets", transactional=True)
ISOLATION_SINCE = 2
LATEST, EARLIEST, GREATEST = -1, -2, -3


def seen(on: Ground) -> Script:
    for isolation in (0, 1):
        for timestamp in (LATEST, EARLIEST, GREATEST, BASE_TIMESTAMP_MS, BASE_TIMESTAMP_MS + 1):
            if timestamp == GREATEST and on.version < 7:
                continue
            partition = {
                "partition_index": 0,
                "timestamp": timestamp,
                "current_leader_epoch": -1,
            }
            topic = {"name": on.topic, "partitions": [partition]}
            yield on.ask(
                replica_id=-1, isolation_level=isolation, topics=[topic], timeout_ms=30_000
            )


@CASES.case(topics=[Topic("isolated")], since=ISOLATION_SINCE)
def before_in_and_after_a_transaction(on: Ground) -> Script:
    first, second = Producer(on, "-1"), Producer(on, "-2")
    yield from first.init()
    yield from second.init()
    yield from first.write(b"a")
    yield from seen(on)
    yield from first.end()
    yield from seen(on)
    yield from second.write(b"b")
    yield from first.write(b"c")
    yield from first.end(committed=False)
    yield from seen(on)
    yield from second.end()
    yield from seen(on)
