"""Replaces segments by their cleaned ones.

The protocol is Apache Kafka's; `kavka.log.interrupted_work` completes or undoes it after a crash:
`.cleaned` files are renamed to `.swap`, then the old files to `.deleted`, then the suffix `.swap`
is removed. The new files are flushed before, and a directory's changes reach the disk in order.
"""

from __future__ import annotations

from collections.abc import Sequence

from kavka.log.compaction.order import Replacement
from kavka.log.disk import Disk
from kavka.log.interrupted_work import CLEANED, SWAP
from kavka.log.segment import FILES, TXN_INDEX, Segment
from kavka.log.segments import SegmentList, mark_deleted
from kavka.log.settings import LogSettings


def fits(segments: SegmentList, replacement: Replacement) -> bool:
    """Whether the segments to be replaced are adjacent closed segments of the log."""
    slot = segments.slot(replacement.old[0])
    closed = [segment.base_offset for segment in segments][:-1]
    return tuple(closed[slot : slot + len(replacement.old)]) == replacement.old


def swap(
    disk: Disk,
    directory: str,
    segments: SegmentList,
    settings: LogSettings,
    replacement: Replacement,
) -> tuple[Sequence[Segment], list[str]]:
    """Replace segments that `fits`; the old segments, and the new names of their files.

    OSError: the log can't be used any more, and a restart completes or undoes the swap; but after
    file descriptor exhaustion nothing has been done.
    """
    fs = disk.fs
    made = [Segment(disk, directory, base, size, settings) for base, size in replacement.new]
    paths = [segment.path_of(suffix) for segment in made for suffix in FILES]
    paths = [path for path in paths if fs.exists(path + CLEANED)]
    for segment in made:  # before the first rename: there may be no descriptor to open one with
        if segment.path_of(TXN_INDEX) in paths:
            segment.txns.find(CLEANED)
    # the last one first: a remaining .cleaned means that the later ones, which may be .swap
    # already, are only a part of the replacement
    for path in reversed(paths):
        fs.rename(path + CLEANED, path + SWAP)
    old = segments.replace(segments.slot(replacement.old[0]), len(replacement.old), made)
    renamed = mark_deleted(disk, old)
    for path in paths:
        fs.rename(path + SWAP, path)
    return old, renamed
