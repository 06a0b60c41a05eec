"""Which offsets a group gets in the target: pure.

A consumer that goes on in the target misses nothing: its offset there is that of the first record
which it has not passed in the source. If that record is not copied yet, it is the end of what is.
An offset that a consumer of the target has committed itself is never touched.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kavka.tools.admin.group_requests import Committed
from kavka.tools.admin.leaders import TopicPartition
from kavka.tools.mirror.ledger import Written
from kavka.tools.mirror.offset_map import OffsetMap

NONE = Written(-1, -1)


class Commits(NamedTuple):
    """What to do for a group."""

    offsets: Mapping[TopicPartition, Committed]
    """To be committed in the target."""

    ledger: Mapping[TopicPartition, Written]
    """To be written to the ledger before."""

    foreign: int
    """How many offsets are left as consumers of the target have committed them."""


def translated(
    committed: Mapping[TopicPartition, Committed],
    maps: Mapping[TopicPartition, OffsetMap],
    starts: Mapping[TopicPartition, int],
) -> dict[TopicPartition, Committed]:
    """A group's offsets in the source as those of the target, of the partitions that are copied:
    those with a start. `starts`: where partitions begin in the target."""
    found = {}
    for topic_partition, offset_and_metadata in committed.items():
        if topic_partition not in starts:
            continue
        offset = (
            maps[topic_partition].translate(offset_and_metadata.offset)
            if topic_partition in maps
            else None
        )
        offset = starts[topic_partition] if offset is None else max(offset, starts[topic_partition])
        found[topic_partition] = Committed(offset, None, offset_and_metadata.metadata)
    return found


def commits(
    desired: Mapping[TopicPartition, Committed],
    there: Mapping[TopicPartition, Committed],
    written: Mapping[TopicPartition, Written],
) -> Commits:
    """Of one group. `there`: its offsets in the target; `written`: those by the mirror."""
    offsets, ledger, foreign = {}, {}, 0
    for topic_partition, offset_and_metadata in desired.items():
        has = there[topic_partition].offset if topic_partition in there else -1
        before = written.get(topic_partition, NONE)
        if has >= 0 and has not in before:
            foreign += 1
            if before != NONE:
                ledger[topic_partition] = NONE  # it stays the consumer's, whatever that commits
            continue
        if topic_partition in there and (has, there[topic_partition].metadata) == (
            offset_and_metadata.offset,
            offset_and_metadata.metadata,
        ):
            if before != Written(has, has):
                ledger[topic_partition] = Written(has, has)
            continue
        offsets[topic_partition] = offset_and_metadata
        if before != Written(offset_and_metadata.offset, has):
            ledger[topic_partition] = Written(offset_and_metadata.offset, has)
    return Commits(offsets, ledger, foreign)
