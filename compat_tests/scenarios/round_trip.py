"""Records of every form are read as they were written."""

from __future__ import annotations

from typing import Final

from kavka.compat_tests.records import Headers, Partition, Record
from kavka.compat_tests.scenario import Scenario, Trial, equal, read, stored

TIME_MS: Final = 1_700_000_000_000


async def run_plain(trial: Trial) -> None:
    topic = await trial.topic(partitions=3)
    sent = {
        partition: [
            Record(f"value {partition}-{number}".encode(), b"key", partition=partition)
            for number in range(20)
        ]
        for partition in range(3)
    }
    with trial.step("write 20 records to each of 3 partitions", "Produce"):
        producer = await trial.producer()
        everything = [record for records in sent.values() for record in records]
        placed = await stored(producer, topic, everything)
        equal([place.offset for place in placed], [*range(20)] * 3, "offsets")
    with trial.step("read them back, each partition in order", "Fetch", "ListOffsets"):
        reader = await trial.reader({Partition(topic, index): "earliest" for index in range(3)})
        found = await read(reader, 60)
        for partition, records in sent.items():
            of_partition = [record for record in found if record.partition == partition]
            equal([record.offset for record in of_partition], [*range(20)], "offsets")
            equal(
                [record.value for record in of_partition],
                [record.value for record in records],
                "values",
            )
            equal({record.key for record in of_partition}, {b"key"}, "keys")


async def run_nulls(trial: Trial) -> None:
    topic = await trial.topic()
    records = [Record(b"value", None), Record(None, b"key"), Record(b"", b""), Record(b"\0", b"k")]
    with trial.step("write null and empty keys and values", "Produce"):
        await stored(await trial.producer(), topic, records)
    with trial.step("read them back, null and empty apart", "Fetch"):
        reader = await trial.reader({Partition(topic, 0): 0})
        found = await read(reader, len(records))
        equal(
            [(record.key, record.value) for record in found],
            [(record.key, record.value) for record in records],
            "keys and values",
        )


async def run_headers(trial: Trial) -> None:
    topic = await trial.topic()
    headers: list[Headers] = [
        (("trace", b"1"),),
        (("twice", b"a"), ("twice", b"b")),
        (("one", b"\0"), ("naïve", "ø".encode())),
        (),
    ]
    if "empty_bytes" in trial.can:
        headers.append((("empty", b""),))
    if "null_headers" in trial.can:
        headers.append((("null", None),))
    records = [Record(b"value", headers=pairs) for pairs in headers]
    with trial.step("write records with headers", "Produce"):
        await stored(await trial.producer(), topic, records)
    with trial.step("read the same headers in the same order", "Fetch"):
        reader = await trial.reader({Partition(topic, 0): 0})
        found = await read(reader, len(records))
        equal([record.headers for record in found], headers, "headers")


async def run_timestamps(trial: Trial) -> None:
    times = [TIME_MS, TIME_MS - 5_000, TIME_MS + 86_400_000]
    records = [Record(b"value", timestamp=timestamp) for timestamp in times]
    topic = await trial.topic(retention_ms="-1")
    appended = await trial.topic(message_timestamp_type="LogAppendTime")
    with trial.step("write records with timestamps of their own", "Produce"):
        producer = await trial.producer()
        await stored(producer, topic, records)
    with trial.step("read the producer's timestamps", "Fetch"):
        reader = await trial.reader({Partition(topic, 0): 0})
        found = await read(reader, len(records))
        equal([record.timestamp for record in found], times, "timestamps")
        types = {record.timestamp_type for record in found} - {None}
        equal(types <= {"create"}, True, f"timestamp types {types}")
    if "append_time" not in trial.can:
        return
    with trial.step("read the broker's timestamps of a topic with LogAppendTime", "Fetch"):
        await stored(producer, appended, records)
        await reader.assign({Partition(appended, 0): 0})
        found = await read(reader, len(records))
        late = [record.timestamp for record in found if (record.timestamp or 0) <= max(times)]
        equal(late, [], "timestamps of the producer's")
        types = {record.timestamp_type for record in found} - {None}
        equal(types <= {"append"}, True, f"timestamp types {types}")


NEEDS: Final = frozenset({"produce"})
ALL: Final = (
    Scenario("plain", "Records of several partitions in order", run_plain, NEEDS, quick=True),
    Scenario("nulls", "Null and empty keys and values", run_nulls, NEEDS | {"empty_bytes"}),
    Scenario("headers", "Headers", run_headers, NEEDS | {"headers"}, quick=True),
    Scenario(
        "timestamps", "Timestamps of producer and broker", run_timestamps, NEEDS | {"timestamps"}
    ),
)
