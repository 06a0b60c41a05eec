"""The runner of a journal: appends, the high watermark, deadlines, and the way to the end."""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
from collections.abc import Iterator

import pytest

from kavka.log.journal import Decision, Producer, Record, Reply, Ticket
from kavka.log.memfs import Fault
from kavka.log.txn_guards import NOT_NEEDED
from kavka.server.coordinators import journal_port, journal_runner
from kavka.server.coordinators.serial_queue import TICK_SLICE_S
from kavka.server.replica.partition_state import Leadership
from kavka.wire.compression import Codec
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.steps import ITEMS_A_STEP
from support import batches
from support.memory_broker import DATA, MemoryBroker, scenario
from support.refusals import refusal
from support.toy_machine import BROKEN, Toy
from support.toy_runner import NOT_COORDINATOR, Kit, code
from support.virtual import settle

FSYNC = "kavka.durability=fsync"
ONE = {"t": 1}
SEGMENT = f"{DATA}/t-0/00000000000000000000.log"
NOT_AVAILABLE = ErrorCode.COORDINATOR_NOT_AVAILABLE
LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


async def stored(broker: MemoryBroker) -> list[Record]:
    return [Record(one.key, one.value) for one in batches.read((await broker.fetch()).records)]


@scenario(topics=ONE)
async def test_what_is_committed_at_once_is_answered_at_once(broker: MemoryBroker) -> None:
    kit = Kit(broker)
    assert kit.loaded == [kit.runner]
    assert kit.put(value=b"7", command="go") == b"7"
    assert kit.read() == b"7"
    assert kit.commands == ["go"]
    assert await stored(broker) == [Record(b"a", b"7")]


@scenario(FSYNC, topics=ONE)
async def test_with_fsync_answers_wait_for_it(broker: MemoryBroker) -> None:
    kit = Kit(broker)
    broker.jobs.hold()
    written, read = kit.put(command="go"), kit.read()
    await broker.advance(10)
    assert not written.done()
    assert not read.done()
    assert not kit.commands
    broker.jobs.release()
    await broker.advance(0)
    assert (written.result(), read.result()) == (b"1", b"1")
    assert kit.commands == ["go"]


@scenario(FSYNC, topics=ONE)
async def test_who_waits_no_longer_is_no_harm(broker: MemoryBroker) -> None:
    kit = Kit(broker)
    broker.jobs.hold()
    kit.put().cancel()
    other = kit.put(b"b")
    broker.jobs.release()
    await broker.advance(0)
    assert other.result() == b"1"


@scenario(FSYNC, topics=ONE)
async def test_that_nobody_hears_of_a_refusal_is_no_failure(broker: MemoryBroker) -> None:
    """As of several questions for one answer, if the connection is closed. (A scenario fails where
    the loop complains.)"""
    kit = Kit(broker)
    broker.jobs.hold()
    kit.put()
    kit.runner.close(NOT_COORDINATOR)
    await settle()
    gc.collect()
    broker.jobs.release()


@scenario(FSYNC, topics=ONE)
async def test_what_takes_too_long_is_not_available(broker: MemoryBroker) -> None:
    kit = Kit(broker)
    broker.jobs.hold()
    written = kit.put()
    await broker.advance(4999)
    assert not written.done()
    await broker.advance(1)
    assert await code(written) == NOT_AVAILABLE
    broker.jobs.release()
    await broker.advance(0)
    assert kit.read() == b"1"


@scenario(topics=ONE)
async def test_without_enough_replicas_nothing_is_written(broker: MemoryBroker) -> None:
    kit = Kit(broker)
    broker.share((1,))
    await broker.ask(
        "IncrementalAlterConfigs",
        1,
        resources=[
            {
                "resource_type": 2,
                "resource_name": "t",
                "configs": [{"name": "min.insync.replicas", "config_operation": 0, "value": "2"}],
            }
        ],
        validate_only=False,
    )
    assert refusal(kit.put) == NOT_AVAILABLE
    assert broker.replica().log.end_offset == 0


@scenario(topics=ONE)
async def test_with_a_lagging_replica_answers_wait_for_it(broker: MemoryBroker) -> None:
    kit = Kit(broker)
    broker.share((1, 2))
    written = kit.put()
    await broker.advance(1000)
    assert not written.done()
    broker.share((1,))
    await broker.advance(0)
    assert written.result() == b"1"


