"""Partition logs for tests: batches made, and read back, by kafka-python; restarts and crashes."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from kafka.record import MemoryRecords
from kafka.record.default_records import DefaultRecordBatchBuilder

from kavka.log.appended import Appended
from kavka.log.deferred_deletes import remove_paths
from kavka.log.fs import FileSystem
from kavka.log.loading import DirectoryLoading
from kavka.log.manager import LogManager
from kavka.log.markers import append_marker
from kavka.log.memfs import MemFs
from kavka.log.partition_log import PartitionLog
from kavka.log.reader import FileRange
from kavka.log.settings import SYSTEM, LogSettings
from kavka.log.txn_guards import NOT_NEEDED, Guard
from kavka.log.txn_index import AbortedTxn, TxnIndex
from kavka.wire.control_records import Marker
from kavka.wire.record_batches import read_header
from kavka.wire.steps import run_at_once
from support.virtual import VirtualClock

DIRECTORY = "/data"
TOPIC_ID = UUID("5f7a3c9e-0b1d-4e2f-8a6b-7c8d9e0f1a2b")
TIMESTAMP = 1_700_000_000_000

NO_LIMIT = 2**62


class Producer(NamedTuple):
    """What an idempotent producer writes into a batch."""

    id: int
    epoch: int
    sequence: int


NO_PRODUCER = Producer(-1, -1, -1)


class Read(NamedTuple):
    """One record as kafka-python reads it."""

    offset: int
    timestamp: int
    value: bytes | None


def settings(**changes: Any) -> LogSettings:
    """Settings as a broker's defaults are, but for `changes`."""
    fields: dict[str, Any] = {
        "segment_bytes": 1 << 30,
        "segment_ms": 7 * 24 * 3600 * 1000,
        "segment_index_bytes": 10 << 20,
        "index_interval_bytes": 4096,
        "max_message_bytes": 1 << 20,
        "compression_type": "producer",
        "compression_gzip_level": -1,
        "compression_lz4_level": 9,
        "compression_zstd_level": 3,
        "message_timestamp_type": "CreateTime",
        "message_timestamp_before_max_ms": NO_LIMIT,
        "message_timestamp_after_max_ms": 3_600_000,
        "flush_messages": NO_LIMIT,
        "flush_ms": NO_LIMIT,
        "kavka_durability": SYSTEM,
        "retention_ms": -1,
        "retention_bytes": -1,
        "segment_jitter_ms": 0,
        "file_delete_delay_ms": 60_000,
        "cleanup_policy": ("delete",),
        "delete_retention_ms": 24 * 3600 * 1000,
        "min_cleanable_dirty_ratio": 0.5,
        "min_compaction_lag_ms": 0,
        "max_compaction_lag_ms": NO_LIMIT,
        "message_downconversion_enable": True,
        "min_insync_replicas": 1,
        "follower_replication_throttled_replicas": (),
        "leader_replication_throttled_replicas": (),
    }
    return LogSettings(**(fields | changes))


def batch(
    values: Sequence[bytes | None],
    *,
    timestamps: Sequence[int] | int = TIMESTAMP,
    keys: Sequence[bytes | None] | None = None,
    producer: Producer = NO_PRODUCER,
    compression: int = 0,
    transactional: bool = False,
) -> memoryview:
    """A batch as a producer sends it: base offset 0. `timestamps`: one for all, or each its own."""
    times = [timestamps] * len(values) if isinstance(timestamps, int) else timestamps
    builder: Any = DefaultRecordBatchBuilder(
        2, compression, transactional, producer.id, producer.epoch, producer.sequence, 1 << 26
    )
    for delta, (timestamp, value) in enumerate(zip(times, values, strict=True)):
        key = None if keys is None else keys[delta]
        assert builder.append(delta, timestamp, key, value, []) is not None
    return memoryview(bytearray(builder.build()))


def append(
    log: PartitionLog,
    data: memoryview,
    *,
    leader_epoch: int = 0,
    now_ms: int = TIMESTAMP,
    guard: Guard | None = NOT_NEEDED,
) -> Appended:
    """Append a batch as the leader does."""
    header = read_header(data)
    return log.append(data, header, leader_epoch=leader_epoch, now_ms=now_ms, guard=guard)


def end_transaction(
    log: PartitionLog, producer: Producer, *, commit: bool, coordinator_epoch: int = 0
) -> int:
    """Append the marker that ends a producer's transaction; its offset."""
    marker = Marker(commit, coordinator_epoch, TIMESTAMP)
    done = append_marker(
        log, producer.id, producer.epoch, marker, lambda batch, _: append(log, batch)
    )
    return done.base_offset


def truncate(log: PartitionLog, offset: int) -> None:
    """Truncate a log, without the checkpoint that `LogManager.truncate_in_steps` writes."""
    run_at_once(log.truncate_in_steps(offset))


def fill(log: PartitionLog, count: int, *, size: int = 100, start: int = 0) -> None:
    """Append `count` batches of one record; values are numbers in `size` bytes, times rise."""
    for number in range(start, start + count):
        append(log, batch([b"%0*d" % (size, number)], timestamps=TIMESTAMP + number))


