"""The log's hot calls: appending a batch, finding where to read, reading from the page cache."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

from bench import frames
from kavka.log.fs import Buffer, File, OsFile, OsFs
from kavka.log.manager import LogManager
from kavka.log.partition_log import PartitionLog
from kavka.log.producer_state import ENTRIES_PER_STEP, ProducerStates
from kavka.log.snapshots import Snapshots
from kavka.log.txn_index import AbortedTxn, TxnIndex, collect_aborted
from kavka.server.config import BrokerSettings
from kavka.server.runtime.clock import SystemClock
from kavka.wire.record_batches import read_header

Named = tuple[str, Callable[[], object]]

BATCHES: Final = {"one record": frames.Batch(100, 1), "16 KiB": frames.Batch(1024, 15)}
MIB: Final = 1 << 20
FILE_BYTES: Final = 64 * MIB
NOW_MS: Final = 1_700_000_000_000
LEADER_EPOCH: Final = 0
PRODUCERS: Final = 100_000
ABORTED: Final = 40_000
ABORTED_BYTES: Final = 125
"""Of a record of 100 bytes, or a marker: about the same."""

_LOADED: Final = object()


def calls(scratch: Path) -> Iterator[Named]:
    """Everything to measure here; files go to `scratch`."""
    for label, batch in BATCHES.items():
        log = _new_log(scratch, label, UnwrittenFs())
        yield f"log: append a batch of {label}, but for the write", _appending(log, batch)
    log = _new_log(scratch, "read", OsFs())
    append = _appending(log, BATCHES["16 KiB"])
    while log.size_bytes < FILE_BYTES:
        append()
    yield "log: find 1 MiB at an offset in the middle", _finding(log)
    found = log.read(1, MIB, upto=log.end_offset, at_least_one=True)
    if found is None:
        raise RuntimeError("nothing to read in a log that was written")
    buffer = memoryview(bytearray(found.length))
    yield (
        "log: find nothing at the end",
        partial(log.read, log.end_offset, MIB, upto=log.end_offset, at_least_one=True),
    )
    yield (
        "disk: read 1 MiB from the page cache",
        partial(found.file.read_cached, buffer, found.position),
    )
    yield from _with_producers(scratch)
    yield "log: find the aborted transactions of 1 MiB within a long one", _aborted(scratch)
    for label, size in (("100 B", 100), ("16 KiB", 16 << 10), ("1 MiB", MIB)):
        yield f"disk: write {label} over what is in the page cache", _writing(found.file, size)


def _new_log(scratch: Path, name: str, fs: OsFs) -> PartitionLog:
    directory = scratch / name.replace(" ", "-")
    manager = LogManager(fs, [str(directory)], clock=SystemClock(), random=random.Random(0))
    manager.open()
    return manager.create("topic", 0, uuid.UUID(int=1), BrokerSettings.load().topic_defaults)


def _appending(log: PartitionLog, batch: frames.Batch) -> Callable[[], object]:
    encoded = memoryview(bytearray(batch.encode()))
    header = read_header(encoded)
    return partial(log.append, encoded, header, leader_epoch=LEADER_EPOCH, now_ms=NOW_MS)


def _finding(log: PartitionLog) -> Callable[[], object]:
    """Offsets of batches in changing places, so that none is remembered from the last call."""
    chance = random.Random(0)
    step = BATCHES["16 KiB"].records
    offsets = [chance.randrange(0, log.end_offset // 2, step) for _ in range(997)]
    turn = 0

    def find() -> object:
        nonlocal turn
        turn = (turn + 1) % len(offsets)
        return log.read(offsets[turn], MIB, upto=log.end_offset, at_least_one=True)

    return find


def _with_producers(scratch: Path) -> Iterator[Named]:
    """What is done in pieces where producers are many: a piece, on average."""
    fs = OsFs()
    directory = str(scratch / "producers")
    fs.make_dir(directory)
    states = ProducerStates()
    header = read_header(memoryview(BATCHES["one record"].encode()))
    for producer_id in range(PRODUCERS):
        states.update(header._replace(producer_id=producer_id, base_sequence=0), producer_id)
    snapshots = Snapshots(fs, directory, ())

    def save() -> None:
        if not snapshots.is_writing:
            snapshots.begin(PRODUCERS, states)
        snapshots.write_step()

    yield f"log: save {ENTRIES_PER_STEP} of {PRODUCERS} producers, a piece of a snapshot", save
    snapshots.abandon()
    path = snapshots.save(PRODUCERS, states)
    loading: Iterator[object] = iter(())

    def load() -> None:
        nonlocal loading
        if next(loading, _LOADED) is _LOADED:
            loading = ProducerStates().load(fs.open(path), path)

    yield f"log: load {ENTRIES_PER_STEP} of {PRODUCERS} producers, a piece of a snapshot", load


def _aborted(scratch: Path) -> Callable[[], object]:
    """Nothing is decided before the long one ends, which is the last to get a marker."""
    directory = scratch / "transactions"
    directory.mkdir()
    index = TxnIndex(OsFs(), str(directory / "0.txnindex"))
    for number in range(ABORTED):
        index.append(AbortedTxn(2, 2 * number + 1, 2 * number + 2, 0))
    index.append(AbortedTxn(1, 0, 2 * ABORTED + 1, 2 * ABORTED + 2))
    start, records = ABORTED, MIB // ABORTED_BYTES
    return partial(collect_aborted, [index], start, start + records, start)


def _writing(file: File, size: int) -> Callable[[], object]:
    data = bytes(size)
    places = range(0, FILE_BYTES - MIB, MIB)
    turn = 0

    def write() -> None:
        nonlocal turn
        turn = (turn + 1) % len(places)
        file.pwrite(data, places[turn])

    return write


class _UnwrittenFile(OsFile):
    def pwrite(self, data: Buffer, offset: int) -> None:
        """Takes it, and does nothing: the kernel's part is measured by itself."""

    def sync(self) -> None:
        """There is nothing to sync."""

    def close(self) -> None:
        """There is nothing to close."""


class UnwrittenFs(OsFs):
    """A file system that writes no records."""

    def create(self, path: str) -> File:
        made = super().create(path)
        if not path.endswith(".log"):
            return made
        made.close()
        return _UnwrittenFile(-1)
