"""What a broker has left on its disk after a clean stop, judged by Apache Kafka's formats alone.

`DefaultRecordBatch`, `OffsetIndex`, `TimeIndex`, `LeaderEpochCheckpointFile` and
`OffsetCheckpointFile` (3.9): each entry of an index points to a batch that is there, timestamps in
a time index rise and none is higher than its batch's, and each batch has the leader epoch that the
checkpoint says.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator
from itertools import pairwise
from typing import NamedTuple

from kavka.log.memfs import MemFs

OVERHEAD = 12
"""Bytes of a batch before those that its length counts."""


class Batch(NamedTuple):
    """Where a batch is in its segment, and what its header says."""

    position: int
    end: int
    base_offset: int
    last_offset: int
    epoch: int
    max_timestamp: int


def judge_files(fs: MemFs, root: str, rotten: Collection[str] = ()) -> list[str]:
    """What contradicts itself in the logs of a directory. Files whose names end as one of `rotten`
    are not judged: a wrong entry stays where it is until it is looked up."""
    found = []
    starts = _log_starts(fs, root)
    for name in sorted(fs.list_dir(root)):
        directory = f"{root}/{name}"
        if fs.is_dir(directory) and not name.endswith("-delete"):
            judged = _judge_log(fs, directory, rotten, starts.get(name, 0))
            found += [f"{directory}: {complaint}" for complaint in judged]
    return found


def _judge_log(fs: MemFs, directory: str, rotten: Collection[str], start: int) -> Iterator[str]:
    names = [
        file_name
        for file_name in sorted(fs.list_dir(directory))
        if not file_name.endswith(tuple(rotten))
    ]
    epochs = leader_epochs(fs, directory)
    start = max(start, epochs[0][1] if epochs else 0)
    end = -1
    for name in names:
        if not name.endswith(".log"):
            continue
        base, path = int(name[:20]), f"{directory}/{name[:20]}"
        found = list(batches(_read(fs, f"{path}.log")))
        for batch in found:
            if batch.base_offset < max(base, end + 1) or batch.last_offset < batch.base_offset:
                yield f"{name}: {batch} follows {end}"
            end = batch.last_offset
            if batch.base_offset < start:
                continue  # deleted, though its segment is not
            if batch.epoch != _epoch_at(epochs, batch.base_offset):
                yield f"{name}: {batch} is not of the leader epoch in {epochs}"
        if f"{name[:20]}.index" in names:
            yield from _judge_index(_read(fs, f"{path}.index"), base, found)
        if f"{name[:20]}.timeindex" in names:
            yield from _judge_time_index(_read(fs, f"{path}.timeindex"), base, found)


def _judge_index(data: bytes, base: int, there: list[Batch]) -> Iterator[str]:
    at = {batch.position: batch for batch in there}
    entries = list(struct.iter_unpack(">ii", data))
    for relative, position in entries:
        batch = at.get(position)
        if batch is None or batch.last_offset != base + relative:
            yield f"{base}.index: offset {base + relative} at {position}, where {batch} is"
    if any(earlier >= later for earlier, later in pairwise(entries)):
        yield f"{base}.index: {entries} are not in order"


def _judge_time_index(data: bytes, base: int, there: list[Batch]) -> Iterator[str]:
    entries = list(struct.iter_unpack(">qi", data))
    for timestamp, relative in entries:
        offset = base + relative
        holders = [each for each in there if each.base_offset <= offset <= each.last_offset]
        if holders and holders[0].max_timestamp < timestamp:
            yield f"{base}.timeindex: {timestamp} at {offset}, which is in {holders[0]}"
    if any(earlier > later for earlier, later in pairwise(entries)):
        yield f"{base}.timeindex: {entries} are not in order"


def batches(data: bytes) -> Iterator[Batch]:
    """Those of a segment."""
    position = 0
    while position < len(data):
        base_offset, length, epoch = struct.unpack_from(">qii", data, position)
        (delta,) = struct.unpack_from(">i", data, position + 23)
        (max_timestamp,) = struct.unpack_from(">q", data, position + 35)
        yield Batch(
            position,
            position + OVERHEAD + length,
            base_offset,
            base_offset + delta,
            epoch,
            max_timestamp,
        )
        position += OVERHEAD + length


def leader_epochs(fs: MemFs, directory: str) -> list[tuple[int, int]]:
    """(epoch, first offset) of a log's checkpoint."""
    path = f"{directory}/leader-epoch-checkpoint"
    if not fs.exists(path):
        return []
    lines = _read(fs, path).decode().split("\n")[2:]
    return [(int(epoch), int(start)) for epoch, start in (line.split() for line in lines if line)]


def _log_starts(fs: MemFs, root: str) -> dict[str, int]:
    """The offset that each log starts at, by directory, where it is not its first segment's."""
    path = f"{root}/log-start-offset-checkpoint"
    lines = _read(fs, path).decode().split("\n")[2:] if fs.exists(path) else []
    rows = (line.split(" ") for line in lines if line)
    return {f"{topic}-{index}": int(start) for topic, index, start in rows}


def _epoch_at(epochs: list[tuple[int, int]], offset: int) -> int | None:
    before = [epoch for epoch, start in epochs if start <= offset]
    return before[-1] if before else None


def _read(fs: MemFs, path: str) -> bytes:
    file = fs.open(path)
    try:
        return bytes(file.pread(fs.size(path), 0))
    finally:
        file.close()
