"""Damaged files of the real file system: what is whole is served, nothing else ever is.

A log is written once in each of three states (killed with nothing flushed, killed with a part
flushed, stopped in order); each case damages a copy, opens it, and compares with what had been
written. DAMAGE=whole (`make faults`) tries more batches and flips every bit.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from kavka.log.dir_names import MetaProperties
from kavka.log.errors import CorruptLogError, StorageError
from kavka.log.fs import OsFs
from kavka.log.partition_log import PartitionLog
from kavka.wire.record_batches import HEADER_BYTES, read_header
from support import dump_log, logs
from support.logs import Broker, Producer, Read

WHOLE = os.environ.get("DAMAGE") == "whole"
PATTERNS = (*(1 << bit for bit in range(8)), 0xFF) if WHOLE else (0x01, 0xFF)
"""What bytes are flipped with."""
LAST_BATCHES = 12 if WHOLE else 2
"""How many of the batches at the end are cut and flipped byte by byte."""

pytestmark = pytest.mark.timeout(1800 if WHOLE else 900)

SETTINGS = logs.settings(segment_bytes=1500, index_interval_bytes=200)
META = MetaProperties("abcdefghijklmnopqrstuv", 1)
BATCHES = 86
PER_BATCH = 2
FLUSHED = 30
"""How many batches were flushed in the state that has some."""
OUTSIDE_CRC = (*range(0, 8), *range(12, 16))
"""Bytes of a batch header that no checksum covers: base offset and leader epoch."""


@dataclass(frozen=True)
class State:
    """A data directory, and what is in the log of its one partition."""

    name: str
    files: dict[str, bytes]
    records: list[Read]
    starts: list[int]
    """Where in the last segment each of its batches begins, and where the last one ends."""

    @property
    def last(self) -> str:
        """The last segment's file."""
        return max(name for name in self.files if name.endswith(".log"))

    @property
    def base(self) -> int:
        """The last segment's base offset."""
        return int(Path(self.last).stem)

    def lay(self, directory: Path, **changes: bytes | None) -> Path:
        """Rewrite the directory, with some files changed or missing."""
        shutil.rmtree(directory, ignore_errors=True)
        (directory / "t-0").mkdir(parents=True)
        for name, content in (self.files | changes).items():
            if content is not None:
                (directory / name).write_bytes(content)
        return directory


