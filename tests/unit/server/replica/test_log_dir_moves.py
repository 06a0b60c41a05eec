"""Moves of replicas between log directories: DescribeLogDirs, cancellation, concurrent requests."""

from __future__ import annotations

import asyncio
import errno

import pytest

from kavka.compat_tests.raw.codec.batches import Written, build
from kavka.log.future_log_copier import TAIL_BYTES_MAX
from kavka.log.memfs import Fault
from kavka.log.producer_state import ENTRIES_PER_STEP
from kavka.server.replica import log_dir_moves
from kavka.wire.errors import ErrorCode as Code
from support.config_requests import BROKER, SET, change
from support.logs import Producer, append, batch, parse, truncate
from support.memory_broker import MemoryBroker, fetching, producing, scenario
from support.replica_moves import alter, copy_of, fill, torn
from support.virtual import run_until_idle

ONE, TWO, THREE = "/data", "/more", "/other"
DIRECTORIES = f"log.dirs={ONE},{TWO},{THREE}"
SMALL = "log.segment.bytes=1048576"
NO_DELAY = "log.segment.delete.delay.ms=0"
LIMIT = "replica.alter.log.dirs.io.max.bytes.per.second"
COPY = "FutureLogCopier."
"""What the jobs of a copy are named like."""

Described = dict[str, list[tuple[int, int, bool]]]


async def described(broker: MemoryBroker) -> Described:
    """By directory: size, lag, and whether it is a copy, of all partitions; directories that have
    none are left out."""
    answer = await broker.ask("DescribeLogDirs", 5, topics=None)
    found = {
        result.log_dir: [
            (partition.partition_size, partition.offset_lag, partition.is_future_key)
            for topic in result.topics
            for partition in topic.partitions
        ]
        for result in answer.results
    }
    return {path: partitions for path, partitions in found.items() if partitions}


def names(broker: MemoryBroker, path: str) -> list[str]:
    """What is in a log directory of the topic, without what is to be deleted."""
    found = broker.fs.list_dir(path)
    return [name for name in found if name.startswith("t-") and not name.endswith("-delete")]


async def limit(broker: MemoryBroker, value: str) -> None:
    assert await change(broker, (BROKER, "1", [(LIMIT, SET, value)])) == [(Code.NONE, None)]


async def numbers(broker: MemoryBroker) -> list[int]:
    return [int((record.value or b"").partition(b"/")[0]) for record in await broker.read_all()]


@scenario(DIRECTORIES, topics={"t": 1})
async def test_describe_log_dirs_during_a_move(broker: MemoryBroker) -> None:
    await fill(broker, 3)
    size = broker.replica().log.size_bytes
    broker.jobs.hold(COPY)
    assert await alter(broker, TWO) == Code.NONE
    await run_until_idle()
    assert await described(broker) == {ONE: [(size, 0, False)], TWO: [(0, 3, True)]}
    (name,) = names(broker, TWO)
    assert name.startswith("t-0.") and name.endswith("-future")
    broker.jobs.release()
    await broker.advance(10)
    assert await described(broker) == {TWO: [(size, 0, False)]}
    assert (names(broker, ONE), names(broker, TWO)) == ([], ["t-0"])
    assert "moved-here" not in broker.fs.list_dir(f"{TWO}/t-0")
    assert await numbers(broker) == [0, 1, 2]


@scenario(DIRECTORIES, topics={"t": 1})
async def test_a_move_to_the_current_directory_cancels_the_move(broker: MemoryBroker) -> None:
    await fill(broker, 3)
    broker.jobs.hold(COPY)
    assert await alter(broker, TWO) == Code.NONE
    await run_until_idle()
    assert await alter(broker, TWO) == Code.NONE, "as before"
    assert broker.replica().log.compaction.paused
    assert await alter(broker, ONE) == Code.NONE
    assert list(await described(broker)) == [ONE]
    assert not broker.replica().log.compaction.paused
    broker.jobs.release()
    await broker.advance(3000)
    assert (names(broker, ONE), names(broker, TWO)) == (["t-0"], [])
    assert broker.replica().log.directory == f"{ONE}/t-0"


