"""What does not fit together: checkpoints and logs, segments of a log, several directories."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from kavka.log import dir_names as names
from kavka.log.checkpoint import TopicPartition
from kavka.tools.doctor.at_rest.directory import CHECKPOINTS, Directory
from kavka.tools.doctor.at_rest.partition import Partition
from kavka.tools.doctor.findings import Finding, error, note, warning

STEP: Final = "checkpoints"
TWICE_ADVICE: Final = "find out which is the newer one, and move the other away"
BEYOND_ADVICE: Final = (
    "if records are gone, and another replica has them, let this one be copied from it"
)


def judge_directories(directories: Sequence[Directory]) -> Iterator[Finding]:
    """What does not fit in all of them together."""
    owners = dict(
        (directory.owner, directory.path)
        for directory in directories
        if directory.owner is not None
    )
    if len(owners) > 1:
        shown = (
            f"{path} is of broker {owner.broker_id} of cluster {owner.cluster_id}"
            for owner, path in owners.items()
        )
        yield error(
            "directory",
            "several-owners",
            directories[0].path,
            f"has another owner than others: {', '.join(shown)}",
            "give the directories of one broker, as its log.dirs",
        )
    seen: dict[TopicPartition, str] = {}
    for directory in directories:
        for key, partition in directory.partitions.items():
            other = seen.setdefault(key, partition.path)
            if other != partition.path:
                yield error(
                    "directory",
                    "log-twice",
                    partition.path,
                    f"is a log of the same partition as {other}",
                    TWICE_ADVICE,
                )
        yield from judge_checkpoints(directory)
        yield from judge_gaps(directory)


def judge_gaps(directory: Directory) -> Iterator[Finding]:
    """Segments that lack: only compaction leaves gaps, and notes down how far it has come."""
    compacted = directory.checkpoints.get(names.CLEANER_OFFSETS_FILE, {})
    for key, partition in directory.partitions.items() if not directory.is_live else ():
        for before, after in pairwise(partition.segments):
            if before.is_whole and before.end < after.base and key not in compacted:
                yield error(
                    "logs",
                    "missing-segment",
                    after.path,
                    f"begins at offset {after.base}, but the segment before it ends at "
                    f"{before.end}: what was between is lost",
                    "restore the segment between them from a copy",
                )


def judge_checkpoints(directory: Directory) -> Iterator[Finding]:
    """What the checkpoints of a directory say that its logs do not."""
    for name in CHECKPOINTS:
        path = f"{directory.path}/{name}"
        for key, offset in directory.checkpoints.get(name, {}).items():
            partition = directory.partitions.get(key)
            if partition is not None and not directory.is_live:
                yield from _judge(path, name, partition, offset, is_clean=directory.is_clean)
            elif partition is None and not directory.is_live:
                yield _without_log(path, key, is_clean=directory.is_clean)
    points = directory.checkpoints.get(names.RECOVERY_POINTS_FILE)
    if points is None or directory.is_live or not directory.is_clean:
        return
    for key, partition in directory.partitions.items():
        if key not in points and partition.size:
            path = f"{directory.path}/{names.RECOVERY_POINTS_FILE}"
            yield _unlike(path, "lacks", partition)


def _without_log(path: str, key: TopicPartition, *, is_clean: bool) -> Finding:
    found = f"has {names.log_name(*key)}, which has no directory"
    if not is_clean:  # a deleted topic stays in it for a minute
        return note(STEP, "no-log", path, found)
    return warning(STEP, "no-log", path, found, "if the topic was not deleted, restore its log")


def _judge(
    path: str, name: str, partition: Partition, offset: int, *, is_clean: bool
) -> Iterator[Finding]:
    """`offset` is that of a partition in the checkpoint file `name`."""
    log = names.log_name(*partition.key)
    end = partition.end
    if name == names.RECOVERY_POINTS_FILE:
        if offset > end:
            yield _beyond("recovery-point", path, f"has {log} flushed up to {offset}", end)
        elif is_clean and offset != end and partition.is_whole:
            yield _unlike(path, f"ends with {offset} for", partition)
    elif name == names.HIGH_WATERMARKS_FILE:
        if offset > end:
            yield _beyond("high-watermark", path, f"has {offset} as {log}'s high watermark", end)
    elif name == names.START_OFFSETS_FILE:
        if offset > end:
            yield _beyond("start-offset", path, f"has {log} start at {offset}", end)
    elif offset > end:
        yield _beyond("cleaner-offset", path, f"has {log} compacted up to {offset}", end)


def _beyond(problem: str, path: str, found: str, end: int) -> Finding:
    return warning(STEP, problem, path, f"{found}, but its log ends at {end}", BEYOND_ADVICE)


def _unlike(path: str, fault: str, partition: Partition) -> Finding:
    log = names.log_name(*partition.key)
    return warning(
        STEP,
        "recovery-point",
        path,
        f"{fault} {log}, which ends at {partition.end} after a clean shutdown",
        "nothing: a start recovers the log",
    )
