"""The task that writes a replay: when it sends and commits, and what it leaves out."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.errors import KafkaTimeoutError

from kavka.spark_it.writing import KEEP_EVERY_S, NO_KEY, Done, Task, Transactions, murmur2_partition

START = 1_000.0


class Sent:
    """What `send` returns: a record that is delivered, or not."""

    def __init__(self, failure: Exception | None) -> None:
        self._failure = failure

    def get(self, timeout: float) -> None:
        assert timeout == 0
        if self._failure is not None:
            raise self._failure


class Played:
    """A producer and a clock; `calls` has what was called, each with the time since the start."""

    def __init__(self) -> None:
        self.now = START
        self.calls: list[tuple[float, Any]] = []
        self.undelivered: set[bytes] = set()

    def add(self, call: Any) -> None:
        self.calls.append((round(self.now - START, 6), call))

    def begin_transaction(self) -> None:
        self.add("begin")

    def send(self, topic: str, **record: Any) -> Sent:
        self.now += 0.001  # no call takes no time
        self.add((record["partition"], record["value"]))
        self.record = record
        expired = record["value"] in self.undelivered
        return Sent(KafkaTimeoutError("expired") if expired else None)

    def flush(self) -> None:
        """All futures are done already."""

    def send_offsets_to_transaction(self, offsets: Any, group: str) -> None:
        assert group == "the-group"
        self.add({tp.partition: offset.offset for tp, offset in offsets.items()})
        self.metadata = {tp.partition: offset.metadata for tp, offset in offsets.items()}

    def commit_transaction(self) -> None:
        self.add("commit")

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds


def write(
    rows: list[Any],
    *,
    before: dict[int, int] | None = None,
    records: int = 100,
    seconds: float = 1.0,
    played: Played | None = None,
) -> Played:
    played = played or Played()
    task = Task(
        settings={},
        topic="a",
        partitions=5,
        group="the-group",
        original_timestamps=True,
        transaction_records=records,
        transaction_seconds=seconds,
        writers=3,
        began=START,
        targets=range(5),
    )
    done = {target: Done((before or {}).get(target, 0), "p", 3) for target in range(5)}
    Transactions(
        task,
        played,
        done,
        clock=lambda: played.now,
        sleep=played.sleep,
    ).write(rows)
    return played


def row(n: int, *, target: int = 0, due: float = 0.0, **more: Any) -> dict[str, Any]:
    plain = {"timestamp": n, "key": b"k", "value": b"%d" % n, "headers": None}
    place = {"topic": "source", "partition": 7, "offset": 100 + n}
    return {"n": n, "target": target, "due": due, **plain, **place, **more}


def test_a_transaction_ends_after_its_records_with_the_place_of_each_partition() -> None:
    played = write([row(1), row(1, target=4), row(2), row(3)], records=3)
    assert [call for _, call in played.calls] == [
        "begin",
        (0, b"1"),
        (4, b"1"),
        (0, b"2"),
        {0: 2, 4: 1},
        "commit",
        "begin",
        (0, b"3"),
        {0: 3},
        "commit",
    ]
    assert played.metadata == {0: Done(3, "source-7-103", 3).metadata()}


def test_records_are_sent_when_due_and_committed_in_time() -> None:
    played = write([row(1, due=0.5), row(2, due=0.75), row(3, due=5.0), row(4, due=5.0)])
    assert played.calls == [
        (0.5, "begin"),
        (0.501, (0, b"1")),
        (0.751, (0, b"2")),
        (1.5, {0: 2}),
        (1.5, "commit"),
        (5.0, "begin"),
        (5.001, (0, b"3")),
        (5.002, (0, b"4")),
        (5.002, {0: 4}),
        (5.002, "commit"),
    ]


def test_a_transaction_ends_in_time_when_records_never_pause() -> None:
    played = write([row(n) for n in range(1, 25)], seconds=0.0095)
    commits = [at for at, call in played.calls if call == "commit"]
    assert commits == [0.01, 0.02, 0.024]


def test_what_an_earlier_attempt_has_written_is_left_out() -> None:
    rows = [row(1), row(1, target=1, due=9.0), row(2), row(3)]
    played = write(rows, before={0: 2, 1: 1})
    assert played.calls == [
        (0.0, "begin"),
        (0.001, (0, b"3")),
        (0.001, {0: 3}),
        (0.001, "commit"),
    ]
    assert write(rows[:1], before={0: 1}).calls == []


def test_offsets_are_committed_again_before_the_broker_forgets_them() -> None:
    """Those of a partition whose records are done or due much later, while others are written and
    while nothing is."""
    played = write([row(1), row(2, due=2 * KEEP_EVERY_S)], before={1: 7})
    assert played.calls == [
        (0.0, "begin"),
        (0.001, (0, b"1")),
        (1.0, {0: 1}),
        (1.0, "commit"),
        (KEEP_EVERY_S, "begin"),
        (KEEP_EVERY_S, {0: 1, 1: 7}),
        (KEEP_EVERY_S, "commit"),
        (2 * KEEP_EVERY_S, "begin"),
        (2 * KEEP_EVERY_S + 0.001, (0, b"2")),
        (2 * KEEP_EVERY_S + 0.001, {0: 2, 1: 7}),
        (2 * KEEP_EVERY_S + 0.001, "commit"),
    ]


def test_a_record_is_sent_as_it_is() -> None:
    played = write(
        [row(8, key=None, value=None, timestamp=-5, headers=[{"key": "h", "value": None}])]
    )
    assert played.record == {
        "key": NO_KEY,
        "value": None,
        "headers": [("h", b"")],
        "partition": 0,
        "timestamp_ms": -5,
    }


def test_a_record_without_key_has_no_partition_of_its_key() -> None:
    assert murmur2_partition(None, 4) is None


def test_a_record_that_is_not_delivered_fails_the_task_before_the_commit() -> None:
    """kafka-python itself would commit the transaction without it."""
    played = Played()
    played.undelivered = {b"2"}
    with pytest.raises(KafkaTimeoutError):
        write([row(n) for n in range(1, 6)], records=2, played=played)
    assert [call for _, call in played.calls] == ["begin", (0, b"1"), (0, b"2")]