@scenario(DIRECTORIES, topics={"t": 1})
async def test_a_cancelled_move_does_not_continue_after_a_crash(broker: MemoryBroker) -> None:
    """Else the partition would end up in a directory that was not the last one requested."""
    await fill(broker, 3)
    broker.jobs.hold(COPY)
    await alter(broker, TWO)
    await run_until_idle()
    broker.fs.sync_dir(TWO)
    await alter(broker, ONE)
    await run_until_idle()
    await broker.crash()
    await broker.advance(3000)
    assert (names(broker, ONE), names(broker, TWO)) == (["t-0"], [])


@scenario(DIRECTORIES, topics={"t": 1})
async def test_a_stop_after_the_move_leaves_one_log(broker: MemoryBroker) -> None:
    await fill(broker, 3)
    broker.jobs.hold("MemFs.sync_dir")
    await alter(broker, TWO)
    await broker.advance(10)
    assert (names(broker, ONE), names(broker, TWO)) == (["t-0"], ["t-0"])
    stopping = broker.tasks.spawn(broker.instance.stop(), name="stop")
    await run_until_idle(100)
    broker.jobs.release()
    await run_until_idle(100)
    assert stopping.done()
    assert (names(broker, ONE), names(broker, TWO)) == ([], ["t-0"])
    await broker.tasks.die()
    await broker.revive()
    assert await numbers(broker) == [0, 1, 2]


@scenario(DIRECTORIES, topics={"t": 1})
async def test_another_target_directory_restarts_the_move(broker: MemoryBroker) -> None:
    await fill(broker, 3)
    broker.jobs.hold(COPY)
    assert await alter(broker, TWO) == Code.NONE
    await run_until_idle()
    assert await alter(broker, THREE) == Code.NONE
    assert list(await described(broker)) == [ONE, THREE]
    broker.jobs.release()
    await broker.advance(3000)
    assert [names(broker, path) for path in (ONE, TWO, THREE)] == [[], [], ["t-0"]]
    assert await numbers(broker) == [0, 1, 2]


@scenario(DIRECTORIES, SMALL, topics={"t": 1})
async def test_records_appended_during_the_move(broker: MemoryBroker) -> None:
    await fill(broker, 5, size=400_000)
    assert await alter(broker, TWO) == Code.NONE
    written = 5
    while list(await described(broker)) != [TWO]:
        await fill(broker, 1, size=400_000, start=written)
        await broker.advance(20)
        written += 1
        assert written < 100
    assert written > 5
    await fill(broker, 3, start=written)
    assert await numbers(broker) == list(range(written + 3))
    await broker.kill()
    assert await numbers(broker) == list(range(written + 3))
    assert names(broker, ONE) == []


@scenario(DIRECTORIES, topics={"t": 1})
async def test_producer_state_is_moved(broker: MemoryBroker) -> None:
    first = bytes(batch([b"1"], producer=Producer(7, 0, 0)))
    assert (await broker.produce(bytearray(first))).base_offset == 0
    await alter(broker, TWO)
    await broker.advance(10)
    assert broker.replica().log.directory == f"{TWO}/t-0"
    again = await broker.produce(bytearray(first))
    assert (again.error_code, again.base_offset) == (Code.NONE, 0)
    second = bytes(batch([b"2"], producer=Producer(7, 0, 2)))
    refused = await broker.produce(bytearray(second))
    assert refused.error_code == Code.OUT_OF_ORDER_SEQUENCE_NUMBER


@scenario(DIRECTORIES, "kavka.durability=fsync", topics={"t": 1})
async def test_acknowledged_records_are_flushed_in_the_copy(
    broker: MemoryBroker,
) -> None:
    """While the copy is brought to the disk for the last time, no flush of the log counts."""
    await fill(broker, 3)
    broker.jobs.hold("FutureLogCopier.complete")
    await alter(broker, TWO)
    await broker.advance(1)
    broker.jobs.release()  # the first, which is followed by a checkpoint
    broker.jobs.hold("FutureLogCopier.complete")
    await broker.advance(1)
    assert broker.jobs.held, "the last one"
    request = producing({("t", 0): build([Written(value=b"3/")])})
    answer = broker.connect().send("Produce", 9, **request)
    await run_until_idle()
    assert not answer.done()
    broker.jobs.release()
    await broker.advance(1)
    assert answer.done()
    assert broker.replica().log.directory == f"{TWO}/t-0"
    await broker.crash()
    assert await numbers(broker) == [0, 1, 2, 3]


