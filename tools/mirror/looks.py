"""The looks at both clusters, one after the other, in all sessions of a run."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

from kavka.tools.admin.errors import Failed
from kavka.tools.admin.leaders import TopicPartition
from kavka.tools.admin.printing import plural
from kavka.tools.mirror.clusters import Clusters
from kavka.tools.mirror.failures import Declined
from kavka.tools.mirror.goal import Goal
from kavka.tools.mirror.ledger import CONFIGS
from kavka.tools.mirror.look import Look
from kavka.tools.mirror.report import Once, Repeated, Report
from kavka.tools.mirror.task import Task
from kavka.tools.perf.client import now_ms

T = TypeVar("T")

RETRY_S: Final = 1.0
FIRST_WITHIN_MS: Final = 30_000
"""How long brokers may be down at the start, after both clusters have answered."""

GONE_MS: Final = 30_000
"""A topic that no look has named for so long is taken for deleted. Only time can tell: Apache
Kafka with ZooKeeper, after a start, answers for two or three seconds (longer in large clusters) as
if there were no topics, also where one is asked for by its name. Until then it is missed: it is
not read, as another one of its name may come, and the goal is not reached."""

MISSED_PAUSE_MS: Final = 5_000
"""Between looks while a topic is missed, at most. What is longer counts as so long: in between the
source may have been down."""


def once_answered(ask: Callable[[], T], report: Report, *, ends_declined: bool = False) -> T:
    """What it finds, once both clusters answer. Declined only if it `ends_declined`: who mirrors
    for ever may be let in again."""
    waits = Repeated(report)
    while True:
        try:
            return ask()
        except Failed as failed:
            if ends_declined and isinstance(failed, Declined):
                raise
            waits.say(f"waits: {failed}")
            time.sleep(RETRY_S)


class Looks:
    """What they say of what has come and gone since the one before."""

    def __init__(self, task: Task, report: Report, clusters: Clusters, ledger: str) -> None:
        """`ledger`: the name of its topic."""
        self._task, self._report, self._clusters = task, report, clusters
        self._ledger = ledger
        self.goal = Goal({}, {})
        """Known from the first look on."""

        self.to_copy_again = set(task.copy_again)
        """Topics of which the ledger is to forget what was copied; it has not yet."""

        self._known: set[TopicPartition] = set()
        """Partitions of the last look, and those that are missed."""

        self._missed: dict[TopicPartition, int] = {}
        """Partitions that the last look lacked, and that are not taken for deleted: for how many
        ms by now."""

        self._noted_ms = now_ms()
        """When the last look was."""

        self._refusals = Once(report)

    def first(self) -> Look:
        """Failed also for what a broker refuses of one topic."""
        look = self._found_look()
        for reason in look.refused.values():
            raise Failed(reason)
        self._check_names(look)
        self.goal = Goal(look.source, look.ends)
        self._note(look)
        return look

    def _found_look(self) -> Look:
        """Brokers may be down for a while, or have just started. Failed."""
        end_ms = now_ms() + FIRST_WITHIN_MS
        waits = Repeated(self._report)
        while True:
            try:
                look = self._look()
            except Declined:
                raise
            except Failed as failed:
                if now_ms() >= end_ms:
                    raise
                why = str(failed)
            else:
                if not (look.source_is_empty and self._task.until_caught_up):
                    return look
                if now_ms() >= end_ms:
                    return look
                why = "the source has no topics, or does not say so yet after a start"
            waits.say(f"waits: {why}")
            time.sleep(RETRY_S)

    def next(self) -> Look:
        """Another one; what a broker refuses of one topic is said. Failed."""
        look = self._look()
        for reason in look.refused.values():
            self._refusals.warn(reason)
        self._note(look)
        return look

    @property
    def misses_some(self) -> bool:
        """Whether the last look lacked some of the goal, which is not taken for deleted yet."""
        return not self._missed.keys().isdisjoint(self.goal.ends)

    @property
    def pause_ms(self) -> int:
        """Until the next one."""
        wanted_ms = self._task.refresh_ms
        return min(wanted_ms, MISSED_PAUSE_MS) if self._missed else wanted_ms

    def patient(self) -> Look:
        """Another one, once both clusters answer."""
        return once_answered(self.next, self._report)

    def _look(self) -> Look:
        self._clusters.make_ledger(self._ledger, CONFIGS)
        return self._clusters.look(self._task.choice)

    def _note(self, look: Look) -> None:
        now = now_ms()
        passed_ms, self._noted_ms = min(now - self._noted_ms, MISSED_PAUSE_MS), now
        lacking = {at: self._missed.get(at) for at in self._known - look.ends.keys()}
        missed = {at: 0 if ms is None else ms + passed_ms for at, ms in lacking.items()}
        self._missed = {at: ms for at, ms in missed.items() if ms < GONE_MS}
        self._known = look.ends.keys() | self._missed.keys()
        gone = {topic for topic, _ in lacking.keys() - self._missed.keys()}
        for topic in sorted(gone - look.source.keys() - look.refused.keys()):
            self._report.warn(f"{topic} was deleted in the source: nothing more of it is copied")
        self.goal.compare(look.source)
        self._report.looked(look.ends)

    def _check_names(self, look: Look) -> None:
        """Say which topics that were named are not there. Failed if none can come any more."""
        missing = sorted((self._task.choice.names | self.to_copy_again) - look.source.keys())
        named = f"topic{plural(missing)} {', '.join(missing)} to copy" if missing else "such topic"
        if self._task.until_caught_up and (missing or not look.source):
            raise Failed(f"the source has no {named}")
        if missing:
            self._report.warn(f"the source has no {named}: waits for it")
