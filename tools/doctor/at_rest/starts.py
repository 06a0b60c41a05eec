"""Judges what a start of a broker would do with its log directories."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from kavka.log import dir_names as names
from kavka.log.checkpoint import TopicPartition
from kavka.log.segment import LOG
from kavka.tools.doctor.at_rest.directory import Directory
from kavka.tools.doctor.at_rest.partition import Partition
from kavka.tools.doctor.at_rest.rehearsal import Line, Rehearsal
from kavka.tools.doctor.findings import Finding, error, note, ok, warning

STEP: Final = "start"
LOGS_MAX: Final = 100
"""Logs to recover that are named; the others are only counted."""

TOLD_OTHERWISE: Final = re.compile(
    "truncated .* no valid batch follows"
    "|removing .*: it follows a damaged part"
    "|log directory .* is offline until restart: .*"
)
"""Lines whose facts have findings of their own."""


def judge_start(rehearsal: Rehearsal, directories: Sequence[Directory]) -> Iterator[Finding]:
    """What a start has done in memory."""
    where = directories[0].path
    if rehearsal.failure is not None:
        advice = "nothing would be changed in the logs; see the sentence above"
        yield error(STEP, "start-fails", where, f"would fail: {rehearsal.failure}", advice)
    for failure in rehearsal.offline if rehearsal.failure is None else ():
        advice = "its partitions would be offline until the next start"
        yield error(STEP, "offline-directory", where, f"would go on without one: {failure}", advice)
    for directory in directories:
        yield from _judge_logs(rehearsal, directory)
    yield from _judge_lines(rehearsal.lines)
    if rehearsal.failure is None:
        yield ok(STEP, where, f"would load {len(rehearsal.ends)} logs")


def _judge_logs(rehearsal: Rehearsal, directory: Directory) -> Iterator[Finding]:
    dropped: dict[str, int] = {}
    for change in rehearsal.changes:
        log, _, name = change.path.rpartition("/")
        if name.endswith(LOG) and change.before_bytes is not None:
            gone = change.before_bytes - (change.after_bytes or 0)
            dropped[log] = dropped.get(log, 0) + gone
    for key, partition in directory.partitions.items():
        end = rehearsal.ends.get(key)
        if end is not None and dropped.get(partition.path, 0) > 0:
            point = directory.checkpoints.get(names.RECOVERY_POINTS_FILE, {}).get(key, 0)
            yield from _judge_cut(partition, dropped[partition.path], end, point)
    if rehearsal.failure is None:
        yield from _recovered(directory, rehearsal.ends)


def _judge_cut(partition: Partition, dropped: int, end: int, flushed: int) -> Iterator[Finding]:
    """A log from which a start removes bytes, and then ends at `end`; it was flushed up to
    `flushed`."""
    damage = [damaged for segment in partition.segments for damaged in segment.damage]
    if end < max(partition.end, flushed) or any(not damaged.is_torn for damaged in damage):
        known = max([partition.end, flushed, *(damaged.last_offset + 1 for damaged in damage)])
        lost = f"{known - end} offsets lost" if known > end else "the records there lost"
        yield error(
            STEP,
            "loses-records",
            partition.path,
            f"would be cut by {dropped} bytes to end at offset {end}: {lost}",
            "before the start copy the directory; with other replicas, remove it, and it is "
            "copied from its leader",
        )
    elif damage:
        yield warning(
            STEP,
            "cuts-torn-batch",
            partition.path,
            f"would be cut by {dropped} bytes, which are no whole batch, to end at offset {end}",
            "nothing",
        )


def _recovered(directory: Directory, ends: Mapping[TopicPartition, int]) -> Iterator[Finding]:
    """The logs that are read from their recovery point on."""
    points = directory.checkpoints.get(names.RECOVERY_POINTS_FILE, {})
    count = 0
    for key, partition in directory.partitions.items() if not directory.is_clean else ():
        point = points.get(key, 0)
        bases = [segment.base for segment in partition.segments if segment.base <= point]
        first = max(bases, default=partition.start)
        size = sum(segment.size for segment in partition.segments if segment.base >= first)
        if size and key in ends:
            count += 1
            if count <= LOGS_MAX:
                found = (
                    f"would be recovered from offset {first} (recovery point {point}) to "
                    f"{ends[key]}, {size} bytes to read"
                )
                yield note(STEP, "recovers", partition.path, found)
    if count > LOGS_MAX:
        yield note(
            STEP, "recovers", directory.path, f"would have {count - LOGS_MAX} more logs recovered"
        )


def _judge_lines(lines: Sequence[Line]) -> Iterator[Finding]:
    for level, text in lines:
        if TOLD_OTHERWISE.fullmatch(text):
            continue
        judge = error if level >= logging.ERROR else warning
        yield judge(STEP, "start-says", "a start", f"would log: {text}", "")