@scenario(DIRECTORIES, SMALL, topics={"t": 1})
async def test_a_long_tail_is_copied_by_a_job(broker: MemoryBroker) -> None:
    await fill(broker, 1)
    broker.jobs.hold("FutureLogCopier.complete")
    await alter(broker, TWO)
    await broker.advance(1)
    broker.jobs.release()
    broker.jobs.hold("FutureLogCopier.complete")
    await broker.advance(1)
    await fill(broker, 1, size=TAIL_BYTES_MAX + 1, start=1)
    broker.jobs.done.clear()
    broker.jobs.release()
    await broker.advance(1)
    assert [job for job in broker.jobs.done if job.startswith("FutureLogCopier._copy.")]
    assert list(await described(broker)) == [TWO]
    assert await numbers(broker) == [0, 1]


@pytest.mark.parametrize("is_busy", [False, True])
@scenario(DIRECTORIES, SMALL, f"{LIMIT}=500000", topics={"t": 1})
async def test_a_stop_leaves_whole_batches_in_the_copy(broker: MemoryBroker, is_busy: bool) -> None:
    """Apache Kafka would write on behind anything else."""
    await fill(broker, 9, size=300_000)
    await alter(broker, TWO)
    await broker.advance(1)
    if is_busy:
        broker.jobs.hold("FutureLogCopier._copy.")
    await broker.advance(2500)
    assert bool(broker.jobs.held) == is_busy
    assert is_busy or torn(broker, copy_of(broker, TWO))
    stopping = broker.tasks.spawn(broker.instance.stop(), name="stop")
    await run_until_idle(100)
    assert stopping.done() != is_busy, "a thread is at work on it"
    broker.jobs.release()
    await run_until_idle(100)
    assert stopping.done() and torn(broker, copy_of(broker, TWO)) == []
    await broker.tasks.die()
    await broker.revive()
    await broker.advance(20_000)
    assert (names(broker, ONE), names(broker, TWO)) == ([], ["t-0"])
    assert await numbers(broker) == list(range(9))


@scenario(DIRECTORIES, topics={"t": 1})
async def test_a_stop_waits_for_a_move_that_was_replaced(broker: MemoryBroker) -> None:
    await fill(broker, 3)
    broker.jobs.hold(COPY)
    await alter(broker, TWO)
    await run_until_idle()
    await alter(broker, THREE)
    stopping = broker.tasks.spawn(broker.instance.stop(), name="stop")
    await run_until_idle(100)
    assert not stopping.done(), "a thread is at work on the first copy"
    broker.jobs.release()
    await run_until_idle(100)
    assert stopping.done()
    await broker.tasks.die()
    await broker.revive()
    await broker.advance(3000)
    assert [names(broker, path) for path in (ONE, TWO, THREE)] == [[], [], ["t-0"]]
    assert await numbers(broker) == [0, 1, 2]


@pytest.mark.parametrize("is_recreated", [False, True])
@scenario(DIRECTORIES, SMALL, f"{LIMIT}=500000", topics={"t": 1})
async def test_a_copy_whose_topic_was_deleted_while_its_directory_was_away(
    broker: MemoryBroker, is_recreated: bool
) -> None:
    """A new topic of that name does not move either."""

    async def revive_after_renaming(path: str, renamed: str) -> None:
        await broker.instance.stop()
        await broker.tasks.die()
        broker.fs.rename(path, renamed)
        await broker.revive()

    await fill(broker, 9, size=300_000)
    await alter(broker, TWO)
    await broker.advance(1000)
    (copy,) = names(broker, TWO)
    await revive_after_renaming(f"{TWO}/{copy}", f"{TWO}/.away")
    await broker.ask("DeleteTopics", 5, topic_names=["t"], timeout_ms=1000)
    if is_recreated:
        await broker.create("t")
        await fill(broker, 2)
    await revive_after_renaming(f"{TWO}/.away", f"{TWO}/{copy}")
    await broker.advance(20_000)
    assert (names(broker, ONE), names(broker, TWO)) == (["t-0"] * is_recreated, [])
    if is_recreated:
        assert await numbers(broker) == [0, 1]


