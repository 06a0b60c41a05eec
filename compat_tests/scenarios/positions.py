"""Where a consumer reads: by offset, by time, from the ends, and where there is nothing more."""

from __future__ import annotations

import time
from typing import Final

from kavka.compat_tests.errors import NotHere, Refused
from kavka.compat_tests.records import Partition, Record
from kavka.compat_tests.scenario import (
    READ_MS,
    SETTLED_S,
    Scenario,
    Trial,
    becomes,
    equal,
    read,
    refused,
    stored,
)
from kavka.tools.admin.partition_offsets import offsets_at

TIME_MS: Final = 1_700_000_000_000
QUIET_MS: Final = 1_500
DAY_MS: Final = 24 * 3600 * 1000
CHECKS: Final = "log.retention.check.interval.ms"
CHECKS_MS_MAX: Final = 30_000
FIRST_CHECK_S: Final = 60.0
"""A broker may wait longer before its first check (`log.initial.task.delay.ms`)."""

EARLIEST: Final = -2
"""The time that asks for a partition's start."""

OUT_OF_RANGE: Final = (
    *("OFFSET_OUT_OF_RANGE", "OffsetOutOfRangeException", "OffsetOutOfRangeError"),
    *("NoOffsetForPartitionException", "NoOffsetForPartitionError", "_AUTO_OFFSET_RESET"),
)
"""How libraries say so."""

RECORDS: Final = [
    Record(str(number).encode(), timestamp=TIME_MS + number * 1000) for number in range(10)
]


async def run_seek(trial: Trial) -> None:
    topic = await trial.topic()
    partition = Partition(topic, 0)
    await stored(
        await trial.producer(), topic, [Record(str(number).encode()) for number in range(10)]
    )
    reader = await trial.reader({partition: 7})

    async def reads(*offsets: int) -> None:
        found = [(record.offset, record.value) for record in await read(reader, len(offsets))]
        equal(found, [(offset, str(offset).encode()) for offset in offsets], "offsets and values")

    with trial.step("read from offset 7", "Fetch"):
        await reads(7, 8, 9)
    with trial.step("seek back to 2", "Fetch"):
        await reader.ask("seek", **partition.as_json(offset=2))
        await reads(2, 3, 4)
    with trial.step("see the position behind the last record", "Fetch"):
        found = await reader.ask("position", **partition.as_json())
        equal(found["offset"], 5, "position")


async def run_times(trial: Trial) -> None:
    topic = await trial.topic(retention_ms="-1")
    partition = Partition(topic, 0)
    await stored(await trial.producer("timestamps"), topic, RECORDS)
    reader = await trial.reader({partition: 0})
    with trial.step("ask for the first offset at or after a time", "ListOffsets"):
        for time_ms, expected in (
            (0, (0, TIME_MS)),
            (TIME_MS + 4000, (4, TIME_MS + 4000)),
            (TIME_MS + 4001, (5, TIME_MS + 5000)),
            (TIME_MS + 9001, (None, None)),
        ):
            requested = [partition.as_json(timestamp=time_ms)]
            (found,) = (await reader.ask("offsets_for_times", partitions=requested))["offsets"]
            offset, timestamp = expected
            equal(found["offset"], offset, f"offset at {time_ms}")
            if found["timestamp"] is not None:  # else the library does not tell it
                equal(found["timestamp"], timestamp, f"timestamp at {time_ms}")


async def run_ends(trial: Trial) -> None:
    topic = await trial.topic(2)
    first, second = Partition(topic, 0), Partition(topic, 1)
    await stored(await trial.producer(), topic, [Record(b"value")] * 7)
    reader = await trial.reader({first: 0})
    with trial.step("ask for the ends of a partition with records and one without", "ListOffsets"):
        requested = [partition.as_json() for partition in (first, second)]
        found = (await reader.ask("ends", partitions=requested))["ends"]
        expected = [{"earliest": 0, "latest": 7}, {"earliest": 0, "latest": 0}]
        equal(found, expected, "ends")


async def run_latest(trial: Trial) -> None:
    topic = await trial.topic()
    producer = await trial.producer()
    await stored(producer, topic, [Record(b"old")] * 3)
    with trial.step("begin at the end, and read only what comes then", "ListOffsets", "Fetch"):
        reader = await trial.reader({Partition(topic, 0): "latest"})
        equal(await reader.poll(1, QUIET_MS), [], "records at the end")
        await stored(producer, topic, [Record(b"new")])
        found = await read(reader, 1)
        equal([(record.offset, record.value) for record in found], [(3, b"new")], "record")


async def run_pause(trial: Trial) -> None:
    topic = await trial.topic(2)
    first, second = Partition(topic, 0), Partition(topic, 1)
    producer = await trial.producer()
    records = [Record(b"value", partition=index) for index in (0, 1)]
    await stored(producer, topic, records * 5)
    reader = await trial.reader({first: 0, second: 0})
    with trial.step("pause a partition before it is read", "Fetch"):
        await reader.ask("pause", partitions=[first.as_json()])
        found = await read(reader, 5)
        equal({record.partition for record in found}, {1}, "partitions")
        equal(await reader.poll(1, QUIET_MS), [], "records of the paused one")
    with trial.step("resume it", "Fetch"):
        await reader.ask("resume", partitions=[first.as_json()])
        found = await read(reader, 5)
        equal(
            [(record.partition, record.offset) for record in found],
            [(0, n) for n in range(5)],
            "places",
        )


