"""Reads a log directory: its owner, its marks, its checkpoints, and the partitions in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from kavka.log import dir_names as names
from kavka.log.checkpoint import TopicPartition, decode_offsets
from kavka.log.dir_names import MetaProperties
from kavka.log.errors import CorruptFileError, StorageError
from kavka.log.scan import BatchScanner
from kavka.tools.doctor.at_rest.partition import Partition, read_partition
from kavka.tools.doctor.at_rest.reading import ReadOnlyFs
from kavka.tools.doctor.findings import Finding, error, note, ok, warning
from kavka.tools.progress import progress
from kavka.zktree.storage import LOG_NAME, SNAPSHOT_NAME

STEP: Final = "directory"
ROOM_BYTES_MIN: Final = 64 << 20
CHECKPOINTS: Final = (
    names.RECOVERY_POINTS_FILE,
    names.START_OFFSETS_FILE,
    names.HIGH_WATERMARKS_FILE,
    names.CLEANER_OFFSETS_FILE,
)
OWN_FILES: Final = (
    names.LOCK_FILE,
    names.META_FILE,
    names.CLEAN_SHUTDOWN_FILE,
    *CHECKPOINTS,
    LOG_NAME,
    SNAPSHOT_NAME,
    f"{LOG_NAME}.exported",
    f"{SNAPSHOT_NAME}.exported",
    "bootstrap.checkpoint",
)
KRAFT_LOG: Final = "__cluster_metadata-0"
DELETED: Final = "-delete"
FUTURE: Final = "-future"
STRAY: Final = "-stray"
UNMARKED_ADVICE: Final = (
    "nothing: a start recovers the logs. Stop brokers by SIGTERM, and wait for their end"
)


class Directory(NamedTuple):
    """What is in a log directory."""

    path: str
    owner: MetaProperties | None
    is_live: bool
    """Whether a broker uses it now."""
    is_clean: bool
    """Whether it was shut down cleanly."""
    checkpoints: Mapping[str, Mapping[TopicPartition, int]]
    """By file name: those that can be read."""
    partitions: Mapping[TopicPartition, Partition]
    findings: list[Finding]


def read_directory(fs: ReadOnlyFs, scanner: BatchScanner, path: str) -> Directory:
    """Read all of it. OSError if it can't be listed."""
    holder = fs.holder(f"{path}/{names.LOCK_FILE}")
    is_live = holder is not None
    found: list[Finding] = []
    if is_live:
        found.append(
            note(
                STEP,
                "in-use",
                path,
                f"is in use by {holder}: what it is writing can't be judged, nor what a start "
                "would do",
            )
        )
    listed = fs.list_dir(path)
    owner = _owner(fs, path, listed, found)
    logs = list(_logs(fs, path, listed, found))
    is_clean = names.CLEAN_SHUTDOWN_FILE in listed
    if logs and not is_clean and not is_live:
        found.append(
            warning(STEP, "unclean-shutdown", path, "was not shut down cleanly", UNMARKED_ADVICE)
        )
    checkpoints = dict(_checkpoints(fs, path, listed, found))
    room = fs.volume(path).usable_bytes
    if room < ROOM_BYTES_MIN:
        advice = "make room, or lower retention.ms or retention.bytes of topics"
        left = f"has only {room / 1e6:.1f} MB left on its disk"
        found.append(warning(STEP, "disk-full", path, left, advice))
    partitions = {}
    with progress(f"logs of {path}", len(logs)) as step:
        for key in logs:
            at = f"{path}/{names.log_name(*key)}"
            try:
                partitions[key] = read_partition(fs, scanner, at, key, is_live=is_live)
            except FileNotFoundError:
                if not is_live:  # else it was deleted meanwhile
                    raise
            except OSError as failure:
                advice = "see the rights of the file, and the disk"
                text = f"can't be read: {failure.strerror}"
                found.append(error(STEP, "unreadable", failure.filename or at, text, advice))
            step()
    return Directory(path, owner, is_live, is_clean, checkpoints, partitions, found)


def _owner(
    fs: ReadOnlyFs, path: str, listed: list[str], found: list[Finding]
) -> MetaProperties | None:
    file = f"{path}/{names.META_FILE}"
    if names.META_FILE not in listed:
        advice = "restore it from a copy: a broker takes the directory for a new one"
        if any(fs.is_dir(f"{path}/{name}") for name in listed):
            found.append(warning(STEP, "missing-meta", file, "is missing", advice))
        return None
    data = fs.read_bytes(file)
    try:
        owner = names.decode_meta(data, file)
    except CorruptFileError as damage:
        advice = "write cluster.id and broker.id into it, as in the broker's other log directories"
        found.append(error(STEP, "damaged-meta", file, f"is damaged: {damage}", advice))
        return None
    directory_id = names.decode_directory_id(data)
    shown = f", directory id {directory_id}" if directory_id else ""
    text = f"belongs to broker {owner.broker_id} of cluster {owner.cluster_id}{shown}"
    found.append(ok(STEP, path, text))
    return owner


def _logs(
    fs: ReadOnlyFs, path: str, listed: list[str], found: list[Finding]
) -> Iterator[TopicPartition]:
    for name in listed:
        at = f"{path}/{name}"
        if not fs.is_dir(at):
            if name.endswith(".tmp"):
                found.append(
                    note(STEP, "interrupted", at, "is of an interrupted write: a start removes it")
                )
            elif name not in OWN_FILES:
                found.append(note(STEP, "unknown-file", at, "is no file of Kafka's"))
        elif names.is_deleted(name):
            found.append(note(STEP, "deleted-log", at, "is a deleted log: a start removes it"))
        elif names.parse_future_name(name) is not None:
            text = "is a copy of a log that was being moved here: a start goes on with it"
            found.append(note(STEP, "future-log", at, text))
        elif name.endswith((DELETED, FUTURE, STRAY)):
            text = "is no log of a partition in use: a start leaves it alone"
            found.append(note(STEP, "stray-log", at, text))
        elif name == KRAFT_LOG:
            text = "is the metadata of a KRaft cluster, which Kavka does not read"
            found.append(note(STEP, "kraft", at, text))
        else:
            try:
                key = names.parse_log_name(name, path)
            except StorageError:
                found.append(
                    error(
                        STEP,
                        "foreign-directory",
                        at,
                        "is not named <topic>-<partition>: no broker starts with it",
                        "move it away, unless log.dirs names the wrong directory",
                    )
                )
                continue
            if key is not None:
                yield key


def _checkpoints(
    fs: ReadOnlyFs, path: str, listed: list[str], found: list[Finding]
) -> Iterator[tuple[str, dict[TopicPartition, int]]]:
    for name in CHECKPOINTS:
        file = f"{path}/{name}"
        if name not in listed:
            continue
        try:
            yield name, decode_offsets(fs.read_bytes(file), file)
        except CorruptFileError as damage:
            advice = "nothing: a start goes without it, reads more of the logs, and writes it anew"
            found.append(warning(STEP, "damaged-checkpoint", file, f"is damaged: {damage}", advice))