@pytest.mark.parametrize("power", [False, True])
@scenario(DIRECTORIES, SMALL, topics={"t": 1})
async def test_a_move_continues_after_a_crash(broker: MemoryBroker, power: bool) -> None:
    await fill(broker, 9, size=400_000)
    broker.jobs.hold("FutureLogCopier._close")
    await alter(broker, TWO)
    await broker.advance(1)
    assert broker.jobs.held
    broker.fs.sync_dir(TWO)
    await (broker.crash() if power else broker.kill())
    found = await numbers(broker)
    assert power or found == list(range(9))
    await broker.advance(1000)
    assert (names(broker, ONE), names(broker, TWO)) == ([], ["t-0"])
    assert await numbers(broker) == found


@scenario(DIRECTORIES, topics={"t": 1})
async def test_a_topic_deleted_during_the_move(broker: MemoryBroker) -> None:
    await fill(broker, 3)
    broker.jobs.hold(COPY)
    await alter(broker, TWO)
    await run_until_idle()
    await broker.ask("DeleteTopics", 5, topic_names=["t"], timeout_ms=1000)
    await broker.create("t")
    broker.jobs.release()
    await broker.advance(3000)
    assert (names(broker, ONE), names(broker, TWO)) == (["t-0"], [])
    assert await broker.read_all() == []
    assert await alter(broker, TWO) == Code.NONE
    await broker.advance(10)
    assert (names(broker, ONE), names(broker, TWO)) == ([], ["t-0"])


@scenario(DIRECTORIES, topics={"t": 1})
async def test_a_topic_deleted_before_the_source_directory(broker: MemoryBroker) -> None:
    await fill(broker, 3)
    broker.jobs.hold("MemFs.sync_dir")
    await alter(broker, TWO)
    await broker.advance(10)
    assert (names(broker, ONE), names(broker, TWO)) == (["t-0"], ["t-0"])
    deleted = broker.connect().send("DeleteTopics", 5, topic_names=["t"], timeout_ms=1000)
    await run_until_idle()
    broker.jobs.release()
    await broker.advance(3000)
    assert deleted.done()
    assert (names(broker, ONE), names(broker, TWO)) == ([], [])
    await broker.create("t")
    assert await broker.read_all() == []


@scenario(DIRECTORIES, topics={"t": 1})
async def test_a_move_back_waits_for_the_deletion_of_the_source(broker: MemoryBroker) -> None:
    await fill(broker, 3)
    broker.jobs.hold("MemFs.sync_dir")
    await alter(broker, TWO)
    await broker.advance(10)
    assert broker.replica().log.directory == f"{TWO}/t-0"
    assert await alter(broker, ONE) == Code.NONE
    await broker.advance(10)
    assert "t-0" in names(broker, ONE)
    assert broker.replica().log.directory == f"{TWO}/t-0"
    broker.jobs.release()
    await broker.advance(10)
    assert (names(broker, ONE), names(broker, TWO)) == (["t-0"], [])
    assert await numbers(broker) == [0, 1, 2]


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
@scenario(DIRECTORIES, topics={"t": 1})
async def test_the_target_fails(broker: MemoryBroker, error: int) -> None:
    await fill(broker, 3)
    broker.fs.faults = [Fault("pwrite", "-future/00000000000000000000.log", error=error)]
    assert await alter(broker, TWO) == Code.NONE
    await broker.advance(3000)
    assert list(broker.parts.replicas.logs.failed_directories) == [TWO]
    assert not broker.replica().log.compaction.paused
    assert await numbers(broker) == [0, 1, 2]
    await fill(broker, 1, start=3)
    await broker.kill()
    await broker.advance(100)
    assert (names(broker, ONE), names(broker, TWO)) == ([], ["t-0"]), "it goes on at the next start"
    assert await numbers(broker) == [0, 1, 2, 3]


