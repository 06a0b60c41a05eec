"""Acknowledgements, sizes and partitions of what is written."""

from __future__ import annotations

from random import Random
from typing import Final

from kavka.compat_tests.errors import Mismatch
from kavka.compat_tests.records import Partition, Record, Refusal, is_of_protocol
from kavka.compat_tests.scenario import Scenario, Trial, equal, read, shown, stored

MAX_BYTES: Final = 100_000
"""Of a batch, in the topic whose limit is tried."""

TOO_LARGE: Final = frozenset({"MESSAGE_TOO_LARGE", "RECORD_LIST_TOO_LARGE", "INVALID_RECORD"})
"""What brokers may say, under the names that libraries give the first two."""

PARTITIONS: Final = 50


async def run_acks(trial: Trial) -> None:
    topic = await trial.topic()
    driver = await trial.driver()
    offset = 0
    for acks in ("all", "1", "0"):
        with trial.step(f"write with acks={acks}", "Produce"):
            await driver.ask("producer", acks=acks, idempotent=False)
            placed = await stored(driver, topic, [Record(acks.encode()) for _ in range(5)])
            if acks != "0":
                equal([place.offset for place in placed], [*range(offset, offset + 5)], "offsets")
        with trial.step(f"read what acks={acks} has written", "Fetch"):
            reader = await trial.reader({Partition(topic, 0): offset})
            found = await read(reader, 5)
            equal([record.value for record in found], [acks.encode()] * 5, "values")
            offset += 5


async def run_idempotence(trial: Trial) -> None:
    topic = await trial.topic()
    records = [Record(str(number).encode()) for number in range(200)]
    with trial.step("write 200 records idempotently, in many batches", "InitProducerId", "Produce"):
        producer = await trial.producer(idempotent=True, batch_bytes=600)
        placed = await stored(producer, topic, records)
        equal([place.offset for place in placed], [*range(200)], "offsets")
    with trial.step("read each once, in order", "Fetch"):
        reader = await trial.reader({Partition(topic, 0): 0})
        found = await read(reader, 200)
        equal([record.value for record in found], [record.value for record in records], "values")


async def run_large(trial: Trial) -> None:
    topic = await trial.topic(max_message_bytes=str(MAX_BYTES))
    noise = Random(1).randbytes(MAX_BYTES + 2_000)  # nothing that a codec makes smaller
    fits, too_large = noise[: MAX_BYTES - 2_000], noise
    producer = await trial.producer(max_request_bytes=4 << 20)
    with trial.step("write a record just below max.message.bytes", "Produce"):
        await stored(producer, topic, [Record(fits)])
    with trial.step("have one above it refused", "Produce"):
        (outcome,) = await producer.send(topic, [Record(too_large)])
        if not isinstance(outcome, Refusal):
            raise Mismatch(f"it was stored: {shown(outcome)}")
        # Some libraries say no more than that the record failed.
        if is_of_protocol(outcome) and outcome.name not in TOO_LARGE:
            raise Mismatch(f"it was refused as {shown(outcome)}")
    is_small = "small_fetches" in trial.can
    with trial.step(f"read the one that was stored{', with smaller fetches' * is_small}", "Fetch"):
        reader = await trial.reader(
            {Partition(topic, 0): 0}, partition_fetch_max_bytes=10_000 if is_small else 4 << 20
        )
        (found,) = await read(reader, 1)
        equal(found.value == fits, True, "whether the value is the same")


async def run_many_partitions(trial: Trial) -> None:
    topic = await trial.topic(PARTITIONS)
    with trial.step(f"write to {PARTITIONS} partitions at once", "Produce", "Metadata"):
        producer = await trial.producer(linger_ms=20)
        records = [
            Record(f"{partition}-{number}".encode(), partition=partition)
            for number in range(4)
            for partition in range(PARTITIONS)
        ]
        placed = await stored(producer, topic, records)
        expected = [(record.partition, index // PARTITIONS) for index, record in enumerate(records)]
        equal([place[:2] for place in placed], expected, "partitions and offsets")
    with trial.step("read all of them", "Fetch", "ListOffsets"):
        every = {Partition(topic, index): "earliest" for index in range(PARTITIONS)}
        found = await read(await trial.reader(every), len(records))
        equal(
            sorted((record.partition, record.offset, record.value) for record in found),
            sorted(
                (place.partition, place.offset, record.value)
                for place, record in zip(placed, records, strict=True)
            ),
            "records",
        )


async def run_keys(trial: Trial) -> None:
    topic = await trial.topic(8)
    keys = [f"key-{number}".encode() for number in range(60)]
    with trial.step("write 60 keys twice, where the client puts them", "Metadata", "Produce"):
        producer = await trial.producer()
        records = [Record(b"value", key, partition=None) for key in keys]
        first = await stored(producer, topic, records)
        second = await stored(producer, topic, records)
        equal(
            [place.partition for place in second],
            [place.partition for place in first],
            "partitions",
        )
        if len({place.partition for place in first}) < 2:
            raise Mismatch("all keys are in one partition of 8")
    with trial.step("see the partitions in the metadata", "Metadata"):
        found = await producer.ask("partitions", topic=topic)
        equal(sorted(found["partitions"]), [*range(8)], "partitions")


NEEDS: Final = frozenset({"produce"})
ALL: Final = (
    Scenario("acks", "acks=all, 1 and 0", run_acks, NEEDS | {"acks"}),
    Scenario(
        "idempotence",
        "An idempotent producer",
        run_idempotence,
        NEEDS | {"idempotence"},
        quick=True,
    ),
    Scenario("large-records", "Records up to the limit and above it", run_large, NEEDS),
    Scenario(
        "many-partitions",
        f"Batches of {PARTITIONS} partitions at once",
        run_many_partitions,
        NEEDS,
    ),
    Scenario("keys", "Keys keep their partitions", run_keys, NEEDS | {"keyed"}, quick=True),
)
