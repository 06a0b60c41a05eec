"""What a log must hold after producers wrote to it through any network.

Two looks at it. By its batches: each producer's sequences begin with 0 in each epoch and follow
one another. By its records, `name/partition/number/…`, which each writer numbered for each
partition: each is there once and in order; none is missing but those that its producer gave up;
all that were acknowledged lie where they were said to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from support.segments import HEADER, LENGTH_PREFIX_BYTES

UNKNOWN = -1
"""The offset of a record that is there, but the producer does not know where."""


class Numbered(NamedTuple):
    """A record by what its writer called it."""

    writer: str
    partition: int
    number: int


class Written(NamedTuple):
    """A batch in a log."""

    base_offset: int
    records: int
    producer_id: int
    epoch: int
    sequence: int


class Outcomes:
    """How producers' records were answered."""

    def __init__(self) -> None:
        self.acknowledged: dict[Numbered, int] = {}
        """Where each is said to lie."""
        self.given_up: dict[Numbered, str] = {}
        """Why. Such a record may be there or not."""
        self.complaints: list[str] = []

    def acknowledge(self, record: Numbered, offset: int) -> None:
        """A record is said to lie at an offset, which may be UNKNOWN."""
        if record in self.acknowledged:
            self.complaints.append(f"{record} is acknowledged twice")
        self.acknowledged[record] = offset

    def give_up(self, record: Numbered, why: str) -> None:
        """A producer has given a record up."""
        self.given_up[record] = why


def numbered(value: bytes) -> Numbered:
    """A record by its value."""
    writer, partition, number, _ = value.split(b"/", 3)
    return Numbered(writer.decode(), int(partition), int(number))


def of_batches(partition: int, batches: Iterable[Written]) -> Iterator[str]:
    """Complaints about the sequences of a partition's batches, in the order of the log."""
    epochs: dict[int, int] = {}
    expected: dict[tuple[int, int], int] = {}
    for batch in batches:
        who = f"{partition}@{batch.base_offset}: producer {batch.producer_id}"
        if batch.producer_id < 0:
            continue
        if batch.epoch < epochs.get(batch.producer_id, 0):
            yield f"{who} has epoch {batch.epoch} after {epochs[batch.producer_id]}"
        epochs[batch.producer_id] = batch.epoch
        next_sequence = expected.get((batch.producer_id, batch.epoch), 0)
        if batch.sequence != next_sequence:
            verb = "repeats" if batch.sequence < next_sequence else "skips to"
            yield f"{who} epoch {batch.epoch} {verb} {batch.sequence}, {next_sequence} is next"
        expected[batch.producer_id, batch.epoch] = batch.sequence + batch.records


def of_records(
    found: Mapping[int, Sequence[tuple[int, Numbered]]], outcomes: Outcomes
) -> Iterator[str]:
    """Complaints about records (offset, record) by partition."""
    yield from outcomes.complaints
    offsets: dict[Numbered, int] = {}
    for partition, records in found.items():
        after: dict[str, int] = {}
        for offset, record in records:
            if record.partition != partition:
                yield f"{partition}@{offset}: {record} is in a wrong partition"
            if record in offsets:
                yield f"{partition}@{offset}: {record} is a duplicate of that at {offsets[record]}"
            elif record.number < after.get(record.writer, 0):
                yield f"{partition}@{offset}: {record} comes after a later one"
            after[record.writer] = max(after.get(record.writer, 0), record.number + 1)
            offsets.setdefault(record, offset)
        for writer, count in after.items():
            for number in range(count):
                record = Numbered(writer, partition, number)
                if record not in offsets and record not in outcomes.given_up:
                    yield f"{partition}: {record} is missing before {count - 1}"
    for record, offset in outcomes.acknowledged.items():
        if record not in offsets:
            yield f"{record} is acknowledged at {offset} and not there"
        elif offset not in (UNKNOWN, offsets[record]):
            yield f"{record} is acknowledged at {offset} and lies at {offsets[record]}"


def written(directory: Path) -> Iterator[Written]:
    """The batches in a partition's directory."""
    for segment in sorted(directory.glob("*.log")):
        content = segment.read_bytes()
        position = 0
        while position < len(content):
            base, length, *_, producer_id, epoch, sequence, records = HEADER.unpack_from(
                content, position
            )
            yield Written(base, records, producer_id, epoch, sequence)
            position += LENGTH_PREFIX_BYTES + length