async def run_out_of_range(trial: Trial) -> None:
    topic = await trial.topic()
    await stored(await trial.producer(), topic, [Record(b"value")] * 5)
    for offset in (1000, 6):
        with trial.step(f"read from offset {offset}, from where it is reset to the start", "Fetch"):
            reader = await trial.reader({Partition(topic, 0): offset}, reset="earliest")
            equal([record.offset for record in await read(reader, 5)], [*range(5)], "offsets")


async def run_no_reset(trial: Trial) -> None:
    topic = await trial.topic()
    await stored(await trial.producer(), topic, [Record(b"value")] * 5)
    with trial.step("read from an offset behind the end without a reset", "Fetch"):
        reader = await trial.reader({Partition(topic, 0): 1000}, reset="none")
        await refused(reader.poll(1, READ_MS), *OUT_OF_RANGE)


async def run_deleted_records(trial: Trial) -> None:
    topic = await trial.topic()
    partition = Partition(topic, 0)
    await stored(await trial.producer(), topic, [Record(b"value")] * 10)
    driver = await trial.driver()
    with trial.step("delete the records before offset 6", "DeleteRecords"):
        found = await driver.ask("delete_records", **partition.as_json(before=6))
        equal(found["earliest"], 6, "log start offset")
    with trial.step("read from the start what is left", "ListOffsets", "Fetch"):
        reader = await trial.reader({partition: "earliest"})
        equal([record.offset for record in await read(reader, 4)], [6, 7, 8, 9], "offsets")
    if "reset" in trial.can:
        with trial.step("read from a deleted offset, which is reset to the start", "Fetch"):
            reader = await trial.reader({partition: 2}, reset="earliest")
            equal([record.offset for record in await read(reader, 4)], [6, 7, 8, 9], "offsets")
    with trial.step("have an offset behind the end refused", "DeleteRecords"):
        request = driver.ask("delete_records", **partition.as_json(before=1000))
        await refused(request, "OFFSET_OUT_OF_RANGE")


async def run_retention(trial: Trial) -> None:
    interval_ms = await trial.broker.config(CHECKS)
    if interval_ms is None or int(interval_ms) > CHECKS_MS_MAX:
        raise NotHere(f"{CHECKS} is {interval_ms}: it would have to be {CHECKS_MS_MAX} at most")
    topic = await trial.topic(retention_ms=str(DAY_MS), segment_ms=str(DAY_MS))
    place = Partition(topic, 0)
    old = [Record(b"old", timestamp=int(time.time() * 1000) - 3 * DAY_MS)] * 5
    writer = await trial.reference()
    await writer.ask("producer")
    await stored(writer, topic, old)
    await stored(writer, topic, [Record(b"new")] * 2)  # days later: in a segment of their own

    async def start() -> int:
        found = await offsets_at(trial.broker.admin, [place], EARLIEST, SETTLED_S)
        return found[place]

    with trial.step("have retention delete a segment", "ListOffsets"):
        within_s = int(interval_ms) / 1000 + FIRST_CHECK_S
        await becomes(start, 5, "log start offset", within_s)

    async def reads(offset: int | str, reset: str = "earliest") -> None:
        reader = await trial.reader({place: offset}, reset=reset)
        found = [(record.offset, record.value) for record in await read(reader, 2)]
        equal(found, [(5, b"new"), (6, b"new")], "offsets and values")

    with trial.step("read from the start what is left", "ListOffsets", "Fetch"):
        await reads("earliest")
    if "reset" in trial.can:
        with trial.step("read from a deleted offset, which is reset to the start", "Fetch"):
            await reads(2)
    if "reset_none" in trial.can:
        with trial.step("have a deleted offset told without a reset", "Fetch"):
            try:
                await reads(2, reset="none")  # kafka-go goes on from the start even so
            except Refused as refusal:
                equal(refusal.name in OUT_OF_RANGE, True, f"whether {refusal} is said")


NEEDS: Final = frozenset({"consume"})
ALL: Final = (
    Scenario("seek", "Reading from an offset, and seeking", run_seek, NEEDS | {"seek"}),
    Scenario(
        "times",
        "Offsets by time",
        run_times,
        NEEDS | {"offsets_for_times"},
        quick=True,
    ),
    Scenario("ends", "The first and the last offset", run_ends, NEEDS | {"ends"}),
    Scenario("latest", "Reading from the end", run_latest, NEEDS),
    Scenario("pause", "Pausing and resuming a partition", run_pause, NEEDS | {"pause"}),
    Scenario(
        "out-of-range", "An offset out of range is reset", run_out_of_range, NEEDS | {"reset"}
    ),
    Scenario("no-reset", "An offset out of range is told", run_no_reset, NEEDS | {"reset_none"}),
    Scenario("delete-records", "Deleted records", run_deleted_records, NEEDS | {"delete_records"}),
    Scenario("retention", "What retention deletes under a reader", run_retention, NEEDS),
)
