"""The mirror at work: sessions, each from what the ledger says to the first thing that goes wrong.

After a SIGKILL of the mirror, of a broker or of nothing at all the way to go on is the same: a new
session. It ends what the one before has left open, reads the ledger, and copies from there.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Iterable, Mapping
from contextlib import closing, suppress
from typing import Final, NamedTuple

from kavka.tools.admin.epoch_ends import UNKNOWN
from kavka.tools.admin.errors import Failed
from kavka.tools.admin.group_requests import Committed
from kavka.tools.admin.partition_offsets import Place
from kavka.tools.admin.printing import plural
from kavka.tools.mirror.clusters import Clusters, Look
from kavka.tools.mirror.failures import Again, Fenced, Stuck, Tries
from kavka.tools.mirror.group_plan import commits, translated
from kavka.tools.mirror.ledger import (
    CONFIGS,
    PREFIX,
    Entry,
    TopicIds,
    Written,
    forgotten_offsets,
    group_entry,
    offsets_entry,
    owner_entry,
    position_entry,
    topic_entry,
)
from kavka.tools.mirror.ledger_topic import has_successor, read_ledger
from kavka.tools.mirror.offset_map import runs_of
from kavka.tools.mirror.reader import Reader
from kavka.tools.mirror.report import Repeated, Report
from kavka.tools.mirror.topic_plan import Choice, small_limits
from kavka.tools.mirror.writer import Writer
from kavka.tools.perf.client import now_ms

RECORDS_MAX: Final = 20_000
"""Of one transaction, about."""

AGE_MS_MAX: Final = 1_000
"""Of a transaction, while more records come."""

SLOW_MS_MAX: Final = 10_000
"""Of a transaction that is not full yet: the target ends it when it takes a minute."""

RETRY_S: Final = 1.0


class Task(NamedTuple):
    """What to mirror."""

    source: Mapping[str, str]
    target: Mapping[str, str]
    """Properties of Java clients, bootstrap.servers among them."""

    choice: Choice
    groups: re.Pattern[str] | None
    name: str
    """"": that of the source's cluster."""

    replication_factor: int | None
    refresh_ms: int
    until_caught_up: bool


class Mirror:
    """One run."""

    def __init__(self, task: Task, report: Report) -> None:
        self._task, self._report = task, report
        self._clusters = Clusters(task.source, task.target, task.replication_factor)
        self._tries = Tries()
        self._goal: dict[Place, int] | None = None
        """Where --until-caught-up ends."""

        self._topics: set[str] = set()
        """Of the last look."""

    def run(self) -> None:
        """Until all is copied, or for ever. Failed."""
        source, target = self._clusters.ids()
        if source == target:
            raise Failed("--source and --target are of the same cluster")
        self._ledger_topic = PREFIX + (self._task.name or source)
        look = self._look()
        self._check_names(look)
        while True:
            session = secrets.token_hex(8)
            try:
                Session(self, look, session).run()
                return
            except Again as again:
                pause_s = self._pause_s(again, session)
                self._report.warn(f"begins anew: {again}")
                time.sleep(pause_s)
            look = self._patient_look()

    def _pause_s(self, again: Again, session: str) -> float:
        """How long to wait before it begins anew. Failed if that would not help."""
        if isinstance(again, Stuck):
            tries = self._tries.count(again, self._report.records[again.place])
            return float(RETRY_S * 2**tries)
        if isinstance(again, Fenced) and self._has_successor(session):
            raise Failed(
                f"another mirror of the name {self._ledger_topic.removeprefix(PREFIX)} has begun: "
                "it goes on, this one ends"
            ) from again
        return 0.0

    def _has_successor(self, session: str) -> bool:
        try:
            return has_successor(self._task.target, self._ledger_topic, session)
        except Again:
            return False  # not known yet: if there is one, it ends the next session as well

    def _check_names(self, look: Look) -> None:
        """Say which topics that were named are not there. Failed if none can come any more."""
        missing = sorted(self._task.choice.names - look.source.keys())
        named = f"topic{plural(missing)} {', '.join(missing)} to copy" if missing else "such topic"
        if self._task.until_caught_up and (missing or not look.source):
            raise Failed(f"the source has no {named}")
        if missing:
            self._report.warn(f"the source has no {named}: waits for it")

    def _look(self) -> Look:
        self._clusters.make_ledger(self._ledger_topic, CONFIGS)
        look = self._clusters.look(self._task.choice)
        if self._goal is None:
            self._goal = dict(look.ends)
        for topic in sorted(self._topics - look.source.keys()):
            self._report.warn(f"{topic} was deleted in the source: nothing more of it is copied")
        self._topics = set(look.source)
        self._report.looked(look.ends)
        return look

    def _patient_look(self) -> Look:
        """Once both clusters answer."""
        waits = Repeated(self._report)
        while True:
            try:
                return self._look()
            except Failed as failed:
                waits.say(f"waits: {failed}")
                time.sleep(RETRY_S)


