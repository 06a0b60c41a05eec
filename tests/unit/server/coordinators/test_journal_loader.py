"""The load of a coordinator partition: all intact records are replayed, in slices."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import pytest

from kavka.compat_tests.raw.codec import batches
from kavka.compat_tests.raw.codec.batches import Written
from kavka.log.journal import JournalRecord, Machine
from kavka.server.coordinators import journal_loader
from kavka.server.coordinators.journal_loader import LoadSummary, Superseded, load
from kavka.wire.control_records import Marker, end_marker
from support import logs
from support.memory_broker import MemoryBroker, scenario
from support.toy_machine import BROKEN, Toy

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
ONE = {"t": 1}


def written(*keys: bytes, value: bytes | None = b"v") -> list[Written]:
    return [Written(key, value) for key in keys]


def append(broker: MemoryBroker, batch: bytes | bytearray) -> None:
    """Append a batch without any validation."""
    replica = broker.replica()
    logs.append(
        replica.log,
        memoryview(bytearray(batch)),
        leader_epoch=replica.partition.leader_epoch,
    )
    replica.partition.appended(replica.log.end_offset)


async def replay(
    broker: MemoryBroker,
    machine: Machine,
    *,
    bytes_max: int = 1 << 20,
    is_current: Callable[[], bool] = lambda: True,
    slots: asyncio.Semaphore | None = None,
    replayed: Callable[[], object] = lambda: None,
) -> LoadSummary:
    return await load(
        broker.replica(),
        machine,
        bytes_max=bytes_max,
        is_current=is_current,
        clock=broker.clock,
        tasks=broker.tasks,
        jobs=broker.jobs,
        load_slots=slots or asyncio.Semaphore(1),
        on_slice=replayed,
    )


@scenario(topics=ONE)
async def test_an_empty_log(broker: MemoryBroker) -> None:
    toy = Toy()
    loaded = await replay(broker, toy)
    assert (loaded.end, loaded.records, loaded.size_bytes) == (0, 0, 0)
    assert not toy.numbers


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("bytes_max", [1, 200, 1 << 20])
@scenario(topics=ONE)
async def test_all_records_are_replayed_in_order(
    broker: MemoryBroker, codec: str, bytes_max: int
) -> None:
    keys = [b"%d" % number for number in range(30)]
    append(broker, batches.build(written(*keys, value=b"old"), codec=codec))
    append(broker, batches.build(written(*keys[10:], value=b"new"), codec=codec))
    append(broker, batches.build(written(*keys[20:], value=None), codec=codec))
    toy = Toy()
    loaded = await replay(broker, toy, bytes_max=bytes_max)
    assert toy.numbers == {
        key: b"old" if number < 10 else b"new" for number, key in enumerate(keys[:20])
    }
    assert loaded.end == 60
    assert loaded.records == 60
    assert loaded.size_bytes == broker.replica().log.size_bytes


@scenario(topics=ONE)
async def test_big_batches_are_replayed_in_slices(broker: MemoryBroker) -> None:
    count = 3 * journal_loader.CHUNK_RECORDS + 1
    append(broker, batches.build(written(*[b"%d" % number for number in range(count)])))
    toy = Toy()
    loaded = await replay(broker, toy)
    assert loaded.records == len(toy.numbers) == count
    assert toy.replays > 3


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("of_each", [1, 6])
@scenario(topics=ONE)
async def test_big_records_are_replayed_one_by_one(
    broker: MemoryBroker, codec: str, of_each: int
) -> None:
    keys = [b"%d" % number for number in range(12)]
    big = b"v" * journal_loader.CHUNK_BYTES
    for begin in range(0, len(keys), of_each):
        batch = written(*keys[begin : begin + of_each], value=big)
        append(broker, batches.build(batch, codec=codec))
    toy = Toy()
    await replay(broker, toy)
    assert list(toy.numbers) == keys
    assert toy.replays == len(keys)


@scenario(topics={"t": 1})
async def test_all_segments_are_replayed(broker: MemoryBroker) -> None:
    for number in range(5):
        append(broker, batches.build(written(b"%d" % number)))
        broker.replica().log.roll(0)
    toy = Toy()
    await replay(broker, toy)
    assert sorted(toy.numbers) == [b"0", b"1", b"2", b"3", b"4"]


@scenario(topics=ONE)
async def test_transactions_are_applied_with_their_markers(broker: MemoryBroker) -> None:
    for producer, keys in ((7, [b"a", b"b"]), (8, [b"c"]), (9, [b"d"])):
        append(broker, batches.build(written(b"plain %d" % producer)))
        append(
            broker, batches.build(written(*keys), producer=(producer, 1, -1), transactional=True)
        )
    append(broker, batches.build(written(b"a", b"c", value=b"plain")))
    append(broker, end_marker(7, 1, Marker(True, 0, 0)))
    append(broker, end_marker(8, 1, Marker(False, 0, 0)))
    toy = Toy()
    loaded = await replay(broker, toy)
    plain = dict.fromkeys([b"plain 7", b"plain 8", b"plain 9"], b"v")
    assert toy.numbers == {b"a": b"v", b"b": b"v", b"c": b"plain", **plain}
    assert toy.pending == {9: [JournalRecord(b"d", b"v")]}
    assert loaded.records == 9


@scenario(topics=ONE)
async def test_damaged_batches_are_logged_and_skipped(
    broker: MemoryBroker, caplog: pytest.LogCaptureFixture
) -> None:
    good = batches.build(written(b"a"))
    torn = batches.patch(batches.build(written(b"lost")), crc=1)
    other_magic = batches.patch(batches.build(written(b"lost")), magic=1)
    no_records = batches.around(b"\xff" * 40, count=3)
    no_gzip = batches.patch(batches.around(b"\x00" * 40, count=3), attributes=1)
    too_long = batches.around(bytes(batches.build(written(b"b"))[61:]) + b"\0", count=1)
    keyless = batches.build([Written(b"c"), Written(None), Written(b"d")])
    no_marker = batches.patch(batches.build(written(b"x"), producer=(1, 1, -1)), attributes=0x30)
    for batch in (good, torn, other_magic, no_records, no_gzip, too_long, keyless, no_marker):
        append(broker, batch)
    append(broker, batches.build(written(b"e", BROKEN, b"f")))
    toy = Toy()
    with caplog.at_level(logging.ERROR, journal_loader.__name__):
        await replay(broker, toy)
    assert sorted(toy.numbers) == [b"a", b"b", b"c", b"d", b"e", b"f"]
    assert len(caplog.messages) == 8
    assert all(line.startswith("t-0: skipped the ") for line in caplog.messages)


@scenario(topics=ONE)
async def test_many_damaged_batches_are_only_counted(
    broker: MemoryBroker, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(journal_loader.SKIPPED_LINES_MAX + 5):
        append(broker, batches.patch(batches.build(written(b"lost")), crc=1))
    with caplog.at_level(logging.ERROR, journal_loader.__name__):
        await replay(broker, Toy())
    assert len(caplog.messages) == journal_loader.SKIPPED_LINES_MAX + 1
    assert "5 more" in caplog.messages[-1]


@scenario(topics=ONE)
async def test_records_appended_during_the_load_are_replayed(broker: MemoryBroker) -> None:
    append(broker, batches.build(written(b"a")))
    toy = Toy()
    broker.jobs.hold()
    replaying = broker.tasks.spawn(replay(broker, toy), name="replay")
    await broker.advance(0)
    assert broker.jobs.held
    append(broker, batches.build(written(b"b")))
    broker.jobs.release()
    loaded = await replaying
    assert (sorted(toy.numbers), loaded.end) == ([b"a", b"b"], 2)


@scenario(topics=ONE)
async def test_records_deleted_during_the_load_are_skipped(broker: MemoryBroker) -> None:
    for key in (b"a", b"b", b"c", b"d"):
        append(broker, batches.build(written(key)))
    toy = Toy()
    broker.jobs.hold()
    replaying = broker.tasks.spawn(replay(broker, toy, bytes_max=1), name="replay")
    await broker.advance(0)
    broker.replica().log.advance_start(3)
    broker.jobs.release()
    assert (await replaying).end == 4
    assert sorted(toy.numbers) == [b"a", b"d"]


@scenario(topics=ONE)
async def test_the_load_ends_when_it_is_superseded(broker: MemoryBroker) -> None:
    append(broker, batches.build(written(b"a")))
    answers = iter([True, False])
    with pytest.raises(Superseded):
        await replay(broker, Toy(), is_current=lambda: next(answers))


@scenario(topics=ONE)
async def test_a_load_waits_for_a_slot(broker: MemoryBroker) -> None:
    append(broker, batches.build(written(b"a")))
    slots = asyncio.Semaphore(1)
    await slots.acquire()
    replaying = broker.tasks.spawn(replay(broker, Toy(), slots=slots), name="replay")
    await broker.advance(70)
    assert not replaying.done()
    slots.release()
    loaded = await replaying
    assert loaded.queued_ms == loaded.took_ms == 70


class Slow(Toy):
    """Each chunk takes a millisecond and a half."""

    def __init__(self, broker: MemoryBroker) -> None:
        super().__init__()
        self.broker = broker

    def replay(self, keys: object, values: object) -> None:
        self.replays += 1
        self.broker.clock.elapsed_ms += 1.5


@scenario(topics=ONE)
async def test_the_load_yields_to_the_event_loop(broker: MemoryBroker) -> None:
    count = 10 * journal_loader.CHUNK_RECORDS
    append(broker, batches.build(written(*[b"%d" % number for number in range(count)])))
    slow = Slow(broker)
    seen: list[int] = []

    async def watch() -> None:
        while len(seen) < 100:
            seen.append(slow.replays)
            await broker.tasks.sleep(0)

    watching = broker.tasks.spawn(watch(), name="watch")
    await replay(broker, slow)
    await watching
    assert slow.replays == 10
    assert all(later - earlier <= 1 for earlier, later in zip(seen, seen[1:], strict=False))


@scenario(topics=ONE)
async def test_the_callback_is_called_after_each_slice(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_loader, "SLICE_S", 0)
    keys = [b"%d" % number for number in range(700)]
    for start in range(0, 700, 100):
        append(broker, batches.build(written(*keys[start : start + 100])))
    toy, seen = Toy(), list[int]()
    await replay(broker, toy, replayed=lambda: seen.append(len(toy.numbers)))
    assert seen == [200, 400, 600, 700]
