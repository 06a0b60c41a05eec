"""Cleaned segments replace others: nothing is lost at any step."""

from __future__ import annotations

import errno
import random
from dataclasses import replace
from typing import Any

import pytest

from kavka.compat_tests.raw.codec.batches import Written, build
from kavka.log.compaction import cleaned
from kavka.log.compaction.order import Replacement
from kavka.log.compaction.run import compact
from kavka.log.compaction.swap import fits
from kavka.log.memfs import Fault, MemFs
from kavka.log.partition_log import PartitionLog
from kavka.log.segments import SegmentList
from support import logs
from support.compaction import Keyed, clean, compacted, order, read_all
from support.logs import Broker
from support.virtual import InlineWorker

SETTINGS = logs.settings(cleanup_policy=("compact",), segment_bytes=3000, index_interval_bytes=200)


class Ready:
    """A log whose segments were rewritten: one replacement remains to be swapped in."""

    def __init__(self) -> None:
        self.fs = MemFs()
        self.broker = Broker(self.fs, log_settings=SETTINGS)
        self.log = self.broker.log()
        chance = random.Random(1)
        for number in range(200):
            self.write(b"key-%d" % chance.randrange(20), b"value %d" % number)
        producer = logs.Producer(7, 0, 0)
        batch = logs.batch([b"x"], keys=[b"a"], producer=producer, transactional=True)
        logs.append(self.log, batch)
        logs.end_transaction(self.log, producer, commit=False)
        for number in range(100):
            self.write(b"key-%d" % chance.randrange(20), b"later %d" % number)
        logs.flush(self.log)
        self.log.configure(replace(SETTINGS, segment_bytes=1 << 20))  # one group of all
        self.before = read_all(self.log)
        self.replacements: list[Any] = []
        compaction_order = order(self.log)
        outcome = compact(InlineWorker(self.replacements.append), self.fs, compaction_order)
        self.after = compacted(self.before, 0, outcome.end_offset)
        self.after = [record for record in self.after if record.value != b"x"]

    def write(self, key: bytes, value: bytes) -> None:
        logs.append(self.log, memoryview(build([Written(key, value)])))

    def swap(self) -> None:
        for replacement in self.replacements:
            assert self.log.compaction.replace(self.log.settings, replacement, 0)

    def read(self) -> list[Keyed]:
        return read_all(self.broker.log())


def names(log: PartitionLog, fs: MemFs) -> list[str]:
    return [name for name in fs.list_dir(log.directory) if name[:1].isdigit()]


def test_readers_see_the_new_segments_at_once() -> None:
    ready = Ready()
    assert len(ready.replacements) == 1
    assert len(ready.replacements[0].old) > 3
    ready.swap()
    assert ready.read() == ready.after != ready.before
    left = names(ready.log, ready.fs)
    assert [name for name in left if name.endswith((".cleaned", ".swap"))] == []
    assert len([name for name in left if name.endswith(".log")]) == ready.log.segment_count


def test_open_reads_of_replaced_segments_continue() -> None:
    ready = Ready()
    found = ready.log.read(0, 1 << 20, upto=ready.log.end_offset, at_least_one=True)
    assert found is not None
    data = logs.bytes_of(found)
    ready.swap()
    assert logs.bytes_of(found) == data


def test_old_files_wait_for_their_removal_and_old_snapshots_go() -> None:
    ready = Ready()
    ready.swap()
    deleted = [name for name in names(ready.log, ready.fs) if name.endswith(".deleted")]
    assert len(deleted) >= 3 * len(ready.replacements[0].old)
    kept = {base for base, _ in ready.replacements[0].new}
    snapshots = {int(n[:20]) for n in names(ready.log, ready.fs) if n.endswith(".snapshot")}
    assert snapshots.isdisjoint(set(ready.replacements[0].old) - kept)
    logs.purge(ready.broker.logs)
    left = names(ready.log, ready.fs)
    assert [name for name in left if name.endswith(".deleted")] == []
    assert ready.read() == ready.after


def test_the_transaction_index_is_replaced_with_the_segments() -> None:
    ready = Ready()
    before = [
        list(segment.txns.entries())
        for segment in segments(ready.log)
        if segment.txns and segment.txns.count
    ]
    ready.swap()
    after = [
        list(segment.txns.entries())
        for segment in segments(ready.log)
        if segment.txns and segment.txns.count
    ]
    assert len(after) == 1
    assert after == before


