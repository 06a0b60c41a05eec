"""The log cleaner of a broker in memory: which logs it compacts when, and when it leaves off."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kavka.compat_tests.raw.codec.batches import Written, build
from kavka.log.compaction.candidates import Cleanable
from kavka.log.compaction.order import Progress
from kavka.log.compaction.run import compact
from kavka.log.errors import CorruptLogError
from kavka.log.memfs import Fault
from kavka.seams import ProcessLost
from kavka.server.config.live import LiveSettings
from kavka.server.replica import log_cleaner
from kavka.server.replica.log_cleaner import LogCleaner, examine
from kavka.server.replica.replica import Replica
from kavka.wire.steps import run_at_once
from support import logs
from support.cleaning import BACKOFF, COMPACT, HeldProcesses, clean_upto, fill, under_way
from support.compaction import compacted, read_all
from support.memory_broker import MemoryBroker, scenario
from support.virtual import InlineWorker, run_until_idle


@scenario(BACKOFF)
async def test_a_dirty_log_is_compacted_once(broker: MemoryBroker) -> None:
    await broker.create("t", configs=COMPACT)
    await broker.create("kept", configs={"internal.segment.bytes": "1000"})
    await fill(broker)
    await fill(broker, "kept")
    log = broker.replica().log
    before = read_all(log)
    kept = read_all(broker.replica("kept").log)
    active = max(int(n[:20]) for n in broker.fs.list_dir(log.directory) if n.endswith(".log"))
    await broker.advance(1000)
    assert clean_upto(broker) == active
    assert read_all(log) == compacted(before, 0, active)
    assert read_all(broker.replica("kept").log) == kept
    stats = broker.parts.replicas.cleaning
    assert stats.last[0].records_read == active
    await broker.advance(2000)
    assert stats.last[0].records_read == active, "there was nothing more to do"
    path = f"{log.directory.rpartition('/')[0]}/cleaner-offset-checkpoint"
    assert broker.fs.read_bytes(path) == b"0\n1\nt 0 %d\n" % active
    assert stats.dirtiest_ratio == 0


@scenario(BACKOFF)
async def test_a_log_is_compacted_from_min_cleanable_dirty_ratio_on(broker: MemoryBroker) -> None:
    await broker.create("t", configs=COMPACT | {"min.cleanable.dirty.ratio": "0.4"})
    await fill(broker, keys=60)
    await broker.advance(1000)
    first = clean_upto(broker)
    assert first
    await fill(broker, count=10, keys=60)
    await broker.advance(1000)
    assert clean_upto(broker) == first
    assert 0 < broker.parts.replicas.cleaning.dirtiest_ratio <= 0.4
    await fill(broker, keys=60)
    await broker.advance(1000)
    later = clean_upto(broker)
    assert later and later > first + 60


@scenario(BACKOFF)
async def test_the_dirtiest_log_is_compacted_first(broker: MemoryBroker) -> None:
    processes = HeldProcesses(broker)
    for name in ("a", "b", "c"):
        await broker.create(name, configs=COMPACT | {"min.cleanable.dirty.ratio": "0.1"})
        await fill(broker, name)
    broker.replica("a").log.compaction.clean_upto = 30
    broker.replica("c").log.compaction.clean_upto = 20
    await broker.advance(1000)
    for _ in range(2):
        processes.work()
        await run_until_idle()
    topics = [order.directory.rpartition("/")[2] for order in processes.orders]
    assert topics == ["b-0", "c-0", "a-0"]
    assert broker.parts.replicas.cleaning.dirtiest_ratio < 0.7
    processes.results[-1].cancel()


@scenario(BACKOFF, "log.cleaner.threads=2")
async def test_log_cleaner_threads_bounds_the_compactions(broker: MemoryBroker) -> None:
    processes = HeldProcesses(broker)
    for name in ("a", "b", "c"):
        await broker.create(name, configs=COMPACT)
        await fill(broker, name)
    await broker.advance(1000)
    assert len({order.directory for order in processes.orders}) == len(processes.orders) == 2
    assert {order.limits.map_bytes for order in processes.orders} == {64 << 20}
    assert {order.limits.read_bytes for order in processes.orders} == {128 << 10}
    await broker.advance(5000)
    assert len(processes.orders) == 2
    processes.results[0].cancel()
    processes.results[1].cancel()


@scenario(BACKOFF, "log.cleaner.threads=0")
async def test_log_cleaner_threads_can_be_changed(broker: MemoryBroker) -> None:
    await broker.create("t", configs=COMPACT)
    await fill(broker)
    await broker.advance(5000)
    assert clean_upto(broker) is None
    settings = broker.instance.live.now
    broker.instance.live.change(replace(settings, log_cleaner_threads=2))
    await broker.advance(1)
    assert clean_upto(broker)
    assert sum(name.startswith("log cleaner") for name in broker.tasks.names) == 2
    broker.instance.live.change(replace(settings, log_cleaner_threads=1))
    await broker.advance(1000)
    assert [name for name in broker.tasks.names if name.startswith("log")] == ["log cleaner 0"]


@scenario(BACKOFF, "log.cleaner.enable=false")
async def test_log_cleaner_enable_false(broker: MemoryBroker) -> None:
    await broker.create("t", configs=COMPACT)
    await fill(broker)
    await broker.advance(5000)
    assert clean_upto(broker) is None


# --- changes meanwhile


@scenario(BACKOFF)
async def test_a_topic_deleted_and_created_during_a_compaction_is_unchanged(
    broker: MemoryBroker,
) -> None:
    processes = await under_way(broker)
    await broker.ask("DeleteTopics", 5, topic_names=["t"], timeout_ms=5000)
    await broker.create("t", configs=COMPACT)
    await fill(broker)
    before = read_all(broker.replica().log)
    processes.listeners[0](Progress("indexing", 1, 2))
    await run_until_idle()
    assert processes.results[0].cancelled(), "it learns of it with its next news"
    assert read_all(broker.replica().log) == before
    assert clean_upto(broker) is None
    await broker.advance(1000)
    processes.work()
    await run_until_idle()
    assert clean_upto(broker)


@scenario(BACKOFF)
async def test_nothing_is_swapped_into_a_truncated_log(broker: MemoryBroker) -> None:
    processes = await under_way(broker)
    log = broker.replica().log
    run_at_once(broker.parts.replicas.logs.truncate_in_steps(log, 10))
    before = read_all(log)
    processes.listeners[0](Progress("indexing", 1, 2))
    await run_until_idle()
    assert processes.results[0].cancelled()
    assert read_all(log) == before
    assert not log.compaction.running


@scenario(BACKOFF)
async def test_a_compaction_ends_when_the_cleanup_policy_changes(broker: MemoryBroker) -> None:
    processes = await under_way(broker)
    log = broker.replica().log
    before = read_all(log)
    log.configure(replace(log.settings, cleanup_policy=("delete",)))
    compact(InlineWorker(processes.listeners[0]), broker.fs, processes.orders[0])
    await run_until_idle()
    assert processes.results[0].cancelled()
    assert read_all(log) == before
    assert not log.compaction.running


@scenario(BACKOFF, "log.initial.task.delay.ms=0", "log.retention.check.interval.ms=100")
async def test_retention_waits_for_the_compaction(broker: MemoryBroker) -> None:
    processes = HeldProcesses(broker)
    both = COMPACT | {"cleanup.policy": "compact,delete", "retention.bytes": "1000"}
    await broker.create("t", configs=both)
    await fill(broker)
    await broker.advance(1000)
    if not processes.orders:
        pytest.fail("there was something to compact")
    log = broker.replica().log
    await fill(broker)
    segments = log.segment_count
    await broker.advance(500)
    assert log.segment_count == segments
    processes.results[0].cancel()
    await run_until_idle()
    await broker.advance(500)
    assert log.segment_count < segments


@scenario(BACKOFF)
async def test_unflushed_records_are_not_compacted(broker: MemoryBroker) -> None:
    """It might be gone after a power cut, and with it all of a key that had been on the disk."""
    await broker.create("t", configs=COMPACT)
    broker.replica().flushing = True  # and stays so: nothing gets to the disk
    await fill(broker)
    processes = HeldProcesses(broker)
    await broker.advance(3000)
    assert not processes.orders
    broker.replica().flushing = False
    await broker.advance(2000)
    assert processes.orders[0].end_offset == broker.replica().log.recovery_point


@scenario(BACKOFF)
async def test_a_stop_ends_the_compaction(broker: MemoryBroker) -> None:
    processes = await under_way(broker)
    await broker.restart()
    assert processes.results[0].cancelled()


def left(broker: MemoryBroker) -> list[str]:
    """What runs have left in the log's directory."""
    names = broker.fs.list_dir(broker.replica().log.directory)
    return [name for name in names if name.endswith((".cleaned", ".swap"))]


