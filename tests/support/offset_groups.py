"""Committed offsets without a broker: the machine under a journal, a partition, and a clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

from kavka.groupcoord import listing
from kavka.groupcoord.offset_records import NO_TOPIC_ID
from kavka.groupcoord.offsets import Commit, FetchedOffset, OffsetToCommit
from kavka.groupcoord.shard import GroupShard
from kavka.log.journal import Producer
from kavka.wire.steps import run_at_once
from support.consumer_groups import ConsumerKit


class Marker(NamedTuple):
    """The end of a transaction, among the batches of the log."""

    producer_id: int
    committed: bool


class OffsetKit(ConsumerKit):
    """The groups of one partition."""

    def commit_offsets(
        self,
        offsets: Mapping[tuple[str, int], int] | Sequence[OffsetToCommit],
        group_id: str = "g",
        *,
        member_id: str = "",
        generation: int = -1,
        instance_id: str | None = None,
        version: int = 9,
        retention_ms: int = -1,
        producer_id: int | None = None,
    ) -> Any:
        """One OffsetCommit, or TxnOffsetCommit: the codes. ApiError."""
        if isinstance(offsets, Mapping):
            offsets = [OffsetToCommit(*partition, offset) for partition, offset in offsets.items()]
        request = Commit(
            group_id, member_id, instance_id, generation, version, offsets, retention_ms
        )
        rules = self.shard.offsets
        if producer_id is None:
            return self.answer(partial(rules.commit, request))
        return self.answer(partial(rules.commit_transactional, request, Producer(producer_id, 0)))

    def end(self, producer_id: int, *, committed: bool) -> None:
        """A transaction's marker."""
        self.port.batches.append(((), Marker(producer_id, committed)))  # type: ignore[arg-type]
        self.port.end += 1
        run_at_once(self.shard.apply_marker(producer_id, 0, committed))
        self.commit_unless_held()

    def delete_offsets(self, partitions: Sequence[tuple[str, int]], group_id: str = "g") -> Any:
        """One OffsetDelete: a code for each partition. ApiError."""
        topics = [(topic, [partition]) for topic, partition in partitions]
        return self.answer(lambda future, _: self.shard.offsets.delete(group_id, topics, future))

    def delete_group(self, group_id: str = "g") -> bool:
        """A step of DeleteGroups: whether the group is deleted. ApiError."""
        delete = partial(listing.delete_group, self.shard.state, self.shard.offsets, group_id)
        is_deleted: bool = self.answer(lambda future, _: delete(future))
        return is_deleted

    def fetch(
        self,
        topic: str,
        partition: int,
        group_id: str = "g",
        *,
        topic_id: UUID = NO_TOPIC_ID,
        require_stable: bool = False,
    ) -> FetchedOffset:
        """OffsetFetch of one partition."""
        (found,) = self.shard.offsets.fetch(
            group_id, topic, topic_id, [partition], require_stable=require_stable
        )
        return found

    def offsets(self, group_id: str = "g") -> dict[tuple[str, int], int]:
        """All that a group has committed."""
        return {
            (topic, partition): self.fetch(topic, partition, group_id).offset
            for topic, partitions in self.shard.offsets.partitions(group_id).items()
            for partition in partitions
        }

    def assert_replayed_alike(self) -> None:
        """A replay of the log gives the same offsets, pending ones included."""
        live, again = self.shard, self.replayed()
        assert set(again.state.groups) == set(live.state.groups)
        for group_id in live.state.groups:
            now, then = (shard.offsets.store.topics(group_id) for shard in (live, again))
            assert {name: topic.values for name, topic in now.items()} == {
                name: topic.values for name, topic in then.items()
            }
        now_pending, then_pending = (
            {partition: kept.values(*partition) for partition in kept.all_partitions()}
            for kept in (live.offsets.pending, again.offsets.pending)
        )
        assert now_pending == then_pending

    def replay(self, shard: GroupShard) -> None:
        for records, producer in self.port.batches:
            if isinstance(producer, Marker):
                run_at_once(shard.apply_marker(producer.producer_id, 0, producer.committed))
            elif producer is None:
                shard.replay(
                    [record.key for record in records], [record.value for record in records]
                )
            else:
                for record in records:
                    shard.apply(record, producer)
