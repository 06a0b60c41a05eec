"""One instance, its client left open: see reporting.py."""

from __future__ import annotations

import os
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from support.groups.programs import reporting as groups
from support.transactions.programs.reporting import (
    ABORTED_EVERY,
    DWELL_MS,
    HANGS,
    Abort,
    Fenced,
    transformed,
)

LOST_AFTER_S = 15.0
"""How long a call may take before the client is asked whether it has lost its request."""
HANGS_AFTER_S = 45.0
"""What a call may take: far longer than a broker needs to come back, and less than a transaction
may."""

Found = Mapping[int, Sequence[tuple[int, bytes]]]
"""Records of the input, offset and value, by their partition."""


class Arguments(NamedTuple):
    """What the program is started with."""

    bootstrap: str
    source: str
    target: str
    group: str
    transactional_id: str
    name: str
    settings: list[str]


class Instance(ABC):
    """Polls, and makes a transaction of what it gets, until it shall leave."""

    def __init__(self, given: Arguments) -> None:
        self.given = given
        self.attempt = 0
        self._holds = "hold=true" in given.settings
        self._resumed = threading.Event()
        self._leaving = threading.Event()

    def run(self) -> int:
        """To its end; the exit code."""
        threading.Thread(target=self._listen, daemon=True).start()
        try:
            self.open()
            self.report("ready")
            while not self._leaving.is_set():
                found = self.poll()
                if found:
                    self._transact(found)
        except Fenced as fenced:
            self.report("fenced", a=self.attempt, why=str(fenced))
            self.close()
        except BaseException as error:  # an Abort too: what could not even be aborted
            self.report("failed", why=repr(error))
            raise
        else:
            self.close()
            self.report("left")
        return 0

    def report(self, kind: str, **more: object) -> None:
        """Write one line."""
        groups.report(self.given.name, kind, **more)

    def _listen(self) -> None:
        for _ in sys.stdin:
            self._resumed.set()
        self._leaving.set()
        self._resumed.set()

    def _transact(self, found: Found) -> None:
        self.attempt += 1
        try:
            self.begin()
            self._write(found)
            if self._holds:
                self._hold(found)
            elif self.attempt % ABORTED_EVERY == 0:
                self.flush()
                raise Abort("on purpose")
            elif self.attempt % 2:
                self.flush()
                time.sleep(DWELL_MS / 1000)
            self.report("committing", a=self.attempt)
            with self._watched("commit"):
                self.commit({at: records[-1][0] + 1 for at, records in found.items()})
        except Abort as why:
            with self._watched("abort"):
                self.abort()
            self.report("aborted", a=self.attempt, why=str(why))
            self.rewind({at: records[0][0] for at, records in found.items()})
        else:
            self.report("committed", a=self.attempt)

    @contextmanager
    def _watched(self, call: str) -> Iterator[None]:
        """End the program if it hangs, as a supervisor of such programs would."""
        returned = threading.Event()
        threading.Thread(target=self._watch, args=[call, returned], daemon=True).start()
        try:
            yield
        finally:
            returned.set()

    def _watch(self, call: str, returned: threading.Event) -> None:
        for _ in range(int(HANGS_AFTER_S / LOST_AFTER_S)):
            if returned.wait(LOST_AFTER_S):
                return
            if self.has_lost_request():
                self._give_up(f"has lost its request in {call}")
        self._give_up(f"{HANGS} {call}")

    def _give_up(self, why: str) -> None:
        self.report("failed", why=why)
        os._exit(1)

    def _write(self, found: Found) -> None:
        ranges: list[tuple[str, int, int]] = []
        for partition, records in found.items():
            for _, value in records:
                self.send(partition, transformed(value, self.given.name, self.attempt))
            at = groups.place(self.given.source, partition)
            ranges += groups.ranges(at, (offset for offset, _ in records))
        self.report("sent", a=self.attempt, r=ranges)

    def _hold(self, found: Found) -> None:
        self._holds = False
        self.flush()
        self.report("held", a=self.attempt)
        self._resumed.wait()
        try:
            self._write(found)
            self.flush()
        except (Abort, Fenced) as why:
            self.report("refused", a=self.attempt, why=str(why))
            raise

    def has_lost_request(self) -> bool:
        """Whether the client waits for the answer to a request that it has forgotten to send."""
        return False

    # What is asked of the client. All but `open`, `poll` and `close` may raise Fenced, and all of
    # these but `abort` Abort.

    @abstractmethod
    def open(self) -> None:
        """Make consumer and producer; its id is its own when this returns."""

    @abstractmethod
    def poll(self) -> Found:
        """At most BATCH records of partitions that it owns."""

    @abstractmethod
    def begin(self) -> None:
        """Begin a transaction."""

    @abstractmethod
    def send(self, partition: int, value: bytes) -> None:
        """Write one record, in due course."""

    @abstractmethod
    def flush(self) -> None:
        """Wait until all that was sent is taken."""

    @abstractmethod
    def commit(self, offsets: Mapping[int, int]) -> None:
        """Commit offsets by partition, and all."""

    @abstractmethod
    def abort(self) -> None:
        """Abort."""

    @abstractmethod
    def rewind(self, offsets: Mapping[int, int]) -> None:
        """Read these partitions from here on again."""

    @abstractmethod
    def close(self) -> None:
        """Leave the group politely."""


def main(kind: type[Instance]) -> None:
    """Run the instance that the command line asks for."""
    bootstrap, source, target, group, transactional_id, name, *settings = sys.argv[1:]
    given = Arguments(bootstrap, source, target, group, transactional_id, name, settings)
    sys.exit(kind(given).run())
