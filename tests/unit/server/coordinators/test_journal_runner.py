"""The runner of a journal: batches, slices, and what a scenario can't say; the rest:
`tests/scenarios/journal_runner`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pytest

from kavka.compat_tests.raw.codec import batches
from kavka.log.journal import Decision, JournalRecord, Producer, Reply
from kavka.log.txn_guards import NOT_NEEDED
from kavka.server.coordinators import journal_port, journal_runner, serial_queue
from kavka.server.coordinators.serial_queue import TICK_SLICE_S
from kavka.wire.compression import Codec
from kavka.wire.steps import ITEMS_PER_STEP
from support.memory_broker import MemoryBroker, scenario
from support.toy_machine import BROKEN, Toy
from support.toy_runner import NOT_COORDINATOR, Kit, code
from support.virtual import run_until_idle

ONE = {"t": 1}


@scenario(topics=ONE)
async def test_one_decision_is_one_batch(broker: MemoryBroker) -> None:
    kit = Kit(broker)
    records = [JournalRecord(b"a", b"1"), JournalRecord(b"b", None), JournalRecord(b"a", b"2")]
    kit.runner.call(lambda _, future, __: Decision(records, [Reply(future, None)]))
    data = (await broker.fetch()).records
    assert batches.field(data, "record_count") == 3
    assert [JournalRecord(record.key, record.value) for record in batches.read(data)] == records
    assert {record.timestamp for record in await broker.read_all()} == {broker.clock.now_ms()}


@pytest.mark.parametrize("codec", Codec)
@scenario(topics=ONE)
async def test_small_batches_are_compressed_if_so_configured(
    broker: MemoryBroker, codec: Codec
) -> None:
    kit = Kit(broker, codec=codec)
    kit.put(value=b"x" * 1000)
    big = b"x" * journal_port.COMPRESSED_BYTES_MAX
    kit.put(b"b", big)
    data = bytes((await broker.fetch()).records)
    second = int.from_bytes(data[8:12], "big") + 12
    assert batches.field(data, "attributes") == codec
    assert batches.field(data[second:], "attributes") == Codec.NONE
    assert [record.value for record in batches.read(data[:second])] == [b"x" * 1000]
    assert [record.value for record in batches.read(data[second:])] == [big]


@scenario("message.max.bytes=70000", topics=ONE)
async def test_a_big_batch_is_compressed_if_it_would_not_fit(broker: MemoryBroker) -> None:
    kit = Kit(broker, codec=Codec.ZSTD)
    kit.put(value=b"x" * 100_000)
    assert batches.field((await broker.fetch()).records, "attributes") == Codec.ZSTD


@scenario("log.message.timestamp.type=LogAppendTime", topics=ONE)
async def test_batches_have_the_timestamp_type_of_the_topic(broker: MemoryBroker) -> None:
    Kit(broker).put()
    assert batches.field((await broker.fetch()).records, "attributes") == batches.LOG_APPEND_TIME


@scenario(topics=ONE)
async def test_a_batch_of_a_transaction_has_its_producer(broker: MemoryBroker) -> None:
    kit = Kit(broker)
    kit.put(producer=Producer(7, 1, NOT_NEEDED))
    data = (await broker.fetch()).records
    assert batches.field(data, "attributes") == 0x10
    assert batches.field(data, "producer_id") == 7
    assert batches.field(data, "producer_epoch") == 1


# -- slices -------------------------------------------------------------------------------


@scenario(topics=ONE)
async def test_many_timers_expire_in_slices(broker: MemoryBroker) -> None:
    class Slow(Toy):
        def apply(self, record: JournalRecord, producer: Producer | None) -> None:
            broker.clock.elapsed_ms += 1

    kit = Kit(broker, Slow())
    waiting = [kit.park(b"%d" % number, 100) for number in range(20)]
    advancing = broker.tasks.spawn(broker.tasks.advance(150), name="advance")
    assert await most_at_once(waiting) <= 1000 * TICK_SLICE_S + 1
    await advancing


@pytest.mark.parametrize("closed", [False, True])
@scenario(topics=ONE)
async def test_many_commands_are_carried_out_in_slices(broker: MemoryBroker, closed: bool) -> None:
    """As after a crash in the middle of ten thousand transactions."""
    toy = Toy()
    a_slice = journal_runner.COMMANDS_PER_STEP
    toy.first = [Decision(commands=list(range(3 * a_slice)))]
    kit = Kit(broker, toy)
    assert kit.commands == list(range(a_slice))
    if closed:
        begun = kit.runner.call(lambda toy, future, _: toy.put_slowly(future, b"a", b"1", 3))
        kit.runner.close(NOT_COORDINATOR)
        assert await code(begun) == NOT_COORDINATOR
    for iterations in (2, 3):
        await run_until_idle(1)
        assert len(kit.commands) == (a_slice if closed else iterations * a_slice)
    await run_until_idle()
    assert kit.commands == list(range(a_slice if closed else 3 * a_slice))


@scenario(topics=ONE)
async def test_a_marker_appended_while_the_machine_is_loaded_counts(
    broker: MemoryBroker,
) -> None:
    Kit(broker).put(producer=Producer(7, 1, NOT_NEEDED))

    class Loaded(Toy):
        def loaded(self, now_ms: int) -> Iterable[Decision]:
            assert self.pending
            kit.runner.marker_appended(7, 1, True)
            return ()

    kit = Kit(broker, Loaded())
    await broker.advance(0)
    assert kit.read() == b"1"


@scenario(topics=ONE)
async def test_decisions_that_follow_from_a_change_elsewhere_are_carried_out(
    broker: MemoryBroker, caplog: pytest.LogCaptureFixture
) -> None:
    kit = Kit(broker)

    def decisions() -> Iterator[Decision]:
        yield Decision([JournalRecord(b"a", b"1")])
        yield Decision([JournalRecord(b"b", b"2")], commands=["go"])
        raise ValueError("planted")

    with caplog.at_level(logging.ERROR, journal_runner.__name__):
        await kit.runner.execute(decisions())
    assert kit.toy.numbers == {b"a": b"1", b"b": b"2"}
    assert kit.commands == ["go"]
    assert "planted" in caplog.text
    kit.runner.close(NOT_COORDINATOR)
    await kit.runner.execute(decisions())
    assert broker.replica().log.end_offset == 2


@scenario("kavka.durability=fsync", topics=ONE)
async def test_many_responses_are_sent_in_slices(broker: MemoryBroker) -> None:
    kit = Kit(broker)
    broker.jobs.hold()
    values = [b"%d" % number for number in range(4 * ITEMS_PER_STEP)]
    answers = [kit.put(value=value) for value in values]
    broker.jobs.release()
    assert await most_at_once(answers) <= ITEMS_PER_STEP
    assert [answer.result() for answer in answers] == values


async def most_at_once(answers: Sequence[asyncio.Future[Any]]) -> int:
    """How many come in one iteration of the event loop at most."""
    most = before = 0
    while before < len(answers):
        await asyncio.sleep(0)
        done = sum(answer.done() for answer in answers)
        most, before = max(most, done - before), done
    return most


# -- while a long operation runs ------------------------------------------------------------


def long(kit: Kit, value: bytes) -> Any:
    return kit.runner.call(lambda toy, future, _: toy.put_slowly(future, b"a", value, 3))


@scenario(topics=ONE)
async def test_timers_and_changes_elsewhere_wait_too(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serial_queue, "TICK_SLICE_S", -1.0)
    kit = Kit(broker)
    parked = kit.park(b"a", 5)
    kit.toy.numbers[b"a"] = b"5"
    written = long(kit, b"7")
    changes = [Decision([JournalRecord(b"c", b"1")]), Decision([JournalRecord(b"d", b"1")])]
    changing = broker.tasks.spawn(kit.runner.execute(iter(changes)), name="changes")
    assert not kit.toy.numbers.keys() & {b"c", b"d"}
    await broker.advance(5)
    assert (written.result(), parked.result(), changing.done()) == (b"7", b"8", True)
    assert {b"c", b"d"} <= kit.toy.numbers.keys()


@scenario(topics=ONE)
async def test_a_marker_that_can_not_be_applied_is_only_logged(
    broker: MemoryBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """It is in the log already: an error would only have it written again."""
    kit = Kit(broker)
    kit.put(producer=Producer(7, 1, NOT_NEEDED))
    kit.toy.pending[7].insert(0, JournalRecord(BROKEN, b""))
    kit.runner.marker_appended(7, 1, True)
    assert "t-0: a transaction marker of producer 7 could not be applied" in caplog.text
    assert kit.put(value=b"2") == b"2"