@scenario("message.max.bytes=200", topics=ONE)
async def test_what_fits_into_no_batch_is_refused(broker: MemoryBroker) -> None:
    kit = Kit(broker)
    assert refusal(lambda: kit.put(value=b"x" * 300)) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert broker.replica().log.end_offset == 0
    assert kit.read() is None


@scenario(topics=ONE)
async def test_one_decision_is_one_batch(broker: MemoryBroker) -> None:
    kit = Kit(broker)
    records = [Record(b"a", b"1"), Record(b"b", None), Record(b"a", b"2")]
    kit.runner.call(lambda _, ticket, __: Decision(records, [Reply(ticket, None)]))
    data = (await broker.fetch()).records
    assert batches.field(data, "record_count") == 3
    assert await stored(broker) == records
    assert {one.timestamp for one in await broker.read_all()} == {broker.clock.now_ms()}


@pytest.mark.parametrize("codec", Codec)
@scenario(topics=ONE)
async def test_records_are_compressed_if_that_is_asked_for(
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
    assert [one.value for one in batches.read(data[:second])] == [b"x" * 1000]
    assert [one.value for one in batches.read(data[second:])] == [big]


@scenario("message.max.bytes=70000", topics=ONE)
async def test_much_is_compressed_where_it_would_not_fit(broker: MemoryBroker) -> None:
    kit = Kit(broker, codec=Codec.ZSTD)
    kit.put(value=b"x" * 100_000)
    assert batches.field((await broker.fetch()).records, "attributes") == Codec.ZSTD


@scenario("log.message.timestamp.type=LogAppendTime", topics=ONE)
async def test_the_time_is_said_to_be_the_logs_where_it_is(broker: MemoryBroker) -> None:
    Kit(broker).put()
    assert batches.field((await broker.fetch()).records, "attributes") == batches.LOG_APPEND_TIME


@scenario(topics=ONE)
async def test_records_of_a_transaction(broker: MemoryBroker) -> None:
    kit = Kit(broker)
    assert refusal(lambda: kit.put(producer=Producer(7, 1))) == ErrorCode.INVALID_TXN_STATE
    kit.put(producer=Producer(7, 1, NOT_NEEDED))
    data = (await broker.fetch()).records
    assert batches.field(data, "attributes") == 0x10
    assert batches.field(data, "producer_id") == 7
    assert batches.field(data, "producer_epoch") == 1
    assert kit.read() is None
    kit.runner.marker_appended(7, 1, True)
    assert kit.read() == b"1"


# -- time ---------------------------------------------------------------------------------


@scenario(topics=ONE)
async def test_deadlines_are_met(broker: MemoryBroker) -> None:
    kit = Kit(broker)
    late, early = kit.park(b"a", 500), kit.park(b"b", 200)
    await broker.advance(199)
    assert not early.done()
    await broker.advance(1)
    assert early.result() == b"1"
    assert not late.done()
    await broker.advance(300)
    assert late.result() == b"1"


@scenario(topics=ONE)
async def test_a_deadline_moved_on_is_met_then(broker: MemoryBroker) -> None:
    kit = Kit(broker)
    first = kit.park(b"a", 100)
    await broker.advance(60)
    second = kit.park(b"a", 100)
    assert await first == "moved over"
    await broker.advance(99)
    assert not second.done()
    await broker.advance(1)
    assert second.result() == b"1"


@scenario(topics=ONE)
async def test_one_deadline_that_can_not_be_met_keeps_no_other(
    broker: MemoryBroker, caplog: pytest.LogCaptureFixture
) -> None:
    kit = Kit(broker)
    kit.park(BROKEN, 100)
    other = kit.park(b"a", 100)
    with caplog.at_level(logging.ERROR, journal_runner.__name__):
        await broker.advance(100)
    assert other.result() == b"1"
    assert "t-0" in caplog.text


@scenario(topics=ONE)
async def test_many_deadlines_at_once_go_in_slices(broker: MemoryBroker) -> None:
    kit = Kit(broker)
    waiting = [kit.park(b"%d" % number, 100) for number in range(20)]

    def apply(record: Record, producer: Producer | None) -> None:
        broker.clock.elapsed_ms += 1

    kit.toy.apply = apply  # type: ignore[method-assign]
    turns: list[int] = []

    async def look() -> None:
        while not turns or turns[-1] < 20:
            turns.append(sum(one.done() for one in waiting))
            await broker.tasks.sleep(0)

    looking = broker.tasks.spawn(look(), name="look")
    await broker.advance(150)
    await looking
    most = 1000 * TICK_SLICE_S + 1
    assert max(b - a for a, b in zip(turns, turns[1:], strict=False)) <= most


# -- beginning and end --------------------------------------------------------------------


@scenario(topics=ONE)
async def test_while_the_log_is_replayed_nobody_is_served(broker: MemoryBroker) -> None:
    Kit(broker).put(value=b"5")
    broker.jobs.hold()
    kit = Kit(broker)
    await broker.advance(10)
    assert refusal(kit.put) == LOADING
    assert refusal(kit.read) == LOADING
    assert not kit.runner.is_active
    broker.jobs.release()
    await broker.advance(0)
    assert kit.loaded == [kit.runner]
    assert kit.read() == b"5"


@scenario(topics=ONE)
async def test_what_there_is_to_do_after_loading_is_done(broker: MemoryBroker) -> None:
    Kit(broker).put(value=b"5")
    toy = Toy()
    toy.first = [
        Decision([Record(b"%d" % number, b"first")], commands=[number]) for number in range(3)
    ]
    kit = Kit(broker, toy)
    await broker.advance(0)
    assert kit.read(b"2") == b"first"
    assert kit.commands == [0, 1, 2]


@pytest.mark.parametrize("goes_on", [True, False])
@scenario(topics=ONE)
async def test_many_commands_are_carried_out_in_several_turns(
    broker: MemoryBroker, goes_on: bool
) -> None:
    """As after a crash in the middle of ten thousand transactions."""
    toy = Toy()
    a_turn = journal_runner.COMMANDS_A_SLICE
    toy.first = [Decision(commands=list(range(3 * a_turn)))]
    kit = Kit(broker, toy)
    assert kit.commands == list(range(a_turn))
    if not goes_on:
        begun = kit.runner.call(lambda toy, ticket, _: toy.put_slowly(ticket, b"a", b"1", 3))
        kit.runner.close(NOT_COORDINATOR)
        assert await code(begun) == NOT_COORDINATOR
    for turns in (2, 3):
        await settle(1)
        assert len(kit.commands) == (turns * a_turn if goes_on else a_turn)
    await settle()
    assert kit.commands == list(range(3 * a_turn if goes_on else a_turn))


@scenario(topics=ONE)
async def test_a_marker_that_comes_while_it_is_loaded_counts(broker: MemoryBroker) -> None:
    Kit(broker).put(producer=Producer(7, 1, NOT_NEEDED))
    toy = Toy()
    kit = Kit(broker, toy)

    def first(now_ms: int) -> list[Decision]:
        assert toy.pending
        kit.runner.marker_appended(7, 1, True)
        return []

    toy.loaded = first  # type: ignore[method-assign]
    await broker.advance(0)
    assert kit.read() == b"1"


@scenario(FSYNC, topics=ONE)
async def test_who_leads_no_longer_answers_nobody(broker: MemoryBroker) -> None:
    timers = broker.tasks.pending_timers
    kit = Kit(broker)
    broker.jobs.hold()
    waiting = [kit.put(), kit.read(), kit.park(b"b", 100)]
    follow(broker)
    assert broker.tasks.pending_timers == timers
    for one in waiting:
        assert await code(one) == NOT_COORDINATOR
    assert refusal(kit.put) == refusal(kit.read) == NOT_COORDINATOR
    end = broker.replica().log.end_offset
    await broker.advance(200)
    assert broker.replica().log.end_offset == end
    broker.jobs.release()


@scenario(topics=ONE)
async def test_who_leads_no_longer_stops_loading(broker: MemoryBroker) -> None:
    Kit(broker).put()
    broker.jobs.hold()
    kit = Kit(broker)
    await broker.advance(0)
    follow(broker)
    broker.jobs.release()
    await broker.advance(0)
    assert not kit.loaded
    assert refusal(kit.put) == NOT_COORDINATOR


def follow(broker: MemoryBroker) -> None:
    """As if another broker led "t" from now on."""
    replica = broker.replica()
    now = replica.partition
    now.follow(Leadership(1, 2, now.leader_epoch + 1, (2,), now.partition_epoch + 1, (1, 2)))
    replica.role_changed()


@scenario(topics=ONE)
async def test_nothing_is_appended_in_another_epoch(broker: MemoryBroker) -> None:
    kit = Kit(broker)
    now = broker.replica().partition
    now.lead(Leadership(1, 1, now.leader_epoch + 1, (1,), now.partition_epoch + 1, (1,)))
    assert refusal(kit.put) == NOT_COORDINATOR
    assert broker.replica().log.end_offset == 0


@scenario(topics=ONE)
async def test_a_disk_that_fails_ends_it(broker: MemoryBroker) -> None:
    kit = Kit(broker)
    parked = kit.park(b"b", 100)
    broker.fs.faults.append(Fault("pwrite", SEGMENT, error=errno.EIO))
    assert refusal(kit.put) == NOT_COORDINATOR
    assert await code(parked) == NOT_COORDINATOR
    assert refusal(kit.read) == NOT_COORDINATOR


@scenario(topics=ONE)
async def test_a_log_that_can_not_be_read_serves_nobody(broker: MemoryBroker) -> None:
    Kit(broker).put()
    broker.fs.faults.append(Fault("pread", SEGMENT, error=errno.EIO))
    kit = Kit(broker)
    await broker.advance(0)
    assert not kit.loaded
    assert refusal(kit.put) == NOT_COORDINATOR


@scenario(topics=ONE)
async def test_a_log_that_ends_in_nothing_serves_nobody(broker: MemoryBroker) -> None:
    Kit(broker).put()
    broker.fs.open(SEGMENT).pwrite(b"\0\0\0\1", 8)  # the length of its only batch
    kit = Kit(broker)
    await broker.advance(0)
    assert refusal(kit.put) == NOT_COORDINATOR


@pytest.mark.parametrize("records", [0, 1])
@scenario(topics=ONE)
async def test_a_machine_that_fails_at_once_serves_nobody(
    broker: MemoryBroker, records: int, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(records):
        Kit(broker).put()
    toy = Toy()

    def fails(now_ms: int) -> list[Decision]:
        raise ValueError("nobody knows why")

    toy.loaded = fails  # type: ignore[method-assign]
    with caplog.at_level(logging.ERROR, journal_runner.__name__):
        kit = Kit(broker, toy)
        await broker.advance(0)
    assert refusal(kit.put) == NOT_COORDINATOR
    assert kit.runner.failed
    assert "nobody knows why" in caplog.text


@scenario(topics=ONE)
async def test_changes_elsewhere_lead_to_records(
    broker: MemoryBroker, caplog: pytest.LogCaptureFixture
) -> None:
    kit = Kit(broker)

    def decisions() -> Iterator[Decision]:
        yield Decision([Record(b"a", b"1")])
        yield Decision([Record(b"b", b"2")], commands=["go"])
        raise ValueError("nobody knows why")

    with caplog.at_level(logging.ERROR, journal_runner.__name__):
        await kit.runner.carry_out(decisions())
    assert kit.toy.numbers == {b"a": b"1", b"b": b"2"}
    assert kit.commands == ["go"]
    assert "nobody knows why" in caplog.text
    kit.runner.close(NOT_COORDINATOR)
    await kit.runner.carry_out(decisions())
    assert broker.replica().log.end_offset == 2


def test_an_answer_to_nobody() -> None:
    """A ticket that nobody waits for is settled all the same."""
    ticket = Ticket()
    ticket.settle(ApiError(NOT_COORDINATOR))
    assert ticket.failure is not None


@scenario(FSYNC, topics=ONE)
async def test_a_thousand_answers_are_given_in_several_turns_of_the_loop(
    broker: MemoryBroker,
) -> None:
    kit = Kit(broker)
    broker.jobs.hold()
    many = 4 * ITEMS_A_STEP
    answers = [kit.put(value=b"%d" % number) for number in range(many)]
    broker.jobs.release()
    most = before = 0
    while before < many:
        await asyncio.sleep(0)
        done = sum(answer.done() for answer in answers)
        most, before = max(most, done - before), done
    assert most <= ITEMS_A_STEP
    assert [answer.result() for answer in answers] == [b"%d" % number for number in range(many)]
