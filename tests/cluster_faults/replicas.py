"""Whether all replicas hold the same, as their files say. `diverging` is pure.

- No replica ends before a high watermark that any replica has stored.
- The batches of a partition are the same, byte by byte, up to where the shortest replica ends. In
  topics that are compacted a replica may lack records that another still has; then batches at the
  same offset have the same leader epoch.
- Where each leader epoch with records begins is what the replica's checkpoint of epochs says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from sim.history import Place
from support.segments import HEADER, LENGTH_PREFIX_BYTES

HIGH_WATERMARKS = "replication-offset-checkpoint"
EPOCHS = "leader-epoch-checkpoint"
OF_EPOCH, OF_LAST_DELTA = 2, 6
"""Fields of a batch's header."""


class StoredBatch(NamedTuple):
    """A batch in a file."""

    base_offset: int
    next_offset: int
    epoch: int
    data: bytes


@dataclass(frozen=True)
class Replica:
    """What one broker has of one partition."""

    batches: Sequence[StoredBatch]
    high_watermark: int = 0
    epochs: Mapping[int, int] | None = None
    """Where each leader epoch begins, by its checkpoint; None if there is none."""

    @property
    def end(self) -> int:
        """The offset behind its last record."""
        return self.batches[-1].next_offset if self.batches else 0


def diverging(
    replicas: Mapping[str, Mapping[Place, Replica]], compacted: frozenset[str]
) -> list[str]:
    """What differs; `replicas` by broker, `compacted` topics."""
    found: list[str] = []
    for place in sorted({place for of_one in replicas.values() for place in of_one}):
        held = {broker: of_one[place] for broker, of_one in replicas.items() if place in of_one}
        found += _too_short(place, held)
        found += _differing(place, held, is_compacted=place[0] in compacted)
        if place[0] not in compacted:
            for broker, replica in held.items():
                found += _wrong_epochs(place, broker, replica)
    return found


def _too_short(place: Place, held: Mapping[str, Replica]) -> Iterator[str]:
    committed = max(replica.high_watermark for replica in held.values())
    for broker, replica in held.items():
        if replica.end < committed:
            yield (
                f"I8 replica divergence: {place} ends at {replica.end} on {broker}, "
                f"{committed} is committed"
            )


def _differing(place: Place, held: Mapping[str, Replica], *, is_compacted: bool) -> Iterator[str]:
    end = min(replica.end for replica in held.values())
    (first, replica), *others = held.items()
    here = {batch.base_offset: batch for batch in replica.batches if batch.next_offset <= end}
    for second, other in others:
        there = {batch.base_offset: batch for batch in other.batches if batch.next_offset <= end}
        if not is_compacted and here.keys() != there.keys():
            at = min(here.keys() ^ there.keys())
            yield f"I8 replica divergence: only one of {first} and {second} has {place} {at}"
        for offset in sorted(here.keys() & there.keys()):
            mine, theirs = here[offset], there[offset]
            same = mine.epoch == theirs.epoch if is_compacted else mine.data == theirs.data
            if not same:
                yield f"I8 replica divergence: {place} {offset} differs on {first} and {second}"
                break


def _wrong_epochs(place: Place, broker: str, replica: Replica) -> Iterator[str]:
    begins: dict[int, int] = {}
    for batch in replica.batches:
        begins.setdefault(batch.epoch, batch.base_offset)
    for epoch, offset in begins.items():
        said = (replica.epochs or {}).get(epoch)
        if said != offset:
            yield (
                f"I8 leader epochs: {place} on {broker}: epoch {epoch} begins at {offset}, its "
                f"checkpoint says {said}"
            )


def stored(data_dir: Path) -> dict[Place, Replica]:
    """What a broker that has stopped has on its disk."""
    high_watermarks = _lines(data_dir / HIGH_WATERMARKS)
    committed = {(topic, int(at)): int(offset) for topic, at, offset in high_watermarks}
    found: dict[Place, Replica] = {}
    for directory in sorted(data_dir.iterdir()):
        topic, _, index = directory.name.rpartition("-")
        if not directory.is_dir() or not topic or not index.isdigit():
            continue
        place = topic, int(index)
        epochs = {int(epoch): int(offset) for epoch, offset in _lines(directory / EPOCHS)}
        batches = [batch for path in sorted(directory.glob("*.log")) for batch in _batches(path)]
        found[place] = Replica(batches, committed.get(place, 0), epochs)
    return found


def _lines(checkpoint: Path) -> list[list[str]]:
    """The entries of a checkpoint: behind its version, and their count."""
    if not checkpoint.exists():
        return []
    return [line.split() for line in checkpoint.read_text().splitlines()[2:]]


def _batches(segment: Path) -> Iterator[StoredBatch]:
    content = segment.read_bytes()
    position = 0
    while position < len(content):
        fields = HEADER.unpack_from(content, position)
        size = LENGTH_PREFIX_BYTES + fields[1]
        base = fields[0]
        data = content[position : position + size]
        yield StoredBatch(base, base + fields[OF_LAST_DELTA] + 1, fields[OF_EPOCH], data)
        position += size