class Session:
    """From what the ledger says on. Again, Fenced, Failed."""

    def __init__(self, mirror: Mirror, look: Look, name: str) -> None:
        self._mirror, self._task, self._report = mirror, mirror._task, mirror._report
        self._topic = mirror._ledger_topic
        self._look, self._name = look, name
        self._said: set[str] = set()
        self._no_look, self._no_groups = Repeated(self._report), Repeated(self._report)

    def run(self) -> None:
        """Until all is copied, or for ever."""
        self._writer = Writer(self._task.target, self._topic)
        try:
            self._writer.write(self._topic, [owner_entry(self._name)])
            self._writer.commit()
            self._ledger = read_ledger(self._task.target, self._topic, self._name)
            with closing(Reader(self._task.source)) as self._reader:
                self._follow(self._look)
                self._copy()
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
        began_ms, looked_ms = now_ms(), now_ms()
        while not self._is_done():
            messages = self._reader.read()
            if messages and not self._writer.records:
                began_ms = now_ms()
            for message in messages:
                self._writer.send(message)
                if now_ms() - began_ms >= SLOW_MS_MAX:  # the target takes them slowly
                    self._commit()
                    began_ms = now_ms()
            is_old = now_ms() - began_ms >= AGE_MS_MAX
            if not messages or is_old or self._writer.records >= RECORDS_MAX:
                self._commit()
            if now_ms() - looked_ms >= self._task.refresh_ms:
                self._commit(writes_positions=True)
                self._refresh()
                looked_ms = now_ms()
        self._commit(writes_positions=True)

    def _is_done(self) -> bool:
        goal = self._mirror._goal or {}
        positions = self._reader.positions
        return self._task.until_caught_up and all(
            positions.get(place, end) >= end for place, end in goal.items()
        )

    def _check_goal(self) -> None:
        """Failed if a topic was deleted before all of it was copied."""
        goal = self._mirror._goal or {}
        missing = {
            topic
            for (topic, partition), end in goal.items()
            if topic not in self._look.source
            and (self._ledger.position((topic, partition)) or 0) < end
        }
        if missing:
            raise Failed(
                f"topic{plural(missing)} {', '.join(sorted(missing))}: deleted in the source "
                "before all records were copied"
            )

    def _commit(self, *, writes_positions: bool = False) -> None:
        """What was read, and what the ledger says of it, in one transaction."""
        counts = {}
        for place, (sources, targets) in self._writer.delivered().items():
            chunks = self._ledger.map_of(place).add(runs_of(sources, targets))
            epoch = self._ledger.epochs[place] = self._writer.epochs.get(place)
            entries = [offsets_entry(place, chunk, epoch) for chunk in chunks]
            self._writer.write(self._topic, entries)
            counts[place] = len(sources)
        if writes_positions:
            for place, offset in self._reader.positions.items():
                if offset > (self._ledger.position(place) or 0):
                    self._ledger.positions[place] = offset
                    self._writer.write(self._topic, [position_entry(place, offset)])
        self._writer.commit()
        self._report.copied(counts, self._reader.positions)

    def _refresh(self) -> None:
        """New topics, partitions and configs; groups. What fails is tried again the next time."""
        try:
            look = self._mirror._look()
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
            self._warn_once(f"{topic}: the target has no config {', '.join(names)}")
        self._check_topics(look)
        self._writer.limits = small_limits(look.source)
        self._reader.drop([at for at in self._reader.positions if at not in look.starts])
        new = {at: start for at, start in look.starts.items() if at not in self._reader.positions}
        self._check_epochs(new)
        self._reader.take({at: self._begin(at, start) for at, start in new.items()})
        for place, start in look.target_starts.items():
            gone = self._ledger.map_of(place).forget(start)
            self._writer.write(self._topic, [forgotten_offsets(place, first) for first in gone])
        self._writer.commit()

    def _check_topics(self, look: Look) -> None:
        """Failed if a topic is not the one that was copied, or copied to, before."""
        for name, topic in look.source.items():
            ids = TopicIds(topic.id, look.target[name].id)
            known = self._ledger.topics.get(name)
            if known is None:
                self._ledger.topics[name] = ids
                self._writer.write(self._topic, [topic_entry(name, ids)])
            elif known != ids:
                where = "source" if known.source != ids.source else "target"
                raise Failed(
                    f"the {where}'s topic {name} was deleted and created again since it was "
                    f"copied: {self._anew()}"
                )

    def _anew(self) -> str:
        """What to do about a topic whose copies are another topic's records."""
        return (
            f"leave it out, or delete it in the target with {self._topic}, which has the mirror "
            "copy everything again"
        )

    def _check_epochs(self, places: Iterable[Place]) -> None:
        """Failed if a source has other records now where some were copied: that of a leader which
        had not replicated them all (an unclean election), for instance."""
        copied = {
            place: behind
            for place in places
            if (behind := self._ledger.map_of(place).next_source) is not None
        }
        known = {place: self._ledger.epochs.get(place) for place in copied}
        epochs = {place: epoch for place, epoch in known.items() if epoch is not None}
        if not epochs:
            return
        try:
            ends = self._mirror._clusters.epoch_ends(epochs)
        except Failed as failed:  # a topic may be gone since the look
            raise Again(f"the source's leader epochs are not known: {failed}") from failed
        for place, end in ends.items():
            if UNKNOWN < end < copied[place]:
                topic, partition = place
                raise Failed(
                    f"{topic}-{partition}: records up to offset {copied[place] - 1} were copied, "
                    f"but the source has lost those from {end} on, and has others in their place "
                    f"or none: {self._anew()}"
                )

    def _begin(self, place: Place, start: int) -> int:
        """Where to read a partition first."""
        position = self._ledger.map_of(place).next_source
        topic, partition = place
        if position is None or position < start:
            passed = self._ledger.position(place)
            if passed is not None and passed < start:
                self._warn_once(
                    f"{topic}-{partition}: offsets {passed} to {start - 1} were deleted in the "
                    "source before they were copied"
                )
            return start
        if position > self._end_of(place) and self._is_cut(place, position):
            raise Failed(
                f"{topic}-{partition}: {position} offsets were copied, but the source has only "
                f"{self._end_of(place)} now: it has lost records that the target has"
            )
        return position

    def _is_cut(self, place: Place, position: int) -> bool:
        """Whether a source has lost records, and does not just say so after a start."""
        for _ in range(10):
            time.sleep(RETRY_S)
            self._look = self._mirror._patient_look()
            if self._end_of(place) >= position:
                return False
        return True

    def _end_of(self, place: Place) -> int:
        """In the source. Again if it is gone since the first look of this session."""
        end = self._look.ends.get(place)
        if end is None:
            raise Again(f"{place[0]}-{place[1]} is not there any more")
        return end

    def _groups(self) -> None:
        """Give groups their offsets in the target."""
        pattern = self._task.groups
        if pattern is None:
            return

        def takes(name: str) -> bool:
            return pattern.fullmatch(name) is not None

        groups = self._mirror._clusters.groups(takes)
        for group, kind in groups.others.items():
            self._warn_once(f"group {group} is a {kind} group, whose offsets are not translated")
        offsets: dict[str, Mapping[Place, Committed]] = {}
        entries: list[Entry] = []
        counts, foreign = {}, {}
        for group, (here, there) in groups.offsets.items():
            written = {
                (topic, partition): one
                for (name, topic, partition), one in self._ledger.groups.items()
                if name == group
            }
            wanted = translated(here, self._ledger.maps, self._look.target_starts)
            found = commits(wanted, there, written)
            if wanted:
                counts[group] = len(wanted) - found.foreign
            if found.foreign:
                foreign[group] = found.foreign
            if found.offsets:
                offsets[group] = found.offsets
            for place, one in found.ledger.items():
                self._ledger.groups[group, *place] = one
                entries.append(group_entry((group, *place), one))
        self._writer.write(self._topic, entries)
        self._writer.commit()
        refused = self._mirror._clusters.commit(offsets) if offsets else {}
        for group, why in refused.items():
            counts[group] -= len(offsets.pop(group))
            self._warn_once(f"group {group} is left as it is in the target: {why}")
        self._acknowledged(offsets)
        self._report.groups, self._report.foreign = counts, foreign

    def _acknowledged(self, offsets: Mapping[str, Mapping[Place, Committed]]) -> None:
        """The target has these offsets of groups, so that the ones before, if a consumer commits
        them again, count as the consumer's."""
        for group, committed in offsets.items():
            for place, one in committed.items():
                known = self._ledger.groups[group, *place] = Written(one.offset, one.offset)
                self._writer.write(self._topic, [group_entry((group, *place), known)])
        self._writer.commit()

    def _warn_once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._report.warn(text)
