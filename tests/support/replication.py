"""A leader's log, filled at random, and a follower's, which fetches from it in pieces."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from functools import cache, partial
from typing import Any, NamedTuple

from hypothesis import strategies as st

from kavka.compat_tests.raw.codec import batches
from kavka.log.follower_append import FollowerAppended, append_as_follower
from kavka.log.markers import append_marker
from kavka.log.memfs import MemFs
from kavka.log.partition_log import PartitionLog
from kavka.log.producer_entry import encode_entry
from kavka.log.settings import LogSettings
from kavka.wire.control_records import Marker
from kavka.wire.record_batches import BatchHeader, read_header
from support import compaction, logs
from support.logs import Broker

ANY_EPOCH = 1 << 30
"""A leader epoch that all batches are within."""

KINDS = ["plain", "idempotent", "transactional", "end", "epoch", "roll"]


class Op(NamedTuple):
    """Something that happens to the leader's log; which fields count depends on the kind."""

    kind: str
    producer: int = 1
    size: int = 20
    records: int = 1
    codec: str = "none"
    commit: bool = True
    step_ms: int = 1
    by_log: bool = False
    """LogAppendTime."""


def ops(*kinds: str) -> st.SearchStrategy[list[Op]]:
    """A leader's history."""
    op = st.builds(
        Op,
        kind=st.sampled_from(kinds or KINDS),
        producer=st.integers(1, 3),
        size=st.integers(0, 200),
        records=st.integers(1, 4),
        codec=st.sampled_from(["none", "none", "gzip", "zstd"]),
        commit=st.booleans(),
        step_ms=st.integers(-20, 60),
        by_log=st.booleans(),
    )
    return st.lists(op, min_size=1, max_size=40)


class Leader:
    """A leader's log. Producer ids are 1 to 3 for idempotent ones, 11 to 13 for transactional."""

    def __init__(self, settings: LogSettings) -> None:
        self.fs = MemFs()
        self.broker = Broker(self.fs, log_settings=settings)
        self.log = self.broker.log()
        self.epoch = 0
        self.now_ms = logs.TIMESTAMP
        self.sequences: dict[int, int] = {}
        self.begun: set[int] = set()
        self.count = 0

    def do(self, history: Iterable[Op]) -> None:
        """Do all of this."""
        for op in history:
            self.now_ms += op.step_ms
            if op.kind == "epoch":
                self.epoch += 1 + op.producer % 2
            elif op.kind == "roll":
                self.log.roll(self.now_ms)
            elif op.kind == "end":
                self._end(10 + op.producer, commit=op.commit)
            else:
                self._write(op)

    def _end(self, producer: int, *, commit: bool) -> None:
        if producer in self.begun:
            self.begun.remove(producer)
            append = partial(logs.append, self.log, leader_epoch=self.epoch, now_ms=self.now_ms)
            marker = Marker(commit, 0, self.now_ms)
            append_marker(self.log, producer, 0, marker, lambda batch, _: append(batch))

    def _write(self, op: Op) -> None:
        producer, transactional = -1, op.kind == "transactional"
        if op.kind != "plain":
            producer = op.producer + 10 * transactional
        if transactional:
            self.begun.add(producer)
        written = []
        for _ in range(op.records):
            self.count += 1
            value = random.Random(self.count).randbytes(op.size)
            time_ms = self.now_ms - logs.TIMESTAMP
            written.append(batches.Written(b"%d" % (self.count % 4), value, time_ms=time_ms))
        first = self.sequences.get(producer, 0) if producer >= 0 else -1
        self.sequences[producer] = first + op.records
        data = batches.build(
            written,
            codec=op.codec,
            producer=(producer, 0 if producer >= 0 else -1, first),
            transactional=transactional,
        )
        if op.by_log:
            flags = batches.field(data, "attributes") | batches.LOG_APPEND_TIME
            data = batches.patch(data, attributes=flags, max_timestamp=self.now_ms)
        logs.append(self.log, memoryview(data), leader_epoch=self.epoch, now_ms=self.now_ms)

    def compact(self) -> None:
        """Compact the closed segments."""
        stable = self.log.last_stable_offset(self.log.end_offset)
        compaction.clean(self.log, self.fs, now_ms=self.now_ms, last_stable=stable)


def fetch(leader: PartitionLog, offset: int, max_bytes: int = 1 << 20) -> memoryview:
    """What a follower is given from `offset` on: unlike in a broker's response from any number of
    segments. The last batch may be cut off."""
    data = b""
    while offset < leader.end_offset and len(data) < max_bytes:
        found = leader.read(
            offset,
            max_bytes - len(data),
            upto=leader.end_offset,
            at_least_one=not data,
            skip_empty=False,
        )
        if found is None:
            break
        part = logs.bytes_of(found)
        data += part
        whole = headers_in(part)
        if sum(header.size for header in whole) < len(part):
            break
        offset = whole[-1].last_offset + 1
    return memoryview(data)


