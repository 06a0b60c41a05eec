"""How far consumer groups are: their offsets, the ends of the partitions, and who consumes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from kavka.tools.admin.cluster_client import ClusterClient
from kavka.tools.admin.errors import Failed
from kavka.tools.admin.group_descriptions import Group
from kavka.tools.admin.group_requests import Committed, committed_offsets
from kavka.tools.admin.java_errors import Refused
from kavka.tools.admin.leaders import TopicPartition
from kavka.tools.admin.partition_offsets import leaders_of, offsets_at
from kavka.wire.apis import list_offsets

NOBODY: Final = "-"


class Progress(NamedTuple):
    """One partition of a group."""

    topic: str
    partition: int
    offset: int | None
    leader_epoch: int | None
    end_offset: int | None
    member_id: str
    host: str
    client_id: str

    @property
    def lag(self) -> int | None:
        """How many offsets are between the group's and the partition's end."""
        if self.offset is None or self.end_offset is None:
            return None
        return self.end_offset - self.offset


async def progress_of(cluster: ClusterClient, group: Group, within_s: float) -> list[Progress]:
    """Those that members have, the member with the most first, and then those that none has.
    Failed."""
    try:
        committed = await committed_offsets(cluster, group.group_id, within_s)
        assigned = {topic_partition for member in group.members for topic_partition in member.owned}
        partitions = [
            *assigned,
            *(topic_partition for topic_partition in committed if topic_partition not in assigned),
        ]
        leaders = await leaders_of(cluster, sorted({topic for topic, _ in partitions}))
        led = [
            topic_partition
            for topic_partition in partitions
            if leaders.get(topic_partition, -1) >= 0
        ]
        ends = await offsets_at(cluster, led, list_offsets.LATEST, within_s)
    except Refused as refused:
        raise Failed(refused.in_future) from refused
    rows: list[Progress] = []
    for member in sorted(group.members, key=lambda owner: len(owner.owned), reverse=True):
        who = (member.member_id, member.host, member.client_id)
        rows += _rows(member.owned, committed, ends, who)
    free = [topic_partition for topic_partition in committed if topic_partition not in assigned]
    rows += _rows(free, committed, ends, (NOBODY, NOBODY, NOBODY))
    return rows


def _rows(
    partitions: Iterable[TopicPartition],
    committed: Mapping[TopicPartition, Committed],
    ends: Mapping[TopicPartition, int],
    who: tuple[str, str, str],
) -> Iterator[Progress]:
    for topic_partition in sorted(partitions):
        found = committed.get(topic_partition)
        offset, epoch = (found.offset, found.leader_epoch) if found else (None, None)
        yield Progress(*topic_partition, offset, epoch, ends.get(topic_partition), *who)
