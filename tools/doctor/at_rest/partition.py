"""Reads the directory of one partition: all of its files, and what does not fit together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeVar
from uuid import UUID

from kavka.log import dir_names, epochs
from kavka.log.checkpoint import TopicPartition, decode_epochs
from kavka.log.errors import CorruptFileError, CorruptLogError
from kavka.log.fs import File, FileSystem
from kavka.log.interrupted_work import DISCARDED_SUFFIXES, SWAP, base_of
from kavka.log.producer_state import ProducerStates, read_snapshot
from kavka.log.replay import replay_batch
from kavka.log.scan import BatchScanner
from kavka.log.segment import FILES, INDEX, LOG, TIME_INDEX, TXN_INDEX, file_name
from kavka.log.snapshots import SUFFIX as SNAPSHOT
from kavka.log.txn_index import AbortedTxn, TxnIndex
from kavka.tools.doctor.at_rest.indexes import OffsetIndexCheck, TimeIndexCheck
from kavka.tools.doctor.at_rest.segments import Found, read_segment
from kavka.tools.doctor.findings import Finding, error, note, warning
from kavka.wire.record_batches import BatchHeader

_Check = TypeVar("_Check", OffsetIndexCheck, TimeIndexCheck)

STEP: Final = "logs"
REBUILT: Final = "nothing: a broker makes it anew from the log when it needs it"
SMALL_FILES: Final = (dir_names.PARTITION_FILE, dir_names.MOVED_FILE, epochs.FILE)


class Partition(NamedTuple):
    """What is in the directory of a partition."""

    key: TopicPartition
    path: str
    topic_id: UUID | None
    segments: Sequence[Found]
    findings: Sequence[Finding]

    @property
    def start(self) -> int:
        """The first offset that there is a segment for; 0 without one."""
        return self.segments[0].base if self.segments else 0

    @property
    def end(self) -> int:
        """The offset after the last whole batch."""
        return max((segment.end for segment in self.segments), default=0)

    @property
    def is_whole(self) -> bool:
        """Whether all batches are."""
        return all(segment.is_whole for segment in self.segments)

    @property
    def size(self) -> int:
        """The bytes of all segments."""
        return sum(segment.size for segment in self.segments)


def read_partition(
    fs: FileSystem, scanner: BatchScanner, path: str, key: TopicPartition, *, is_live: bool
) -> Partition:
    """Read all of it. `is_live`: a broker is writing there, so that the newest segment may end
    within a batch, and other files may be replaced meanwhile: only batches are judged. OSError."""
    reading = _Reading(fs, scanner, path, is_live=is_live)
    reading.names()
    reading.logs()
    reading.epochs()
    reading.snapshots()
    return Partition(key, path, reading.topic_id(), reading.found, reading.findings)


class _Reading:
    """One partition's directory."""

    def __init__(self, fs: FileSystem, scanner: BatchScanner, path: str, *, is_live: bool) -> None:
        self._fs = fs
        self._scanner = scanner
        self._path = path
        self._is_live = is_live
        self._names = fs.list_dir(path)
        bases = (base_of(name) for name in self._names if name.endswith(LOG))
        self._bases = [base for base in bases if base >= 0]
        self._producers = ProducerStates()
        self._newest_epoch = -1
        self.found: list[Found] = []
        self.findings: list[Finding] = []

    def names(self) -> None:
        """Those that don't belong there, and those that lack."""
        leftover = [name for name in self._names if name.endswith((SWAP, *DISCARDED_SUFFIXES))]
        if leftover and not self._is_live:
            self._note(
                "interrupted",
                f"has {_some(leftover)} of an interrupted compaction, deletion or write: a start "
                "completes it",
            )
        for name in self._names:
            base = base_of(name)
            is_index = name.endswith(FILES[1:]) and base >= 0
            if is_index and base not in self._bases:
                self._warn("stray-index", name, "has no segment: a start removes it", REBUILT)
            elif not (
                is_index
                or name in SMALL_FILES
                or name in leftover
                or (base >= 0 and name.endswith((LOG, SNAPSHOT)))
            ):
                self.findings.append(
                    note(STEP, "unknown-file", f"{self._path}/{name}", "is no file of Kafka's")
                )
        if not self._bases:
            self._warn("no-segment", "", "has no segment: a start begins an empty log", "")

    # --- segments

    def logs(self) -> None:
        """The segments with their indexes."""
        self._load_producers()
        for slot, base in enumerate(self._bases):
            is_last = slot + 1 == len(self._bases)
            following = None if is_last or self._is_live else self._bases[slot + 1]
            self._segment(base, following, is_live=self._is_live and is_last)

    def _load_producers(self) -> None:
        """What producers had written before the first segment."""
        path = f"{self._path}/{file_name(self._bases[0] if self._bases else 0, SNAPSHOT)}"
        if self._fs.exists(path):
            try:
                for _ in self._producers.load(self._fs.open(path), path):
                    pass
            except CorruptFileError:
                self._producers.clear()  # `snapshots` tells of it

    def _segment(self, base: int, following: int | None, *, is_live: bool) -> None:
        path = f"{self._path}/{file_name(base, LOG)}"
        offsets = self._index(base, INDEX, lambda at: OffsetIndexCheck(self._fs, at, base))
        times = self._index(base, TIME_INDEX, lambda at: TimeIndexCheck(self._fs, at, base))
        aborted: list[AbortedTxn] = []
        order = _Order(base, following)

        def see(file: File, position: int, header: BatchHeader) -> None:
            order.batch(position, header)
            if offsets is not None:
                offsets.batch(position, header)
            if times is not None:
                times.batch(header)
            self._newest_epoch = max(self._newest_epoch, header.leader_epoch)
            if header.producer_id >= 0:
                try:
                    replay_batch(self._producers, file, path, position, header, aborted.append)
                except CorruptLogError as damage:
                    order.note(damage.why)

        def skip() -> None:
            for check in (offsets, times):
                if check is not None:
                    check.skip()

        indexed = [] if offsets is None else [entry.position for entry in offsets.entries]
        found = read_segment(self._fs, self._scanner, path, base, indexed, see, skip)
        self.found.append(found)
        self._tell_damage(found, order, is_live=is_live)
        for check, suffix in ((offsets, INDEX), (times, TIME_INDEX)):
            if check is not None:
                check.end(is_whole=found.is_whole and not is_live)
                if check.why is not None:
                    name = file_name(base, suffix)
                    self._warn("wrong-index", name, f"does not fit its log: {check.why}", REBUILT)
        if not is_live:
            self._transactions(found, aborted)

    def _index(self, base: int, suffix: str, read: Callable[[str], _Check]) -> _Check | None:
        name = file_name(base, suffix)
        if name in self._names:
            return read(f"{self._path}/{name}")
        self._warn("missing-index", name, "is missing", REBUILT)
        return None

    def _tell_damage(self, found: Found, order: _Order, *, is_live: bool) -> None:
        if found.old_format is not None:
            self.findings.append(
                error(STEP, "old-format", found.path, f"can't be read: {found.old_format}", "")
            )
        for damaged in found.damage:
            where = f"has no whole batch at byte {damaged.position}: {damaged.why}"
            if damaged.is_torn:
                if not is_live:
                    advice = (
                        "nothing, if its broker was killed while it wrote: no response "
                        "has said that the batch is kept"
                    )
                    self.findings.append(warning(STEP, "torn-batch", damaged.path, where, advice))
                continue
            lost = "records of unknown offsets"
            if damaged.first_offset >= 0:
                lost = f"offsets {damaged.first_offset} to {damaged.last_offset}"
            self.findings.append(
                error(
                    STEP,
                    "damaged-batch",
                    damaged.path,
                    f"{where}; {damaged.end - damaged.position} bytes with {lost} can't be read",
                    "restore the file from a copy; with other replicas, remove this one's "
                    "directory while the broker is stopped, and it is copied from its leader",
                )
            )
        if order.why is not None:
            advice = "restore the file from a copy: a broker serves nothing that follows"
            self.findings.append(error(STEP, "wrong-offsets", found.path, order.why, advice))

    def _transactions(self, found: Found, aborted: Sequence[AbortedTxn]) -> None:
        """Whether the transaction index has those whose end is in the segment."""
        index = TxnIndex(self._fs, f"{self._path}/{file_name(found.base, TXN_INDEX)}")
        entries: Sequence[AbortedTxn] = ()
        if self._fs.exists(index.path):
            try:
                index.find()
                why = index.damage(found.base, found.end)
                entries = [] if why is not None else list(index.entries())
            except CorruptFileError as damage:
                why = str(damage)
            if why is not None:
                self._warn(
                    "wrong-index",
                    file_name(found.base, TXN_INDEX),
                    f"does not fit its log: {why}",
                    "nothing: a start makes it anew",
                )
                return
        known = {(entry.producer_id, entry.last_offset) for entry in entries}
        lacking = [
            transaction
            for transaction in aborted
            if (transaction.producer_id, transaction.last_offset) not in known
        ]
        if lacking:
            self.findings.append(
                error(
                    STEP,
                    "missing-aborted",
                    index.path,
                    f"lacks {len(lacking)} aborted transactions, the first from offset "
                    f"{lacking[0].first_offset} on: consumers will read their records",
                    "restore it from a copy, or let the log be recovered: remove "
                    f"{dir_names.CLEAN_SHUTDOWN_FILE} and {dir_names.RECOVERY_POINTS_FILE} of "
                    "its log directory",
                )
            )

    # --- small files

    def epochs(self) -> None:
        """The leader epochs."""
        if epochs.FILE not in self._names:
            if self._newest_epoch >= 0 and not self._is_live:
                self._warn("missing-epochs", epochs.FILE, "is missing", REBUILT)
            return
        path = f"{self._path}/{epochs.FILE}"
        try:
            entries = decode_epochs(self._fs.read_bytes(path), path)
        except CorruptFileError as damage:
            self._warn("damaged-epochs", epochs.FILE, _why(damage), REBUILT)
            return
        if entries != sorted(set(entries)) or [
            start_offset for _, start_offset in entries
        ] != sorted(start_offset for _, start_offset in entries):
            self._warn("wrong-epochs", epochs.FILE, "has epochs that are not in order", REBUILT)
        elif self._newest_epoch > max((epoch for epoch, _ in entries), default=-1):
            self._warn(
                "wrong-epochs",
                epochs.FILE,
                f"lacks epoch {self._newest_epoch}, in which the newest records were written",
                "remove it: a broker makes it anew from the log",
            )

    def snapshots(self) -> None:
        """The states of producers."""
        for name in self._names:
            if not name.endswith(SNAPSHOT) or base_of(name) < 0:
                continue
            path = f"{self._path}/{name}"
            try:
                for part in read_snapshot(self._fs.open(path), path):
                    for _ in part:
                        pass
            except CorruptFileError as damage:
                self._warn("damaged-snapshot", name, _why(damage), REBUILT)

    def topic_id(self) -> UUID | None:
        """That of the topic, if it can be read."""
        name = dir_names.PARTITION_FILE
        path = f"{self._path}/{name}"
        advice = "nothing: the controller knows it"
        if name not in self._names:
            self._warn("missing-topic-id", name, "is missing", advice)
            return None
        try:
            return dir_names.decode_partition(self._fs.read_bytes(path), path)
        except CorruptFileError as damage:
            self._warn("damaged-topic-id", name, _why(damage), advice)
            return None

    # --- findings

    def _warn(self, problem: str, name: str, found: str, advice: str) -> None:
        if self._is_live:  # the broker may be about to replace the file
            return
        path = f"{self._path}/{name}" if name else self._path
        self.findings.append(warning(STEP, problem, path, found, advice))

    def _note(self, problem: str, found: str) -> None:
        self.findings.append(note(STEP, problem, self._path, found))


class _Order:
    """Whether the offsets of a segment's batches rise, and stay below the next segment."""

    def __init__(self, base: int, following: int | None) -> None:
        self._next = base
        self._following = following
        self.why: str | None = None

    def batch(self, position: int, header: BatchHeader) -> None:
        """The next one."""
        first, last = header.base_offset, header.last_offset
        if first < self._next:
            self.note(f"has offset {first} at byte {position}, where {self._next} is the least")
        elif self._following is not None and last >= self._following:
            self.note(f"has offset {last} at byte {position}, of the next segment")
        self._next = max(self._next, last + 1)

    def note(self, why: str) -> None:
        """Only the first counts."""
        self.why = self.why or why


def _why(damage: CorruptFileError) -> str:
    """Without the file's name."""
    return str(damage).removeprefix(f"{damage.path} ")


def _some(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{len(names)} files"
