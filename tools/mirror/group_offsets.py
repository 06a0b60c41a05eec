"""Gives groups of the source their offsets in the target."""

from __future__ import annotations

import re
from collections.abc import Mapping

from kavka.tools.admin.group_requests import Committed
from kavka.tools.admin.leaders import TopicPartition
from kavka.tools.mirror.clusters import Clusters, Groups
from kavka.tools.mirror.group_plan import commits, translated
from kavka.tools.mirror.ledger import Entry, Ledger, Written, group_entry
from kavka.tools.mirror.report import Once, Report
from kavka.tools.mirror.writer import Writer

Offsets = dict[str, Mapping[TopicPartition, Committed]]
"""By group."""


class GroupOffsets:
    """Of one session, whose writer and ledger these are."""

    def __init__(
        self,
        clusters: Clusters,
        writer: Writer,
        ledger: Ledger,
        ledger_topic: str,
        report: Report,
        once: Once,
    ) -> None:
        self._clusters, self._writer, self._ledger = clusters, writer, ledger
        self._topic = ledger_topic
        self._report, self._once = report, once

    def translate(self, pattern: re.Pattern[str], starts: Mapping[TopicPartition, int]) -> None:
        """Those of the groups that match, in partitions of the target that begin there. Failed."""

        def takes(name: str) -> bool:
            return pattern.fullmatch(name) is not None

        groups = self._clusters.groups(takes)
        for group, kind in groups.others.items():
            self._once.warn(f"group {group} is a {kind} group, whose offsets are not translated")
        counts, foreign = dict[str, int](), dict[str, int]()
        offsets = self._planned(groups, starts, counts, foreign)
        refused = self._clusters.commit(offsets) if offsets else {}
        for group, why in refused.items():
            counts[group] -= len(offsets.pop(group))
            self._once.warn(f"group {group} is left as it is in the target: {why}")
        self._acknowledged(offsets)
        self._report.groups, self._report.foreign = counts, foreign

    def _planned(
        self,
        groups: Groups,
        starts: Mapping[TopicPartition, int],
        counts: dict[str, int],
        foreign: dict[str, int],
    ) -> Offsets:
        """What to commit, which the ledger has then. Counts the offsets that are then in the
        target, and those that are left as they are there."""
        offsets: Offsets = {}
        entries: list[Entry] = []
        for group, (here, there) in groups.offsets.items():
            written = {
                (topic, partition): known
                for (name, topic, partition), known in self._ledger.groups.items()
                if name == group
            }
            desired = translated(here, self._ledger.maps, starts)
            found = commits(desired, there, written)
            if desired:
                counts[group] = len(desired) - found.foreign
            if found.foreign:
                foreign[group] = found.foreign
            if found.offsets:
                offsets[group] = found.offsets
            for topic_partition, known in found.ledger.items():
                self._ledger.groups[group, *topic_partition] = known
                entries.append(group_entry((group, *topic_partition), known))
        self._writer.write(self._topic, entries)
        self._writer.commit()
        return offsets

    def _acknowledged(self, offsets: Offsets) -> None:
        """The target has these offsets of groups, so that the ones before, if a consumer commits
        them again, count as the consumer's."""
        for group, committed in offsets.items():
            for topic_partition, offset_and_metadata in committed.items():
                known = self._ledger.groups[group, *topic_partition] = Written(
                    offset_and_metadata.offset, offset_and_metadata.offset
                )
                self._writer.write(self._topic, [group_entry((group, *topic_partition), known)])
        self._writer.commit()
