"""Whether the replicas of a partition hold the same record batches, up to their high watermarks."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from kavka.wire.record_batches import (
    CURRENT_MAGIC,
    LENGTH_PREFIX_BYTES,
    crc_of,
    read_header,
)

OLD_START: Final = struct.Struct(">qiIb")
"""Of a message set: offset, length, checksum, magic."""

OFFSET: Final = "offset"
CHECKSUM: Final = "checksum"
SIZE: Final = "size"
DAMAGE: Final = "damage"


class Batch(NamedTuple):
    """What is compared of a batch."""

    last_offset: int
    size: int
    checksum: int
    """As it says itself."""
    actual: int
    """Of its bytes; the same where Kavka does not compute it."""


class Fetched(NamedTuple):
    """What a replica has sent."""

    records: memoryview
    high_watermark: int


class Difference(NamedTuple):
    """Two replicas differ in `kind`, or a replica's batch from its own checksum."""

    kind: str
    offset: int
    replica: int
    value: int
    other_replica: int
    other_value: int

    def sentence(self, partition: str) -> str:
        """In Apache Kafka's words, where it has some."""
        if self.kind == OFFSET:
            return (
                f"partition {partition}: replica {self.replica}'s offset {self.value} doesn't "
                f"match replica {self.other_replica}'s offset {self.other_value}"
            )
        if self.kind == DAMAGE:
            return (
                f"partition {partition} has a damaged batch at offset {self.offset} on replica "
                f"{self.replica}: its checksum is {self.value}, that of its bytes "
                f"{self.other_value}"
            )
        return (
            f"partition {partition} has unmatched {self.kind} at offset {self.offset}; replica "
            f"{self.replica}'s {self.kind} {self.value}; replica {self.other_replica}'s "
            f"{self.kind} {self.other_value}"
        )


class Compared(NamedTuple):
    """What a comparison has found, and from which offset on to go on."""

    next_offset: int
    differences: list[Difference]


def compare(fetched: Mapping[int, Fetched], offset: int) -> Compared:
    """Compare what replicas, by their brokers, have sent from an offset on: batch by batch, as far
    as all have some, and none beyond its high watermark. It ends where offsets differ."""
    found: list[Difference] = []
    every = {broker: _batches(answer.records) for broker, answer in fetched.items()}
    while every:
        batches = {broker: next(some, None) for broker, some in every.items()}
        present = {broker: batch for broker, batch in batches.items() if batch is not None}
        if len(present) < len(every) or any(
            batch.last_offset >= fetched[broker].high_watermark for broker, batch in present.items()
        ):
            break
        found += _differences(present)
        if any(difference.kind == OFFSET for difference in found):
            break
        offset = next(iter(present.values())).last_offset + 1
    return Compared(offset, found)


def _differences(batches: Mapping[int, Batch]) -> Iterator[Difference]:
    first, reference = next(iter(batches.items()))
    for broker, batch in batches.items():
        for kind, expected, found in (
            (OFFSET, reference.last_offset, batch.last_offset),
            (CHECKSUM, reference.checksum, batch.checksum),
            (SIZE, reference.size, batch.size),
        ):
            if expected != found:
                yield Difference(kind, batch.last_offset, first, expected, broker, found)
                if kind == OFFSET:
                    return
        if batch.checksum != batch.actual:
            yield Difference(
                DAMAGE, batch.last_offset, broker, batch.checksum, broker, batch.actual
            )


def _batches(records: memoryview) -> Iterator[Batch]:
    """The whole ones; the last may be cut."""
    position = 0
    while position + OLD_START.size <= len(records):
        offset, length, checksum, magic = OLD_START.unpack_from(records, position)
        end = position + LENGTH_PREFIX_BYTES + length
        if end > len(records) or end <= position:
            return
        batch = records[position:end]
        if magic == CURRENT_MAGIC:
            header = read_header(batch)
            yield Batch(header.last_offset, len(batch), header.crc, crc_of(batch))
        else:
            yield Batch(offset, len(batch), checksum, checksum)
        position = end
