"""The looks at both clusters, one after the other, in all sessions of a run."""

from __future__ import annotations

import time
from typing import Final

from kavka.tools.admin.errors import Failed
from kavka.tools.admin.partition_offsets import Place
from kavka.tools.admin.printing import plural
from kavka.tools.mirror.clusters import Clusters
from kavka.tools.mirror.failures import Declined
from kavka.tools.mirror.ledger import CONFIGS
from kavka.tools.mirror.look import Look
from kavka.tools.mirror.report import Once, Repeated, Report
from kavka.tools.mirror.task import Task
from kavka.tools.perf.client import now_ms

RETRY_S: Final = 1.0
FIRST_WITHIN_MS: Final = 30_000
"""How long brokers may be down at the start, after both clusters have answered."""


class Looks:
    """What they say of what has come and gone since the one before."""

    def __init__(self, task: Task, report: Report, clusters: Clusters, ledger: str) -> None:
        """`ledger`: the name of its topic."""
        self._task, self._report, self._clusters = task, report, clusters
        self._ledger = ledger
        self.goal: dict[Place, int] = {}
        """The ends at the first look, where --until-caught-up ends."""

        self._topics: set[str] = set()
        """Of the last look."""

        self._refusals = Once(report)

    def first(self) -> Look:
        """Failed also for what a broker refuses of one topic."""
        look = self._found_look()
        for refusal in look.refused.values():
            raise Failed(refusal)
        self._check_names(look)
        self.goal = dict(look.ends)
        self._note(look)
        return look

    def _found_look(self) -> Look:
        """Brokers may be down for a while. Failed."""
        end_ms = now_ms() + FIRST_WITHIN_MS
        waits = Repeated(self._report)
        while True:
            try:
                return self._look()
            except Declined:
                raise
            except Failed as failed:
                if now_ms() >= end_ms:
                    raise
                waits.say(f"waits: {failed}")
                time.sleep(RETRY_S)

    def next(self) -> Look:
        """Another one; what a broker refuses of one topic is said. Failed."""
        look = self._look()
        for refusal in look.refused.values():
            self._refusals.warn(refusal)
        for topic in sorted(self._topics - look.source.keys() - look.refused.keys()):
            self._report.warn(f"{topic} was deleted in the source: nothing more of it is copied")
        self._note(look)
        return look

    def patient(self) -> Look:
        """Another one, once both clusters answer."""
        waits = Repeated(self._report)
        while True:
            try:
                return self.next()
            except Failed as failed:
                waits.say(f"waits: {failed}")
                time.sleep(RETRY_S)

    def _look(self) -> Look:
        self._clusters.make_ledger(self._ledger, CONFIGS)
        return self._clusters.look(self._task.choice)

    def _note(self, look: Look) -> None:
        self._topics = set(look.source)
        self._report.looked(look.ends)

    def _check_names(self, look: Look) -> None:
        """Say which topics that were named are not there. Failed if none can come any more."""
        missing = sorted(self._task.choice.names - look.source.keys())
        named = f"topic{plural(missing)} {', '.join(missing)} to copy" if missing else "such topic"
        if self._task.until_caught_up and (missing or not look.source):
            raise Failed(f"the source has no {named}")
        if missing:
            self._report.warn(f"the source has no {named}: waits for it")