@pytest.mark.parametrize(
    "failure", [CorruptLogError("0.log", 0, "why"), ProcessLost("killed"), RuntimeError(), None]
)
@scenario(BACKOFF)
async def test_files_of_a_failed_compaction_are_removed(
    broker: MemoryBroker, failure: Exception | None
) -> None:
    processes = await under_way(broker)
    log = broker.replica().log
    broker.fs.create(f"{log.directory}/{0:020d}.log.cleaned").pwrite(b"half", 0)
    if failure is None:  # the log is to be compacted no more
        log.configure(replace(log.settings, cleanup_policy=("delete",)))
        processes.listeners[0](Progress("indexing", 1, 2))
    else:
        processes.results[0].set_exception(failure)
    await run_until_idle()
    assert processes.results[0].done() and not log.compaction.running
    assert not left(broker) and processes.tidied == [log.directory]


@scenario(BACKOFF)
async def test_files_that_cannot_be_removed_are_logged(
    broker: MemoryBroker, caplog: pytest.LogCaptureFixture
) -> None:
    processes = await under_way(broker)
    broker.fs.create(f"{broker.replica().log.directory}/{0:020d}.log.cleaned")
    broker.fs.faults.append(Fault("remove", ".cleaned"))
    processes.results[0].set_exception(ProcessLost("killed"))
    await run_until_idle()
    assert "can't remove files of an abandoned compaction from /data/t-0" in caplog.text
    await broker.advance(1000)
    processes.work()
    await run_until_idle()
    assert clean_upto(broker) and not left(broker), "the next run does it"