def segments(log: PartitionLog) -> Any:
    return log.compaction._segments


@pytest.mark.parametrize("step", range(40))
def test_a_kill_at_any_step_leaves_the_old_or_the_new(step: int) -> None:
    ready = Ready()
    ready.fs.faults.append(Fault("rename", skip=step))
    try:
        ready.swap()
    except OSError:
        ready.fs.faults.clear()
        ready.broker.kill()
        assert ready.read() in (ready.before, ready.after)
        names_left = names(ready.broker.log(), ready.fs)
        assert [n for n in names_left if n.endswith((".cleaned", ".swap", ".deleted"))] == []
    else:
        assert step > 20, "a swap takes more renames"
        assert ready.read() == ready.after


@pytest.mark.parametrize("seed", range(60))
def test_a_power_failure_at_any_step_leaves_the_old_or_the_new(seed: int) -> None:
    chance = random.Random(seed)
    ready = Ready()
    ready.fs.faults.append(Fault("rename", skip=chance.randrange(40)))
    try:
        ready.swap()
    except OSError:
        pass
    ready.fs.faults.clear()
    ready.broker.crash(chance)
    assert ready.read() in (ready.before, ready.after)


@pytest.mark.parametrize("step", range(30))
def test_a_kill_while_one_segment_becomes_several_loses_nothing(
    step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first of them does not hold what is in the others."""
    monkeypatch.setattr(cleaned, "SIZE_MAX", 1000)
    ready = Ready()
    (replacement,) = ready.replacements
    assert len(replacement.new) > 1
    ready.fs.faults.append(Fault("rename", skip=step))
    with pytest.raises(OSError):
        ready.swap()
    ready.fs.faults.clear()
    ready.broker.kill()
    assert ready.read() in (ready.before, ready.after)


def test_too_many_open_files_change_nothing() -> None:
    """Unlike any other failure, which leaves the log to a restart."""
    refused = 0
    while True:
        ready = Ready()
        short = Fault("open", error=errno.EMFILE, skip=refused)
        ready.fs.faults.append(short)
        try:
            ready.swap()
        except OSError as failure:
            assert failure.errno == errno.EMFILE
            assert ready.read() == ready.before
            refused += 1
            ready.swap()  # there is a descriptor again
        ready.fs.faults.clear()
        assert ready.read() == ready.after
        assert [segment.txns.count for segment in segments(ready.log) if segment.txns.count] == [1]
        if short.times:
            break
    assert refused, "a transaction index was to be opened"


def test_it_does_not_fit_a_log_that_has_changed() -> None:
    ready = Ready()
    (replacement,) = ready.replacements
    segment_list = SegmentList(segments(ready.log))
    assert fits(segment_list, replacement)
    assert not fits(
        segment_list, Replacement(replacement.old[1:2] + replacement.old[3:4], replacement.new)
    ), "not neighbours"
    active = segment_list.active.base_offset
    assert not fits(segment_list, Replacement((active,), replacement.new)), "not closed"
    assert not fits(segment_list, Replacement((replacement.old[0] + 1,), replacement.new))
    segment_list.remove_oldest(1)
    assert not fits(segment_list, replacement), "one has gone"


@pytest.mark.parametrize("seed", range(60))
def test_an_end_at_any_moment_of_a_whole_compaction_loses_nothing(seed: int) -> None:
    """Of one that takes several swaps, some of which may have been made."""
    chance = random.Random(seed)
    fs = MemFs()
    broker = Broker(fs, log_settings=SETTINGS)
    for number in range(400):
        batch = build([Written(b"key-%d" % chance.randrange(200), b"value %d" % number)])
        logs.append(broker.log(), memoryview(batch))
    logs.flush(broker.log())
    before = read_all(broker.log())
    after = compacted(before, 0, order(broker.log()).end_offset)
    op = chance.choice(["create", "pwrite", "sync", "sync_dir", "rename", "open"])
    fs.faults.append(Fault(op, skip=chance.randrange(60)))
    try:
        clean(broker.log(), fs)
    except OSError:
        pass
    fs.faults.clear()
    if chance.random() < 0.5:
        broker.kill()
    else:
        broker.crash(chance)
    left = read_all(broker.log())
    assert set(after) <= set(left) <= set(before)
    assert left == sorted(left)
    clean(broker.log(), fs)
    assert read_all(broker.log()) == after
    broker.restart()
    assert read_all(broker.log()) == after
