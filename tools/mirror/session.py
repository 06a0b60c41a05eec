"""A session of the mirror: from what the ledger says to the first thing that goes wrong."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing, suppress
from typing import Any, Final

from kavka.tools.admin.errors import Failed
from kavka.tools.admin.partition_offsets import Place
from kavka.tools.admin.printing import plural
from kavka.tools.mirror.clusters import Clusters
from kavka.tools.mirror.continuity import Continuity
from kavka.tools.mirror.failures import Again, Fenced
from kavka.tools.mirror.group_offsets import GroupOffsets
from kavka.tools.mirror.ledger import (
    forgotten_offsets,
    offsets_entry,
    owner_entry,
    position_entry,
)
from kavka.tools.mirror.ledger_topic import read_ledger
from kavka.tools.mirror.look import Look
from kavka.tools.mirror.looks import Looks
from kavka.tools.mirror.offset_map import runs_of
from kavka.tools.mirror.reader import Reader
from kavka.tools.mirror.report import Once, Repeated, Report
from kavka.tools.mirror.task import Task
from kavka.tools.mirror.topic_plan import batch_bytes, small_limits
from kavka.tools.mirror.unsent import Unsent
from kavka.tools.mirror.writer import Writer, transaction_timeout_ms
from kavka.tools.perf.client import now_ms

RECORDS_MAX: Final = 20_000
"""Of one transaction, about."""

AGE_MS_MIN: Final = 1_000
AGE_MS_MAX: Final = 10_000
"""At which a transaction is committed while more records come: the later, the longer a commit
takes."""

COMMIT_SHARE: Final = 10
LOOK_SHARE: Final = 4
"""How many times as long as these took it copies until the next one. A transaction costs more than
its commit: over a long way, new partitions in it do as well."""

TIMEOUT_SHARE: Final = 3
"""How many times as long the target leaves it open: there is to be time for the commit."""

WAIT_S: Final = 0.1
"""For something to read, or for an acknowledgement."""

SILENCE_MS: Final = 10_000
"""Without any acknowledgement; then it is looked whether the target's topics are still there."""