# --- failures


@scenario(BACKOFF)
async def test_a_log_that_cannot_be_examined_does_not_delay_others(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("t", "u"):
        await broker.create(name, configs=COMPACT)
        await fill(broker, name)

    def examine_but_t(replica: Replica, now_ms: int) -> Cleanable:
        if replica.key[0] == "t":
            raise ValueError("odd")
        return examine(replica, now_ms)

    monkeypatch.setattr(log_cleaner, "examine", examine_but_t)
    await broker.advance(1000)
    assert clean_upto(broker, "u")
    assert list(broker.parts.replicas.cleaning.uncleanable) == [broker.replica("t")]
    assert "marked t-0 uncleanable until restart" in caplog.text and "odd" in caplog.text


@scenario("log.cleaner.enable=false")
async def test_a_failed_thread_is_counted_until_it_is_restarted(broker: MemoryBroker) -> None:
    """Both threads of a cleaner whose checkpoints fail."""
    for name in ("t", "u"):
        await broker.create(name, configs=COMPACT)
        await fill(broker, name)
    settings = replace(broker.instance.live.now, log_cleaner_enable=True, log_cleaner_threads=2)
    live, parts = LiveSettings(settings), broker.parts

    async def fail() -> None:
        raise ValueError("odd")

    cleaner = LogCleaner(
        live,
        fs=broker.fs,
        replicas=parts.replicas,
        clock=broker.clock,
        tasks=broker.tasks,
        jobs=broker.jobs,
        checkpoint=fail,
    )
    cleaner.start()
    await run_until_idle(200)
    dead = parts.replicas.cleaning.dead
    assert sorted(dead) == [0, 1]
    live.change(replace(settings, log_cleaner_threads=3))
    await run_until_idle()
    assert not dead
    assert [type(failure) for failure in broker.tasks.failures] == [ValueError] * 2
    broker.tasks.failures.clear()
    await cleaner.stop()


@scenario(BACKOFF)
async def test_a_corrupt_log_is_marked_uncleanable(
    broker: MemoryBroker, caplog: pytest.LogCaptureFixture
) -> None:
    processes = await under_way(broker)
    failure = CorruptLogError("/data/t-0/0.log", 0, "its checksum is wrong")
    processes.results[0].set_exception(failure)
    await broker.advance(10_000)
    assert len(processes.orders) == 1
    assert list(broker.parts.replicas.cleaning.uncleanable) == [broker.replica()]
    assert (
        "marked t-0 uncleanable until restart: /data/t-0/0.log has no batch at byte 0"
        in caplog.text
    )
    assert not broker.replica().offline, "what is sound of it can be read"


@scenario(BACKOFF)
async def test_a_log_with_an_unexpected_failure_does_not_delay_others(
    broker: MemoryBroker, caplog: pytest.LogCaptureFixture
) -> None:
    processes = await under_way(broker)
    processes.results[0].set_exception(RuntimeError("CorruptFileError: 0.txnindex"))
    await broker.create("u", configs=COMPACT)
    await fill(broker, "u")
    await broker.advance(10_000)
    assert [order.directory for order in processes.orders] == ["/data/t-0", "/data/u-0"]
    assert list(broker.parts.replicas.cleaning.uncleanable) == [broker.replica("t")]
    assert "marked t-0 uncleanable until restart" in caplog.text
    assert "0.txnindex" in caplog.text


@scenario(BACKOFF)
async def test_a_lost_process_is_restarted_after_the_backoff(
    broker: MemoryBroker, caplog: pytest.LogCaptureFixture
) -> None:
    processes = await under_way(broker)
    processes.results[0].set_exception(ProcessLost("it was killed"))
    await broker.advance(999)
    assert len(processes.orders) == 1
    assert "compaction of t-0 failed: it was killed" in caplog.text
    await broker.advance(1)
    processes.work()
    await run_until_idle()
    assert clean_upto(broker)


@scenario(BACKOFF)
async def test_a_failing_disk_takes_the_partition_offline(broker: MemoryBroker) -> None:
    await broker.create("t", configs=COMPACT)
    await fill(broker)
    replica = broker.replica()
    broker.fs.faults.append(Fault("rename", ".log.swap"))
    await broker.advance(1000)
    assert replica.offline
    broker.fs.faults.clear()


@scenario(BACKOFF)
async def test_a_failing_disk_of_the_process_takes_the_partition_offline(
    broker: MemoryBroker,
) -> None:
    await broker.create("t", configs=COMPACT)
    await fill(broker)
    replica = broker.replica()
    broker.fs.faults.append(Fault("create", ".cleaned"))
    await broker.advance(1000)
    assert replica.offline


# --- logging


@scenario(BACKOFF)
async def test_a_compaction_is_logged(
    broker: MemoryBroker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    await broker.create("t", configs={"internal.segment.bytes": "1000"})
    await fill(broker)
    await broker.produce(build([Written(None)]))
    await fill(broker)
    log = broker.replica().log
    log.configure(replace(log.settings, cleanup_policy=("compact",)))
    await broker.advance(1000)
    upto = clean_upto(broker)
    assert f"compacted t-0 from offset 0 to {upto} in " in caplog.text
    assert f"5 of {upto} records kept" in caplog.text
    assert "removed 1 records without a key from t-0" in caplog.text


@scenario(BACKOFF)
async def test_progress_is_logged(broker: MemoryBroker, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    processes = await under_way(broker)
    for second in range(1, 31):
        await broker.advance(1000)
        processes.listeners[0](Progress("indexing", second << 20, 64 << 20))
    lines = [record.message for record in caplog.records if "compacting" in record.message]
    assert lines[0] == "compacting t-0: indexing, 10 of 64 MB read, 1.0 MB/s"
    assert len(lines) == 3
    processes.results[0].cancel()


@scenario(BACKOFF)
async def test_the_cleaner_checkpoint_survives_a_power_cut(broker: MemoryBroker) -> None:
    """Else what a tombstone has deleted is back, and once the tombstone goes it stays."""
    await broker.create("t", configs=COMPACT)
    await fill(broker)
    logs.flush(broker.replica().log)
    await broker.advance(1000)
    clean = clean_upto(broker)
    assert clean
    compacted_once = read_all(broker.replica().log)
    await broker.crash()
    await run_until_idle()
    assert clean_upto(broker) == clean
    assert read_all(broker.replica().log)[: len(compacted_once)] == compacted_once
