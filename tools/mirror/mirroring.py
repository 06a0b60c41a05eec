"""The mirror at work: sessions, each from what the ledger says to the first thing that goes wrong.

After a SIGKILL of the mirror, of a broker or of nothing at all the way to go on is the same: a new
session. It ends what the one before has left open, reads the ledger, and copies from there.
"""

from __future__ import annotations

import secrets
import time

from kavka.tools.admin.errors import Failed
from kavka.tools.mirror.clusters import Clusters
from kavka.tools.mirror.failures import Again, Fenced, Pauses, Stuck, Tries
from kavka.tools.mirror.ledger import PREFIX
from kavka.tools.mirror.ledger_topic import has_successor
from kavka.tools.mirror.looks import RETRY_S, Looks
from kavka.tools.mirror.report import Report
from kavka.tools.mirror.session import Session
from kavka.tools.mirror.task import Task
from kavka.tools.mirror.writer import check_times


class Mirror:
    """One run."""

    def __init__(self, task: Task, report: Report) -> None:
        self._task, self._report = task, report
        check_times(task.target)
        self._clusters = Clusters(task.source, task.target, task.replication_factor)
        self._tries, self._pauses = Tries(), Pauses()

    def run(self) -> None:
        """Until all is copied, or for ever. Failed."""
        source, target = self._clusters.ids()
        if source == target:
            raise Failed("--source and --target are of the same cluster")
        ledger = PREFIX + (self._task.name or source)
        looks = Looks(self._task, self._report, self._clusters, ledger)
        look = looks.first()
        while True:
            name = secrets.token_hex(8)
            try:
                Session(self._task, self._report, self._clusters, looks, ledger, name).run(look)
                return
            except Again as again:
                pause_s = self._pause_s(again, ledger, name)
                self._report.warn(f"begins anew: {again}")
                time.sleep(pause_s)
            look = looks.patient()

    def _pause_s(self, again: Again, ledger: str, session: str) -> float:
        """How long to wait before it begins anew. Failed if that would not help."""
        if isinstance(again, Stuck):
            tries = self._tries.count(again, self._report.records[again.topic_partition])
            return float(RETRY_S * 2**tries)
        if isinstance(again, Fenced) and self._has_successor(ledger, session):
            raise Failed(
                f"another mirror of the name {ledger.removeprefix(PREFIX)} has begun: "
                "it goes on, this one ends"
            ) from again
        return self._pauses.next_s(self._report.records.total())

    def _has_successor(self, ledger: str, session: str) -> bool:
        try:
            return has_successor(self._task.target, ledger, session, self._report)
        except Again:
            return False  # not known yet: if there is one, it ends the next session as well
