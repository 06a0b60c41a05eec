"""The life of a partition's log under faults: trouble, ends and beginnings, as a state machine.

What is done to the log meanwhile is defined by a subclass; see `log_model` for what must hold.
"""

from __future__ import annotations

import errno
import random
from collections.abc import Callable, Iterable

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from kavka.log.dir_names import CLEAN_SHUTDOWN_FILE
from kavka.log.memfs import Died, Fault, MemFs
from kavka.log.settings import FSYNC, SYSTEM
from support import compaction, logs
from support.compaction import Keyed
from support.log_model import FORGOTTEN, Batch, Expected, History, by_offset, together

IDEMPOTENT = 7
TRANSACTIONAL = (11, 12)
MORE = "/more"
DAY_MS = 24 * 3600 * 1000

OPS = ["pwrite", "create", "rename", "sync", "sync_dir", "remove", "open", "truncate"]
SUFFIXES = [".log", ".index", ".timeindex", ".snapshot", "checkpoint", ".cleaned", ".swap", ""]


class LogLife(RuleBasedStateMachine):
    """Small segments, and trouble that is armed by one rule and met by a later one.

    Subclasses do things to the log by `attempt`.
    """

    @initialize(
        segment_bytes=st.sampled_from([700, 2000, 20_000]),
        index_interval_bytes=st.sampled_from([0, 300]),
        policy=st.sampled_from([("delete",), ("compact",), ("compact", "delete")]),
        durability=st.sampled_from([SYSTEM, FSYNC]),
    )
    def begin(
        self,
        segment_bytes: int,
        index_interval_bytes: int,
        policy: tuple[str, ...],
        durability: str,
    ) -> None:
        self.settings = logs.settings(
            segment_bytes=segment_bytes,
            index_interval_bytes=index_interval_bytes,
            cleanup_policy=policy,
            kavka_durability=durability,
            delete_retention_ms=DAY_MS,
        )
        self.now_ms = logs.TIMESTAMP
        self.leader_epoch = 0
        self.count = 0
        self.power_cut: int | None = None  # whether an end is one of these, and with which tears
        self.fault: Fault | int = 0
        self.pending: Batch | None = None  # what is being written
        self.armed = False
        self.start_over()

    def start_over(self) -> None:
        """An empty log."""
        self.fs = MemFs()
        self.broker = logs.Broker(self.fs, log_settings=self.settings, more=[MORE])
        self.log = self.broker.log()
        self.is_loaded = False
        self.history = History()
        self.resumed: dict[int, int] = {}  # last sequences of producers without records here
        self.seen: dict[int, Keyed] = {}  # what the log shows
        self.gone: dict[int, Keyed] = {}  # removed, and may be back after an end in disorder
        self.durable = 0  # a power cut takes nothing below
        self.watermark = 0  # nothing below is ever truncated
        self.dense_from = 0  # nothing was compacted from here on

    @property
    def compacts(self) -> bool:
        return "compact" in self.settings.cleanup_policy

    # --- trouble

    @precondition(lambda self: not self.armed)
    @rule(
        op=st.sampled_from(OPS),
        suffix=st.sampled_from(SUFFIXES),
        error=st.sampled_from([errno.EIO, errno.ENOSPC]),
        skip=st.integers(0, 3),
        tears=st.none() | st.integers(0, 99),
    )
    def arm_a_fault(self, op: str, suffix: str, error: int, skip: int, tears: int | None) -> None:
        self.armed = True
        self.power_cut = tears
        self.fault = Fault(op, suffix, error=error, skip=skip)

    @precondition(lambda self: not self.armed)
    @rule(dies_after=st.integers(0, 25), tears=st.none() | st.integers(0, 99))
    def arm_a_death(self, dies_after: int, tears: int | None) -> None:
        self.armed = True
        self.power_cut = tears
        self.fault = dies_after

    def attempt(
        self,
        work: Callable[[], object],
        *,
        adds: Iterable[Keyed] = (),
        loses: Iterable[int] = (),
        stays_usable: bool = False,
    ) -> bool:
        """Do something that trouble may meet; whether it was done.

        `adds`: what it writes; `loses`: which records it may take away. `stays_usable`: after an
        error of the disk the log is as it was before.
        """
        if self.armed:
            self.armed = False
            if isinstance(self.fault, Fault):
                self.fs.faults = [self.fault]
            else:
                self.fs.dies_after = self.fault
        try:
            work()
        except Died:
            self.end_in_disorder(adds, loses)
            return False
        except OSError:
            self.disarm()
            assert isinstance(self.fault, Fault), "nothing else makes the disk fail"
            self.after_a_fault()
            if stays_usable:
                self.look()
            else:
                self.end_in_disorder(adds, loses)
            return False
        self.disarm()
        return True

    def after_a_fault(self) -> None:
        """What the operating system takes for written after a failed fsync is gone with the power,
        even if the log is flushed again; without kavka.durability=fsync nothing sees to that. So
        the power goes."""
        is_sync = isinstance(self.fault, Fault) and self.fault.op == "sync"
        if is_sync and self.settings.kavka_durability == SYSTEM:
            self.power_cut = 0

    def disarm(self) -> None:
        self.fs.faults = []
        self.fs.dies_after = None

    # --- ends and beginnings

    def end_in_disorder(self, adds: Iterable[Keyed] = (), loses: Iterable[int] = ()) -> None:
        """The process or the machine ends and starts again; what is there has to fit."""
        added = by_offset(adds)
        taken = set(loses)
        cut = self.power_cut is not None
        kept = {o: record for o, record in self.seen.items() if not cut or o < self.durable}
        may_have_holes = cut and self.compacts
        expected = Expected(
            {o: record for o, record in kept.items() if o not in taken},
            together(self.gone, self.seen, added),
            self.history.end + 1 if may_have_holes else self.dense_from,
        )
        least_end = min([self.durable if cut else self.history.end, *taken])
        start = self.log.start_offset
        self.disarm()
        if cut:
            self.fs.crash(random.Random(self.power_cut) if self.power_cut else None)
        else:
            self.fs.kill()
        self.start()
        found = by_offset(compaction.read_all(self.log))
        expected.check(list(found.values()))
        end = self.log.end_offset
        assert least_end <= end <= self.history.end + len(added)
        if may_have_holes and (found != self.seen or self.log.start_offset < start):
            # what was not flushed may have gone from between two segments, or from a deleted one
            # that is back: which transactions and producers are known then is hard to say
            self.start_over()
            return
        if added and end > self.history.end:
            self.appended_after_all(end)
        self.history.cut(end)
        if end > self.history.end:
            assert end == self.log.start_offset, "the log ends within a batch"
            # it has lost its end to where it was to begin: nothing is there, ever
            self.history.batches.append(Batch(self.history.end, end - 1))
        self.gone = {} if cut else (self.gone | self.seen).copy()
        for offset in found:
            self.gone.pop(offset, None)
        self.seen = found
        self.durable = min(self.durable, end)
        self.watermark = min(self.watermark, end)
        self.look_at_producers()

    def start(self) -> None:
        """Start, now and then with another end in the middle of it."""
        if self.count % 3 == 0:
            self.fs.dies_after = self.count % 17
        try:
            self.broker.start()
        except Died:
            if self.count % 2 and self.power_cut is not None:
                self.fs.crash(random.Random(self.count))
            else:
                self.fs.kill()
            self.broker.start()
        self.disarm()
        self.log = self.broker.log()
        self.is_loaded = True
        self.leader_epoch += 1
        self.log.assign_epoch(self.leader_epoch, self.log.end_offset)

    def write_back(self) -> None:
        """Time passes, and the system writes what is in the files and in the directory."""
        directory = self.log.directory
        for name in self.fs.list_dir(directory):
            self.fs.sync_file(f"{directory}/{name}")
        self.fs.sync_dir(directory)
        self.gone = {}

    def appended_after_all(self, end: int) -> None:
        """The batch that was being written when the end came is there as a whole."""
        assert self.pending is not None
        assert self.pending.last + 1 == end
        self.history.batches.append(self.pending)

    @rule(tears=st.none() | st.integers(0, 99))
    def ends_between_two_steps(self, tears: int | None) -> None:
        self.power_cut = tears
        self.armed = False
        self.end_in_disorder()

    @rule()
    def restart(self) -> None:
        if not self.attempt(lambda: self.broker.logs.close()):
            return
        directory = self.broker.logs.directory_of(self.log)
        if not self.fs.exists(f"{directory}/{CLEAN_SHUTDOWN_FILE}"):
            self.after_a_fault()
            self.end_in_disorder()  # it could not be closed in order, and says so
        else:
            self.durable = self.history.end
            self.gone = {}
            self.broker.start()
            self.log = self.broker.log()
            self.is_loaded = True
            self.look()
            self.look_at_producers()

    # --- what must hold

    @rule()
    def look(self) -> None:
        """The log shows what it should and nothing else."""
        assert self.log.end_offset == self.history.end
        found = compaction.read_all(self.log)
        assert found == [self.seen[offset] for offset in sorted(self.seen)]

    def look_at_producers(self) -> None:
        """Each producer goes on where it stopped, as long as its last batch is there."""
        states = {state.producer_id: state for state in self.log.producers}
        for producer in (IDEMPOTENT, *TRANSACTIONAL):
            last = self.history.last_of(producer)
            state = states.get(producer)
            if last is None:
                assert state is None or producer in self.resumed, "this producer never wrote"
                self.resumed[producer] = -1 if state is None else state.last_sequence
            elif last.first >= self.log.start_offset:
                assert state is not None and state.last_sequence == last.sequence
            elif state is not None and state.last_sequence >= 0:
                assert state.last_sequence == last.sequence
            else:
                # forgotten with its records, but for a marker perhaps: it starts over, or goes on
                # where it was, should an older snapshot show up again
                self.resumed[producer] = -1
                self.history.batches = [
                    batch._replace(producer=FORGOTTEN) if batch.producer == producer else batch
                    for batch in self.history.batches
                ]