def write_batches(broker: Broker, first: int, last: int) -> None:
    for number in range(first, last):
        batch = logs.batch(
            [b"%06d" % number * (number % 7), b"%d" % number],
            timestamps=[logs.TIMESTAMP + number, logs.TIMESTAMP + number - 3],
            producer=Producer(5, 0, PER_BATCH * number),
            compression=number % 5,
        )
        logs.append(broker.log(), batch, leader_epoch=number // 10)


def written(directory: Path, name: str) -> State:
    """A state by its name."""
    broker = Broker(OsFs(), str(directory), log_settings=SETTINGS)
    broker.logs.claim(META)
    write_batches(broker, 0, FLUSHED)
    if name == "flushed":
        logs.flush(broker.log())
    broker.logs.checkpoint({("t", 0): FLUSHED * PER_BATCH}).run()
    write_batches(broker, FLUSHED, BATCHES)
    records = logs.read_from(broker.log())
    if name == "stopped":
        broker.logs.close({("t", 0): BATCHES * PER_BATCH})
    else:
        broker.logs.abandon()
    paths = sorted(path for path in directory.rglob("*") if path.is_file())
    files = {str(path.relative_to(directory)): path.read_bytes() for path in paths}
    content = files[max(file for file in files if file.endswith(".log"))]
    starts = [0]
    while starts[-1] < len(content):
        starts.append(starts[-1] + read_header(memoryview(content), starts[-1]).size)
    assert len(starts) > 3 and len(files) > 20
    return State(name, files, records, starts)


STATES = ("nothing flushed", "flushed", "stopped")
READ_AGAIN = pytest.mark.parametrize("state", STATES[:2], indirect=True)
"""What the broker reads again as it starts: not what an orderly stop has left."""
TRUSTED = pytest.mark.parametrize("state", STATES[1:], indirect=True)
"""What holds segments that are not read again."""


@pytest.fixture(scope="module", params=STATES)
def state(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> State:
    return written(tmp_path_factory.mktemp("written") / "data", request.param)


def opened(directory: Path) -> Broker:
    return Broker(OsFs(), str(directory), log_settings=SETTINGS)


def assert_holds(state: State, broker: Broker, count: int) -> None:
    """The log has the first `count` records, its state fits them, and it goes on."""
    log = broker.log()
    assert log.end_offset == count
    assert logs.read_from(log) == state.records[:count]
    batches = count // PER_BATCH
    assert logs.epoch_entries(log) == [(epoch, 20 * epoch) for epoch in range((batches + 9) // 10)]
    assert [producer.last_sequence for producer in log.producers] == ([count - 1] if count else [])
    for number in range(0, batches, 5):
        found = log.batch_for_timestamp(logs.TIMESTAMP + number)
        assert found is not None and found.base_offset == PER_BATCH * number
    more = logs.batch([b"more"], producer=Producer(5, 0, count), timestamps=logs.TIMESTAMP + 999)
    assert logs.append(log, more, leader_epoch=99).base_offset == count
    assert logs.read_from(log, count) == [Read(count, logs.TIMESTAMP + 999, b"more")]
    broker.logs.abandon()


TAILS: dict[str, Callable[[int], bytes]] = {
    "nothing": lambda missing: b"",
    "zeros": lambda missing: bytes(missing),
    "a page of zeros": lambda missing: bytes(4096),
    "garbage": lambda missing: random.Random(missing).randbytes(missing),
}


@pytest.mark.parametrize("tail", TAILS)
def test_the_last_segment_truncated_at_every_byte(state: State, tail: str, tmp_path: Path) -> None:
    content = state.files[state.last]
    begin = state.starts[max(0, len(state.starts) - 1 - LAST_BATCHES)]
    for cut in range(begin, len(content), 1 if WHOLE else 3):
        damaged = content[:cut] + TAILS[tail](len(content) - cut)
        broker = opened(state.lay(tmp_path / "data", **{state.last: damaged}))
        sound = len(os.path.commonprefix([content, damaged]))
        whole = sum(end <= sound for end in state.starts[1:])
        assert_holds(state, broker, state.base + PER_BATCH * whole)


def flips(state: State) -> Iterator[tuple[int, int, bytes]]:
    """Which batch of the last segment, which byte of its header, and the damaged segment."""
    content = state.files[state.last]
    for number in range(max(0, len(state.starts) - 1 - LAST_BATCHES), len(state.starts) - 1):
        for at in range(HEADER_BYTES):
            for pattern in PATTERNS:
                damaged = bytearray(content)
                damaged[state.starts[number] + at] ^= pattern
                yield number, at, bytes(damaged)


@READ_AGAIN
def test_every_byte_of_the_last_headers_flipped(state: State, tmp_path: Path) -> None:
    for number, at, damaged in flips(state):
        broker = opened(state.lay(tmp_path / "data", **{state.last: damaged}))
        if at not in OUTSIDE_CRC:
            assert_holds(state, broker, state.base + PER_BATCH * number)
            continue
        # a leader epoch, or an offset: what is wrong with it can show as a gap at most
        read = logs.read_from(broker.log())
        assert [(record.timestamp, record.value) for record in read] == [
            (record.timestamp, record.value) for record in state.records[: len(read)]
        ]
        assert (
            read[: state.base + PER_BATCH * number]
            == (state.records[: state.base + PER_BATCH * number])
        )
        offsets = [record.offset for record in read]
        assert offsets == sorted(set(offsets))
        broker.logs.abandon()


@TRUSTED
def test_a_flipped_byte_in_what_is_not_read_again_is_never_taken_for_a_record(
    state: State, tmp_path: Path
) -> None:
    """In a closed segment, or after an orderly stop: the batch's checksum shows its reader, or
    the broker finds no batch there and says where."""
    chance = random.Random(7)
    names = sorted(name for name in state.files if name.endswith(".log"))
    trusted = names if state.name == "stopped" else names[:2]
    for _ in range(3000 if WHOLE else 60):
        name = chance.choice(trusted)
        damaged = bytearray(state.files[name])
        at = chance.randrange(len(damaged))
        damaged[at] ^= 1 << chance.randrange(8)
        directory = state.lay(tmp_path / "data", **{name: bytes(damaged)})
        try:
            broker = opened(directory)
        except StorageError as error:
            assert Path(name).stem in str(error)
            continue
        appended = {(record.timestamp, record.value) for record in state.records}
        for record in served(broker.log()):
            assert (record.timestamp, record.value) in appended
        broker.logs.abandon()


def served(log: PartitionLog) -> list[Read]:
    """What a consumer gets that checks each batch, going past those that are damaged."""
    found: list[Read] = []
    offset = log.start_offset
    while offset < log.end_offset:
        try:
            part = log.read(offset, 1, upto=log.end_offset, at_least_one=True)
            records = [] if part is None else logs.parse(logs.bytes_of(part))
        except (CorruptLogError, AssertionError):
            records = []
        found += records
        offset = max([offset + 1, *(record.offset + 1 for record in records)])
    return found


def damages(content: bytes) -> dict[str, bytes | None]:
    """What may become of a file that follows from others."""
    chance = random.Random(3)
    size = len(content)
    return {
        "deleted": None,
        "empty": b"",
        "a byte short": content[:-1],
        "cut in half": content[: size // 2],
        "zeros": bytes(size),
        "zeros behind it": content + bytes(240),
        "garbage": chance.randbytes(size),
        "garbage behind it": content + chance.randbytes(24),
        "another's": b"0\n1\nother 5 7\n",
        "ones": b"\xff" * size,
    }


DERIVED = (".index", ".timeindex", ".snapshot", "leader-epoch-checkpoint")
CHECKPOINTS = (
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
    ".kafka_cleanshutdown",
    ".lock",
)


def test_every_index_and_checkpoint(state: State, tmp_path: Path) -> None:
    tried = 0
    for name, content in state.files.items():
        if not name.endswith((*DERIVED, *CHECKPOINTS)):
            continue
        for damage, damaged in damages(content).items():
            broker = opened(state.lay(tmp_path / "data", **{name: damaged}))
            print(name, damage)
            assert_holds(state, broker, len(state.records))
            tried += 1
    assert tried > 150


@pytest.mark.parametrize("name", ["recovery-point-offset-checkpoint", "cleaner-offset-checkpoint"])
def test_every_bit_of_a_checkpoint(state: State, name: str, tmp_path: Path) -> None:
    """It may still be read, and say something else."""
    content = state.files.get(name, b"0\n1\nt 0 %d\n" % FLUSHED)
    for bit in range(0, 8 * len(content), 1 if WHOLE else 17):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        broker = opened(state.lay(tmp_path / "data", **{name: bytes(damaged)}))
        log = broker.log()
        last_closed = max(int(Path(file).stem) for file in state.files if file.endswith(".log"))
        assert (log.compaction.clean_upto or 0) <= last_closed
        assert_holds(state, broker, len(state.records))


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".snapshot", "checkpoint", ""])
def test_all_of_a_kind_at_once(state: State, suffix: str, tmp_path: Path) -> None:
    kinds = (*DERIVED, *CHECKPOINTS)
    names = [name for name in state.files if name.endswith(kinds) and name.endswith(suffix)]
    for damage in damages(b"x"):
        changed = {name: damages(state.files[name])[damage] for name in names}
        broker = opened(state.lay(tmp_path / "data", **changed))
        if damage == "deleted" and state.name == "stopped" and suffix == ".snapshot":
            # as Apache Kafka after an orderly stop: without any snapshot there were no producers
            assert list(broker.log().producers) == []
            assert logs.read_from(broker.log()) == state.records
            broker.logs.abandon()
            continue
        assert_holds(state, broker, len(state.records))


@pytest.mark.parametrize("name", ["meta.properties", "t-0/partition.metadata"])
def test_damaged_meta_properties_and_topic_ids_are_reported(
    state: State, name: str, tmp_path: Path
) -> None:
    """It is stored nowhere else: rejected by name, or left to the controller."""
    for damaged in damages(state.files[name]).values():
        directory = state.lay(tmp_path / "data", **{name: damaged})
        try:
            broker = opened(directory)
        except StorageError as error:
            assert str(directory / name) in str(error)
        else:
            assert broker.log().topic_id in (None, logs.TOPIC_ID)
            assert_holds(state, broker, len(state.records))


def test_two_damages_at_once(state: State, tmp_path: Path) -> None:
    """A torn segment together with any one or two of the files that follow from it."""
    chance = random.Random(11)
    content = state.files[state.last]
    names = [name for name in state.files if name.endswith(DERIVED)]
    for _ in range(2000 if WHOLE else 40):
        cut = chance.randrange(len(content))
        changed: dict[str, bytes | None] = {state.last: content[:cut]}
        for name in chance.sample(names, chance.randint(1, 2)):
            changed[name] = chance.choice(list(damages(state.files[name]).values()))
        broker = opened(state.lay(tmp_path / "data", **changed))
        whole = sum(end <= cut for end in state.starts[1:])
        assert_holds(state, broker, state.base + PER_BATCH * whole)


def test_apache_kafka_reads_what_was_recovered(
    state: State, tmp_path: Path, kafka_libs: Path
) -> None:
    """Each directory after another damage and an orderly stop, all given to DumpLogSegments."""
    chance = random.Random(5)
    content = state.files[state.last]
    # a snapshot that is not needed is not read: one after an orderly stop, but the last
    kinds = DERIVED if state.name != "stopped" else (".index", ".timeindex")
    names = [name for name in state.files if name.endswith(kinds)]
    expected = 0
    for number in range(12):
        name = chance.choice(names)
        changed = {
            state.last: content[: chance.randrange(len(content))],
            name: chance.choice(list(damages(state.files[name]).values())),
        }
        directory = state.lay(tmp_path / "one", **changed)
        broker = opened(directory)
        expected += len(logs.read_from(broker.log()))  # what is wrong is found by its reader
        broker.log().batch_of_max_timestamp()
        broker.logs.close()
        shutil.copytree(directory / "t-0", tmp_path / "all" / f"t-{number}")
    assert dump_log.assert_sound(tmp_path / "all").records == expected
