"""Compressed batches: what a client compresses, it can read."""

from __future__ import annotations

from typing import Final

from kavka.compat_tests.records import Partition, Record
from kavka.compat_tests.scenario import Scenario, Trial, equal, read, stored

CODECS: Final = ("gzip", "snappy", "lz4", "zstd")
RECORDS: Final = [Record(f"{number} ".encode() * 300, str(number).encode()) for number in range(50)]


def of(codec: str) -> Scenario:
    """The scenario of a codec."""

    async def run(trial: Trial) -> None:
        topic = await trial.topic()
        with trial.step(f"write 50 records with {codec}", "Produce"):
            producer = await trial.producer(codec=codec, linger_ms=20)
            placed = await stored(producer, topic, RECORDS)
            equal([place.offset for place in placed], [*range(50)], "offsets")
        with trial.step("read them all, and from the middle of a batch", "Fetch"):
            reader = await trial.reader({Partition(topic, 0): 0})
            found = await read(reader, 50)
            equal(
                [(record.value, record.key) for record in found],
                [record[:2] for record in RECORDS],
                "records",
            )
            await reader.assign({Partition(topic, 0): 33})
            found = await read(reader, 17)
            equal([record.offset for record in found], [*range(33, 50)], "offsets from 33 on")

    needs = frozenset({"produce", codec})
    return Scenario(codec, f"Batches compressed with {codec}", run, needs, quick=codec == "lz4")


ALL: Final = tuple(of(codec) for codec in CODECS)