@scenario(DIRECTORIES, topics={"t": 1})
async def test_the_source_fails(broker: MemoryBroker) -> None:
    await fill(broker, 3)
    broker.fs.faults = [Fault("pread", "/t-0/00000000000000000000.log", times=9)]
    assert await alter(broker, TWO) == Code.NONE
    await broker.advance(3000)
    assert list(broker.parts.replicas.logs.failed_directories) == [ONE]
    assert broker.replica().offline
    await broker.kill()
    await broker.advance(100)
    assert await numbers(broker) == [0, 1, 2]


@pytest.mark.parametrize("upto", [0, 1, 4, 8])
@pytest.mark.parametrize("step", ["_copy", "_close", "complete"])
@scenario(DIRECTORIES, SMALL, topics={"t": 1})
async def test_the_source_is_truncated_while_a_thread_reads_it(
    broker: MemoryBroker, step: str, upto: int
) -> None:
    """As by a follower that has a new leader."""
    await fill(broker, 9, size=300_000)
    broker.jobs.hold(COPY + step)
    assert await alter(broker, TWO) == Code.NONE
    await broker.advance(1)
    assert broker.jobs.held
    truncate(broker.replica().log, upto)
    broker.jobs.release()
    await broker.advance(3000)
    assert broker.parts.replicas.logs.failed_directories == {}
    assert (names(broker, ONE), names(broker, TWO)) == ([], ["t-0"])
    assert await numbers(broker) == list(range(upto))
    await fill(broker, 1, start=upto)
    await broker.kill()
    assert await numbers(broker) == list(range(upto + 1))


@pytest.mark.parametrize("step", ["_copy", "_close"])
@scenario(DIRECTORIES, SMALL, NO_DELAY, topics={"t": 1})
async def test_the_source_loses_a_segment_while_a_thread_reads_it(
    broker: MemoryBroker, step: str
) -> None:
    await fill(broker, 9, size=300_000)
    broker.jobs.hold(COPY + step)
    assert await alter(broker, TWO) == Code.NONE
    await broker.advance(1)
    assert broker.jobs.held
    topics = [{"name": "t", "partitions": [{"partition_index": 0, "offset": 8}]}]
    await broker.ask("DeleteRecords", 2, topics=topics, timeout_ms=1000)
    await broker.advance(120_000)  # retention
    assert len(broker.replica().log._segments) == 1
    broker.jobs.release()
    await broker.advance(3000)
    assert broker.parts.replicas.logs.failed_directories == {}
    assert (names(broker, ONE), names(broker, TWO)) == ([], ["t-0"])
    assert await numbers(broker) == [8]


@scenario(DIRECTORIES, SMALL, topics={"t": 1})
async def test_segments_are_rolled_while_producer_snapshots_are_written(
    broker: MemoryBroker,
) -> None:
    producers = 20 * ENTRIES_PER_STEP
    for number in range(producers):
        append(broker.replica().log, batch([b"%d/" % number], producer=Producer(number, 0, 0)))
    await fill(broker, 2, size=900_000, start=producers)
    written = producers + 2
    broker.jobs.hold("FutureLogCopier.complete")
    assert await alter(broker, TWO) == Code.NONE
    await broker.advance(100)
    assert broker.jobs.held
    broker.jobs.release()
    for turns in range(20, 45):  # so that some appends come after the last byte was copied
        await fill(broker, 1, size=900_000, start=written)
        written += 1
        for _ in range(turns):
            await asyncio.sleep(0)
    await broker.advance(3000)
    assert list(await described(broker)) == [TWO]
    assert await numbers(broker) == list(range(written))


