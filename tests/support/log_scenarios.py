"""One partition's log in scenario files: commands of a leader, a cleaner and a broker's life.

Times are relative to `logs.TIMESTAMP`, as the records' timestamps. Below each command stands what
the log answers and what has changed: its offsets, segments, leader epochs, producers' states and
snapshots. A log that is the same again after a restart prints nothing.

    log segment.bytes=1700      the log of t-0, with these settings
    configure segment.bytes=500 other settings from now on
    fill 50                     batches of one record of 100 bytes, a millisecond apart
    append a - b                one batch with these values; `-` is null
    read 3                      the offsets that a consumer reads from there
    delete_old                  by retention.ms, retention.bytes and the log start offset
    restart, kill, crash        and a start: after a clean stop, SIGKILL, a power failure
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from itertools import groupby
from typing import Any, Final

from kavka.log.memfs import Fault, MemFs
from kavka.log.partition_log import PartitionLog
from kavka.log.settings import LogSettings
from kavka.log.txn_guards import NOT_NEEDED, Guard
from kavka.wire.errors import ApiError
from kavka.wire.steps import run_at_once
from support import logs
from support.logs import TIMESTAMP, Broker, Producer
from support.scenarios import Command, duration_ms

_NAMES: Final = {"cleanup_policy", "kavka_durability", "message_timestamp_type"}


def ranges(offsets: list[int]) -> str:
    """`0-3 5`."""
    runs = groupby(enumerate(offsets), key=lambda pair: pair[1] - pair[0])
    bounds = [[offset for _, offset in run] for _, run in runs]
    return " ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in bounds)


def settings_of(command: Command) -> LogSettings:
    """The settings that a command has as options, under Kafka's names."""
    changes: dict[str, Any] = {}
    for key in list(command.options):
        name, value = key.replace(".", "_"), command.text(key)
        if name == "cleanup_policy":
            changes[name] = tuple(command.list(key))
        elif name in _NAMES:
            changes[name] = value
        else:
            changes[name] = duration_ms(value) if value[-1].isalpha() else int(value)
    return logs.settings(**changes)