def bytes_of(found: FileRange) -> bytes:
    """The bytes of a slice."""
    return found.file.pread(found.length, found.position)


def parse(data: bytes) -> list[Read]:
    """The records of the whole batches in `data`; kafka-python checks each CRC on the way."""
    records = MemoryRecords(data)
    read = []
    while (found := records.next_batch()) is not None:
        assert found.validate_crc()
        read += [Read(record.offset, record.timestamp, record.value) for record in found]
    return read


def read_from(
    log: PartitionLog, offset: int = 0, *, upto: int | None = None, max_bytes: int = 1 << 20
) -> list[Read]:
    """All records from `offset` on, fetched as a consumer does: again and again."""
    upto = log.end_offset if upto is None else upto
    read: list[Read] = []
    while offset < upto:
        found = log.read(offset, max_bytes, upto=upto, at_least_one=True)
        if found is None:
            break
        records = [record for record in parse(bytes_of(found)) if record.offset >= offset]
        assert records, f"no progress at offset {offset} with {found.length} bytes"
        read += records
        offset = records[-1].offset + 1
    return read


def files(fs: FileSystem, log: PartitionLog, suffix: str = ".log") -> list[str]:
    """The paths of a log's files of one kind, oldest segment first."""
    names = [name for name in fs.list_dir(log.directory) if name.endswith(suffix)]
    return [f"{log.directory}/{name}" for name in names]


def base_offsets(fs: FileSystem, log: PartitionLog, suffix: str = ".log") -> list[int]:
    """The offsets in the names of these files."""
    return [int(path.rpartition("/")[2][:20]) for path in files(fs, log, suffix)]


def aborted_entries(fs: FileSystem, log: PartitionLog) -> list[AbortedTxn]:
    """All entries of a log's transaction indexes."""
    indexes = [TxnIndex(fs, path) for path in files(fs, log, ".txnindex")]
    for index in indexes:
        index.find()
    return [entry for index in indexes for entry in index.entries()]


def first_base_offset(log: PartitionLog) -> int:
    """Where a log's first segment begins, at or before its start offset."""
    return log._segments.at(0).base_offset


def epoch_entries(log: PartitionLog) -> list[tuple[int, int]]:
    """All leader epochs of a log with their start offsets."""
    return log._epochs.epochs.entries()


def load_all(manager: LogManager, settings_of: Callable[[str], LogSettings]) -> None:
    """Load every log, with the settings of its topic, as a start does it in threads."""
    loadings = manager.loadings(settings_of)
    for step in (DirectoryLoading.prepare, DirectoryLoading.load_most, DirectoryLoading.load_rest):
        for loading in loadings:
            step(loading)
        manager.check_loadings(loadings)
    for loading in loadings:
        for _ in manager.take_over(loading):
            pass
    if (plan := manager.recovery_checkpoint()) is not None:
        plan.run()
        manager.recovery_checkpoint_written(plan)


def purge(manager: LogManager) -> None:
    """Remove what was deleted, at once."""
    remove_paths(manager._fs, manager.deferred_deletes.take_all())


class Broker:
    """A log manager on a file system, started and ended like a broker's."""

    def __init__(
        self,
        fs: FileSystem,
        directory: str = DIRECTORY,
        *,
        log_settings: LogSettings | None = None,
        more: Sequence[str] = (),
    ) -> None:
        """`more`: further log directories."""
        self.fs = fs
        self.directory = directory
        self.directories = [directory, *more]
        self.clock = VirtualClock()
        if isinstance(fs, MemFs):
            fs.now_ms = self.clock.now_ms
        self.random = random.Random(0)
        self.settings = log_settings or settings()
        self.start()

    def start(self) -> None:
        """Open the directory and load what is there."""
        self.logs = LogManager(
            self.fs,
            self.directories,
            clock=self.clock,
            random=self.random,
            index_cache_bytes=1 << 16,
        )
        self.logs.open()
        load_all(self.logs, lambda topic: self.settings)

    def log(self, topic: str = "t", partition: int = 0) -> PartitionLog:
        """The log of a partition, made if there is none."""
        found = self.logs.get(topic, partition)
        if found is None:
            found = self.logs.create(topic, partition, TOPIC_ID, self.settings)
        return found

    def restart(self) -> None:
        """Stop in order and start again."""
        self.logs.close()
        self.start()

    def kill(self) -> None:
        """SIGKILL, then a start. On the real file system the locks are released as by a death."""
        if isinstance(self.fs, MemFs):
            self.fs.kill()
        else:
            self.logs.unlock()
        self.start()

    def crash(self, chance: random.Random | None = None) -> None:
        """A power cut, then a start."""
        assert isinstance(self.fs, MemFs)
        self.fs.crash(chance)
        self.start()

    def die(self, tears: int | None, step: int) -> None:
        """SIGKILL, or a power cut if `tears` is given: with tears of chance, another one for each
        number and step, or with none if it is 0. Then a start."""
        if tears is None:
            self.kill()
        else:
            self.crash(random.Random(100 * tears + step) if tears else None)


def flush(log: PartitionLog) -> None:
    """Bring everything to the disk."""
    plan = log.flush_plan(everything=True)
    if plan is not None:
        plan.run()
        log.flushed(plan)
