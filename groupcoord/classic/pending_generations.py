"""Records that a decision is about to append, and what is to be done once they are. Pure.

A group's record tells less than what is known of the group while its coordinator lives: who
waits, who has joined, which deadlines run. So a record that was decided here is not replayed over
the group, as one read from the log is, but does what the decision said. That the record is in the
log comes first in both.
"""

from __future__ import annotations

from collections.abc import Callable

from kavka.log.journal import Decision, Record
from kavka.wire.errors import ErrorCode


def _nothing() -> None:
    """What has been said is true already."""


class Proposals:
    """The one record that may be about to be appended."""

    __slots__ = ("_done", "_out", "_record")

    def __init__(self) -> None:
        self._record: Record | None = None
        self._out: Decision | None = None
        self._done: Callable[[], None] = _nothing

    def propose(
        self,
        out: Decision,
        record: Record,
        *,
        done: Callable[[], None] = _nothing,
        refused: Callable[[ErrorCode, int], Decision] | None = None,
    ) -> None:
        """Add a record to a decision, with what is to be done once it is in the log, and what
        if it can't be appended. If it is but committed too late, all that is left to do is to
        tell so."""
        out.records = [*out.records, record]
        out.on_failure = refused
        self._record, self._out, self._done = record, out, done

    def applied(self, record: Record) -> bool:
        """Do what was to be done with a record that is in the log; False if it is not of here."""
        if record is not self._record or self._out is None:
            return False
        self._out.on_failure = None
        done = self._done
        self._record, self._out, self._done = None, None, _nothing
        done()
        return True