class LogMachine:
    """A broker with one log, on a disk in memory."""

    def __init__(self) -> None:
        self.fs = MemFs()
        self.broker: Broker
        self._shown: dict[str, str] = {}

    # -- what there is

    def _state(self) -> dict[str, str]:
        """What is shown when it changes, each under a name of its own."""
        log = self.broker.log()
        names = self.fs.list_dir(log.directory)
        bases = {name[:20] for name in names if name.endswith(".log")}
        indexes = [name for name in names if name.endswith("index")]
        assert all(name[:20] in bases for name in indexes), f"without a segment: {indexes}"
        stable = log.last_stable_offset(log.end_offset)
        epochs = (f"{epoch}@{start}" for epoch, start in logs.epoch_entries(log))
        aborted = (
            f"{producer}@{first}-{last} stable {stable_offset}"
            for producer, first, last, stable_offset in logs.aborted_entries(self.fs, log)
        )
        state = {
            "start": str(log.start_offset),
            "end": str(log.end_offset),
            "stable": "at the end" if stable == log.end_offset else str(stable),
            "flushed": str(log.recovery_point),
            "segments": _bases(self.fs, log, ".log"),
            "snapshots": _bases(self.fs, log, ".snapshot"),
            "epochs": " ".join(epochs),
            "aborted": ", ".join(aborted),
        }
        shown = {name: f"{name} {value or 'none'}" for name, value in state.items()}
        for producer in log.producers:
            shown[f"producer {producer.producer_id}"] = (
                f"producer {producer.producer_id}/{producer.epoch}/{producer.last_sequence}"
                + (
                    f" in a transaction from {producer.txn_first_offset}"
                    * (producer.txn_first_offset >= 0)
                )
                + (f" coordinator {producer.coordinator_epoch}" * (producer.coordinator_epoch >= 0))
            )
        return shown

    def _changes(self) -> str:
        state = self._state()
        changed = [text for name, text in state.items() if self._shown.get(name) != text]
        changed += [f"{name} removed" for name in self._shown.keys() - state.keys()]
        self._shown = state
        return ", ".join(changed)

    # -- the log

    def do_log(self, command: Command) -> Iterator[str]:
        self.broker = Broker(self.fs, log_settings=settings_of(command))
        self._shown = self._state()
        yield from ()

    def do_configure(self, command: Command) -> Iterator[str]:
        self.broker.settings = settings_of(command)
        self.broker.log().configure(self.broker.settings)
        yield self._changes()

    def do_fill(self, command: Command) -> Iterator[str]:
        log = self.broker.log()
        size = command.number("size", 100)
        logs.fill(log, int(command.words[0]), size=size, start=log.end_offset)
        yield self._changes()

    def do_append(self, command: Command) -> Iterator[str]:
        """`time` is the records', `at` the clock's; `times=3` appends it three times."""
        yield from self._append(command, transactional=False)

    def do_append_txn(self, command: Command) -> Iterator[str]:
        """A batch of a transaction; with `guard=none` unverified, with `guard=v1` or `guard=v2`
        verified as for a producer of one of the transaction protocols."""
        yield from self._append(command, transactional=True)

    def _append(self, command: Command, *, transactional: bool) -> Iterator[str]:
        values = [None if word == "-" else word.encode() for word in command.words]
        values = values or [b"v"] * command.number("records", 1)
        if size := command.number("size"):
            values = [bytes(size)]
        time = command.text("time", "0ms")
        producer = logs.NO_PRODUCER
        if found := command.get("producer"):
            producer = Producer(*map(int, found.split("/")))
        for _ in range(command.number("times", 1)):
            data = logs.batch(
                values,
                timestamps=-1 if time == "none" else TIMESTAMP + duration_ms(time),
                producer=producer,
                transactional=transactional,
            )
            try:
                done = logs.append(
                    self.broker.log(),
                    data,
                    leader_epoch=command.number("epoch"),
                    now_ms=TIMESTAMP + command.ms("at"),
                    guard=self._guard(producer, command.text("guard", "not needed")),
                )
            except ApiError as refused:
                yield refused.code.name
            except OSError as failure:
                yield errno.errorcode[failure.errno or 0]
            else:
                if done.duplicate:
                    time_ms = done.log_append_time_ms - TIMESTAMP
                    yield f"duplicate of {done.base_offset}-{done.last_offset}, time {time_ms}ms"
        yield self._changes()

    def _guard(self, producer: Producer, how: str) -> Guard | None:
        if how == "not needed":
            return NOT_NEEDED
        if how == "none":
            return None
        return self.broker.log().producers.verification(
            producer.id, producer.sequence, producer.epoch, TIMESTAMP, v2=how == "v2"
        )

    def do_end_txn(self, command: Command) -> Iterator[str]:
        """The marker of a coordinator: `end_txn commit producer=9/0 coordinator=3`."""
        producer_id, epoch = command.text("producer").split("/")
        (result,) = command.words
        try:
            logs.end_transaction(
                self.broker.log(),
                Producer(int(producer_id), int(epoch), -1),
                commit=result == "commit",
                coordinator_epoch=command.number("coordinator"),
            )
        except ApiError as refused:
            yield refused.code.name
        yield self._changes()

    def do_read(self, command: Command) -> Iterator[str]:
        """From an offset to the end, or to `upto`; with `values` these as well."""
        log = self.broker.log()
        offset = int(command.words[0])
        upto = command.number("upto", log.end_offset)
        try:
            if offset >= upto:
                log.read(offset, 100, upto=upto, at_least_one=True)
            records = logs.read_from(log, offset, upto=upto)
        except ApiError as refused:
            yield str(refused)
            return
        if "values" in command.words:
            texts = ("-" if record.value is None else record.value.decode() for record in records)
            yield " ".join(
                f"{record.offset}:{text}" for record, text in zip(records, texts, strict=True)
            )
        else:
            yield ranges([record.offset for record in records]) or "nothing"

    def do_fetch(self, command: Command) -> Iterator[str]:
        """One read: the offset of its first batch, and the offsets of its records."""
        log = self.broker.log()
        upto = command.number("upto", log.end_offset)
        found = log.read(
            int(command.words[0]), command.number("max", 1 << 20), upto=upto, at_least_one=True
        )
        if found is None:
            yield "nothing"
        else:
            yield ranges([record.offset for record in logs.parse(logs.bytes_of(found))])

    def do_find_time(self, command: Command) -> Iterator[str]:
        """The first batch at or after each of these times; of the greatest time for `max`."""
        log = self.broker.log()
        for word in command.words:
            if word == "max":
                found = log.batch_of_max_timestamp()
            else:
                timestamp = TIMESTAMP + duration_ms(word)
                found = log.batch_for_timestamp(timestamp, from_offset=command.number("from"))
            yield f"{word}: {'none' if found is None else found.base_offset}"

    def do_epoch_end(self, command: Command) -> Iterator[str]:
        """The answer to OffsetForLeaderEpoch, for each of these epochs."""
        for word in command.words:
            epoch, end = self.broker.log().end_offset_for_epoch(int(word))
            yield f"{word}: epoch {epoch}, end {end}"

    def do_epoch_of(self, command: Command) -> Iterator[str]:
        log = self.broker.log()
        yield " ".join(f"{word}:{log.epoch_of(int(word))}" for word in command.words)

    def do_assign_epoch(self, command: Command) -> Iterator[str]:
        log = self.broker.log()
        log.assign_epoch(int(command.words[0]), log.end_offset)
        yield self._changes()

    def do_roll(self, command: Command) -> Iterator[str]:
        self.broker.log().roll(TIMESTAMP)
        yield self._changes()

    def do_flush(self, command: Command) -> Iterator[str]:
        logs.flush(self.broker.log())
        yield self._changes()

    def do_truncate(self, command: Command) -> Iterator[str]:
        steps = self.broker.logs.truncate_in_steps(self.broker.log(), int(command.words[0]))
        run_at_once(steps)
        yield self._changes()

    def do_purge(self, command: Command) -> Iterator[str]:
        """What file.delete.delay.ms after a deletion is removed; no file is left of it."""
        logs.purge(self.broker.logs)
        names = self.fs.list_dir(self.broker.log().directory)
        yield " ".join(name for name in names if name.endswith(".deleted"))

    def do_delete_records(self, command: Command) -> Iterator[str]:
        """Move the log start offset."""
        if not self.broker.log().advance_start(int(command.words[0])):
            yield "no change"
        yield self._changes()

    def do_delete_old(self, command: Command) -> Iterator[str]:
        """Until nothing more goes, as the broker does; `at` is the clock's time."""
        log = self.broker.log()
        now_ms = TIMESTAMP + command.ms("at")
        upto = command.number("upto", log.end_offset)
        deleted = 0
        try:
            while count := log.delete_old(now_ms, upto):
                deleted += count
        except OSError as failure:
            yield errno.errorcode[failure.errno or 0]
        else:
            yield f"{deleted} deleted" if deleted else "none deleted"
        yield self._changes()

    # -- the broker and its disk

    def do_checkpoint(self, command: Command) -> Iterator[str]:
        """The periodic checkpoint of recovery points and start offsets."""
        self.broker.logs.checkpoint({}).run()
        yield from ()

    def do_show(self, command: Command) -> Iterator[str]:
        """A file of text, a line each: of the log, or else of its data directory."""
        (name,) = command.words
        directory = self.broker.log().directory
        where = directory if self.fs.exists(f"{directory}/{name}") else logs.DIRECTORY
        yield " | ".join(self.fs.read_bytes(f"{where}/{name}").decode().splitlines())

    def do_restart(self, command: Command) -> Iterator[str]:
        self.broker.restart()
        yield self._changes()

    def do_kill(self, command: Command) -> Iterator[str]:
        self.broker.kill()
        yield self._changes()

    def do_crash(self, command: Command) -> Iterator[str]:
        self.broker.crash()
        yield self._changes()

    def do_clock(self, command: Command) -> Iterator[str]:
        """Let time pass for the file system's modification times."""
        self.broker.clock.elapsed_ms += duration_ms(command.words[0])
        yield from ()

    def do_fail(self, command: Command) -> Iterator[str]:
        """Have the next call of the file system fail: `fail rename 10.log EIO`."""
        call, suffix, error = command.words
        self.fs.faults.append(Fault(call, suffix, getattr(errno, error)))
        yield from ()

    def do_lose(self, command: Command) -> Iterator[str]:
        """SIGKILL, then the files of a segment are gone, then a start."""
        log = self.broker.log()
        self.fs.remove(f"{log.directory}/{int(command.words[0]):020d}.log")
        yield from self.do_kill(command)


def _bases(fs: MemFs, log: PartitionLog, suffix: str) -> str:
    """The base offsets in the names of files of one kind."""
    return " ".join(map(str, logs.base_offsets(fs, log, suffix)))
