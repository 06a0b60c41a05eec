"""A session of the mirror: from what the ledger says to the first thing that goes wrong."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing, suppress
from typing import Any, Final

from kavka.tools.admin.errors import Failed
from kavka.tools.admin.leaders import TopicPartition
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
from kavka.tools.mirror.looks import Looks, once_answered
from kavka.tools.mirror.offset_map import runs_of
from kavka.tools.mirror.reader import Reader
from kavka.tools.mirror.report import SILENCE_MS, Once, Repeated, Report, Silence
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

SOON_MS: Final = 1_000
"""Until the look that is to say what a topic is that was let go of."""

WAIT_S: Final = 0.1
"""For something to read, or for an acknowledgement."""


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
        self._commit_ms = 0
        """How long the last commit took."""

        self._look_ms = 0
        """When the next look is due."""

        self._is_unsure = False
        """Whether a topic was let go of since the last look, which is to say what it is now."""

    def run(self, look: Look) -> None:
        """Until all is copied, or for ever."""
        self._writer = Writer(self._task.target, self._topic, self._report)
        try:
            self._writer.write(self._topic, [owner_entry(self._name)])
            self._writer.commit()
            self._ledger = read_ledger(self._task.target, self._topic, self._name, self._report)
            self._report.begins_at(self._ledger.position)
            self._continuity = Continuity(self._clusters, self._looks, self._ledger, self._once)
            self._group_offsets = GroupOffsets(
                self._clusters, self._writer, self._ledger, self._topic, self._report, self._once
            )
            with closing(Reader(self._task.source, self._report.without_effect)) as self._reader:
                self._follow(look)
                self._copy()
                once_answered(self._groups, self._report, ends_declined=True)
            self._looks.goal.check(self._look, self._ledger)
        finally:
            self._end()

    def _end(self) -> None:
        try:
            with suppress(Fenced):  # it is ended already
                self._writer.abort()
        except Again as again:
            self._report.warn(
                f"the last transaction may be committed, or is left to its timeout: {again}"
            )

    def _copy(self) -> None:
        """Until there is nothing to copy at a last look, either: a topic may be back by then, or
        another one in its place, whose records are not to be mixed with it."""
        is_over = False
        while not is_over:
            self._copy_known()
            self._follow(self._looks.patient())
            self._commit(writes_positions=True)
            is_over = self._is_done()

    def _copy_known(self) -> None:
        self._look_ms = now_ms() + self._looks.pause_ms
        while not self._is_done():
            if not self._step() or self._is_full():
                self._commit()
            if now_ms() >= self._look_ms:
                began_ms = now_ms()
                self._commit(writes_positions=True)
                self._refresh()
                took_ms = now_ms() - began_ms
                pause_ms = SOON_MS if self._is_unsure else self._looks.pause_ms
                self._look_ms = now_ms() + max(pause_ms, LOOK_SHARE * took_ms)
        self._commit(writes_positions=True)

    def _step(self) -> bool:
        """Read some records, send some, hear of some; whether there may be more to do at once."""
        messages = self._read() if self._unsent.has_room else []
        is_sending = self._writer.send(self._unsent)
        if messages or is_sending:
            self._reader.rest(self._unsent.set_aside())
            self._reader.resume(self._unsent.take_back())
        must_wait = self._unsent and not messages and not is_sending
        self._writer.listen(WAIT_S if must_wait else 0)
        return bool(messages or self._unsent)

    def _read(self) -> list[Any]:
        try:
            messages = self._reader.read(0 if self._unsent else WAIT_S)
            self._unsent.add(messages)
        except Failed:
            self._confirm()
            self._send_all()  # that it can't go on is no matter of what was read before
            raise
        self._confirm()
        return messages

    def _confirm(self) -> None:
        """That what was read is of the topics that the last look has found."""
        self._let_go(self._continuity.others(self._unsent.topics))

    def _let_go(self, topics: set[str]) -> None:
        """Read these no more, of which nothing was sent; a look is to say what they are now."""
        if topics:
            gone = [
                topic_partition
                for topic_partition in self._reader.positions
                if topic_partition[0] in topics
            ]
            self._reader.drop(gone)
            self._unsent.drop(gone)
            self._is_unsure = True
            self._look_ms = min(self._look_ms, now_ms() + SOON_MS)

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

    def _positions(self) -> dict[TopicPartition, int]:
        """Up to where each partition was sent, or has nothing to be sent."""
        return self._reader.positions | self._unsent.positions()

    def _is_done(self) -> bool:
        if not self._task.until_caught_up or self._looks.misses_some or self._is_unsure:
            return False
        return self._looks.goal.is_reached(self._reader.positions, self._unsent.positions())

    def _commit(self, *, writes_positions: bool = False) -> None:
        """What was sent, and what the ledger says of it, in one transaction."""
        began_ms, counts = now_ms(), {}
        self._await_acknowledgements()
        delivered = self._writer.delivered()
        if writes_positions:
            passed = self._unwritten(self._positions())
            self._let_go(self._continuity.others({topic for topic, _ in passed}))
        positions = self._positions()
        for topic_partition, (sources, targets) in delivered.items():
            chunks = self._ledger.map_of(topic_partition).add(runs_of(sources, targets))
            epoch = self._ledger.epochs[topic_partition] = self._writer.epochs.get(topic_partition)
            entries = [offsets_entry(topic_partition, chunk, epoch) for chunk in chunks]
            self._writer.write(self._topic, entries)
            counts[topic_partition] = len(sources)
        for topic_partition in self._unwritten(positions) if writes_positions else ():
            self._ledger.positions[topic_partition] = positions[topic_partition]
            self._writer.write(
                self._topic, [position_entry(topic_partition, positions[topic_partition])]
            )
        self._writer.commit()
        if counts:
            self._commit_ms = now_ms() - began_ms
        self._report.copied(counts, positions)

    def _unwritten(self, positions: Mapping[TopicPartition, int]) -> set[TopicPartition]:
        """Those of which the ledger says less."""
        return {
            topic_partition
            for topic_partition, offset in positions.items()
            if offset > (self._ledger.position(topic_partition) or 0)
        }

    def _await_acknowledgements(self) -> None:
        pace = self._writer.pace
        if self._writer.records:
            pace.end_transaction()
        heard_ms, under_way = now_ms(), pace.under_way
        silence = Silence(self._report, "acknowledged what was sent")
        while not self._writer.is_acknowledged():
            if pace.under_way < under_way:
                heard_ms, under_way = now_ms(), pace.under_way
                silence.is_heard()
            elif now_ms() - heard_ms >= SILENCE_MS:
                silence.goes_on()
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
            self._look_ms = min(self._look_ms, now_ms() + self._looks.pause_ms)
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
        self._look, self._is_unsure = look, False
        for topic, names in look.unknown.items():
            self._once.warn(f"{topic}: the target has no config {', '.join(names)}")
        again = self._looks.to_copy_again & look.source.keys()
        self._writer.write(self._topic, self._continuity.forget(look, again))
        self._continuity.check_topics(look)
        replaced = self._continuity.replaced(look)  # what was read of those before is not sent
        for topic in sorted(replaced):
            self._report.warn(
                f"{topic} was deleted and created again in the source before anything of it was "
                "copied: the new one takes its place"
            )
        self._writer.write(self._topic, self._continuity.new_topics(look))
        small = small_limits(look.target, self._batch_bytes)
        self._writer.pace.limit(small)
        self._unsent.slow = small.keys()
        gone = [at for at in self._reader.positions if at not in look.starts or at[0] in replaced]
        self._reader.drop(gone)
        self._unsent.drop(gone)
        new = [at for at in look.starts if at not in self._reader.positions]
        begins = self._continuity.beginnings(look, new)
        self._writer.write(self._topic, self._continuity.first_positions(begins, replaced))
        self._reader.take(begins)
        self._forget(look.target_starts)
        self._writer.commit()
        self._looks.to_copy_again -= again

    def _forget(self, target_starts: Mapping[TopicPartition, int]) -> None:
        """Maps of records that the target has deleted."""
        for topic_partition, start in target_starts.items():
            gone = self._ledger.map_of(topic_partition).forget(start)
            self._writer.write(
                self._topic, [forgotten_offsets(topic_partition, first) for first in gone]
            )

    def _groups(self) -> None:
        if self._task.groups is not None:
            self._group_offsets.translate(self._task.groups, self._look.target_starts)


def age_to_commit(commit_ms: int, timeout_ms: int) -> int:
    """The age at which a transaction is committed, where that took so long the last time; the
    target ends it after the timeout."""
    return min(max(AGE_MS_MIN, COMMIT_SHARE * commit_ms), AGE_MS_MAX, timeout_ms // TIMEOUT_SHARE)
