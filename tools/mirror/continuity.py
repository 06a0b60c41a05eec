"""Whether both clusters go on from what was copied: the same topics, with the same records."""

from __future__ import annotations

import time
from collections.abc import Container, Iterable, Mapping

from kavka.tools.admin.epoch_ends import UNKNOWN
from kavka.tools.admin.errors import Failed
from kavka.tools.admin.leaders import TopicPartition
from kavka.tools.mirror.clusters import Clusters
from kavka.tools.mirror.failures import Again
from kavka.tools.mirror.ledger import (
    Entry,
    Ledger,
    TopicIds,
    forgotten_position,
    position_entry,
    topic_entry,
)
from kavka.tools.mirror.look import Look
from kavka.tools.mirror.looks import RETRY_S, Looks
from kavka.tools.mirror.report import Once


class Continuity:
    """Of one session, by what its ledger says. Failed, Again."""

    def __init__(self, clusters: Clusters, looks: Looks, ledger: Ledger, once: Once) -> None:
        self._clusters, self._looks, self._once = clusters, looks, once
        self._ledger = ledger
        self._confirmed: set[str] = set()
        """Topics of which may be copied what was read."""

    def forget(self, look: Look, topics: Iterable[str]) -> list[Entry]:
        """What the ledger is to forget of topics that are to be copied again, before
        `check_topics`. Failed if the target has something of them: that would be doubled."""
        names = sorted(topics)
        used = self._used(
            (name, at) for name in names for at in range(look.target[name].partitions)
        )
        if used:
            topic, _ = min(used)
            raise Failed(
                f"topic {topic} is not empty in the target: delete it there before it is copied "
                f"again; if that was done, and it was copied since, leave out --copy-again {topic}"
            )
        return [entry for name in names for entry in self._ledger.forget(name)]

    def _used(self, partitions: Iterable[TopicPartition]) -> set[TopicPartition]:
        """Those of which the target has something."""
        try:
            return self._clusters.used(partitions)
        except Failed as failed:  # a topic may be gone since the look
            raise Again(f"the target's offsets are not known: {failed}") from failed

    def check_topics(self, look: Look) -> None:
        """Failed if a topic is not the one that was copied, or copied to, before."""
        for name, ids in _ids(look).items():
            known = self._ledger.topics.get(name, ids)
            if name in self._looks.to_copy_again:
                continue
            if known == ids or (known.target == ids.target and name not in self._touched()):
                continue
            where = "source" if known.source != ids.source else "target"
            raise Failed(
                f"the {where}'s topic {name} was deleted and created again since it was "
                f"copied: {_anew(name)}"
            )

    def _touched(self) -> set[str]:
        """Topics of which something was copied, so that no other one may take their place."""
        maps = self._ledger.maps.items()
        return {
            topic_partition[0] for topic_partition, copied in maps if copied.next_source is not None
        }

    def replaced(self, look: Look) -> set[str]:
        """Topics in whose place there is another one, of which nothing was copied yet; after
        `check_topics`, and before `new_topics`."""
        known = self._ledger.topics
        return {name for name, ids in _ids(look).items() if known.get(name, ids) != ids}

    def new_topics(self, look: Look) -> list[Entry]:
        """What the ledger is to say of topics that it does not know, after `check_topics`."""
        new = {
            name: ids for name, ids in _ids(look).items() if self._ledger.topics.get(name) != ids
        }
        self._ledger.topics |= new
        self._confirmed -= new.keys()
        gone = [
            topic_partition
            for topic_partition in self._ledger.positions
            if topic_partition[0] in new
        ]
        for topic_partition in gone:
            del self._ledger.positions[topic_partition]
        return [*map(forgotten_position, gone), *(topic_entry(*item) for item in new.items())]

    def others(self, topics: Iterable[str]) -> set[str]:
        """To be called when something was read of topics, before it is copied: those that may be
        others by now, created in their places since the last look. Of each topic the source is
        asked once, and not if something of it was copied before."""
        new = set(topics) - self._confirmed
        unchecked = new - self._touched() if new else new
        others = self._changed(unchecked) if unchecked else set()
        self._confirmed |= new - others
        return others

    def _changed(self, topics: set[str]) -> set[str]:
        """Those of which the source has another id now, or none."""
        try:
            ids = self._clusters.source_ids(topics)
        except Failed as failed:
            raise Again(f"the source's topic ids are not known: {failed}") from failed
        return {name for name in topics if ids.get(name) != self._ledger.topics[name].source}

    def beginnings(
        self, look: Look, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """Where to read partitions first."""
        starts = {topic_partition: look.starts[topic_partition] for topic_partition in partitions}
        self._check_epochs(starts)
        return {
            topic_partition: self._begin(look, topic_partition, start)
            for topic_partition, start in starts.items()
        }

    def first_positions(
        self, begins: Mapping[TopicPartition, int], replaced: Container[str]
    ) -> list[Entry]:
        """What the ledger is to say of partitions that were never read, after `beginnings`: so it
        is known what the source deletes before anything of them is copied, and that what the target
        has from now on may be of this mirror, even if it was aborted. So may be what it has of
        topics in whose place there are others now: `replaced`."""
        new = {at: start for at, start in begins.items() if self._ledger.position(at) is None}
        candidates = [
            topic_partition for topic_partition in new if topic_partition[0] not in replaced
        ]
        for topic in sorted({topic for topic, _ in self._used(candidates)}):
            self._once.warn(
                f"{topic} has records in the target already that this mirror has not written: what "
                "it copies comes behind them"
            )
        self._ledger.positions |= new
        return [position_entry(*item) for item in new.items()]

    def _check_epochs(self, partitions: Iterable[TopicPartition]) -> None:
        """Failed if a source has other records now where some were copied: that of a leader which
        had not replicated them all (an unclean election), for instance."""
        copied = {
            topic_partition: behind
            for topic_partition in partitions
            if (behind := self._ledger.map_of(topic_partition).next_source) is not None
        }
        known = {
            topic_partition: self._ledger.epochs.get(topic_partition) for topic_partition in copied
        }
        epochs = {
            topic_partition: epoch for topic_partition, epoch in known.items() if epoch is not None
        }
        if not epochs:
            return
        try:
            ends = self._clusters.epoch_ends(epochs)
        except Failed as failed:  # a topic may be gone since the look
            raise Again(f"the source's leader epochs are not known: {failed}") from failed
        for topic_partition, end in ends.items():
            if UNKNOWN < end < copied[topic_partition]:
                topic, partition = topic_partition
                raise Failed(
                    f"{topic}-{partition}: records up to offset {copied[topic_partition] - 1} were "
                    f"copied, but the source has lost those from {end} on, and has others in their "
                    f"place or none: {_anew(topic)}"
                )

    def _begin(self, look: Look, topic_partition: TopicPartition, start: int) -> int:
        position = self._ledger.map_of(topic_partition).next_source
        topic, partition = topic_partition
        if position is None or position < start:
            passed = self._ledger.position(topic_partition)
            if passed is not None and passed < start:
                self._once.warn(
                    f"{topic}-{partition}: offsets {passed} to {start - 1} were deleted in the "
                    "source before they were copied"
                )
            return start
        if position > (end := look.ends[topic_partition]) and self._is_cut(
            topic_partition, position
        ):
            raise Failed(
                f"{topic}-{partition}: {position} offsets were copied, but the source has only "
                f"{end} now: it has lost records that the target has: {_anew(topic)}"
            )
        return position

    def _is_cut(self, topic_partition: TopicPartition, position: int) -> bool:
        """Whether a source has lost records, and does not just say so after a start."""
        for _ in range(10):
            time.sleep(RETRY_S)
            end = self._looks.patient().ends.get(topic_partition)
            if end is None:
                raise Again(f"{topic_partition[0]}-{topic_partition[1]} is not there any more")
            if end >= position:
                return False
        return True


def _anew(topic: str) -> str:
    """What to do about a topic whose copies are another topic's records, or lost ones."""
    return (
        "leave it out (--exclude), or delete it in the target and have the mirror copy it again "
        f"(--copy-again {topic})"
    )


def _ids(look: Look) -> Mapping[str, TopicIds]:
    return {name: TopicIds(topic.id, look.target[name].id) for name, topic in look.source.items()}
