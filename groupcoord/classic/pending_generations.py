"""Records that a decision appends, and the callbacks to run once they are appended. Pure.

A group's record has less than the group in memory: not the waiting requests, joined members and
timers. So a record that was decided here is not replayed over the group, as one read from the log
is; instead its callback runs. In both cases the record is in the log first.
"""

from __future__ import annotations

from collections.abc import Callable

from kavka.log.journal import Decision, JournalRecord
from kavka.wire.errors import ErrorCode


def _nothing() -> None:
    """The default callback: nothing to do."""


class PendingGenerations:
    """The one generation whose record may be waiting to be appended."""

    __slots__ = ("_done", "_out", "_record")

    def __init__(self) -> None:
        self._record: JournalRecord | None = None
        self._out: Decision | None = None
        self._done: Callable[[], None] = _nothing

    def propose(
        self,
        out: Decision,
        record: JournalRecord,
        *,
        done: Callable[[], None] = _nothing,
        refused: Callable[[ErrorCode, int], Decision] | None = None,
    ) -> None:
        """Add a record to a decision: `done` runs once it is in the log, `refused` if it can't be
        appended. After it is appended `refused` is cleared: a late commit only fails replies."""
        out.records = [*out.records, record]
        out.on_failure = refused
        self._record, self._out, self._done = record, out, done

    def applied(self, record: JournalRecord) -> bool:
        """Run the callback of an appended record; False if it was not proposed here."""
        if record is not self._record or self._out is None:
            return False
        self._out.on_failure = None
        done = self._done
        self._record, self._out, self._done = None, None, _nothing
        done()
        return True