class Session:
    """One of them. Again, Fenced, Failed."""

    def __init__(
        self,
        task: Task,
        report: Report,
        clusters: Clusters,
        looks: Looks,
        ledger_topic: str,
        name: str,
    ) -> None:
        self._task, self._report, self._clusters, self._looks = task, report, clusters, looks
        self._topic, self._name = ledger_topic, name
        self._once = Once(report)
        self._no_look, self._no_groups = Repeated(report), Repeated(report)
        self._batch_bytes = batch_bytes(task.target)
        self._unsent = Unsent()
        self._small: Mapping[str, int] = {}
        """How large batches of topics may be that take no full one."""

        self._commit_ms = 0
        """How long the last commit took."""

    def run(self, look: Look) -> None:
        """Until all is copied, or for ever."""
        self._writer = Writer(self._task.target, self._topic)
        try:
            self._writer.write(self._topic, [owner_entry(self._name)])
            self._writer.commit()
            self._ledger = read_ledger(self._task.target, self._topic, self._name)
            self._continuity = Continuity(
                self._clusters, self._looks, self._ledger, self._topic, self._once
            )
            self._group_offsets = GroupOffsets(
                self._clusters, self._writer, self._ledger, self._topic, self._report, self._once
            )
            with closing(Reader(self._task.source)) as self._reader:
                self._follow(look)
                self._copy()
                self._look = self._looks.patient()
                self._continuity.check_topics(self._look)  # else two topics' records are mixed
                self._groups()
            self._check_goal()
        finally:
            self._end()

    def _end(self) -> None:
        try:
            with suppress(Fenced):  # it is ended already
                self._writer.abort()
        except Again as again:
            self._report.warn(f"a transaction is left to its timeout: {again}")

    def _copy(self) -> None:
        look_ms = now_ms() + self._task.refresh_ms
        while not self._is_done():
            if not self._step() or self._is_full():
                self._commit()
            if now_ms() >= look_ms:
                began_ms = now_ms()
                self._commit(writes_positions=True)
                self._refresh()
                took_ms = now_ms() - began_ms
                look_ms = now_ms() + max(self._task.refresh_ms, LOOK_SHARE * took_ms)
        self._commit(writes_positions=True)

    def _step(self) -> bool:
        """Read some records, send some, hear of some; whether there may be more to do at once."""
        messages = self._read() if self._unsent.has_room else []
        is_sending = self._writer.send(self._unsent)
        if messages or is_sending:
            self._reader.rest(self._unsent.set_aside(self._small))
            self._reader.resume(self._unsent.take_back())
        must_wait = self._unsent and not messages and not is_sending
        self._writer.listen(WAIT_S if must_wait else 0)
        return bool(messages or self._unsent)

    def _read(self) -> list[Any]:
        try:
            messages = self._reader.read(0 if self._unsent else WAIT_S)
            self._unsent.add(messages)
            return messages
        except Failed:
            self._send_all()  # that it can't go on is no matter of what was read before
            raise

    def _send_all(self) -> None:
        """What was read so far, and end the transaction."""
        while self._unsent:
            is_sending = self._writer.send(self._unsent)
            self._writer.listen(0 if is_sending else WAIT_S)
            if self._is_full():
                self._commit()
        self._commit()

    def _is_full(self) -> bool:
        """Whether it is time to commit."""
        records = self._writer.records
        if records >= RECORDS_MAX or not records:
            return records > 0
        age_ms_max = age_to_commit(self._commit_ms, transaction_timeout_ms(self._task.target))
        return now_ms() - self._writer.began_ms >= age_ms_max

    def _positions(self) -> dict[Place, int]:
        """Up to where each partition was sent, or has nothing to be sent."""
        return self._reader.positions | self._unsent.positions()

    def _is_done(self) -> bool:
        if not self._task.until_caught_up:
            return False
        read, unsent = self._reader.positions, self._unsent.positions()
        return all(
            unsent.get(place, read.get(place, end)) >= end
            for place, end in self._looks.goal.items()
        )

    def _check_goal(self) -> None:
        """Failed if a topic was deleted before all of it was copied."""
        missing = {
            topic
            for (topic, partition), end in self._looks.goal.items()
            if topic not in self._look.source
            and (self._ledger.position((topic, partition)) or 0) < end
        }
        for topic in sorted(missing & self._look.refused.keys()):
            raise Failed(f"{topic} was not copied to its end: {self._look.refused[topic]}")
        if missing:
            raise Failed(
                f"topic{plural(missing)} {', '.join(sorted(missing))}: deleted in the source "
                "before all records were copied"
            )

    def _commit(self, *, writes_positions: bool = False) -> None:
        """What was sent, and what the ledger says of it, in one transaction."""
        began_ms, counts = now_ms(), {}
        self._await_acknowledgements()
        for place, (sources, targets) in self._writer.delivered().items():
            chunks = self._ledger.map_of(place).add(runs_of(sources, targets))
            epoch = self._ledger.epochs[place] = self._writer.epochs.get(place)
            entries = [offsets_entry(place, chunk, epoch) for chunk in chunks]
            self._writer.write(self._topic, entries)
            counts[place] = len(sources)
        positions = self._positions()
        if writes_positions:
            for place, offset in positions.items():
                if offset > (self._ledger.position(place) or 0):
                    self._ledger.positions[place] = offset
                    self._writer.write(self._topic, [position_entry(place, offset)])
        self._writer.commit()
        if counts:
            self._commit_ms = now_ms() - began_ms
        self._report.copied(counts, positions)

    def _await_acknowledgements(self) -> None:
        pace = self._writer.pace
        if self._writer.records:
            pace.end_transaction()
        heard_ms, under_way = now_ms(), pace.under_way
        while not self._writer.is_acknowledged():
            if pace.under_way < under_way:
                heard_ms, under_way = now_ms(), pace.under_way
            elif now_ms() - heard_ms >= SILENCE_MS:
                self._compare()
                heard_ms = now_ms()

    def _compare(self) -> None:
        """Whether there are still the same topics, while a transaction is open. librdkafka does not
        say what has become of a topic before the time for its records is over."""
        try:
            look = self._looks.next()
        except Failed as failed:
            self._no_look.say(str(failed))
        else:
            self._no_look.is_over()
            self._continuity.check_topics(look)

    def _refresh(self) -> None:
        """New topics, partitions and configs; groups. What fails is tried again the next time."""
        try:
            look = self._looks.next()
        except Failed as failed:
            self._no_look.say(str(failed))
            return
        self._no_look.is_over()
        self._follow(look)
        try:
            self._groups()
        except Failed as failed:
            self._no_groups.say(str(failed))
        else:
            self._no_groups.is_over()

    def _follow(self, look: Look) -> None:
        """Copy what there is now."""
        self._look = look
        for topic, names in look.unknown.items():
            self._once.warn(f"{topic}: the target has no config {', '.join(names)}")
        self._continuity.check_topics(look)
        replaced = self._continuity.replaced(look)  # what was read of those before is not sent
        self._writer.write(self._topic, self._continuity.new_topics(look))
        self._small = small_limits(look.target, self._batch_bytes)
        self._writer.pace.limit(self._small)
        gone = [at for at in self._reader.positions if at not in look.starts or at[0] in replaced]
        self._reader.drop(gone)
        self._unsent.drop(gone)
        new = [at for at in look.starts if at not in self._reader.positions]
        self._reader.take(self._continuity.beginnings(look, new))
        self._forget(look.target_starts)
        self._writer.commit()

    def _forget(self, target_starts: Mapping[Place, int]) -> None:
        """Maps of records that the target has deleted."""
        for place, start in target_starts.items():
            gone = self._ledger.map_of(place).forget(start)
            self._writer.write(self._topic, [forgotten_offsets(place, first) for first in gone])

    def _groups(self) -> None:
        if self._task.groups is not None:
            self._group_offsets.translate(self._task.groups, self._look.target_starts)


def age_to_commit(commit_ms: int, timeout_ms: int) -> int:
    """The age at which a transaction is committed, where that took so long the last time; the
    target ends it after the timeout."""
    return min(max(AGE_MS_MIN, COMMIT_SHARE * commit_ms), AGE_MS_MAX, timeout_ms // TIMEOUT_SHARE)