def take(
    follower: PartitionLog, data: memoryview, now_ms: int = logs.TIMESTAMP
) -> FollowerAppended:
    """Append what was fetched."""
    return append_as_follower(follower, data, leader_epoch=ANY_EPOCH, now_ms=now_ms)


def replicate(
    leader: PartitionLog, follower: PartitionLog, chance: random.Random, bytes_max: int = 2000
) -> None:
    """Fetch until the follower has everything, in pieces that are cut anywhere."""
    while follower.end_offset < leader.end_offset:
        before = follower.end_offset
        data = fetch(leader, before, chance.randint(1, bytes_max))
        cut = data[: chance.randint(0, len(data))]
        done = take(follower, cut)
        whole = headers_in(cut)
        assert done.size_bytes == sum(header.size for header in whole)
        assert done.record_count == sum(header.record_count for header in whole)
        assert done.is_empty == (not whole)
        if whole:
            assert (done.first_offset, done.last_offset) == (
                whole[0].base_offset,
                whole[-1].last_offset,
            )
            assert follower.end_offset == done.last_offset + 1
        else:
            assert follower.end_offset == before
            take(follower, data)
            assert follower.end_offset > before


def headers_in(data: bytes | memoryview) -> list[BatchHeader]:
    """The headers of the whole batches in `data`."""
    found, position = [], 0
    while len(data) - position >= batches.HEADER_BYTES:
        header = read_header(data, position)
        if header.size > len(data) - position:
            break
        found.append(header)
        position += header.size
    return found


def log_bytes(log: PartitionLog, fs: MemFs) -> bytes:
    """All batches, whatever segments they are in."""
    return b"".join(fs.read_bytes(segment.path)[: segment.size] for segment in log._segments)


def all_files(fs: MemFs, log: PartitionLog) -> dict[str, bytes]:
    """The files of a log."""
    return {name: fs.read_bytes(f"{log.directory}/{name}") for name in fs.list_dir(log.directory)}


def epochs_of(data: bytes) -> Iterator[tuple[int, int]]:
    """Leader epochs and where they begin, by the batches themselves."""
    latest = -1
    for header in headers_in(data):
        if header.leader_epoch > latest:
            latest = header.leader_epoch
            yield latest, header.base_offset


def state(log: PartitionLog, fs: MemFs) -> dict[str, Any]:
    """What a start has to find again; of a producer's batches, the last one."""
    return {
        "start": log.start_offset,
        "end": log.end_offset,
        "bytes": log_bytes(log, fs),
        "epochs": logs.epoch_entries(log),
        "producers": {producer.producer_id: encode_entry(producer) for producer in log.producers},
        "aborted": logs.aborted_entries(fs, log),
        "stable": log.last_stable_offset(log.end_offset),
        "ongoing": len(log.transactions),
    }


# --- an example of both

SMALL = logs.settings(segment_bytes=900, index_interval_bytes=100)
HISTORY = [
    Op("plain"),
    Op("transactional", 1, records=2),
    Op("idempotent", 2, size=100),
    Op("end", 1, commit=False),
    Op("epoch"),
    Op("transactional", 2),
    Op("idempotent", 3, records=3),
    Op("end", 2, commit=False),
]


@cache
def example_leader() -> Leader:
    """Two transactions, aborted, in one response; segments of the follower end within it."""
    made = Leader(logs.settings())
    made.do(HISTORY * 3)
    return made


def example_follower() -> Broker:
    """A follower that has the first half of its leader's log, less a few bytes."""
    broker = Broker(MemFs(), log_settings=SMALL)
    data = fetch(example_leader().log, 0)
    take(broker.log(), data[: len(data) // 2])
    return broker


@cache
def example_state(end: int) -> dict[str, Any]:
    """The state of a follower that has everything below `end`."""
    broker = Broker(MemFs(), log_settings=SMALL)
    data = fetch(example_leader().log, 0)
    for header in headers_in(data):
        if header.base_offset < end:
            take(broker.log(), fetch(example_leader().log, header.base_offset)[: header.size])
    assert broker.log().end_offset == end
    assert isinstance(broker.fs, MemFs)
    return state(broker.log(), broker.fs)


def take_rest(broker: Broker) -> None:
    """Fetch everything in one piece."""
    log = broker.log()
    if log.end_offset < example_leader().log.end_offset:
        take(log, fetch(example_leader().log, log.end_offset))
