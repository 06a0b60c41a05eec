"""What was there at the first look; with --until-caught-up the mirror ends when that is copied."""

from __future__ import annotations

from collections.abc import Mapping

from kavka.tools.admin.errors import Failed
from kavka.tools.admin.leaders import TopicPartition
from kavka.tools.admin.printing import plural
from kavka.tools.mirror.ledger import Ledger
from kavka.tools.mirror.look import Look
from kavka.tools.mirror.topic_plan import Topic


class Goal:
    """The ends of partitions then."""

    def __init__(self, source: Mapping[str, Topic], ends: Mapping[TopicPartition, int]) -> None:
        self.ends = dict(ends)
        self._ids = {name: topic.id for name, topic in source.items()}
        self._lost: set[str] = set()
        """Topics that had records, and are no more."""

    def compare(self, source: Mapping[str, Topic]) -> None:
        """Leave out topics in whose place there is another one now: nothing of them can come any
        more, and what the new ones have was not there at the first look."""
        other = {
            topic.name
            for topic in source.values()
            if self._ids.get(topic.name, topic.id) != topic.id
        }
        self._lost |= {topic for (topic, _), end in self.ends.items() if end and topic in other}
        self.ends = {
            topic_partition: end
            for topic_partition, end in self.ends.items()
            if topic_partition[0] not in other
        }

    def is_reached(
        self, read: Mapping[TopicPartition, int], unsent: Mapping[TopicPartition, int]
    ) -> bool:
        """Whether nothing is left of it to read or to send. `read`: the positions of partitions
        that are read, the others are not there any more; `unsent`: the first offsets that are read
        and not sent."""
        return all(
            unsent.get(topic_partition, read.get(topic_partition, end)) >= end
            for topic_partition, end in self.ends.items()
        )

    def check(self, look: Look, ledger: Ledger) -> None:
        """Failed if not all of it was copied, by what the ledger says after the last look."""
        left = sorted(
            topic_partition
            for topic_partition, end in self.ends.items()
            if (ledger.position(topic_partition) or 0) < end
        )
        for topic, _ in left:
            if topic in look.refused:
                raise Failed(f"{topic} was not copied to its end: {look.refused[topic]}")
        if deleted := sorted(self._lost | {topic for topic, _ in left} - look.source.keys()):
            raise Failed(
                f"topic{plural(deleted)} {', '.join(deleted)}: deleted in the source before all "
                "records were copied"
            )
        for topic, partition in left:
            raise Failed(
                f"{topic}-{partition} was not copied to its end: its topic does not have that "
                "partition any more"
            )