@pytest.mark.parametrize("skip", range(3))
@scenario(DIRECTORIES, topics={"t": 1})
async def test_file_descriptors_are_exhausted(broker: MemoryBroker, skip: int) -> None:
    await fill(broker, 3)
    fault = Fault("open", "-future/00000000000000000000.log", error=errno.EMFILE, skip=skip)
    broker.fs.faults = [fault]
    assert await alter(broker, TWO) == Code.NONE
    await broker.advance(3000)
    assert broker.parts.replicas.logs.failed_directories == {}
    assert (names(broker, ONE), names(broker, TWO)) == ([], ["t-0"])
    assert await numbers(broker) == [0, 1, 2]


@scenario(DIRECTORIES, SMALL, f"{LIMIT}=1000000", topics={"t": 1})
async def test_the_io_limit_can_be_changed(broker: MemoryBroker) -> None:
    await fill(broker, 10, size=500_000)
    size = broker.replica().log.size_bytes
    await alter(broker, TWO)
    await broker.advance(2000)
    copied = await described(broker)
    assert copied[ONE] == [(size, 0, False)]
    ((done, lag, is_copy),) = copied[TWO]
    assert is_copy and 2_000_000 <= done <= 3_000_000
    assert 10 - done // 500_000 <= lag <= 10 - done // 500_000 + 1
    await limit(broker, "0")
    await broker.advance(60_000)
    stalled = (await described(broker))[TWO]
    assert stalled[0][0] <= done + 1_000_000
    await limit(broker, "100000000")
    await broker.advance(2000)
    assert await described(broker) == {TWO: [(size, 0, False)]}


@pytest.mark.parametrize(("threads", "at_once"), [(None, 3), (1, 1), (2, 2)])
def test_concurrent_moves_are_bounded(threads: int | None, at_once: int) -> None:
    setting = [] if threads is None else [f"num.replica.alter.log.dirs.threads={threads}"]

    @scenario(DIRECTORIES, *setting, topics={"t": 6})
    async def run(broker: MemoryBroker) -> None:
        for index in range(6):
            await broker.produce(build(), partition=index)
        broker.jobs.hold(COPY)
        for index in range(6):
            here = broker.replica("t", index).log.directory.rpartition("/")[0]
            there = ONE if here != ONE else TWO
            assert await alter(broker, there, index=index) == Code.NONE
        await run_until_idle()
        assert len(broker.jobs.held) == at_once
        broker.jobs.release()
        for _ in range(20):
            await broker.advance(100)
        assert not [log for found in (await described(broker)).values() for log in found if log[2]]

    run()


@scenario(DIRECTORIES, topics={"t": 1})
async def test_a_move_waits_for_the_compaction_and_pauses_it(broker: MemoryBroker) -> None:
    await fill(broker, 3)
    log = broker.replica().log
    log.compaction.started()  # one that is under way, which has to end
    serial = log.compaction.serial
    await alter(broker, TWO)
    await broker.advance(1000)
    assert log.compaction.paused and log.compaction.serial > serial
    assert log.directory == f"{ONE}/t-0", "it waits for that"
    log.compaction.ended()
    await run_until_idle()
    assert log.directory == f"{TWO}/t-0" and not log.compaction.paused


@scenario(DIRECTORIES, NO_DELAY, topics={"t": 1})
async def test_a_fetch_completes_after_the_source_files_were_deleted(broker: MemoryBroker) -> None:
    await fill(broker, 3)
    broker.fs.cached = False
    broker.jobs.hold("_MemFile.read_into")
    reading = broker.connect().send("Fetch", 12, **fetching({("t", 0): 0}))
    await run_until_idle()
    assert broker.jobs.held
    await alter(broker, TWO)
    await broker.advance(3000)
    assert list(await described(broker)) == [TWO]
    assert [name for name in broker.fs.list_dir(ONE) if name.startswith("t-")] == []
    broker.jobs.release()
    await run_until_idle()
    answer = reading.result().responses[0].partitions[0]
    assert answer.error_code == Code.NONE
    assert len(parse(bytes(answer.records))) == 3


@scenario(DIRECTORIES, topics={"t": 1})
async def test_refused_moves_are_logged(
    broker: MemoryBroker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger=log_dir_moves.__name__)
    await alter(broker, "/no/such")
    assert "t-0 can't move to /no/such" in caplog.text
