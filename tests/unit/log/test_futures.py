"""Logs that move to another log directory: after a power failure, a kill and a failed fsync."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import replace

import pytest

from kavka.log import dir_names as names
from kavka.log import future_log_copier
from kavka.log.errors import DeletionError, StorageError
from kavka.log.file_copying import SourceError, copy_bytes
from kavka.log.fs import File, FileSystem
from kavka.log.future_log_copier import FutureLogCopier
from kavka.log.memfs import Fault, MemFs
from kavka.log.partition_log import PartitionLog
from kavka.log.settings import FSYNC
from kavka.wire.steps import run_at_once
from support import logs
from support.logs import Broker, Producer, append, batch, fill, flush, read_from

HERE, THERE = "/data", "/more"
KEY = ("t", 0)
SETTINGS = logs.settings(segment_bytes=1000, index_interval_bytes=200)


@pytest.fixture
def broker() -> Broker:
    return Broker(MemFs(), HERE, log_settings=SETTINGS, more=[THERE])


def copied(broker: Broker, log: PartitionLog, directory: str = THERE) -> FutureLogCopier:
    """A copy with all that the log has now, as `kavka.server.replica.log_dir_moves` makes it."""
    futures = broker.logs.futures
    copy = futures.get(KEY) or futures.begin(log, directory)
    if copy.copier is None:
        futures.resume(copy, log)
    assert copy.copier is not None
    copy_all(copy.copier)
    broker.logs.checkpoint({}).run()
    complete(copy.copier)
    return copy.copier


def copy_all(copier: FutureLogCopier) -> None:
    while (step := copier.next()) is not None:
        step.run()
    copier.complete(moved_file=False).run()


def complete(copier: FutureLogCopier) -> None:
    while (step := copier.next()) is not None:
        step.run()
    copier.complete(moved_file=True).run()


def moved(broker: Broker, log: PartitionLog, directory: str = THERE) -> None:
    """The log goes on in its copy; what it has left is still there."""
    assert copied(broker, log, directory).is_ready
    broker.logs.promote(log)


def values(log: PartitionLog) -> list[int]:
    return [int(record.value or b"-1") for record in read_from(log, log.start_offset)]


def logs_in(broker: Broker, directory: str) -> list[str]:
    """Names of logs, deleted ones left out."""
    fs = broker.fs
    found = [n for n in fs.list_dir(directory) if fs.is_dir(f"{directory}/{n}")]
    return [name for name in found if not names.is_deleted(name)]


def test_a_log_continues_in_its_future_replica(broker: Broker) -> None:
    log = broker.log()
    fill(log, 30)
    assert log.segment_count > 3
    before = log.read(0, 300, upto=30, at_least_one=True)
    assert before is not None
    begun = logs.bytes_of(before)
    moved(broker, log)
    assert log.directory == f"{THERE}/t-0"
    assert (broker.logs.get(*KEY), broker.logs.directory_of(log)) == (log, THERE)
    fill(log, 30, start=30)
    assert values(log) == list(range(60))
    assert logs.bytes_of(before) == begun, "readers of the old file can read on"
    broker.logs.futures.delete_source_durably(KEY)
    logs.purge(broker.logs)
    assert logs_in(broker, HERE) == []
    assert values(log) == list(range(60))
    broker.restart()
    assert values(broker.log()) == list(range(60))
    assert broker.log().directory == f"{THERE}/t-0"


def test_producer_states_and_epochs_move_with_the_log(broker: Broker) -> None:
    log = broker.log()
    first = batch([b"1"], producer=Producer(7, 0, 0))
    append(log, memoryview(bytearray(first)), leader_epoch=3)
    moved(broker, log)
    again = append(log, memoryview(bytearray(first)), leader_epoch=3)
    assert (again.duplicate, again.base_offset) == (True, 0)
    append(log, batch([b"2"], producer=Producer(7, 0, 1)), leader_epoch=5)
    assert logs.epoch_entries(log) == [(3, 0), (5, 1)]
    broker.kill()
    log = broker.log()
    assert log.directory == f"{THERE}/t-0"
    assert append(log, first, leader_epoch=5).duplicate
    assert logs.epoch_entries(log) == [(3, 0), (5, 1)]


def test_data_flushed_after_a_move_survives_a_power_failure(broker: Broker) -> None:
    log = broker.log()
    fill(log, 10)
    flush(log)
    moved(broker, log)
    fill(log, 5, start=10)
    flush(log)
    broker.crash()
    assert values(broker.log()) == list(range(15))


def test_data_flushed_before_a_move_survives_a_power_failure(broker: Broker) -> None:
    log = broker.log()
    fill(log, 25)
    flush(log)
    moved(broker, log)
    broker.fs.sync_dir(THERE)
    broker.logs.futures.delete_source(KEY)
    broker.fs.sync_dir(HERE)
    broker.crash()
    assert broker.log().directory == f"{THERE}/t-0"
    assert values(broker.log()) == list(range(25))


def test_a_copy_that_lacks_flushed_data_is_not_promoted(broker: Broker) -> None:
    log = broker.log()
    fill(log, 7)
    copier = copied(broker, log)
    assert copier.is_ready
    fill(log, 1, start=7)
    assert copier.is_ready, "what is not flushed may be copied at once"
    flush(log)
    assert not copier.is_ready
    complete(copier)
    assert copier.is_ready


def test_after_a_kill_the_promoted_copy_stays_current(broker: Broker) -> None:
    log = broker.log()
    fill(log, 10)
    flush(log)
    moved(broker, log)
    fill(log, 3, start=10)
    assert (logs_in(broker, HERE), logs_in(broker, THERE)) == (["t-0"], ["t-0"])
    broker.kill()
    assert broker.log().directory == f"{THERE}/t-0"
    assert values(broker.log()) == list(range(13))
    assert logs_in(broker, HERE) == []
    broker.crash()
    assert values(broker.log())[:10] == list(range(10))


def test_truncated_records_do_not_reappear_in_the_copy(broker: Broker) -> None:
    log = broker.log()
    fill(log, 10)
    left = log.directory
    moved(broker, log)
    for name in broker.fs.list_dir(left):  # the system has written unflushed data
        broker.fs.sync_file(f"{left}/{name}")
    broker.fs.sync_dir(left)
    broker.fs.sync_dir(HERE)
    run_at_once(broker.logs.truncate_in_steps(log, 4))
    broker.crash()
    assert values(broker.log()) == list(range(4))


def test_a_copy_after_a_failed_fsync_is_not_reused() -> None:
    """The pages count as written then, although they are not."""
    settings = logs.settings(segment_bytes=1000, kavka_durability=FSYNC)
    fs = MemFs()
    broker = Broker(fs, HERE, log_settings=settings, more=[THERE])
    log = broker.log()
    fill(log, 25)
    flush(log)
    fs.faults = [Fault("sync", "-future/00000000000000000000.log")]
    with pytest.raises(OSError):
        copied(broker, log)
    broker.kill()
    log = broker.log()
    moved(broker, log)
    broker.logs.futures.delete_source_durably(KEY)
    broker.crash()
    assert values(broker.log()) == list(range(25))


def test_a_copy_that_was_left_behind_is_kept(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = broker.log()
    fill(log, 40)
    assert copied(broker, log).size_bytes == log.size_bytes
    broker.kill()
    log = broker.log()
    fill(log, 1, start=40)
    (copy,) = broker.logs.futures
    broker.logs.futures.resume(copy, log)
    assert copy.copier is not None
    written: list[int] = []

    def counted(fs: FileSystem, source: File, path: str, begin: int, end: int) -> File:
        if path.endswith(".log"):
            written.append(end - begin)
        return copy_bytes(fs, source, path, begin, end)

    monkeypatch.setattr(future_log_copier, "copy_bytes", counted)
    copy_all(copy.copier)
    assert copy.copier.size_bytes == log.size_bytes
    assert sum(written) == log.size_bytes // 41, "one record is new"


@pytest.mark.parametrize("damage", ["other bytes", "too long", "another segment"])
def test_a_copy_that_differs_from_the_log_is_copied_again(broker: Broker, damage: str) -> None:
    log = broker.log()
    fill(log, 40)
    copier = copied(broker, log)
    broker.kill()
    first = f"{copier.path}/00000000000000000000.log"
    if damage == "another segment":
        broker.fs.create(f"{copier.path}/00000000000000000003.log").pwrite(b"x", 0)
    else:
        size = broker.fs.size(first)
        broker.fs.open(first).pwrite(b"xyz", size if damage == "too long" else size // 2)
    log = broker.log()
    moved(broker, log)
    broker.logs.futures.delete_source_durably(KEY)
    broker.restart()
    assert values(broker.log()) == list(range(40))


def test_a_truncated_log_is_copied_as_it_is_then(broker: Broker) -> None:
    log = broker.log()
    fill(log, 40)
    copy = broker.logs.futures.begin(log, THERE)
    assert copy.copier is not None
    copy_all(copy.copier)
    run_at_once(broker.logs.truncate_in_steps(log, 12))
    assert copy.copier.flushed_end == 0 or not copy.copier.is_ready
    fill(log, 28, start=100)
    moved(broker, log)
    assert values(log) == [*range(12), *range(100, 128)]
    broker.kill()
    assert values(broker.log()) == [*range(12), *range(100, 128)]


def test_deleted_segments_are_deleted_from_the_copy(broker: Broker) -> None:
    log = broker.log()
    fill(log, 40)
    copier = copied(broker, log)
    assert copier.is_ready
    log.advance_start(25)
    assert log.delete_old(logs.TIMESTAMP, 40) > 2
    assert not copier.is_ready
    moved(broker, log)
    assert values(log) == list(range(25, 40))
    assert min(n for n in broker.fs.list_dir(log.directory) if n.endswith(".log")) > "0" * 19 + "1"
    broker.kill()
    assert [value for value in values(broker.log()) if value >= 25] == list(range(25, 40))


def test_indexes_that_are_rebuilt_after_they_were_copied(broker: Broker) -> None:
    """A damaged one is, at its next use."""
    log = broker.log()
    fill(log, 23)
    copier = copied(broker, log)
    assert copier.is_ready
    log.configure(replace(SETTINGS, index_interval_bytes=0))
    for segment in log._segments:
        segment.rebuild_indexes()
    assert not copier.is_ready
    complete(copier)
    assert copier.is_ready
    broker.logs.promote(log)
    assert values(log) == list(range(23))
    for number in range(23):
        found = log.batch_for_timestamp(logs.TIMESTAMP + number)
        assert found is not None and found.base_offset == number


def test_the_progress_of_a_copy(broker: Broker) -> None:
    log = broker.log()
    fill(log, 40)
    copy = broker.logs.futures.begin(log, THERE)
    copier = copy.copier
    assert copier is not None
    progress = [(copier.size_bytes, copier.end_offset)]
    while (step := copier.next(400)) is not None:
        step.run()
        progress.append((copier.size_bytes, copier.end_offset))
    assert progress[0] == (0, 0)
    assert progress[-1] == (log.size_bytes, 40)
    assert progress == sorted(progress)
    per_record = log.size_bytes // 40
    for size, end in progress:
        assert end <= size // per_record <= end + 10, "it never claims to have more than it has"


def test_a_copy_is_truncated_to_whole_batches_at_a_shutdown(broker: Broker) -> None:
    log = broker.log()
    fill(log, 40)
    copy = broker.logs.futures.begin(log, THERE)
    assert copy.copier is not None
    for _ in range(6):
        step = copy.copier.next(333)
        assert step is not None
        step.run()
    step = copy.copier.truncate_to_whole_batch()
    assert step is not None
    step.run()
    records = []
    for name in broker.fs.list_dir(copy.path):
        if name.endswith(".log"):
            data = broker.fs.read_bytes(f"{copy.path}/{name}")
            records += logs.parse(data)
            assert sum(len(data) for _ in [0]) % (log.size_bytes // 40) == 0
    assert [int(record.value or b"-1") for record in records] == list(range(len(records)))
    assert records


def two_logs(broker: Broker, *marked: str) -> None:
    """The same log in two directories."""
    log = broker.log()
    fill(log, 3)
    flush(log)
    broker.logs.close()
    fs = broker.fs
    fs.make_dir(f"{THERE}/t-0")
    for name in fs.list_dir(f"{HERE}/t-0"):
        data = fs.read_bytes(f"{HERE}/t-0/{name}")
        fs.create(f"{THERE}/t-0/{name}").pwrite(data, 0)
    for directory in marked:
        fs.create(f"{directory}/t-0/{names.MOVED_FILE}")


@pytest.mark.parametrize("marked", [(), (HERE, THERE)])
def test_two_logs_of_equal_rank_are_refused(broker: Broker, marked: tuple[str, ...]) -> None:
    two_logs(broker, *marked)
    with pytest.raises(StorageError, match=r"t-0 is in /data and in /more: remove one"):
        broker.start()


@pytest.mark.parametrize("marked", [HERE, THERE])
def test_of_two_logs_the_marked_one_is_loaded(broker: Broker, marked: str) -> None:
    two_logs(broker, marked)
    broker.start()
    assert broker.log().directory == f"{marked}/t-0"
    assert values(broker.log()) == [0, 1, 2]


def test_a_log_is_not_marked_when_it_moves_on(broker: Broker) -> None:
    log = broker.log()
    fill(log, 3)
    moved(broker, log)
    broker.logs.futures.delete_source_durably(KEY)  # a crash came before the mark was taken away
    moved(broker, log, HERE)
    broker.kill()
    assert broker.log().directory == f"{HERE}/t-0"


def test_a_log_is_made_where_it_was_asked_for(broker: Broker) -> None:
    broker.logs.futures.prefer(KEY, THERE)
    assert broker.log().directory == f"{THERE}/t-0"
    broker.logs.futures.prefer(("u", 0), THERE)
    broker.logs.fail(THERE, OSError(errno.EIO, "broken"))
    assert broker.log("u").directory == f"{HERE}/u-0"


def test_deleting_a_log_deletes_its_copies(broker: Broker) -> None:
    log = broker.log()
    fill(log, 3)
    broker.logs.futures.begin(log, THERE)
    broker.logs.delete(*KEY)
    assert (logs_in(broker, HERE), logs_in(broker, THERE)) == ([], [])
    log = broker.log()
    fill(log, 3)
    there = THERE if broker.logs.directory_of(log) == HERE else HERE
    moved(broker, log, there)
    broker.logs.delete(*KEY)
    assert (logs_in(broker, HERE), logs_in(broker, THERE)) == ([], [])


def test_the_copy_of_a_log_that_is_lost_can_be_deleted(broker: Broker) -> None:
    log = broker.log()
    fill(log, 3)
    broker.logs.futures.begin(log, THERE)
    assert isinstance(broker.fs, MemFs)
    broker.fs.kill()
    broker.fs.remove_tree(f"{HERE}/t-0")
    broker.start()
    assert (broker.logs.get(*KEY), len(logs_in(broker, THERE))) == (None, 1)
    broker.logs.delete(*KEY)
    assert (logs_in(broker, HERE), logs_in(broker, THERE)) == ([], [])


@pytest.mark.parametrize("is_complete", [False, True])
def test_what_can_not_be_deleted_names_its_log_directory(broker: Broker, is_complete: bool) -> None:
    log = broker.log()
    fill(log, 3)
    if is_complete:
        moved(broker, log)
        other, left = HERE, f"{HERE}/t-0"
    else:
        other, left = THERE, broker.logs.futures.begin(log, THERE).path
    assert isinstance(broker.fs, MemFs)
    broker.fs.faults = [Fault("rename", left)]
    with pytest.raises(DeletionError) as raised:
        broker.logs.delete(*KEY)
    assert raised.value.directory == other
    assert broker.logs.get(*KEY) is log


def failing_read(broker: Broker, log: PartitionLog, copier: FutureLogCopier) -> None:
    assert isinstance(broker.fs, MemFs)
    broker.fs.faults = [Fault("pread", f"{log.directory}/00000000000000000000.log")]
    copy_all(copier)


def failing_write(broker: Broker, log: PartitionLog, copier: FutureLogCopier) -> None:
    assert isinstance(broker.fs, MemFs)
    broker.fs.faults = [Fault("pwrite", "-future/00000000000000000000.log")]
    copy_all(copier)


@pytest.mark.parametrize(("act", "error"), [(failing_read, SourceError), (failing_write, OSError)])
def test_errors_name_the_directory_that_failed(
    broker: Broker,
    act: Callable[[Broker, PartitionLog, FutureLogCopier], None],
    error: type[Exception],
) -> None:
    log = broker.log()
    fill(log, 3)
    copy = broker.logs.futures.begin(log, THERE)
    assert copy.copier is not None
    with pytest.raises(error):
        act(broker, log, copy.copier)
    copy_all(copy.copier)
    assert copy.copier.size_bytes == log.size_bytes
