"""Reads a segment whole: every batch with its checksum, and on behind damaged ones.

A broker that starts reads only what may not have been flushed, and stops at the first damage.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from kavka.log.errors import StorageError
from kavka.log.fs import File, FileSystem
from kavka.log.scan import BatchScanner, header_error
from kavka.wire.record_batches import HEADER_BYTES, BatchHeader, read_header

UNKNOWN: Final = -1


class Damage(NamedTuple):
    """Bytes of a segment that are no batch."""

    path: str
    position: int
    end: int
    """Where the next whole batch begins, or the segment ends."""
    why: str
    first_offset: int
    """That of the batch that was there, as far as its header can be trusted; else UNKNOWN."""
    last_offset: int
    is_torn: bool
    """Whether the segment ends within a batch, as after a crash in the middle of a write."""


class Found(NamedTuple):
    """What is in a segment."""

    path: str
    base: int
    size: int
    end: int
    """The offset after the last whole batch; the base offset if there is none."""
    batches: int
    damage: Sequence[Damage]
    old_format: str | None
    """Why its format is too old; then it was not read."""

    @property
    def is_whole(self) -> bool:
        return not self.damage and self.old_format is None


def read_segment(
    fs: FileSystem,
    scanner: BatchScanner,
    path: str,
    base: int,
    indexed: Sequence[int],
    note: Callable[[File, int, BatchHeader], object],
    skip: Callable[[], object],
) -> Found:
    """Call `note` for each whole batch, and `skip` where there is none. `indexed`: positions where
    its index says that batches begin, to find the next one behind a damaged one. OSError."""
    file = fs.open(path)
    size = file.size()
    damage: list[Damage] = []
    end, count, position = base, 0, 0
    try:
        while position < size:
            for at, header in scanner.batches(file, path, size, position):
                note(file, at, header)
                end = max(end, header.last_offset + 1)
                count += 1
                position = at + header.size
            if position < size:
                damage.append(_damage(file, scanner, path, position, size, indexed))
                position = damage[-1].end
                skip()
    except StorageError as error:
        return Found(path, base, size, end, count, damage, str(error))
    return Found(path, base, size, end, count, damage, None)


def _damage(
    file: File, scanner: BatchScanner, path: str, position: int, size: int, indexed: Sequence[int]
) -> Damage:
    """What is at a position where there is no whole batch."""
    start = file.pread(HEADER_BYTES, position)
    if len(start) < HEADER_BYTES:
        why = f"{len(start)} bytes are no whole batch"
        return Damage(path, position, size, why, UNKNOWN, UNKNOWN, True)
    if not any(start):
        why = "there are zeros, as after a power failure"
        return Damage(path, position, size, why, UNKNOWN, UNKNOWN, True)
    header = read_header(start)
    left = size - position
    why = header_error(header.size, header.magic, header.last_offset_delta, left) or ""
    is_torn = header.size > left and not header_error(
        header.size, header.magic, header.last_offset_delta, header.size
    )
    first, last = header.base_offset, header.last_offset
    end = size
    if why and not is_torn:
        first = last = UNKNOWN
    candidates = [at for at in indexed if at > position]
    if not why:
        why = "its checksum is wrong"
        candidates.insert(0, position + header.size)
    for at in candidates:
        if at < size and next(scanner.batches(file, path, size, at), None) is not None:
            end, is_torn = at, False
            break
    return Damage(path, position, end, why, first, last, is_torn)
